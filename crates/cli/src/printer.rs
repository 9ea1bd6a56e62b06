//! From the events of one resource to lines on standard output.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use kinformer::{Event as Heard, EventStream, Packed};
use tokio::time::Instant;

use crate::exit::Error;
use crate::lines::{Event, Happened, Lines, Summary};
use crate::output::Output;
use crate::shown::Shown;
use crate::stop::Stop;
use crate::text::Text;
use crate::verdict::Verdict;

/// So much is handed to the output at once, at most.
const BATCH_BYTES: usize = 32 * 1024;

/// When a printer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// When it is told to.
    Told,
    /// When it has printed everything that was there.
    Synced,
}

/// Prints what it hears until its end.
pub(crate) struct Printer {
    pub(crate) events: EventStream<Shown>,
    pub(crate) lines: Lines,
    pub(crate) output: Output,
    pub(crate) end: End,
    /// When watching began.
    pub(crate) began: Instant,
}

impl Printer {
    /// Prints until it is told to stop, or its end has come, or nobody reads any more.
    ///
    /// # Errors
    /// The verdict, if there is one before the first sync.
    pub(crate) async fn run(mut self, mut verdict: Verdict, stop: Stop) -> Result<Summary, Error> {
        let registration = self.events.registration().clone();
        let mut summary = Summary::default();
        let mut lines = Text::with_capacity(BATCH_BYTES + 1024);
        loop {
            // Everything that is there already, in as few batches as possible.
            while lines.len() < BATCH_BYTES
                && let Some(Some(event)) = self.events.next().now_or_never()
            {
                self.take(&event, &mut summary, &mut lines);
            }
            if summary.to_sync.is_none() && registration.has_synced() {
                self.synced(&mut summary, &mut lines);
            }
            if !lines.is_empty() {
                let batch = std::mem::replace(&mut lines, Text::with_capacity(BATCH_BYTES + 1024));
                let Some(Ok(())) = stop.unless(self.output.lines(batch)).await else { return Ok(summary) };
            }
            if self.end == End::Synced && summary.to_sync.is_some() {
                return Ok(summary);
            }
            let syncing = summary.to_sync.is_none();
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(summary),
                event = self.events.next() => match event {
                    Some(event) => self.take(&event, &mut summary, &mut lines),
                    None => return Ok(summary),
                },
                synced = registration.synced(), if syncing => {
                    if synced.is_err() {
                        return Ok(summary);
                    }
                }
                error = &mut verdict, if syncing => {
                    // Without anyone to give one any more, there is none.
                    let Ok(error) = error else { return Ok(summary) };
                    return Err(error);
                }
            }
        }
    }

    fn take(&self, event: &Heard<Packed<Shown>>, summary: &mut Summary, lines: &mut Text) {
        let event = of(event);
        summary.count(event.happened);
        self.lines.event(lines, &event);
    }

    fn synced(&self, summary: &mut Summary, lines: &mut Text) {
        let after: Duration = self.began.elapsed();
        summary.to_sync = Some(after);
        tracing::info!(objects = summary.objects(), ?after, "in sync");
        self.lines.synced(lines, summary.objects(), after);
    }
}

fn of(event: &Heard<Packed<Shown>>) -> Event<'_> {
    let (happened, old, initial, final_state_unknown) = match event {
        Heard::Added(added) => (Happened::Add, None, added.in_initial_list, false),
        Heard::Updated(updated) => (Happened::Update, Some(&updated.old), false, false),
        Heard::Deleted(deleted) => {
            (Happened::Delete, None, false, deleted.tombstone.is_final_state_unknown())
        }
        _ => (Happened::Update, None, false, false),
    };
    Event { happened, key: event.key(), object: event.object(), old, initial, final_state_unknown }
}
