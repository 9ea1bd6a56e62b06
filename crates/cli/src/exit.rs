//! Errors of the program and their exit codes.

use std::io;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use kinformer_core::internal::with_causes;

use crate::text::{self, Line};

/// The last section of `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  success, also when stopped by Ctrl-C or SIGTERM, or when the reader closes the output
  1  any error without a code of its own
  2  usage error: unknown flag, resource, context or kubeconfig file, invalid selector, no cluster configured
  3  the server is unreachable, or did not answer in time
  4  access denied: missing or invalid credentials (401), or missing permissions (403)

Environment:
  KUBECONFIG     kubeconfig files, as for kubectl
  KINFORMER_TOKEN
                 bearer token, used if neither --token nor --token-file is given
  KINFORMER_SERVE_TOKEN
                 bearer token that requests to kinformer serve must carry, used if neither --serve-token nor
                 --serve-token-file is given
  DISABLE_HTTP2  if set, use HTTP/1.1 with one connection per watch, as kubectl does
  RUST_LOG       log filter, such as info or kinformer_reflector=debug; by default warn
  NO_COLOR       disable colours, which are used on terminals only";

/// Why the program failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The command line asks for something impossible or unknown.
    #[error("{0}")]
    Usage(String),
    /// No cluster is configured.
    #[error(
        "no cluster is named by --server, --kubeconfig, KUBECONFIG, ~/.kube/config or a pod's own environment; \
                 name one, or use --embedded for a simulated cluster in memory"
    )]
    NoCluster,
    /// A kubeconfig, token or other setting cannot be used.
    #[error("{what}: {reason}")]
    Config {
        /// The file, flag or variable.
        what: String,
        /// The cause.
        reason: String,
    },
    /// The kubeconfig names credentials that cannot be had.
    #[error("{0}")]
    NoCredentials(String),
    /// The server could not be reached.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// The URL of the server.
        server: String,
        /// The cause.
        reason: String,
    },
    /// An operation did not finish in time.
    #[error("{0}")]
    Timeout(String),
    /// The server answered 401 or 403.
    #[error("{server} refuses to {what}: {reason}")]
    Refused {
        /// The URL of the server.
        server: String,
        /// The requested operation; completes "refuses to".
        what: String,
        /// The message of the server.
        reason: String,
    },
    /// The server answered with another error, or with a response that could not be decoded.
    #[error("{server} failed to {what}: {reason}")]
    BadResponse {
        /// The URL of the server.
        server: String,
        /// The requested operation; completes "failed to".
        what: String,
        /// The message of the server, or the reason why its response is invalid.
        reason: String,
    },
    /// The resources of a group are unknown, because the backend of its API service does not answer.
    #[error(
        "cannot find {name:?}: the resources of {group_version} are not available now; the backend of its API service does not answer"
    )]
    UnavailableGroup {
        /// The name of the resource.
        name: String,
        /// The group and version.
        group_version: String,
    },
    /// The object does not exist.
    #[error("{0} not found")]
    NotFound(String),
    /// The embedded API server failed.
    #[error("embedded API server: {0}")]
    Embedded(#[from] kinformer_apiserver::Error),
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The path of the file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// The runtime or its signal handlers failed to start.
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
}

impl Error {
    /// Classifies a failed request. `what` completes "refuses to" and "failed to".
    pub(crate) fn from_request(server: &str, what: &str, error: &kube_client::Error) -> Self {
        let (server, what) = (server.to_owned(), what.to_owned());
        match error {
            kube_client::Error::Api(status) if matches!(status.code, 401 | 403) => {
                Self::Refused { server, what, reason: server_message(status.code, &status.message) }
            }
            kube_client::Error::Api(status) => {
                Self::BadResponse { server, what, reason: server_message(status.code, &status.message) }
            }
            kube_client::Error::Auth(error) => Self::Refused { server, what, reason: with_causes(error) },
            kube_client::Error::SerdeError(error) => {
                Self::BadResponse { server, what, reason: with_causes(error) }
            }
            kube_client::Error::Service(error) => {
                Self::Unreachable { server, reason: with_causes(error.as_ref()) }
            }
            other => Self::Unreachable { server, reason: with_causes(other) },
        }
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::NoCluster => 2,
            Self::Unreachable { .. } | Self::Timeout(_) => 3,
            Self::Refused { .. } | Self::NoCredentials(_) => 4,
            _ => 1,
        }
    }
}

fn server_message(code: u16, message: &str) -> String {
    match message.trim() {
        "" => format!("HTTP {code}"),
        message => format!("{message} (HTTP {code})"),
    }
}

/// Prints the error, if there is one, and returns the exit code.
pub(crate) fn code(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe because it has read enough: `kinformer watch pods | head`.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print(&error);
            ExitCode::from(error.code())
        }
    }
}

/// Prints an error.
pub(crate) fn print(error: &Error) {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let line = Line::default().styled(red, format_args!("error:"));
    text::to_stderr(&line.then(format_args!(" {error}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> kube_client::Error {
        let status = kube_core::Status { code, message: "no".into(), ..kube_core::Status::default() };
        kube_client::Error::Api(Box::new(status))
    }

    #[test]
    fn exit_codes_distinguish_the_causes() {
        let code = |error: kube_client::Error| Error::from_request("http://x", "list pods", &error).code();
        assert_eq!(code(status(401)), 4);
        assert_eq!(code(status(403)), 4);
        assert_eq!(code(status(500)), 1);
        assert_eq!(code(kube_client::Error::Service("refused".into())), 3);
        assert_eq!(Error::Usage("x".into()).code(), 2);
        assert_eq!(Error::NoCluster.code(), 2);
        assert_eq!(Error::NoCredentials("x".into()).code(), 4);
        assert_eq!(Error::Timeout("x".into()).code(), 3);
        assert_eq!(Error::NotFound("x".into()).code(), 1);
    }

    #[test]
    fn a_closed_pipe_is_not_a_failure() {
        let broken = Error::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(format!("{:?}", code(Err(broken))), format!("{:?}", ExitCode::SUCCESS));
    }
}
