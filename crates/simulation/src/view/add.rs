//! Handlers of all forms.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use kinformer::kube_core::Resource;
use kinformer::{Buffer, QueueKind};
use kinformer_processor::stepping::pass_time;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::View;
use super::handler::CheckedHandler;
use super::witness::{ReadStore, Times, Witness, panic_sometimes};
use crate::judge::{HandlerView, Rules, passes, version_of};
use crate::random::pick;
use crate::state::state_of;

impl<K: Resource<DynamicType = ()> + 'static> View<K> {
    /// Adds a handler of random form, which the judge follows.
    #[expect(clippy::too_many_lines, reason = "one arm for each form of a handler")]
    pub(crate) fn add(&self, rng: &mut Rng, name: &str) -> Option<Arc<CheckedHandler>> {
        let name = format!("{} {name}", self.plural);
        let run_times = if self.server.has_quick_handlers() { [0, 0, 3, 3] } else { [0, 3, 400, 3_000] };
        let run_time = pick(rng, run_times);
        let buffers = [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(rng.usize(1..5))];
        let buffer = pick(rng, buffers);
        let builder = self.informer.handler().name(&*name).buffer(buffer);
        // A resync takes less time than its period.
        let resync = Duration::from_secs(rng.u64(5..60)) + Duration::from_millis(run_time * 20);
        let resync = if rng.bool() { resync } else { Duration::ZERO };
        let is_filtered = rng.u8(..4) == 0;
        let builder = builder.resync(resync);
        let builder = match is_filtered {
            true => builder.filter(|object| passes(&state_of(object.object()))),
            false => builder,
        };
        let joined = self.stored().1;
        let rules = Rules {
            resyncs: (!resync.is_zero()).then(|| (resync, Instant::now())),
            is_filtered,
            in_order: !matches!(buffer, Buffer::Coalesced),
            // A DeltaFIFO merges later events of a key into its entry of the initial list.
            has_initial_list: self.informer.snapshot().is_err()
                && !matches!(self.queue, QueueKind::DeltaFifo),
            is_late: self.informer.has_synced(),
        };
        let known = Arc::new(Mutex::new(HandlerView::new(rules)));
        let witness = Witness {
            name: name.clone(),
            plural: self.plural.clone(),
            server: self.server.clone(),
            recorder: self.recorder.clone(),
            known: known.clone(),
            running: Arc::default(),
            store: self.reader(),
            scopes: self.scopes.clone(),
        };
        let mut times = Times { rng: rng.fork(), longest: run_time, server: self.server.clone() };
        // A blocking handler pauses the whole run after a panic, so with many objects no handler would keep up.
        let (form, panics) = (rng.u8(..3), rng.bool() && !self.server.has_quick_handlers());
        let added = match form {
            0 => builder.for_each(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                pass_time(times.next());
                panic_sometimes(&mut times.rng, panics);
            }),
            1 => builder.inline().for_each(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                panic_sometimes(&mut times.rng, panics);
            }),
            _ => builder.for_each_async(move |event| {
                witness.received(event.as_ref().map(|object| object.object().clone()));
                let running = witness.begins();
                let (slept, mut later) = (sleep(times.next()), times.rng.fork());
                panic_sometimes(&mut times.rng, panics);
                async move {
                    let _running = running;
                    slept.await;
                    panic_sometimes(&mut later, panics);
                }
            }),
        };
        self.recorder.note(
            &name,
            format_args!("added, form {form}, {buffer:?}, run time {run_time} ms, panics {panics}, filter {is_filtered}, resync {resync:?}"),
        );
        match added {
            Ok(registration) => {
                let handler = Arc::new(CheckedHandler {
                    registration,
                    known,
                    resync,
                    is_late: self.informer.snapshot().is_ok(),
                    has_back_pressure: matches!(buffer, Buffer::BackPressure(_)),
                    joined,
                });
                if !handler.resync.is_zero() && !handler.is_late {
                    self.has_check_period.store(true, Ordering::Relaxed);
                }
                self.all_handlers.lock().push(handler.clone());
                Some(handler)
            }
            Err(error) => {
                self.recorder.violation(format_args!("{name}: {error}"));
                None
            }
        }
    }

    /// Returns a function that reads the revision of the store, and the version of an object in it. It does not keep the
    /// informer.
    fn reader(&self) -> Box<ReadStore> {
        let informer = Arc::downgrade(&self.informer);
        Box::new(move |key| {
            let snapshot = informer.upgrade()?.snapshot().ok()?;
            let object = snapshot.get(key.split_once('/')?);
            Some((snapshot.revision(), object.map(|object| version_of(&state_of(object.object())))))
        })
    }
}
