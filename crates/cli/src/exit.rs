//! How the program ends: what went wrong, and the exit code that says so to a shell.

use std::io;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use kinformer_core::internal::with_causes;

use crate::text::{self, Line};

/// The end of `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done, also when Ctrl-C or SIGTERM ended it, or when nobody reads the output any more
  1  something went wrong that no other code names
  2  the command line is wrong: unknown flags and resources, bad selectors, no cluster named
  3  the server could not be reached, or did not answer in time
  4  the server refused: wrong or missing credentials (401), or no rights (403)

Environment:
  KUBECONFIG     kubeconfig files, as kubectl takes them
  KINFORMER_TOKEN
                 a bearer token, where neither --token nor --token-file is given
  DISABLE_HTTP2  if it is set, a connection for each watch instead of one for all, as with kubectl
  RUST_LOG       what is logged to stderr, such as info or kinformer_reflector=debug; by default warn
  NO_COLOR       no colours, which are only used on a terminal anyway";

/// Why the program failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// Nothing says which cluster is meant.
    #[error(
        "no cluster is named by --server, --kubeconfig, KUBECONFIG, ~/.kube/config or a pod's own environment; \
         name one, or try --embedded, which brings its own"
    )]
    NoCluster,
    /// A kubeconfig, or what it names, cannot be used.
    #[error("{what}: {reason}")]
    Config {
        /// Which file, flag or variable.
        what: String,
        /// Why not.
        reason: String,
    },
    /// The server did not answer.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// Why not.
        reason: String,
    },
    /// It took too long.
    #[error("{0}")]
    Late(String),
    /// 401 and 403.
    #[error("{server} refuses to {what}: {reason}")]
    Refused {
        /// Its URL.
        server: String,
        /// What was asked for.
        what: String,
        /// What it says.
        reason: String,
    },
    /// The server answered, but not with what was asked for.
    #[error("{server} does not {what}: {reason}")]
    Answer {
        /// Its URL.
        server: String,
        /// What was asked for.
        what: String,
        /// What it says.
        reason: String,
    },
    /// There is no such object.
    #[error("{0} not found")]
    NotFound(String),
    /// The embedded API server.
    #[error("the embedded API server: {0}")]
    Embedded(#[from] kinformer_apiserver::Error),
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// The runtime or its signal handlers did not start.
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
}

impl Error {
    /// What a request to the server came to nothing by. `what` completes "refuses to".
    pub(crate) fn of_request(server: &str, what: &str, error: &kube_client::Error) -> Self {
        let (server, what) = (server.to_owned(), what.to_owned());
        match error {
            kube_client::Error::Api(status) if matches!(status.code, 401 | 403) => {
                Self::Refused { server, what, reason: said(status.code, &status.message) }
            }
            kube_client::Error::Api(status) => {
                Self::Answer { server, what, reason: said(status.code, &status.message) }
            }
            kube_client::Error::Auth(error) => Self::Refused { server, what, reason: with_causes(error) },
            kube_client::Error::SerdeError(error) => {
                Self::Answer { server, what, reason: with_causes(error) }
            }
            kube_client::Error::Service(error) => {
                Self::Unreachable { server, reason: with_causes(error.as_ref()) }
            }
            other => Self::Unreachable { server, reason: with_causes(other) },
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::NoCluster => 2,
            Self::Unreachable { .. } | Self::Late(_) => 3,
            Self::Refused { .. } => 4,
            _ => 1,
        }
    }
}

fn said(code: u16, message: &str) -> String {
    match message.trim() {
        "" => format!("HTTP {code}"),
        message => format!("{message} (HTTP {code})"),
    }
}

/// Tells the user what went wrong, if anything did, and gives the exit code.
pub(crate) fn code(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has had enough: `kinformer watch pods | head`.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
            let line = Line::default().styled(red, format_args!("error:"));
            text::to_stderr(&line.then(format_args!(" {error}")));
            ExitCode::from(error.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> kube_client::Error {
        let status = kube_core::Status { code, message: "no".into(), ..kube_core::Status::default() };
        kube_client::Error::Api(Box::new(status))
    }

    #[test]
    fn codes_tell_the_cause() {
        let code = |error: kube_client::Error| Error::of_request("http://x", "list pods", &error).code();
        assert_eq!(code(status(401)), 4);
        assert_eq!(code(status(403)), 4);
        assert_eq!(code(status(500)), 1);
        assert_eq!(code(kube_client::Error::Service("refused".into())), 3);
        assert_eq!(Error::Usage("x".into()).code(), 2);
        assert_eq!(Error::NoCluster.code(), 2);
        assert_eq!(Error::Late("x".into()).code(), 3);
        assert_eq!(Error::NotFound("x".into()).code(), 1);
    }

    #[test]
    fn nobody_reading_is_no_failure() {
        let broken = Error::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(format!("{:?}", code(Err(broken))), format!("{:?}", ExitCode::SUCCESS));
    }
}
