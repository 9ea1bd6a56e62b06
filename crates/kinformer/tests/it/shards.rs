//! Informers of a shard, whose ranges change while they run.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{config_map, factory, sign, soon, synced, until, version, watches};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Informer, Scope, ShardField, ShardSelector};
use kinformer_apiserver::{ApiServer, ShardSelectors};
use parking_lot::Mutex;

const END: u128 = 1 << 64;
const MAPS: usize = 64;

async fn server(selectors: ShardSelectors) -> ApiServer {
    let server = ApiServer::builder().request_log(1_000).shard_selectors(selectors).start().await.unwrap();
    for number in 0..MAPS {
        server.create(config_map("default", &format!("m{number:02}"), "1")).unwrap();
    }
    server
}

fn shard(range: std::ops::Range<u128>) -> ShardSelector {
    ShardSelector::one(ShardField::Uid, range)
}

/// The objects of a shard on the server.
fn expected(all: &Informer<ConfigMap>, shard: &ShardSelector) -> BTreeSet<String> {
    let maps = all.snapshot().unwrap();
    let maps = maps.iter().filter(|map| shard.matches(map.uid().unwrap_or_default()));
    maps.map(|map| map.key().to_string()).collect()
}

fn keys(informer: &Informer<ConfigMap>) -> BTreeSet<String> {
    informer.snapshot().unwrap().iter().map(|map| map.key().to_string()).collect()
}

type Events = Arc<Mutex<Vec<(char, String)>>>;

fn record(informer: &Informer<ConfigMap>) -> Events {
    let events = Events::default();
    let log = events.clone();
    let handler = informer.handler().inline();
    handler.for_each(move |event| log.lock().push((sign(&event), event.key().to_string()))).unwrap();
    events
}

fn take(events: &Events, sign: char) -> BTreeSet<String> {
    let events = std::mem::take(&mut *events.lock());
    let count = events.len();
    let keys: BTreeSet<String> =
        events.into_iter().filter(|event| event.0 == sign).map(|event| event.1).collect();
    assert_eq!(keys.len(), count, "other or double events");
    keys
}

/// The number of requests since the last call.
fn take_requests(server: &ApiServer) -> usize {
    let requests = server.requests().resource("configmaps").len();
    server.clear_requests();
    requests
}

/// Ranges that are added are listed by one request, and those that leave by none; from a server that honours the selectors as
/// from one that ignores them.
// contract: D-15a, D-15b, D-15c
#[tokio::test]
async fn ranges_come_and_go() {
    for selectors in [ShardSelectors::Honoured, ShardSelectors::Ignored] {
        let server = server(selectors).await;
        let (everything, sharded) = (factory(&server), factory(&server));
        let (all, maps) = (everything.core().v1().config_maps(), sharded.core().v1().config_maps());
        maps.set_scope(&Scope::shard(shard(0..END / 2))).await.unwrap();
        let events = record(&maps);
        synced(&everything).await;
        synced(&sharded).await;
        let first = expected(&all, &shard(0..END / 2));
        assert_eq!(keys(&maps), first);
        until(|| events.lock().len() == first.len()).await.unwrap();
        assert_eq!(take(&events, '+'), first);
        watches(&server, 2).await;
        take_requests(&server);

        let wide = shard(0..END / 4 * 3);
        maps.set_scope(&Scope::shard(wide.clone()).at_least("1")).await.unwrap();
        maps.wait_for_scope().until(soon()).await.unwrap();
        assert_eq!(keys(&maps), expected(&all, &wide));
        let added = expected(&all, &shard(END / 2..END / 4 * 3));
        until(|| events.lock().len() == added.len()).await.unwrap();
        assert_eq!(take(&events, '+'), added);
        watches(&server, 3).await;
        assert_eq!(take_requests(&server), 1, "a watch-list");

        let narrow = shard(END / 4..END / 8 * 5);
        maps.set_scope(&Scope::shard(narrow.clone())).await.unwrap();
        assert_eq!(keys(&maps), expected(&all, &narrow));
        let left: BTreeSet<String> = &expected(&all, &wide) - &keys(&maps);
        until(|| events.lock().len() == left.len()).await.unwrap();
        assert_eq!(take(&events, 'o'), left);
        assert_eq!(take_requests(&server), 0);

        // of the objects that have left, nothing is delivered any more
        for number in 0..MAPS {
            server.update(config_map("default", &format!("m{number:02}"), "2")).unwrap();
        }
        let last = server.create(config_map("default", "last", "1")).unwrap();
        all.wait_for(("default", "last"), &version(&last)).until(soon()).await.unwrap();
        let now = expected(&all, &narrow);
        until(|| events.lock().len() >= now.len() && keys(&maps) == now).await.unwrap();
        let delivered: BTreeSet<String> = events.lock().iter().map(|event| event.1.clone()).collect();
        assert_eq!(delivered, now);
        assert_eq!(maps.status().parts().len(), 2);

        maps.set_scope(&Scope::shard(ShardSelector::default())).await.unwrap();
        assert!(keys(&maps).is_empty() && maps.has_synced());
        maps.set_scope(&Scope::all()).await.unwrap();
        maps.wait_for_scope().until(soon()).await.unwrap();
        assert_eq!(keys(&maps).len(), MAPS + 1);
        sharded.shutdown().await.unwrap();
        everything.shutdown().await.unwrap();
        server.shutdown().await;
    }
}

/// An object that is deleted, and created again with a UID of another shard.
// contract: D-15d
#[tokio::test]
async fn an_object_that_returns_in_another_shard() {
    let server = server(ShardSelectors::Ignored).await;
    let (everything, sharded) = (factory(&server), factory(&server));
    let (all, maps) = (everything.core().v1().config_maps(), sharded.core().v1().config_maps());
    let half = shard(0..END / 2);
    // two parts, so that objects also return in another part
    maps.set_scope(&Scope::shard(shard(0..END / 4))).await.unwrap();
    synced(&everything).await;
    synced(&sharded).await;
    maps.set_scope(&Scope::shard(half.clone())).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
    for round in 0..4 {
        for number in 0..MAPS {
            let name = format!("m{number:02}");
            server.delete("v1", "ConfigMap", "default", &name).unwrap();
            server.create(config_map("default", &name, &format!("{round}"))).unwrap();
        }
        let last = server.update(config_map("default", "m00", "last")).unwrap();
        all.wait_for(("default", "m00"), &version(&last)).until(soon()).await.unwrap();
        until(|| keys(&maps) == expected(&all, &half)).await.unwrap();
    }
    sharded.shutdown().await.unwrap();
    everything.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Many changes of the ranges leave a bounded number of watches.
// contract: D-15e
#[tokio::test]
async fn parts_are_bounded() {
    let server = server(ShardSelectors::Honoured).await;
    let (everything, sharded) = (factory(&server), factory(&server));
    let (all, maps) = (everything.core().v1().config_maps(), sharded.core().v1().config_maps());
    maps.set_scope(&Scope::shard(ShardSelector::default())).await.unwrap();
    synced(&everything).await;
    synced(&sharded).await;
    for step in 1..=32 {
        let wide = shard(0..END / 32 * step);
        maps.set_scope(&Scope::shard(wide.clone())).await.unwrap();
        maps.wait_for_scope().until(soon()).await.unwrap();
        assert_eq!(keys(&maps), expected(&all, &wide));
        assert!(maps.status().parts().len() <= 8);
    }
    sharded.shutdown().await.unwrap();
    everything.shutdown().await.unwrap();
    server.shutdown().await;
}
