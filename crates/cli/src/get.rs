//! `kinformer get`: one read through an informer and its indexes.

use std::time::Duration;

use jiff::Timestamp;
use kinformer::{Encoding, ObjectKey, PackedRef, Snapshot};
use tokio::time::Instant;

use crate::args::{Format, GetArgs, ReadingArgs};
use crate::display_fields::DisplayFields;
use crate::exit::Error;
use crate::informers::{Informers, Reading};
use crate::output::Output;
use crate::session::Session;
use crate::stop::Stop;
use crate::text::{self, Line, Text};
use crate::{indexes, objects};

/// How long the first list may take.
const SYNC: Duration = Duration::from_secs(120);
/// How long a received list of a resource that cannot be watched may take to be stored.
const LISTED: Duration = Duration::from_secs(2);
/// How many objects are formatted at a time in JSON.
const AT_ONCE: usize = 100;

/// Reads objects once and prints them.
///
/// # Errors
/// Any [`Error`].
pub(crate) async fn run(args: GetArgs, stop: Stop) -> Result<(), Error> {
    let wanted = Query::of(&args)?;
    let names = [args.resource.clone()];
    let begun = Session::begin(&args.connection, &args.scope, &names, &["list"], &stop).await?;
    let Some(session) = begun else { return Ok(()) };
    let (output, written) = Output::stdout()?;
    let result = get(&args, &wanted, &session, &output, &stop).await;
    session.connection.close().await;
    let written = written.finish(output, Text::default(), &stop).await;
    result.and(written)
}

/// The objects to read.
enum Query {
    All,
    Key { namespace: Option<String>, name: String },
    Index { name: String, value: String },
    Indexes,
}

impl Query {
    fn of(args: &GetArgs) -> Result<Self, Error> {
        if args.list_indexes {
            return Ok(Self::Indexes);
        }
        if let Some(index) = &args.index {
            let (name, value) = index.split_once('=').ok_or_else(|| {
                Error::Usage(format!("--index {index}: expected NAME=VALUE, such as node=node-1"))
            })?;
            if !indexes::NAMES.contains(&name) {
                return Err(Error::Usage(format!(
                    "--index {index}: there is no index {name:?}, only {}",
                    indexes::NAMES.join(", ")
                )));
            }
            return Ok(Self::Index { name: name.to_owned(), value: value.to_owned() });
        }
        let Some(key) = &args.key else { return Ok(Self::All) };
        let key: ObjectKey = key.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let namespace = key.namespace().map(str::to_owned);
        if let (Some(namespace), Some(other)) = (&namespace, &args.scope.namespace)
            && namespace != other
        {
            return Err(Error::Usage(format!("{key} is not in namespace {other:?}")));
        }
        Ok(Self::Key { namespace, name: key.name().to_owned() })
    }
}

/// Prints the objects of a query, unless `stop` comes first.
async fn get(
    args: &GetArgs,
    wanted: &Query,
    session: &Session,
    output: &Output,
    stop: &Stop,
) -> Result<(), Error> {
    for served in &session.resources {
        // A single object is listed by its name, so that no others are transferred.
        let (name, namespace) = match wanted {
            Query::Key { name, namespace } => (Some(format!("metadata.name={name}")), namespace.as_deref()),
            _ => (None, None),
        };
        // JSON output is the server's own text.
        let can_watch = served.can("watch");
        let encoding = (args.output == Format::Json).then_some(Encoding::Json);
        let reading = Reading {
            namespace: namespace.or(session.namespace.as_deref()),
            labels: None,
            fields: name.as_deref(),
            metadata_only: false,
            dropped: &[],
            how: ReadingArgs { encoding, watch_list: can_watch, ..ReadingArgs::default() },
        };
        let informers = Informers::new(session, [served], reading);
        let (informer, fatal_error) = informers.of(served);
        indexes::add_to(&informer).map_err(|error| Error::Usage(error.to_string()))?;
        informers.start()?;
        let synced = tokio::select! {
            biased;
            Ok(error) = fatal_error => {
                // It may be the error of the watch that follows the list.
                let wait = if can_watch { Duration::ZERO } else { LISTED };
                informer.wait_for_sync().until(Instant::now() + wait).await.map_err(|_| error).map(|()| true)
            }
            synced = informer.wait_for_sync().until(Instant::now() + SYNC) => {
                synced.map_err(|error| Error::Timeout(error.to_string())).map(|()| true)
            }
            () = stop.requested() => Ok(false),
        };
        let snapshot = informer.snapshot().map_err(|error| Error::Runtime(std::io::Error::other(error)));
        informers.stop().await;
        if !synced? {
            return Ok(());
        }
        let snapshot = snapshot?;
        let name = served.name();
        let print = print(args, wanted, &name, &snapshot, output);
        stop.unless(print).await.unwrap_or(Ok(()))?;
    }
    Ok(())
}

async fn print(
    args: &GetArgs,
    wanted: &Query,
    resource: &str,
    snapshot: &Snapshot<DisplayFields>,
    output: &Output,
) -> Result<(), Error> {
    let mut found: Vec<PackedRef<'_, DisplayFields>> = match wanted {
        Query::Indexes => {
            // An error means that the reader has closed the output; also below.
            let _ = output.lines(objects::render_indexes(snapshot, args.output)?).await;
            return Ok(());
        }
        Query::Index { name, value } => snapshot.by_index(name, value).map_err(objects::index_error)?,
        Query::All | Query::Key { .. } => snapshot.iter().collect(),
    };
    if let (Query::Key { name, .. }, true) = (wanted, found.is_empty()) {
        return Err(Error::NotFound(format!("{resource} {name:?}")));
    }
    if found.is_empty() && args.output != Format::Json {
        text::to_stderr(&Line::new(format_args!("no {resource} found")));
    }
    found.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
    // Column widths depend on all rows; JSON can be printed in chunks.
    let at_once = if args.output == Format::Json { AT_ONCE } else { found.len().max(1) };
    for some in found.chunks(at_once) {
        let text = objects::render(some, args.output, Timestamp::now());
        if output.lines(text).await.is_err() {
            break;
        }
    }
    Ok(())
}
