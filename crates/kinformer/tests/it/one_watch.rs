//! Scopes of several namespaces that one watch of all has.

use std::sync::Arc;

use crate::common::{builder, config_map, factory, sign, soon, synced, until, version, watches};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Informer, NamespaceWatches, Scope, WatchReason};
use kinformer_apiserver::{ApiServer, Fault};
use parking_lot::Mutex;
use serde_json::json;

fn name(number: usize) -> String {
    format!("team-{number:02}")
}

fn names(count: usize) -> Scope {
    Scope::namespaces((0..count).map(name))
}

/// A server with namespaces, and a config map in each.
async fn server(namespaces: usize) -> ApiServer {
    let server = ApiServer::builder().request_log(1_000).start().await.unwrap();
    for number in 0..namespaces {
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name(number)}});
        server.create(team).unwrap();
        server.create(config_map(&name(number), "map", "1")).unwrap();
    }
    server
}

/// The namespaces of the requests since the last call, in their order; empty for all namespaces.
fn take_requests(server: &ApiServer) -> Vec<String> {
    let requests = server.requests().resource("configmaps");
    let namespaces = requests.iter().map(|request| request.namespace.clone()).collect();
    server.clear_requests();
    namespaces
}

async fn set(maps: &Informer<ConfigMap>, scope: &Scope) {
    maps.set_scope(scope).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
}

type Events = Arc<Mutex<Vec<String>>>;

fn record(informer: &Informer<ConfigMap>) -> Events {
    let events = Events::default();
    let log = events.clone();
    let handler = informer.handler().inline();
    handler.for_each(move |event| log.lock().push(format!("{}{}", sign(&event), event.key()))).unwrap();
    events
}

/// Returns the events since the last call, sorted.
async fn take(events: &Events, count: usize) -> Vec<String> {
    until(|| events.lock().len() >= count).await.unwrap();
    let mut taken = std::mem::take(&mut *events.lock());
    taken.sort();
    taken
}

fn watched(maps: &Informer<ConfigMap>) -> NamespaceWatches {
    maps.status().namespace_watches().unwrap()
}

/// A namespace that comes is listed by itself, and one that leaves costs no request.
// contract: D-16a, D-16b, D-16c
#[tokio::test]
async fn namespaces_of_one_watch_come_and_go() {
    let server = server(4).await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    assert_eq!(maps.status().namespace_watches(), None);
    let events = record(&maps);
    maps.set_scope(&names(2).one_watch()).await.unwrap();
    synced(&factory).await;
    assert_eq!(take(&events, 2).await, ["+team-00/map", "+team-01/map"]);
    watches(&server, 1).await;
    assert!(take_requests(&server).iter().all(String::is_empty));
    assert_eq!(watched(&maps), NamespaceWatches::One(WatchReason::Requested));
    assert_eq!(maps.selection().scope(), "team-00,team-01");
    server.update(config_map("team-02", "map", "2")).unwrap();
    server.update(config_map("team-01", "map", "2")).unwrap();
    assert_eq!(take(&events, 1).await, ["=team-01/map"]);
    set(&maps, &Scope::namespaces([name(1), name(2)]).one_watch()).await;
    assert_eq!(take(&events, 2).await, ["+team-02/map", "oteam-00/map"]);
    watches(&server, 2).await;
    assert!(take_requests(&server).iter().all(|namespace| namespace == "team-02"));
    let seen = [1, 2].map(|number| server.update(config_map(&name(number), "map", "3")).unwrap());
    for (map, namespace) in seen.iter().zip([name(1), name(2)]) {
        maps.wait_for((&*namespace, "map"), &version(map)).until(soon()).await.unwrap();
    }
    let hidden = version(&server.update(config_map("team-00", "map", "3")).unwrap());
    assert!(maps.wait_for(("team-00", "map"), &hidden).await.is_err());
    server.delete("v1", "ConfigMap", "team-01", "map").unwrap();
    assert_eq!(take(&events, 3).await, ["-team-01/map", "=team-01/map", "=team-02/map"]);
    set(&maps, &Scope::namespaces([name(1), name(2)]).watch_each()).await;
    assert_eq!(watched(&maps), NamespaceWatches::Each(WatchReason::Requested));
    watches(&server, 2).await;
    assert!(take_requests(&server).iter().all(|namespace| namespace == "team-01"));
    set(&maps, &Scope::all()).await;
    assert_eq!(maps.status().namespace_watches(), None);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// New namespaces have watches of their own until there are many; then all are listed again by one.
// contract: D-16c
#[tokio::test]
async fn many_new_namespaces_are_listed_by_one() {
    let server = server(20).await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    maps.set_scope(&names(2).one_watch()).await.unwrap();
    let events = record(&maps);
    synced(&factory).await;
    for count in 3..=18 {
        set(&maps, &names(count).one_watch()).await;
    }
    watches(&server, 17).await;
    assert_eq!(take(&events, 18).await.len(), 18);
    take_requests(&server);
    set(&maps, &names(19).one_watch()).await;
    watches(&server, 1).await;
    assert!(take_requests(&server).iter().all(String::is_empty));
    assert_eq!(take(&events, 1).await, ["+team-18/map"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// One watch is chosen if there are many namespaces that have most of the objects, and given up when few are left.
// contract: D-16d
#[tokio::test]
async fn one_watch_is_chosen_by_its_cost() {
    let server = server(40).await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    factory.set_scope(&names(31)).await.unwrap();
    synced(&factory).await;
    watches(&server, 31).await;
    assert_eq!(watched(&maps), NamespaceWatches::Each(WatchReason::FewNamespaces));
    take(&events, 31).await;
    set(&maps, &names(32)).await;
    assert!(
        matches!(watched(&maps), NamespaceWatches::One(WatchReason::Objects(40..))),
        "{}",
        watched(&maps)
    );
    assert_eq!(take(&events, 1).await, ["+team-31/map"]);
    watches(&server, 1).await;
    // A factory that begins with a scope.
    let secrets = factory.core().v1().secrets();
    factory.set_scope(&names(33)).await.unwrap();
    synced(&factory).await;
    assert_eq!(secrets.status().namespace_watches(), Some(NamespaceWatches::One(WatchReason::Objects(0))));
    assert_eq!(take(&events, 1).await, ["+team-32/map"]);
    factory.set_scope(&names(15)).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
    assert_eq!(watched(&maps), NamespaceWatches::Each(WatchReason::FewNamespaces));
    assert!(take(&events, 18).await.iter().all(|event| event.starts_with('o')));
    watches(&server, 30).await;
    // With a selector the server does not say how many objects it has.
    maps.set_scope(&names(32).labels("value=1")).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
    assert_eq!(watched(&maps), NamespaceWatches::Each(WatchReason::UnknownCost));
    assert_eq!(take(&events, 17).await.len(), 17);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Without the right to read all namespaces, from the beginning or later, each has a watch, and no error.
// contract: D-16e
#[tokio::test]
async fn namespaces_are_watched_each_without_the_right_to_read_all() {
    let server = server(33).await;
    let refused = || server.faults().inject(Fault::forbidden().resource("configmaps").namespace("").always());
    let fault = refused();
    let factory = builder(&server).build();
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    maps.set_scope(&names(32)).await.unwrap();
    synced(&factory).await;
    maps.wait_for_scope().until(soon()).await.unwrap();
    assert_eq!(watched(&maps), NamespaceWatches::Each(WatchReason::Refused));
    assert_eq!(take(&events, 32).await.len(), 32);
    watches(&server, 32).await;
    assert!(maps.status().parts().iter().all(|part| part.reflector().last_error().is_none()));
    // It is not asked again for a namespace more.
    server.faults().remove(fault);
    set(&maps, &names(33)).await;
    assert_eq!(watched(&maps), NamespaceWatches::Each(WatchReason::Refused));
    assert_eq!(take(&events, 1).await, ["+team-32/map"]);
    // A right that is taken away.
    set(&maps, &names(20)).await;
    set(&maps, &names(33)).await;
    assert!(matches!(watched(&maps), NamespaceWatches::One(WatchReason::Objects(_))));
    watches(&server, 1).await;
    take(&events, 26).await;
    refused();
    server.drop_watches();
    until(|| watched(&maps) == NamespaceWatches::Each(WatchReason::Refused)).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
    let seen = version(&server.update(config_map("team-07", "map", "2")).unwrap());
    maps.wait_for(("team-07", "map"), &seen).until(soon()).await.unwrap();
    assert_eq!(take(&events, 1).await, ["=team-07/map"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// One watch that was requested has the refusal as its error.
// contract: D-16e
#[tokio::test]
async fn requested_watch_that_is_refused_is_an_error() {
    let server = server(2).await;
    server.faults().inject(Fault::forbidden().resource("configmaps").namespace("").always());
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    maps.set_scope(&names(2).one_watch()).await.unwrap();
    factory.start().unwrap();
    let error = || maps.status().parts()[0].reflector().last_error();
    until(|| error().is_some_and(|error| error.to_string().contains("403"))).await.unwrap();
    assert_eq!(watched(&maps), NamespaceWatches::One(WatchReason::Requested));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}
