//! `kinformer api-server`: the in-memory API server for other clients.

use anstyle::{AnsiColor, Style};
use kinformer_apiserver::{Access, ApiServer};

use crate::args::{ApiServerArgs, AuthorizationMode, Service};
use crate::demo::cluster;
use crate::exit::Error;
use crate::output::Output;
use crate::private_file;
use crate::stop::Stop;
use crate::text::{self, Line, Text};
use crate::token::{TokenArgs, TokenSource, VARIABLE};

/// Serves until `stop`. Once the server accepts connections, the first line on standard output is its URL, without
/// anything else.
///
/// # Errors
/// [`Error::Config`], [`Error::Embedded`], [`Error::Write`], [`Error::Output`].
pub(crate) async fn run(args: ApiServerArgs, token: &TokenArgs, stop: Stop) -> Result<(), Error> {
    let given = token.resolve()?;
    let mut builder = ApiServer::builder().listen(args.listen);
    if let Some(given) = &given {
        builder = builder.token(given.token().secret());
    }
    let access = access(&args)?;
    // Clients send kubeconfig credentials only over TLS.
    if access.is_some() || given.is_some() && args.kubeconfig_out.is_some() {
        builder = builder.tls();
    }
    if let Some(access) = access {
        builder = builder.access(access);
    }
    for Service { namespace, name, port, address } in &args.services {
        builder = builder.service(namespace, name, *port, *address);
    }
    builder = args.accept_hosts.iter().fold(builder, |builder, name| builder.accept_host(name));
    let server = builder.start().await.map_err(|error| match error {
        kinformer_apiserver::Error::NotLoopback { address } => Error::Usage(format!(
            "--listen {address}: other machines could reach it, with all rights; only loopback addresses are served"
        )),
        error => error.into(),
    })?;
    for number in 0..args.load.unwrap_or(0) {
        server.create(cluster::plain_pod(number))?;
    }
    if let Some(path) = &args.kubeconfig_out {
        private_file::write(path, &server.kubeconfig())
            .map_err(|source| Error::Write { path: path.display().to_string(), source })?;
    }
    let (output, written) = Output::stdout()?;
    hints(&args, given.as_ref(), &server.url()).iter().for_each(text::to_stderr);
    let mut url = Text::default();
    url.line(format_args!("{}", server.url()));
    // The server keeps running when standard output is closed.
    written.finish(output, url, &stop).await.ok();
    stop.requested().await;
    server.shutdown().await;
    Ok(())
}

/// Returns the access control that the flags ask for.
///
/// # Errors
/// [`Error::Config`]: the file with the users cannot be read, or is malformed. [`Error::Usage`]: a file without RBAC.
fn access(args: &ApiServerArgs) -> Result<Option<Access>, Error> {
    match (args.authorization_mode, &args.token_auth_file) {
        (AuthorizationMode::AlwaysAllow, None) => Ok(None),
        (AuthorizationMode::AlwaysAllow, Some(_)) => {
            Err(Error::Usage("--token-auth-file needs --authorization-mode RBAC".into()))
        }
        (AuthorizationMode::Rbac, None) => Ok(Some(Access::rbac())),
        (AuthorizationMode::Rbac, Some(path)) => {
            let problem = |reason: String| Error::Config {
                what: format!("--token-auth-file {}", path.display()),
                reason,
            };
            let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
            Access::rbac().token_file(&text).map(Some).map_err(|error| problem(error.to_string()))
        }
    }
}

/// Example commands, without the token, and a warning if no token is required.
fn hints(args: &ApiServerArgs, given: Option<&TokenSource>, url: &str) -> Vec<Line> {
    let (kubectl, kinformer) = match (&args.kubeconfig_out, given) {
        (Some(path), _) => {
            let how = format!("--kubeconfig {}", path.display());
            (how.clone(), how)
        }
        (None, None) => (format!("--server {url}"), format!("--server {url}")),
        (None, Some(TokenSource::File(path, _))) => {
            let path = path.display();
            (
                format!("--server {url} --token \"$(cat {path})\""),
                format!("--server {url} --token-file {path}"),
            )
        }
        // kinformer reads the environment variable itself.
        (None, Some(TokenSource::Environment(_))) => {
            (format!("--server {url} --token \"${VARIABLE}\""), format!("--server {url}"))
        }
        (None, Some(TokenSource::Flag(_))) => {
            (format!("--server {url} --token TOKEN"), format!("--server {url} --token TOKEN"))
        }
    };
    let dim = Style::new().fg_color(Some(AnsiColor::BrightBlack.into()));
    let mut lines = vec![
        Line::default().styled(dim, format_args!("kubectl {kubectl} get pods -A")),
        Line::default().styled(dim, format_args!("kinformer watch pods -A {kinformer}")),
    ];
    let is_open = args.authorization_mode == AuthorizationMode::AlwaysAllow;
    if !is_open && args.kubeconfig_out.is_none() {
        lines.push(Line::new(format_args!(
            "requests without a token are those of system:anonymous; --kubeconfig-out writes the kubeconfig of an \
             administrator"
        )));
    }
    if is_open && given.is_none() {
        lines.push(Line::new(format_args!(
            "no credentials are required: every program on this machine can read and write all objects; \
             --token-file requires a token"
        )));
    }
    lines
}
