//! `kinformer api-server`: the embedded server for other clients.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use kinformer_apiserver::ApiServer;

use crate::args::ApiServerArgs;
use crate::demo::cluster;
use crate::exit::Error;
use crate::output::Output;
use crate::stop::Stop;

/// Serves until it is told to stop. The first line on standard output is the URL alone, once it can be talked to.
///
/// # Errors
/// [`Error::Embedded`], [`Error::Write`], [`Error::Output`].
pub(crate) async fn run(args: ApiServerArgs, stop: Stop) -> Result<(), Error> {
    let mut builder = ApiServer::builder().listen(args.listen);
    if let Some(token) = &args.token {
        builder = builder.token(token);
    }
    let server = builder.start().await.map_err(|error| match error {
        kinformer_apiserver::Error::NotLoopback { address } => Error::Usage(format!(
            "--listen {address}: other machines could reach it, with all rights; only loopback addresses are served"
        )),
        error => error.into(),
    })?;
    for number in 0..args.load.unwrap_or(0) {
        server.create(cluster::plain_pod(number))?;
    }
    let how = match &args.kubeconfig_out {
        Some(path) => {
            write_kubeconfig(path, &server.kubeconfig())?;
            format!("--kubeconfig {}", path.display())
        }
        None => {
            let token = args.token.map_or_else(String::new, |token| format!(" --token {token}"));
            format!("--server {}{token}", server.url())
        }
    };
    let (output, written) = Output::stdout()?;
    let dim = Style::new().fg_color(Some(AnsiColor::BrightBlack.into()));
    anstream::eprintln!("{dim}kubectl {how} get pods -A\nkinformer watch pods -A {how}{dim:#}");
    // A closed standard output does not end a server.
    written.finish(output, format!("{}\n", server.url()).into_bytes(), &stop).await.ok();
    stop.requested().await;
    server.shutdown().await;
    Ok(())
}

/// Only its owner may read it: it may hold a token.
fn write_kubeconfig(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| Error::Write { path: path.display().to_string(), source })
}
