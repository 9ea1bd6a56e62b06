//! `kinformer version`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::args::{GlobalArgs, VersionArgs, VersionFormat};
use crate::connect::Connection;
use crate::exit::Error;
use crate::output::Output;
use crate::stop::Stop;
use crate::text::Text;

/// How long the request may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Prints the versions of the program and of the server. The first is printed even if the server does not answer.
///
/// # Errors
/// Any [`Error`].
pub(crate) async fn run(args: VersionArgs, global: &GlobalArgs, stop: Stop) -> Result<(), Error> {
    let client = format!("v{}", env!("CARGO_PKG_VERSION"));
    let server = match args.client {
        true => Ok(None),
        false => stop.unless(of_server(global)).await.transpose(),
    };
    let known = server.as_ref().ok().and_then(Option::as_ref);
    let versions = match known {
        Some(server) => json!({"clientVersion": {"gitVersion": client}, "serverVersion": server}),
        None => json!({"clientVersion": {"gitVersion": client}}),
    };
    let mut text = Text::default();
    match args.output {
        Some(VersionFormat::Json) => text.json(&versions),
        Some(VersionFormat::Yaml) => text.document(&serde_saphyr::to_string(&versions).unwrap_or_default()),
        None => {
            text.line(format_args!("Client Version: {client}"));
            if let Some(server) = known.and_then(|server| server.get("gitVersion")?.as_str()) {
                text.line(format_args!("Server Version: {server}"));
            }
        }
    }
    let (output, written) = Output::stdout()?;
    let written = written.finish(output, text, &stop).await;
    server.map(drop).and(written)
}

async fn of_server(global: &GlobalArgs) -> Result<Value, Error> {
    let connection = Connection::open(&global.cluster).await?;
    let request = async {
        let request = http::Request::get("/version").body(Vec::new()).map_err(kube_client::Error::HttpError);
        let answer = match request {
            Ok(request) => connection.client.request::<Value>(request).await,
            Err(error) => Err(error),
        };
        answer.map_err(|error| Error::from_request(&connection.server, "report its version", &error))
    };
    let version = connection.in_time(Some(LIMIT), "the request for its version", request).await;
    connection.close().await;
    version
}
