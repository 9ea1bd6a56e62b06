//! One event, several listeners, one of them slow, without Kubernetes.
//!
//! An event is published once, into one log, which each listener reads at its own pace: a callback, a stream, and an
//! asynchronous callback that does not return until the program lets it. It delays neither the publisher nor the other
//! listeners, and it misses nothing. The program ends by itself.
//!
//! `cargo run -p kinformer-processor --example processor_listener`
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::sync::Arc;

use futures::StreamExt as _;
use kinformer_core::{Change, KeyRef, Object};
use kinformer_processor::{Added, Event, EventHandlerFuncs, SharedProcessor};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

struct Pod {
    name: String,
    value: u32,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new("default", &self.name)
    }
}

fn pod(name: &str, value: u32) -> Arc<Pod> {
    Arc::new(Pod { name: name.to_owned(), value })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let processor = SharedProcessor::new("pods");

    // Callbacks for single kinds of events.
    let on_add = |added: &Added<Arc<Pod>>| println!("callback: {} was added", added.object.key());
    let callback = processor.handler().name("callback").add(EventHandlerFuncs::new().on_add(on_add))?;

    // The same events as a stream.
    let mut stream = processor.handler().name("stream").stream()?;

    // An asynchronous callback, which waits for a permit before it returns.
    let permits = Arc::new(Semaphore::new(0));
    let (done, mut slow_done) = mpsc::channel(10);
    let wait = permits.clone();
    processor.handler().name("slow").add_async(move |event: Event<Arc<Pod>>| {
        let (wait, done) = (wait.clone(), done.clone());
        async move {
            let Ok(permit) = wait.acquire().await else { return };
            permit.forget(); // one permit is one return
            _ = done.try_send(format!("{}, value {:?}", event.key(), value(&event)));
        }
    })?;

    let cancel = CancellationToken::new();
    let running = tokio::spawn({
        let (processor, cancel) = (processor.clone(), cancel.clone());
        async move { processor.run(cancel).await }
    });

    println!("# one event");
    let first = pod("web", 1);
    processor.publish([Change::added(first.clone()).in_initial_list()]);
    processor.publish_synced(); // the end of the initial list
    callback.synced().await?; // it has processed the list
    print_next(stream.next().await);

    println!("# two more, while the slow listener is still in its first callback");
    let second = pod("web", 2);
    processor.publish([Change::updated(first, second.clone()), Change::updated(second, pod("web", 3))]);
    print_next(stream.next().await);
    print_next(stream.next().await);
    let slow = processor.handler_metrics().into_iter().find(|handler| &*handler.name == "slow");
    println!("slow: {} delivered", slow.map_or(0, |slow| slow.delivered));

    println!("# its callbacks may return");
    permits.add_permits(3);
    for _ in 0..3 {
        println!("slow: {}", slow_done.recv().await.ok_or("the handler has ended")?);
    }

    cancel.cancel();
    running.await??;
    Ok(())
}

fn value(event: &Event<Arc<Pod>>) -> Option<u32> {
    event.object().map(|pod| pod.value)
}

fn print_next(event: Option<Event<Arc<Pod>>>) {
    if let Some(event) = event {
        println!("stream: {}, value {:?}", event.key(), value(&event));
    }
}
