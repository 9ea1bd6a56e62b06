//! Formats the events of one resource and sends them to standard output.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use kinformer::{Event as InformerEvent, EventStream, Packed};
use tokio::time::Instant;

use crate::display_fields::DisplayFields;
use crate::exit::Error;
use crate::fatal_errors::FatalError;
use crate::lines::{Event, EventKind, Lines, Summary};
use crate::output::Output;
use crate::stop::Stop;
use crate::text::Text;

/// A batch is sent to the output at this size.
const BATCH_BYTES: usize = 32 * 1024;

/// When a printer finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndCondition {
    /// When it is stopped.
    Stopped,
    /// When it has printed the initial objects.
    Synced,
}

/// Prints the events of one resource.
pub(crate) struct Printer {
    pub(crate) events: EventStream<DisplayFields>,
    pub(crate) lines: Lines,
    pub(crate) output: Output,
    pub(crate) end: EndCondition,
    /// When the program started watching.
    pub(crate) began: Instant,
}

impl Printer {
    /// Prints events until `stop`, the end condition, or the end of the output.
    ///
    /// # Errors
    /// The fatal error, if one arrives before the first sync.
    pub(crate) async fn run(mut self, mut fatal_error: FatalError, stop: Stop) -> Result<Summary, Error> {
        let registration = self.events.registration().clone();
        let mut summary = Summary::default();
        let mut lines = Text::with_capacity(BATCH_BYTES + 1024);
        loop {
            // Collects all events that are ready, for as few batches as possible.
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
            if self.end == EndCondition::Synced && summary.to_sync.is_some() {
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
                error = &mut fatal_error, if syncing => {
                    // The sender is dropped without an error when the informer is gone.
                    let Ok(error) = error else { return Ok(summary) };
                    return Err(error);
                }
            }
        }
    }

    fn take(&self, event: &InformerEvent<Packed<DisplayFields>>, summary: &mut Summary, lines: &mut Text) {
        let event = of(event);
        summary.count(event.kind);
        self.lines.event(lines, &event);
    }

    fn synced(&self, summary: &mut Summary, lines: &mut Text) {
        let after: Duration = self.began.elapsed();
        summary.to_sync = Some(after);
        tracing::info!(objects = summary.objects(), ?after, "in sync");
        self.lines.synced(lines, summary.objects(), after);
    }
}

fn of(event: &InformerEvent<Packed<DisplayFields>>) -> Event<'_> {
    let (kind, old, initial, final_state_unknown) = match event {
        InformerEvent::Added(added) => (EventKind::Add, None, added.in_initial_list, false),
        InformerEvent::Updated(updated) => (EventKind::Update, Some(&updated.old), false, false),
        InformerEvent::Deleted(deleted) => {
            (EventKind::Delete, None, false, deleted.tombstone.is_final_state_unknown())
        }
        InformerEvent::Left(_) => (EventKind::Leave, None, false, false),
    };
    Event { kind, key: event.key(), object: event.object(), old, initial, final_state_unknown }
}
