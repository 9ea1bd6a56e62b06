//! `kinformer serve`: informers over HTTP, and the page.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use kinformer::Informer;
use kinformer_serve::{Error as ServeError, FailureLog, Server, ServerBuilder};

use crate::args::{GlobalArgs, HttpArgs, ServeArgs};
use crate::display_fields::DisplayFields;
use crate::exit::Error;
use crate::informers::{Informers, Reading};
use crate::output::Output;
use crate::session::Session;
use crate::stop::Stop;
use crate::text::{self, Line, Text};
use crate::token::{SERVE_VARIABLE, Token};
use crate::{indexes, selectors};

/// An index by a field: its name, and the names of the path.
struct FieldIndex {
    name: String,
    path: Vec<String>,
}

/// Serves until `stop` or the end of the period. The first line on standard output is the address of the page, without
/// anything else.
///
/// # Errors
/// Any [`Error`]. A resource that cannot be listed is no error: the page says why.
pub(crate) async fn run(args: ServeArgs, global: &GlobalArgs, stop: Stop) -> Result<(), Error> {
    selectors::check(&args.selectors)?;
    let token = args.http.token.resolve()?;
    check_listen(&args.http, token.as_ref())?;
    let added =
        args.indexes.iter().map(|index| FieldIndex::of(index, &args.http)).collect::<Result<Vec<_>, _>>()?;
    let verbs = ["list", "watch"];
    let begun = Session::begin(global, &args.resources, &verbs, &stop).await?;
    let Some(session) = begun else { return Ok(()) };
    let result = serve(&args, token, &added, &session, &stop).await;
    session.connection.close().await;
    result
}

async fn serve(
    args: &ServeArgs,
    token: Option<Token>,
    added: &[FieldIndex],
    session: &Session,
    stop: &Stop,
) -> Result<(), Error> {
    let reading = Reading {
        namespaces: &session.namespaces,
        labels: args.selectors.selector.as_deref(),
        fields: args.selectors.field_selector.as_deref(),
        metadata_only: args.metadata_only,
        dropped: |_| &[],
        how: args.reading,
    };
    let failures = FailureLog::new();
    let informers = Informers::logging(&session.connection, &session.resources, reading, failures.clone());
    let mut server = builder(&args.http, token.as_ref())
        .cluster(&session.connection.server)
        .client(session.connection.client.clone())
        .failures(failures);
    for served in &session.resources {
        let (informer, _) = informers.of(served);
        add_indexes(&informer, added)?;
        server = server.informer(&informer);
    }
    if let Some((namespaces, _)) = informers.follow_namespaces()? {
        server = server.informer(&namespaces);
    }
    for index in added {
        server = server.index_fields(&index.name, [index.path.join(".")]);
    }
    let bound = server.bind().await;
    let server = match bound {
        Ok(server) => server,
        Err(error) => {
            informers.stop().await;
            return Err(of_server(error, args.http.listen));
        }
    };
    informers.start()?;
    let (output, written) = Output::stdout()?;
    hints(args, token.is_some(), session).iter().for_each(text::to_stderr);
    let mut url = Text::default();
    url.line(format_args!("{}", server.url()));
    let server = server.spawn();
    // The server keeps running when standard output is closed.
    written.finish(output, url, stop).await.ok();
    end_of(args.period, stop).await;
    server.shutdown().await;
    informers.stop().await;
    Ok(())
}

/// Waits until the period is over, if there is one, or until a signal.
async fn end_of(period: Option<Duration>, stop: &Stop) {
    match period {
        Some(period) => _ = tokio::time::timeout(period, stop.requested()).await,
        None => stop.requested().await,
    }
}

/// Returns a builder with the settings of the command line.
fn builder(http: &HttpArgs, token: Option<&Token>) -> ServerBuilder {
    let mut builder = Server::builder().listen(http.listen);
    if let Some(token) = token {
        builder = builder.token(token.secret());
    }
    if http.show_secrets {
        builder = builder.show_secrets();
    }
    builder = http.allowed_hosts.iter().fold(builder, |builder, host| builder.allowed_host(host));
    builder = http.hidden_fields.iter().fold(builder, |builder, field| builder.hide_field(field));
    indexes::FIELDS.iter().fold(builder, |builder, (index, field)| builder.index_fields(*index, [*field]))
}

fn check_listen(http: &HttpArgs, token: Option<&Token>) -> Result<(), Error> {
    let address = http.listen;
    if token.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(of_server(ServeError::TokenRequired { address }, address));
    }
    Ok(())
}

/// The error of the program for an error of the server.
fn of_server(error: ServeError, listen: SocketAddr) -> Error {
    match error {
        ServeError::TokenRequired { address } => Error::Usage(format!(
            "--listen {address}: other machines can reach this address, and could read every object; require a token \
             with --serve-token-file or {SERVE_VARIABLE}, or listen on 127.0.0.1"
        )),
        ServeError::NotHideable { .. } | ServeError::InvalidField { .. } => {
            Error::Usage(format!("--hide-field: {error}"))
        }
        ServeError::InvalidHost { .. } => Error::Usage(format!("--allowed-host: {error}")),
        ServeError::Listen { address, source } if source.kind() == ErrorKind::AddrInUse => Error::Config {
            what: format!("--listen {listen}"),
            reason: format!(
                "another program listens on port {}; choose another port, or port 0 for a free one",
                address.port()
            ),
        },
        ServeError::Listen { source, .. } => {
            Error::Config { what: format!("--listen {listen}"), reason: source.to_string() }
        }
        error => Error::Usage(error.to_string()),
    }
}

impl FieldIndex {
    fn of(text: &str, http: &HttpArgs) -> Result<Self, Error> {
        let usage = |problem: &str| Err(Error::Usage(format!("--index {text}: {problem}")));
        let Some((name, field)) = text.split_once('=') else {
            return usage("expected NAME=FIELD.PATH, such as phase=status.phase");
        };
        let path: Vec<String> = field.trim_start_matches('.').split('.').map(str::to_owned).collect();
        if name.is_empty() || path.iter().any(String::is_empty) {
            return usage("expected NAME=FIELD.PATH, such as phase=status.phase");
        }
        if indexes::NAMES.contains(&name) {
            return usage("this index is always there");
        }
        let field = path.join(".");
        let is_within = |one: &str, other: &str| {
            one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut hidden = http.hidden_fields.iter().map(|hidden| hidden.trim().trim_start_matches('.'));
        if hidden.any(|hidden| is_within(&field, hidden) || is_within(hidden, &field)) {
            return usage("the field is hidden by --hide-field, and an index would show its values");
        }
        Ok(Self { name: name.to_owned(), path })
    }
}

fn add_indexes(informer: &Informer<DisplayFields>, added: &[FieldIndex]) -> Result<(), Error> {
    let usage = |error: kinformer::Error| Error::Usage(error.to_string());
    indexes::add_to(informer).map_err(usage)?;
    for FieldIndex { name, path } in added {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        informer.index_by_field(name.as_str(), &path).map_err(usage)?;
    }
    Ok(())
}

/// What is served, and who can read it.
fn hints(args: &ServeArgs, has_token: bool, session: &Session) -> Vec<Line> {
    let dim = Style::new().fg_color(Some(AnsiColor::BrightBlack.into()));
    let names: Vec<String> = session.resources.iter().map(|served| served.name()).collect();
    let place = session.namespaces.in_words();
    let what = format_args!("serves {} of {place}, from {}", names.join(", "), session.connection.server)
        .to_string();
    let mut lines = vec![Line::default().styled(dim, format_args!("{what}"))];
    if !has_token {
        lines.push(Line::new(format_args!(
            "no token is required: every program on this machine can read these objects; --serve-token-file requires one"
        )));
    }
    if !args.http.show_secrets && session.resources.iter().any(|served| served.resource.kind == "Secret") {
        lines
            .push(Line::new(format_args!("objects of kind Secret are not shown; --show-secrets shows them")));
    }
    lines
}
