//! Custom events, delivered to three kinds of handlers, without Kubernetes. The program ends by itself.
//!
//! `cargo run -p kinformer-processor --example processor_listener`
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::sync::Arc;

use futures::StreamExt as _;
use kinformer_core::{Change, KeyRef, Object};
use kinformer_processor::{Added, Buffer, Event, EventHandlerFuncs, SharedProcessor};
use tokio_util::sync::CancellationToken;

/// The stock of one article.
struct Stock {
    article: String,
    pieces: u32,
}

impl Object for Stock {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(&self.article)
    }
}

fn stock(article: &str, pieces: u32) -> Arc<Stock> {
    Arc::new(Stock { article: article.into(), pieces })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let processor = SharedProcessor::new("stock");

    // Callbacks with a filter: for this handler, an article that is sold out is deleted.
    let shelf = processor.handler().name("shelf").filter(|stock: &Arc<Stock>| stock.pieces > 0).add(
        EventHandlerFuncs::new()
            .on_add(|added: &Added<Arc<Stock>>| println!("shelf: {} is on sale", added.object.article))
            .on_delete(|deleted| println!("shelf: {} is sold out", deleted.tombstone.key())),
    )?;

    // Asynchronous callbacks; after a burst, only the newest state is delivered.
    let orders = processor.handler().name("orders").buffer(Buffer::Coalesced).add_async(
        async |event: Event<Arc<Stock>>| {
            tokio::task::yield_now().await;
            println!("orders: {} has {:?} pieces", event.key(), event.object().map(|stock| stock.pieces));
        },
    )?;

    // A stream.
    let mut history = processor.handler().name("history").stream()?;

    let cancel = CancellationToken::new();
    let running = tokio::spawn({
        let (processor, cancel) = (processor.clone(), cancel.clone());
        async move { processor.run(cancel).await }
    });

    let (many, some, none) = (stock("apples", 90), stock("apples", 9), stock("apples", 0));
    processor.publish([
        Change::added(many.clone()).in_initial_list(),
        Change::updated(many, some.clone()),
        Change::updated(some, none),
    ]);
    processor.publish_synced();

    for _ in 0..3 {
        if let Some(event) = history.next().await {
            println!("history: {} {:?}", event.key(), event.object().map(|stock| stock.pieces));
        }
    }
    shelf.synced().await?;
    orders.synced().await?;
    for handler in processor.handler_metrics() {
        println!("{}: {} delivered, {} waiting", handler.name, handler.delivered, handler.depth);
    }

    cancel.cancel();
    running.await??;
    Ok(())
}
