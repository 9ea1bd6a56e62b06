//! `kinformer demo`: a live view of informers on a small simulated cluster in this process.

pub(crate) mod churn;
pub(crate) mod cluster;
mod informers;
pub(crate) mod lag;
mod narration;
mod screen;
mod slow_report;
mod summary;
mod view;

use std::future::Future;
use std::pin::Pin;

use tokio::time::{Instant, MissedTickBehavior};

use self::informers::Informers;
use self::screen::{REFRESH, Screen, ScreenWriter};
use self::summary::Summary;
use crate::args::DemoArgs;
use crate::embedded::Embedded;
use crate::exit::Error;
use crate::stop::Stop;
use crate::text::Line;

/// Runs the demo until `stop`, or for its period.
///
/// # Errors
/// Any [`Error`].
pub(crate) async fn run(args: DemoArgs, stop: Stop) -> Result<(), Error> {
    let screen = Screen::open()?;
    let embedded = Embedded::start(args.seed.unwrap_or(1)).await?;
    let result = show(&args, &stop, screen.writer(), &embedded).await;
    embedded.shutdown().await;
    let last = result.as_ref().map(Summary::lines).unwrap_or_default();
    let written = screen.finish(&last, &stop).await;
    result.map(drop).and(written)
}

async fn show(
    args: &DemoArgs,
    stop: &Stop,
    screen: &ScreenWriter,
    embedded: &Embedded,
) -> Result<Summary, Error> {
    let began = Instant::now();
    let end: End = match args.period {
        Some(period) => Box::pin(tokio::time::sleep(period)),
        None => Box::pin(std::future::pending()),
    };
    let server = embedded.server();
    let line = Line::new(format_args!("in-memory API server: kubectl --server {} get pods -A", server.url()));
    let _ = screen.line(line).await;

    let informers = Informers::start(server, screen, &embedded.lag_recorder())?;
    let page = match informers.server().or_any_port().bind().await {
        Ok(server) => Some(server.spawn()),
        Err(error) => {
            let _ = screen.line(Line::new(format_args!("no page: {error}"))).await;
            None
        }
    };
    if let Some(page) = &page {
        let line =
            format_args!("page: {} shows the informers, their objects and events", page.url()).to_string();
        let _ = screen.line(Line::new(format_args!("{line}"))).await;
    }
    let mut summary = Summary::default();
    follow(&mut summary, (end, stop, screen), embedded, &informers, began).await?;
    let read = summary.now(began, &informers, embedded);
    if let Some(page) = page {
        page.shutdown().await;
    }
    informers.stop().await;
    read?;
    Ok(summary)
}

/// The end of the period that the arguments name.
type End = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Shows the informers until the end, or until the user ends the program.
async fn follow(
    summary: &mut Summary,
    (mut end, stop, screen): (End, &Stop, &ScreenWriter),
    embedded: &Embedded,
    informers: &Informers,
    began: Instant,
) -> Result<(), Error> {
    let mut ticks = tokio::time::interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let expected = informers.expected(embedded.server())?;
    loop {
        let syncing = summary.to_sync.is_none();
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = screen.closed() => return Ok(()),
            () = &mut end => return Ok(()),
            synced = informers.synced(), if syncing => {
                synced?;
                summary.to_sync = Some(began.elapsed());
                summary.initial = informers.objects()?;
                let _ = screen.line(Line::new(format_args!("{}", summary.synced()))).await;
            }
            _ = ticks.tick() => {
                if syncing {
                    screen.syncing(informers.delivered(), expected);
                } else {
                    summary.now(began, informers, embedded)?;
                    let mut lines = vec![Line::default()];
                    lines.extend(informers.tables(screen.width())?);
                    let status = summary.status(screen.width());
                    lines.extend([Line::default(), Line::new(format_args!("{status}"))]);
                    screen.table(&lines);
                }
            }
        }
    }
}
