//! An informer loop from its parts: a source, a queue, options and a process function.
//!
//! An `InformerLoop`, client-go's `Controller`, is the loop of an informer without its store and its handlers: a reflector lists and watches the source
//! and fills the queue, and the process function receives the deltas. Here the function applies them to a store of its
//! own, which the queue knows, so that the objects missing from a list are noticed as deleted. As in client-go's example
//! of `cache.New(&Config{..})`, it deletes everything that appears at the source. The program waits until it has seen the
//! deletions, and ends by itself.
//!
//! `cargo run -p kinformer-shared-informer --example controller`
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::Object;
use kinformer_delta_fifo::{DeltaFifo, Popped};
use kinformer_reflector::ReflectorOptions;
use kinformer_shared_informer::InformerLoop;
use kinformer_store::Indexer;
use kinformer_testing::{FakeSource, Item};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The source simulates a server: it can be listed and watched.
    let source = FakeSource::new();
    for name in ["a-hello", "b-controller", "c-framework"] {
        source.apply(Item::of(name, 0, 0));
    }
    // The state of the source, as it is known downstream of the queue.
    let downstream: Arc<Indexer<Item>> = Arc::new(Indexer::new());
    // With the known objects, lists and resyncs become the right deltas.
    let queue = Arc::new(DeltaFifo::builder().known_objects(downstream.clone()).build());
    let options = ReflectorOptions::new().resync_period(Duration::from_secs(30));

    let (report, mut deletions) = mpsc::channel(16);
    let process = {
        let (source, downstream) = (source.clone(), downstream.clone());
        move |mut popped: Popped<Item>| {
            let applied = downstream.apply(popped.take());
            for change in &applied.changes {
                let delta = change.delta.delta_type();
                match (change.new_state(), change.key()) {
                    (Some(item), _) => {
                        println!("{delta} {}: now deleted at the source", item.key());
                        source.delete(item.key());
                    }
                    (None, Some(key)) => {
                        println!("{delta} {key}");
                        _ = report.try_send(key.to_string()); // it has room for all
                    }
                    (None, None) => {}
                }
            }
            if let Err(error) = applied.errors.into_result() {
                println!("not stored: {error}");
            }
            async {} // a process function may also wait
        }
    };

    let informer_loop = InformerLoop::with_options("items", source, queue, process, options);
    let cancel = CancellationToken::new();
    let running = tokio::spawn(informer_loop.run(cancel.clone()));

    let mut deleted = Vec::new();
    while deleted.len() < 3 {
        deleted.push(deletions.recv().await.ok_or("the loop has stopped")?);
    }
    println!("deleted: {}; {} objects are left", deleted.join(", "), downstream.len());
    cancel.cancel();
    println!("stopped: {:?}", running.await?);
    Ok(())
}
