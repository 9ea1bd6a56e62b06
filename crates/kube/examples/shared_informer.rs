//! A shared informer by hand, from its layers, with two handlers.
//!
//! The reflector lists and watches, the queue holds the deltas, the store is written, and the processor delivers each change
//! to the handlers, each at its own pace. The second handler is added late: it receives the objects of the store first, and
//! then the same events as the other one. `SharedIndexInformer` of `kinformer-shared-informer` is this with resyncs,
//! waits, metrics and errors. The program ends by itself.
//!
//! `cargo run -p kinformer-kube --example shared_informer`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::error::Error;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::Change;
use kinformer_delta_fifo::DeltaFifo;
use kinformer_kube::{KubeListerWatcher, KubeObject};
use kinformer_processor::{Added, Event, InitialState, Registration, SharedProcessor};
use kinformer_reflector::Reflector;
use kinformer_store::Indexer;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

type Map = KubeObject<ConfigMap>;

/// The layers above the source and below the handlers.
#[derive(Clone)]
struct Informer {
    queue: DeltaFifo<Map>,
    store: Arc<Indexer<Map>>,
    processor: SharedProcessor<Map>,
}

impl Informer {
    fn new() -> Self {
        let store = Arc::new(Indexer::new());
        let objects = store.clone();
        // A handler that is added later starts with these objects.
        let processor = SharedProcessor::builder("config maps").initial_state(move || {
            let snapshot = objects.snapshot();
            let in_order: Vec<_> = snapshot.ordered().into_iter().cloned().collect();
            InitialState::new(snapshot.revision(), in_order.into_iter())
        });
        let queue = DeltaFifo::builder().known_objects(store.clone()).build();
        Self { queue, store, processor: processor.build() }
    }

    /// Runs all layers until the token is cancelled.
    async fn run(
        self,
        source: KubeListerWatcher<ConfigMap>,
        cancel: CancellationToken,
    ) -> Result<(), String> {
        let reflector = Reflector::new("config maps", source, self.queue.clone());
        let control = async {
            while let Ok(popped) = self.queue.pop().await {
                self.process(popped);
            }
        };
        let all = async { tokio::join!(reflector.run(cancel.clone()), self.processor.run(cancel.clone())) };
        tokio::select! {
            (_, delivered) = all => delivered.map_err(|error| error.to_string()),
            () = control => Err("the queue was closed".into()),
        }
    }

    /// Writes the store first and publishes the changes then, so that a handler can read what it receives.
    fn process(&self, mut popped: kinformer_delta_fifo::Popped<Map>) {
        let is_initial = popped.in_initial_list();
        let applied = self.store.apply(popped.take());
        if let Err(error) = applied.errors.into_result() {
            println!("not stored: {error}");
        }
        let mark = |change: Change<Map>| if is_initial { change.in_initial_list() } else { change };
        self.processor.publish(applied.changes.into_iter().map(mark));
        drop(popped);
        if self.queue.has_synced() && !self.processor.has_synced() {
            self.processor.publish_synced();
        }
    }

    /// Adds a handler that sends each event as a line, so that the program prints the lines of one handler together.
    fn handler(&self, name: &'static str) -> Result<(Registration, mpsc::Receiver<String>), Box<dyn Error>> {
        let (lines, received) = mpsc::channel(100);
        let store = self.store.clone();
        let handler = self.processor.handler().name(name).for_each(move |event| {
            let what = match event {
                Event::Added(Added { in_initial_list: true, .. }) => "in the initial list",
                Event::Added(_) => "added",
                Event::Updated(_) => "updated",
                Event::Deleted(_) => "deleted",
                Event::Left(_) => "out of scope",
            };
            let stored = store.contains(event.key());
            _ = lines.try_send(format!("{name}: {} {what}, in the store: {stored}", event.key()));
        })?;
        Ok((handler, received))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = common::Cluster::connect().await?;
    let informer = Informer::new();
    let (first, mut first_lines) = informer.handler("first")?;

    let cancel = CancellationToken::new();
    let source = KubeListerWatcher::new(cluster.client.clone()).namespace("default");
    let running = tokio::spawn(informer.clone().run(source, cancel.clone()));
    first.synced().await?;
    print(&mut first_lines);

    println!("# another handler");
    let (second, mut second_lines) = informer.handler("second")?;
    second.synced().await?;
    print(&mut second_lines);

    println!("# changes, for both");
    let changes = cluster.change_objects()?;
    for lines in [&mut first_lines, &mut second_lines] {
        for _ in 0..changes {
            println!("{}", lines.recv().await.unwrap_or_default());
        }
    }
    cancel.cancel();
    running.await??;
    cluster.stop().await;
    Ok(())
}

/// Prints the lines that were sent.
fn print(lines: &mut mpsc::Receiver<String>) {
    while let Ok(line) = lines.try_recv() {
        println!("{line}");
    }
}
