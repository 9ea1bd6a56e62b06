//! An informer without a cluster: its source is a table of settings that can be listed and watched.
//!
//! One handler receives every change, another only changes of ports. An index finds settings by their service. The
//! program ends by itself.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use kinformer_core::{KeyRef, Object, ResourceVersion};
use kinformer_processor::{Added, EventHandlerFuncs};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions, WatchStream,
};
use kinformer_shared_informer::SharedIndexInformer;
use kinformer_store::IndexFunction;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct Setting {
    service: &'static str,
    name: &'static str,
    value: u32,
    version: u64,
}

impl Object for Setting {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(self.service, self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }
}

/// The settings and their history. A version is the number of changes so far.
#[derive(Default)]
struct Table {
    settings: BTreeMap<(&'static str, &'static str), Arc<Setting>>,
    changes: Vec<WatchEvent<Setting>>,
}

impl Table {
    fn version(&self) -> u64 {
        self.changes.len() as u64
    }
}

struct Settings(watch::Sender<Table>);

impl Settings {
    fn set(&self, service: &'static str, name: &'static str, value: u32) {
        self.0.send_modify(|table| {
            let setting = Arc::new(Setting { service, name, value, version: table.version() + 1 });
            let known = table.settings.insert((service, name), setting.clone()).is_some();
            table.changes.push(if known {
                WatchEvent::Modified(setting)
            } else {
                WatchEvent::Added(setting)
            });
        });
    }

    fn unset(&self, service: &'static str, name: &'static str) {
        self.0.send_modify(|table| {
            if let Some(last) = table.settings.remove(&(service, name)) {
                let last = Setting { service, name, value: last.value, version: table.version() + 1 };
                table.changes.push(WatchEvent::Deleted(Arc::new(last)));
            }
        });
    }
}

#[async_trait]
impl ListerWatcher<Setting> for Settings {
    async fn list(&self, _: ListOptions<Setting>) -> Result<List<Setting>, SourceError> {
        let table = self.0.borrow();
        Ok(List::new(table.settings.values().cloned(), table.version()))
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Setting>, SourceError> {
        let from: usize = options.resource_version.to_string().parse().map_err(SourceError::other)?;
        let changes = stream::unfold((self.0.subscribe(), from), |(mut table, next)| async move {
            let event =
                table.wait_for(|table| table.changes.len() > next).await.ok()?.changes.get(next)?.clone();
            Some((Ok(event), (table, next.saturating_add(1))))
        });
        Ok(changes.boxed())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Arc::new(Settings(watch::Sender::default()));
    settings.set("mail", "port", 25);
    settings.set("mail", "workers", 2);
    settings.set("web", "port", 80);

    let informer = SharedIndexInformer::builder(settings.clone())
        .name("settings")
        .index("service", IndexFunction::by_namespace())
        .build()?;
    let printer = EventHandlerFuncs::new()
        .on_add(|added: &Added<Arc<Setting>>| println!("{} is {}", added.object.key(), added.object.value))
        .on_update(|updated| {
            println!("{} was {} and is {}", updated.new.key(), updated.old.value, updated.new.value);
        })
        .on_delete(|deleted| println!("{} was deleted", deleted.tombstone.key()));
    let printer = informer.handler().name("printer").add(printer)?;
    let ports = informer
        .handler()
        .name("ports")
        .filter(|setting: &Arc<Setting>| setting.name == "port")
        .for_each(|event| println!("a port: {}", event.key()))?;

    let cancel = CancellationToken::new();
    let running = informer.spawn(cancel.clone());
    printer.synced().await?;
    ports.synced().await?;

    // The events are also available as a stream, which starts with all current objects.
    let mut events = informer.stream()?;
    settings.set("mail", "workers", 8);
    settings.unset("web", "port");
    while let Some(event) = events.next().await {
        if informer.get(event.key()).is_none() {
            break;
        }
    }
    let mail = informer.store().by_index("service", "mail")?;
    println!("in the store: {} of mail, {} in all", mail.len(), informer.snapshot().len());

    cancel.cancel();
    running.await??;
    Ok(())
}
