//! Memory: nothing is retained for a removed handler.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::common::{Gate, Pod, gate, pod, start};
use futures::{FutureExt as _, StreamExt as _};
use kinformer_core::Change;
use kinformer_processor::{
    Buffer, Error, Event, InitialState, ListenerBuilder, ListenerStream, Registration, SharedProcessor,
};
use kinformer_testing::reentrant::within;
use kinformer_testing::tasks;
use tokio::sync::Semaphore;

const BUFFERS: [Buffer; 3] = [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)];

/// The published objects, and how many of them are alive.
#[derive(Default)]
struct Published(Vec<Weak<Pod>>);

impl Published {
    fn object(&mut self) -> Arc<Pod> {
        let object = pod(&format!("pod-{}", self.0.len()), 1);
        self.0.push(Arc::downgrade(&object));
        object
    }

    fn publish(&mut self, processor: &SharedProcessor<Pod>, n: usize) {
        for _ in 0..n {
            processor.publish([Change::added(self.object())]);
        }
    }

    fn alive(&self) -> usize {
        self.0.iter().filter(|object| object.strong_count() > 0).count()
    }
}

/// A handler that stays in its first callback until it is released.
struct Stuck {
    registration: Registration,
    reached: Arc<Semaphore>,
    release: Release,
}

enum Release {
    Gate(Gate),
    Permit(Arc<Semaphore>),
}

impl Release {
    fn release(self) {
        match self {
            Self::Gate(gate) => drop(gate),
            Self::Permit(permit) => permit.add_permits(1000),
        }
    }
}

type AddStuck = fn(ListenerBuilder<'_, Pod>) -> Stuck;

fn blocked(add: impl FnOnce(Box<dyn FnMut(&Event<Arc<Pod>>) + Send>) -> Registration) -> Stuck {
    let reached = Arc::new(Semaphore::new(0));
    let (gate, mut wait) = gate();
    let in_callback = reached.clone();
    let registration = add(Box::new(move |_| {
        in_callback.add_permits(1);
        wait();
    }));
    Stuck { registration, reached, release: Release::Gate(gate) }
}

const KINDS: [(&str, AddStuck); 3] = [
    ("blocking", |handler| blocked(|call| handler.add(call).unwrap())),
    ("inline", |handler| blocked(|call| handler.inline().add(call).unwrap())),
    ("asynchronous", |handler| {
        let (reached, permit) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (in_callback, pass) = (reached.clone(), permit.clone());
        let stuck = move |_: Event<Arc<Pod>>| {
            let (in_callback, pass) = (in_callback.clone(), pass.clone());
            async move {
                in_callback.add_permits(1);
                drop(pass.acquire().await);
            }
        };
        let registration = handler.add_async(stuck).unwrap();
        Stuck { registration, reached, release: Release::Permit(permit) }
    }),
];

/// A removed handler whose callback is still running retains only the event of that callback.
// contract: P-16a, P-16d, P-16b, P-16c
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removed_handler_retains_only_current_event() {
    for (kind, add) in KINDS {
        for buffer in BUFFERS {
            let processor = SharedProcessor::new("test");
            let Stuck { registration, reached, release } = add(processor.handler().buffer(buffer));
            let running = start(&processor);
            let mut published = Published::default();
            published.publish(&processor, 1);
            within(reached.acquire()).await.unwrap().forget();
            published.publish(&processor, 500);

            drop(registration.remove());
            published.publish(&processor, 500);
            // Events that were moving from the log to the coalesced state are released soon after.
            within(async {
                while published.alive() > 1 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            let stats = processor.handler_metrics();
            assert_eq!(stats.len(), 1, "{kind}, {buffer:?}: listed until its callback has returned");
            assert!(stats[0].removed && stats[0].depth == 0, "{kind}, {buffer:?}: {:?}", stats[0]);
            assert!(processor.is_ready(), "{kind}, {buffer:?}");

            release.release();
            within(registration.remove()).await;
            assert_eq!(published.alive(), 0, "{kind}, {buffer:?}");
            assert!(processor.handler_metrics().is_empty());
            running.stop().await.unwrap();
        }
    }
}

/// A removed handler whose callback is still running retains nothing else of its initial list.
// contract: P-16a, P-16d, P-16b
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removed_handler_releases_initial_list() {
    for (kind, add) in KINDS {
        for buffer in BUFFERS {
            let published = Arc::new(parking_lot::Mutex::new(Published::default()));
            let state = {
                let published = published.clone();
                move || {
                    let mut published = published.lock();
                    let objects: Vec<_> = (0..500).map(|_| published.object()).collect();
                    InitialState::new(1, objects.into_iter())
                }
            };
            let processor = SharedProcessor::builder("test").initial_state(state).build();
            let running = start(&processor);
            let Stuck { registration, reached, release } = add(processor.handler().buffer(buffer));
            within(reached.acquire()).await.unwrap().forget();
            assert!(published.lock().alive() > 1);
            drop(registration.remove());
            within(async {
                while published.lock().alive() > 1 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            release.release();
            within(registration.remove()).await;
            assert_eq!(published.lock().alive(), 0, "{kind}, {buffer:?}");
            running.stop().await.unwrap();
        }
    }
}

/// A handler removed while its callback is running retains nothing of a resync, and a later one does not reach it.
// contract: P-16a, P-16d
#[tokio::test(start_paused = true)]
async fn removed_handler_releases_resync() {
    for buffer in BUFFERS {
        let processor = SharedProcessor::new("test");
        let stuck = async |_: Event<Arc<Pod>>| std::future::pending().await;
        let handler = processor.handler().resync(Duration::from_secs(1)).buffer(buffer);
        let registration = handler.add_async(stuck).unwrap();
        let running = start(&processor);
        let mut published = Published::default();
        published.publish(&processor, 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        for remove in [true, false] {
            assert_eq!(processor.mark_due_handlers(), remove);
            let Some(due) = processor.take_due_handlers() else { break };
            let objects: Vec<_> = (0..100).map(|_| Change::unchanged(published.object())).collect();
            let sender = processor.clone();
            let sending = tokio::spawn(async move { sender.send_resync(due, objects).await });
            tokio::task::yield_now().await;
            assert_eq!(sending.is_finished(), buffer != Buffer::BackPressure(1));
            assert!(published.alive() > 1, "{buffer:?}");
            drop(registration.remove());
            within(sending).await.unwrap();
            tokio::task::yield_now().await;
            assert!(published.alive() <= 1, "{buffer:?}: {}", published.alive());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        running.cancel.cancel();
        running.task.abort();
    }
}

/// A stream that is no longer polled, with undelivered events.
fn unpolled_stream(
    processor: &SharedProcessor<Pod>,
    buffer: Buffer,
    published: &mut Published,
) -> ListenerStream<Pod> {
    let mut stream = processor.handler().buffer(buffer).stream().unwrap();
    assert!(stream.next().now_or_never().is_none());
    published.publish(processor, 500);
    // One batch of many events, so that a reader stops in the middle of it.
    let many: Vec<_> = (0..100).map(|_| Change::added(published.object())).collect();
    processor.publish(many);
    stream
}

// contract: P-16a, P-16d
#[tokio::test]
async fn removed_unpolled_stream_retains_nothing() {
    for buffer in BUFFERS {
        let processor = SharedProcessor::new("test");
        let running = start(&processor);
        let mut published = Published::default();
        let mut stream = unpolled_stream(&processor, buffer, &mut published);
        for _ in 0..510 {
            drop(within(stream.next()).await.unwrap());
        }
        assert!(published.alive() > 0, "{buffer:?}");
        within(processor.remove_handler(stream.registration())).await;
        published.publish(&processor, 500);
        within(async {
            while published.alive() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(stream.registration().metrics().depth, 0);
        assert!(within(stream.next()).await.is_none());
        running.stop().await.unwrap();
        tasks::fall_to(0).await;
    }
}

/// After the stop, nothing is retained for unpolled streams and stuck handlers.
// contract: P-16a, P-16d, P-16b
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stop_releases_stream_and_stuck_backlogs() {
    for buffer in BUFFERS {
        let processor = SharedProcessor::builder("test").grace(Duration::ZERO).build();
        let Stuck { registration, reached, release } = blocked(|call| {
            let handler = processor.handler().buffer(buffer);
            handler.add(call).unwrap()
        });
        let running = start(&processor);
        let mut published = Published::default();
        published.publish(&processor, 1);
        within(reached.acquire()).await.unwrap().forget();
        let stream = unpolled_stream(&processor, buffer, &mut published);
        assert!(matches!(running.stop().await, Err(Error::Stuck { .. })));
        processor.publish([Change::added(published.object())]);
        assert!(published.alive() <= 1, "{buffer:?}: {}", published.alive());
        release.release();
        within(registration.remove()).await;
        assert_eq!(published.alive(), 0, "{buffer:?}");
        drop(stream);
    }
}

/// The error of `synced` has the number of undelivered events at the time of the removal.
// contract: P-16a
#[tokio::test]
async fn sync_error_reports_depth_at_removal() {
    let processor = SharedProcessor::new("test");
    let registration = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap();
    let mut published = Published::default();
    published.publish(&processor, 3);
    within(registration.remove()).await;
    published.publish(&processor, 3);
    let error = registration.synced().await.unwrap_err();
    assert!(matches!(error, Error::Ended { depth: 3, .. }), "{error:?}");
    assert_eq!((published.alive(), registration.metrics().depth), (0, 0));
}
