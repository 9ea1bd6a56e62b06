//! A custom source with a history: a `Vec` of changes. A version is the number of changes so far.
//!
//! The reflector lists the source once and watches it. It relists only because the example clears the history in
//! between. The program ends by itself.
//!
//! `cargo run -p kinformer-reflector --example vec_source`
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use kinformer_core::{Delta, Deltas, Error, KeyRef, Object, PartialErrors, ResourceVersion, Sink};
use kinformer_reflector::{
    Backoff, List, ListOptions, ListerWatcher, Reflector, ReflectorOptions, SourceError, WatchEvent,
    WatchOptions, WatchStream,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct Book {
    title: &'static str,
    copies: u32,
    version: u64,
}

impl Object for Book {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.title)
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }
}

/// The current books, and the changes after the first `forgotten` ones.
#[derive(Default)]
struct Shelf {
    books: BTreeMap<&'static str, Arc<Book>>,
    changes: Vec<WatchEvent<Book>>,
    forgotten: usize,
}

impl Shelf {
    fn version(&self) -> usize {
        self.forgotten.saturating_add(self.changes.len())
    }

    /// Returns the version after the next change.
    fn next_version(&self) -> u64 {
        self.version() as u64 + 1
    }
}

struct Library(watch::Sender<Shelf>);

impl Library {
    fn put(&self, title: &'static str, copies: u32) {
        self.0.send_modify(|shelf| {
            let book = Arc::new(Book { title, copies, version: shelf.next_version() });
            let known = shelf.books.insert(title, book.clone()).is_some();
            shelf.changes.push(if known { WatchEvent::Modified(book) } else { WatchEvent::Added(book) });
        });
    }

    fn remove(&self, title: &'static str) {
        self.0.send_modify(|shelf| {
            if let Some(book) = shelf.books.remove(title) {
                let copies = book.copies;
                let last = Book { title, copies, version: shelf.next_version() };
                shelf.changes.push(WatchEvent::Deleted(Arc::new(last)));
            }
        });
    }

    fn forget(&self) {
        self.0.send_modify(|shelf| {
            shelf.forgotten = shelf.version();
            shelf.changes.clear();
        });
    }
}

#[async_trait]
impl ListerWatcher<Book> for Library {
    async fn list(&self, _: ListOptions<Book>) -> Result<List<Book>, SourceError> {
        let shelf = self.0.borrow();
        Ok(List::new(shelf.books.values().cloned(), shelf.version() as u64))
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Book>, SourceError> {
        let from: usize = options.resource_version.to_string().parse().map_err(SourceError::other)?;
        let state = (self.0.subscribe(), from);
        Ok(stream::unfold(state, |(mut shelf, version)| async move {
            let event = {
                let shelf = shelf.wait_for(|shelf| shelf.version() > version).await.ok()?;
                match version.checked_sub(shelf.forgotten) {
                    Some(place) => Ok(shelf.changes.get(place)?.clone()),
                    None => Err(SourceError::expired("forgotten")),
                }
            };
            Some((event, (shelf, version.saturating_add(1))))
        })
        .boxed())
    }
}

#[derive(Default)]
struct Printer {
    books: Mutex<BTreeMap<String, u32>>,
    changed: watch::Sender<()>,
}

impl Printer {
    async fn wait_for(&self, title: &str, copies: Option<u32>) {
        let mut changed = self.changed.subscribe();
        while self.books.lock().get(title).copied() != copies && changed.changed().await.is_ok() {}
    }
}

impl Sink<Book> for Printer {
    fn apply(&self, deltas: Deltas<Book>) -> Result<PartialErrors, Error> {
        let mut books = self.books.lock();
        for delta in deltas {
            match delta {
                Delta::ReplacedAll(list) => {
                    println!("listed {} books at version {}", list.objects.len(), list.resource_version);
                    *books = list.objects.iter().map(|b| (b.title.to_owned(), b.copies)).collect();
                }
                Delta::Deleted(tombstone) => {
                    println!("removed {}", tombstone.key());
                    books.remove(tombstone.key().name());
                }
                delta => {
                    let Some(book) = delta.object() else { continue };
                    println!("{} {} ({} copies)", delta.delta_type(), book.title, book.copies);
                    books.insert(book.title.to_owned(), book.copies);
                }
            }
        }
        drop(books);
        self.changed.send_replace(());
        Ok(PartialErrors::default())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), SourceError> {
    let library = Arc::new(Library(watch::Sender::default()));
    library.put("Emma", 2);
    library.put("Persuasion", 1);

    let sink = Arc::new(Printer::default());
    // Short delays: this source is not a shared server.
    let quick = Backoff::exponential(Duration::from_millis(5), Duration::from_secs(1));
    let options = ReflectorOptions::new().backoff(quick);
    let reflector = Reflector::with_options("library", library.clone(), sink.clone(), options);
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let running = tokio::spawn(reflector.run(cancel.clone()));

    handle.wait_for_sync().await?;
    library.put("Emma", 3);
    library.remove("Persuasion");
    sink.wait_for("Persuasion", None).await;
    library.put("Sanditon", 1);
    library.forget();
    library.put("Sanditon", 4);
    sink.wait_for("Sanditon", Some(4)).await;

    cancel.cancel();
    let reason = running.await.map_err(SourceError::other)?;
    println!("stopped: {reason:?}; {} lists, {} events", handle.metrics().lists, handle.metrics().events);
    Ok(())
}
