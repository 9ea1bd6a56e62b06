//! Handlers and streams of the typed view.

use std::sync::Arc;

use crate::common::{config_map, factory, server, soon, synced, until, version};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Added, AsyncEventHandler, Deleted, Packed, PartId, Updated};
use parking_lot::Mutex;

/// Counts its own events, so that every event must be delivered to the same handler.
struct Counting {
    events: usize,
    received: Arc<Mutex<Vec<String>>>,
}

impl Counting {
    async fn receive(&mut self, event: String) {
        self.events += 1;
        tokio::task::yield_now().await;
        assert!(event != "+panic", "a handler that panics");
        self.received.lock().push(format!("{} {event}", self.events));
    }
}

impl AsyncEventHandler<Packed<ConfigMap>> for Counting {
    async fn on_add(&mut self, added: Added<Packed<ConfigMap>>) {
        self.receive(format!("+{}", added.object.name())).await;
    }

    async fn on_update(&mut self, updated: Updated<Packed<ConfigMap>>) {
        self.receive(format!("={}", updated.new.name())).await;
    }

    async fn on_delete(&mut self, deleted: Deleted<Packed<ConfigMap>>) {
        self.receive(format!("-{}", deleted.tombstone.key().name())).await;
    }
}

// contract: P-09b, P-12
#[tokio::test]
async fn async_handler_with_methods_gets_every_event() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let received = Arc::<Mutex<Vec<String>>>::default();
    let handler = Counting { events: 0, received: received.clone() };
    let registration = maps.handler().add_async(handler).unwrap();
    assert!(registration.metrics().name.contains("Counting"), "{}", registration.metrics().name);
    synced(&factory).await;
    for name in ["a", "panic", "b"] {
        server.create(config_map("default", name, "1")).unwrap();
    }
    server.update(config_map("default", "a", "2")).unwrap();
    let deleted = server.delete("v1", "ConfigMap", "default", "b").unwrap();
    maps.wait_for(PartId::ONLY, &version(&deleted)).until(soon()).await.unwrap();
    until(|| received.lock().len() >= 4).await.unwrap();
    assert_eq!(*received.lock(), ["1 +a", "3 +b", "4 =a", "5 -b"]);
    assert_eq!(registration.metrics().panics, 1);
    tokio::time::timeout_at(soon(), registration.remove()).await.unwrap();
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: P-12
#[tokio::test]
async fn stream_is_named_after_its_caller() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let (line, stream) = (line!(), maps.stream().unwrap());
    let expected = format!("stream at {}:{line}", file!());
    assert_eq!(&*stream.registration().metrics().name, expected);
    let mut named = maps.handler().name("mine").stream().unwrap();
    assert_eq!(&*named.registration().metrics().name, "mine");
    factory.shutdown().await.unwrap();
    assert!(named.next().await.is_none());
    server.shutdown().await;
}
