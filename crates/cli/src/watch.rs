//! `kinformer watch`: prints every change to some resources, one line each.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kinformer::{Buffer, Encoding};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::{Format, GlobalArgs, ReadingArgs, WatchArgs};
use crate::display_fields::{DROPPED_FIELDS, SECRET_FIELDS};
use crate::exit::Error;
use crate::informers::{Informers, Reading};
use crate::lines::{Lines, More, Summary};
use crate::output::Output;
use crate::printer::{EndCondition, Printer};
use crate::resources::Served;
use crate::session::Session;
use crate::stop::Stop;
use crate::text::Text;
use crate::usage::Usage;
use crate::{changes, output, selectors};

/// How many events may wait to be printed before the informer stops reading. This bounds the memory that a slow
/// reader of the output can cause.
const UNPRINTED: usize = 16 * 1024;

/// Prints events until `stop`.
///
/// # Errors
/// Any [`Error`].
pub(crate) async fn run(args: WatchArgs, global: &GlobalArgs, stop: Stop) -> Result<(), Error> {
    selectors::check(&args.selectors)?;
    let verbs = ["list", "watch"];
    let begun = Session::begin(global, &args.resources, &verbs, &stop).await?;
    let Some(session) = begun else { return Ok(()) };
    let result = watch(&args, &session, &stop).await;
    session.connection.close().await;
    result
}

/// The fields that are not printed: in JSON without objects, all large ones; in text, those of a Secret.
fn dropped(args: &WatchArgs) -> fn(&Served) -> &'static [&'static [&'static str]] {
    match args.output {
        Format::Json if args.objects => |_| &[],
        Format::Json => |_| &DROPPED_FIELDS,
        Format::Text | Format::Wide => |served| match served.resource.kind.as_str() {
            "Secret" => &SECRET_FIELDS,
            _ => &[],
        },
    }
}

/// What is read.
fn reading<'a>(args: &'a WatchArgs, session: &'a Session) -> Reading<'a> {
    // An object is printed as the server has sent it.
    let encoding = if args.objects { Some(Encoding::Json) } else { args.reading.encoding };
    Reading {
        namespaces: &session.namespaces,
        labels: args.selectors.selector.as_deref(),
        fields: args.selectors.field_selector.as_deref(),
        metadata_only: args.metadata_only,
        dropped: dropped(args),
        how: ReadingArgs { encoding, ..args.reading },
    }
}

/// The result of a printer task, with the index of its resource on the command line.
type Ended = (usize, Result<Summary, Error>);

async fn watch(args: &WatchArgs, session: &Session, signals: &Stop) -> Result<(), Error> {
    let (output, written) = Output::stdout()?;
    let stop = signals.child();
    let began = Instant::now();
    let end = if args.until_synced { EndCondition::Synced } else { EndCondition::Stopped };
    let width = session.resources.iter().map(|served| served.name().len()).max().unwrap_or(0);
    let more = More {
        changes: Some(changes::describe),
        timestamps: args.timestamps,
        objects: args.objects,
        colours: output::has_colours(),
    };
    let informers = Informers::new(&session.connection, &session.resources, reading(args, session));
    match informers.know_namespaces(signals).await {
        Ok(true) => {}
        ended => {
            informers.stop().await;
            return ended.map(drop);
        }
    }

    let mut running = Vec::new();
    let mut printers = JoinSet::new();
    for (index, served) in session.resources.iter().enumerate() {
        let (informer, fatal_error) = informers.of(served);
        let handler = informer.handler().name("printer").buffer(Buffer::BackPressure(UNPRINTED));
        let events = handler.stream().map_err(|error| Error::Usage(error.to_string()))?;
        let lines = Lines::new(args.output, served.name(), width).with(more);
        let printer = Printer { events, lines: lines.clone(), output: output.clone(), end, began };
        let stop = stop.clone();
        printers.spawn(async move { (index, printer.run(fatal_error, stop).await) });
        running.push((lines, informer));
    }
    informers.start()?;
    let summaries = until_the_end(args, &session.resources, printers, &output, &stop).await;

    let mut last = Text::default();
    informers.stop().await;
    let (summaries, result) = summaries;
    let usage = Usage::now();
    for (index, (lines, informer)) in running.into_iter().enumerate() {
        let relists = informer.status().metrics().reflector.relists;
        let summary = summaries.get(index).copied().unwrap_or_default();
        lines.stopped(&mut last, Summary { relists, ..summary }, usage);
    }
    let written = written.finish(output, last, signals).await;
    result.and(written)
}

/// Waits until a signal arrives, the period ends, all printers have finished, one printer fails, or the reader of the
/// output closes it, whichever comes first.
async fn until_the_end(
    args: &WatchArgs,
    resources: &[Served],
    mut printers: JoinSet<Ended>,
    output: &Output,
    stop: &Stop,
) -> (Vec<Summary>, Result<(), Error>) {
    let mut summaries = vec![Summary::default(); resources.len()];
    let mut result = Ok(());
    let mut period: Pin<Box<dyn Future<Output = ()> + Send>> = match args.period {
        Some(period) => Box::pin(tokio::time::sleep(period)),
        None => Box::pin(std::future::pending()),
    };
    let mut over = false;
    loop {
        tokio::select! {
            biased;
            ended = printers.join_next() => match ended {
                None => break,
                Some(Ok((index, Ok(summary)))) => {
                    if let Some(place) = summaries.get_mut(index) {
                        *place = summary;
                    }
                }
                Some(Ok((_, Err(error)))) => {
                    result = result.and(Err(error));
                    stop.now();
                }
                Some(Err(error)) => {
                    tracing::error!(%error, "printer task failed");
                    stop.now();
                }
            },
            () = &mut period, if !over => {
                over = true;
                stop.now();
            }
            () = output.closed() => break,
        }
    }
    let late = resources.iter().zip(&summaries).filter(|(_, summary)| summary.to_sync.is_none());
    let late: Vec<String> = late.map(|(served, _)| served.name()).collect();
    if over && args.until_synced && !late.is_empty() {
        let period = humantime::format_duration(args.period.unwrap_or(Duration::ZERO));
        result = result.and(Err(Error::Timeout(format!("not in sync after {period}: {}", late.join(", ")))));
    }
    (summaries, result)
}
