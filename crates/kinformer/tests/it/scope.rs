//! Informers whose scope changes while they run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{builder, config_map, factory, sign, soon, synced, until, version, watches};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kinformer::{Error, FixedScope, Informer, InformerError, KeyRef, Scope};
use kinformer_apiserver::{ApiServer, Fault, Verb};
use parking_lot::Mutex;
use serde_json::json;

async fn namespaces(names: &[&str]) -> ApiServer {
    let server = ApiServer::builder().request_log(1_000).start().await.unwrap();
    for namespace in names {
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(team).unwrap();
        server.create(config_map(namespace, "map", "1")).unwrap();
    }
    server
}

fn keys(informer: &Informer<ConfigMap>) -> Vec<String> {
    informer.snapshot().unwrap().ordered().iter().map(|map| map.key().to_string()).collect()
}

fn record(informer: &Informer<ConfigMap>) -> Arc<Mutex<Vec<String>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = events.clone();
    let handler = informer.handler().inline();
    handler.for_each(move |event| log.lock().push(format!("{}{}", sign(&event), event.key()))).unwrap();
    events
}

/// The namespaces of the lists and of the watches since the last call.
fn take_requests(server: &ApiServer) -> BTreeSet<String> {
    let requests = server.requests().resource("configmaps");
    let namespaces = requests.iter().map(|request| request.namespace.clone()).collect();
    server.clear_requests();
    namespaces
}

/// A namespace more is requested by itself, and one less is no request.
// contract: D-09a
#[tokio::test]
async fn only_new_namespaces_are_requested() {
    let server = namespaces(&["team-a", "team-b", "team-c"]).await;
    let factory = builder(&server).namespaces(["team-a"]).build();
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    synced(&factory).await;
    watches(&server, 1).await;
    take_requests(&server);
    maps.set_scope(&Scope::namespaces(["team-a", "team-b"])).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
    assert_eq!(keys(&maps), ["team-a/map", "team-b/map"]);
    watches(&server, 2).await;
    assert_eq!(take_requests(&server), BTreeSet::from(["team-b".to_owned()]));
    assert_eq!(maps.selection().scope(), "team-a,team-b");
    assert!(maps.selection().has_namespace("team-b") && !maps.selection().has_namespace("team-c"));
    maps.set_scope(&Scope::namespaces(["team-b"])).await.unwrap();
    assert_eq!(keys(&maps), ["team-b/map"]);
    watches(&server, 1).await;
    assert!(take_requests(&server).is_empty());
    until(|| events.lock().len() == 3).await.unwrap();
    assert_eq!(*events.lock(), ["+team-a/map", "+team-b/map", "oteam-a/map"]);
    let changed = server.update(config_map("team-b", "map", "2")).unwrap();
    maps.wait_for(("team-b", "map"), &version(&changed)).until(soon()).await.unwrap();
    factory.shutdown().await.unwrap();
    watches(&server, 0).await;
    server.shutdown().await;
}

/// All namespaces become some and none, and all again.
// contract: D-02b, D-04a, D-09a
#[tokio::test]
async fn scope_is_all_some_or_none() {
    let server = namespaces(&["team-a", "team-b"]).await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    synced(&factory).await;
    until(|| events.lock().len() == 2).await.unwrap();
    events.lock().clear();
    maps.set_scope(&Scope::namespaces(["team-a"])).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
    assert_eq!(keys(&maps), ["team-a/map"]);
    maps.set_scope(&Scope::namespaces([""; 0])).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
    assert!(keys(&maps).is_empty() && maps.has_synced());
    watches(&server, 0).await;
    maps.set_scope(&Scope::all()).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
    assert_eq!(keys(&maps), ["team-a/map", "team-b/map"]);
    until(|| events.lock().len() == 4).await.unwrap();
    events.lock()[2..].sort();
    assert_eq!(*events.lock(), ["oteam-b/map", "oteam-a/map", "+team-a/map", "+team-b/map"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: D-09b, D-09c
#[tokio::test]
async fn scope_of_a_factory_applies_to_all_informers() {
    let server = namespaces(&["team-a", "team-b"]).await;
    let factory = factory(&server);
    let (maps, nodes) = (factory.core().v1().config_maps(), factory.informer::<Node>());
    synced(&factory).await;
    factory.set_scope(&Scope::namespaces(["team-b"])).await.unwrap();
    assert_eq!(keys(&maps), ["team-b/map"]);
    let secrets = factory.core().v1().secrets();
    assert_eq!(secrets.selection().scope(), "team-b");
    let refused = nodes.set_scope(&Scope::all()).await;
    assert!(
        matches!(&refused, Err(Error::FixedScope { reason: FixedScope::ClusterScoped, .. })),
        "{refused:?}"
    );
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

async fn set(maps: &Informer<ConfigMap>, scope: &Scope) {
    maps.set_scope(scope).await.unwrap();
    maps.wait_for_scope().until(soon()).await.unwrap();
}

/// Returns the events since the last call, sorted.
async fn take(events: &Mutex<Vec<String>>, count: usize) -> Vec<String> {
    until(|| events.lock().len() >= count).await.unwrap();
    let mut taken = std::mem::take(&mut *events.lock());
    taken.sort();
    taken
}

/// All but some namespaces are one list and one watch. The server leaves out the others.
// contract: D-12a
#[tokio::test]
async fn scope_is_all_but_some() {
    let server = namespaces(&["team-a", "team-b", "team-c"]).await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    synced(&factory).await;
    take(&events, 3).await;
    set(&maps, &Scope::all_but(["team-a", "team-c"])).await;
    assert_eq!(keys(&maps), ["team-b/map"]);
    assert!(maps.selection().has_namespace("team-d") && !maps.selection().has_namespace("team-c"));
    watches(&server, 1).await;
    let hidden = server.update(config_map("team-a", "map", "2")).unwrap();
    let seen = server.update(config_map("team-b", "map", "2")).unwrap();
    maps.wait_for(("team-b", "map"), &version(&seen)).until(soon()).await.unwrap();
    assert!(maps.wait_for(("team-a", "map"), &version(&hidden)).await.is_err());
    set(&maps, &Scope::all_but(["team-c"])).await;
    assert_eq!(keys(&maps), ["team-a/map", "team-b/map"]);
    assert_eq!(take(&events, 4).await, ["+team-a/map", "=team-b/map", "oteam-a/map", "oteam-c/map"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// With other selectors, objects that match no longer leave, and are not deleted. What still matches is not delivered again.
// contract: D-12b
#[tokio::test]
async fn scope_has_selectors() {
    let server = namespaces(&["team-a", "team-b"]).await;
    for (name, app) in [("web", "web"), ("db", "db"), ("both", "web")] {
        let labels = json!({"app": app, "name": name});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "team-a", "labels": labels}});
        server.create(map).unwrap();
    }
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    synced(&factory).await;
    take(&events, 5).await;
    set(&maps, &Scope::all().labels("app=web")).await;
    assert_eq!(take(&events, 3).await, ["oteam-a/db", "oteam-a/map", "oteam-b/map"]);
    set(&maps, &Scope::namespaces(["team-a"]).labels("name in (both, db)")).await;
    assert_eq!(take(&events, 2).await, ["+team-a/db", "oteam-a/web"]);
    set(&maps, &Scope::namespaces(["team-a"]).fields("metadata.name=db")).await;
    assert_eq!(take(&events, 1).await, ["oteam-a/both"]);
    assert_eq!(maps.selection().scope(), "team-a fields metadata.name=db");
    set(&maps, &Scope::namespaces(["team-a"])).await;
    assert_eq!(take(&events, 3).await, ["+team-a/both", "+team-a/map", "+team-a/web"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

fn labelled(namespace: &str, team: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {"team": team}}})
}

/// The scope follows the labels of namespaces.
// contract: D-12c
#[tokio::test]
async fn scope_follows_namespaces() {
    let server = namespaces(&["team-a", "team-b", "team-c"]).await;
    server.update(labelled("team-a", "x")).unwrap();
    server.update(labelled("team-c", "x")).unwrap();
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    let following = tokio::spawn(factory.follow_namespaces("team=x", Scope::all_but(["team-c"])).unwrap());
    synced(&factory).await;
    assert_eq!(take(&events, 1).await, ["+team-a/map"]);
    server.update(labelled("team-b", "x")).unwrap();
    assert_eq!(take(&events, 1).await, ["+team-b/map"]);
    server.update(labelled("team-a", "y")).unwrap();
    assert_eq!(take(&events, 1).await, ["oteam-a/map"]);
    assert!(take_requests(&server).iter().all(|namespace| namespace == "team-a" || namespace == "team-b"));
    assert!(matches!(factory.follow_namespaces("=", Scope::all()), Err(Error::Selector(_))));
    factory.shutdown().await.unwrap();
    following.await.unwrap().unwrap();
    server.shutdown().await;
}

/// Informers that run keep their scope until the namespaces are known.
// contract: D-12e
#[tokio::test]
async fn running_informers_follow_namespaces() {
    let server = namespaces(&["team-a", "team-b"]).await;
    server.update(labelled("team-a", "x")).unwrap();
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    synced(&factory).await;
    assert_eq!(take(&events, 2).await, ["+team-a/map", "+team-b/map"]);
    let following = tokio::spawn(factory.follow_namespaces("team=x", Scope::all()).unwrap());
    factory.start().unwrap();
    assert_eq!(take(&events, 1).await, ["oteam-b/map"]);
    assert_eq!(keys(&maps), ["team-a/map"]);
    factory.shutdown().await.unwrap();
    following.await.unwrap().unwrap();
    server.shutdown().await;
}

/// A namespace whose rights are taken away is a state of its part, one that is deleted is none, and neither stops another.
// contract: D-05a, D-14a
#[tokio::test]
async fn refused_and_deleted_namespaces_stop_no_other() {
    let server = namespaces(&["team-a", "team-b", "team-c"]).await;
    let factory = builder(&server).namespaces(["team-a", "team-b", "team-c"]).build();
    let maps = factory.core().v1().config_maps();
    synced(&factory).await;
    watches(&server, 3).await;
    server.faults().inject(Fault::forbidden().resource("configmaps").namespace("team-b").always());
    server.delete("v1", "Namespace", "", "team-c").unwrap();
    server.drop_watches();
    let error = |number: usize| maps.status().parts()[number].reflector().last_error();
    until(|| error(1).is_some_and(|error| error.to_string().contains("403"))).await.unwrap();
    watches(&server, 2).await;
    let changed = server.update(config_map("team-a", "map", "2")).unwrap();
    maps.wait_for(("team-a", "map"), &version(&changed)).until(soon()).await.unwrap();
    assert_eq!(keys(&maps), ["team-a/map", "team-b/map"]);
    set(&maps, &Scope::namespaces(["team-a"])).await;
    assert_eq!((keys(&maps), maps.status().parts().len()), (vec!["team-a/map".to_owned()], 1));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A deleted namespace stays in scope until its objects are deleted one by one, and until the last of these events has arrived.
// contract: D-14b
#[tokio::test]
async fn followed_namespace_is_deleted() {
    let often = Duration::from_millis(10);
    let server = ApiServer::builder().bookmark_interval(often).start().await.unwrap();
    server.create(labelled("team-a", "x")).unwrap();
    server.create(config_map("team-a", "map", "1")).unwrap();
    let mut last = config_map("team-a", "last", "1");
    last["metadata"]["finalizers"] = json!(["example.com/last"]);
    server.create(last).unwrap();
    let factory = factory(&server);
    let (maps, namespaces) = (factory.core().v1().config_maps(), factory.metadata::<Namespace>());
    let events = record(&maps);
    let following = tokio::spawn(factory.follow_namespaces("team=x", Scope::all()).unwrap());
    synced(&factory).await;
    assert_eq!(take(&events, 2).await, ["+team-a/last", "+team-a/map"]);
    server.delete("v1", "Namespace", "", "team-a").unwrap();
    assert_eq!(take(&events, 2).await, ["-team-a/map", "=team-a/last"]);
    let part = maps.status().parts()[0].clone();
    // Refused, so that the events do not arrive yet.
    server.faults().inject(Fault::too_many_requests(1).resource("configmaps").always());
    server.drop_watches();
    until(|| server.faults().fired() > 0).await.unwrap();
    server.update(config_map("team-a", "last", "2")).unwrap();
    until(|| !namespaces.snapshot().unwrap().contains(KeyRef::named("team-a"))).await.unwrap();
    assert_eq!((keys(&maps), maps.status().parts().len()), (vec!["team-a/last".to_owned()], 1));
    server.faults().clear();
    until(|| maps.status().parts().is_empty()).await.unwrap();
    assert_eq!(take(&events, 1).await, ["-team-a/last"]);
    let code = part.reflector().last_error().and_then(|error| error.status().map(|status| status.code));
    assert!(!matches!(code, Some(403 | 404)), "{code:?}");
    // It may be created again.
    server.create(labelled("team-a", "x")).unwrap();
    server.create(config_map("team-a", "map", "1")).unwrap();
    assert_eq!(take(&events, 1).await, ["+team-a/map"]);
    factory.shutdown().await.unwrap();
    following.await.unwrap().unwrap();
    server.shutdown().await;
}

/// A part that does not reach the version of the deletion leaves the scope after a time.
// contract: D-14b
#[tokio::test]
async fn deleted_namespace_that_is_refused_leaves() {
    let server = namespaces(&[]).await;
    server.create(labelled("team-a", "x")).unwrap();
    server.create(config_map("team-a", "map", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    let following = tokio::spawn(factory.follow_namespaces("team=x", Scope::all()).unwrap());
    synced(&factory).await;
    assert_eq!(take(&events, 1).await, ["+team-a/map"]);
    server.faults().inject(Fault::forbidden().resource("configmaps").always());
    server.drop_watches();
    let error = || maps.status().parts()[0].reflector().last_error();
    until(|| error().is_some_and(|error| error.to_string().contains("403"))).await.unwrap();
    server.delete("v1", "Namespace", "", "team-a").unwrap();
    let namespaces = factory.metadata::<Namespace>();
    until(|| !namespaces.snapshot().unwrap().contains(KeyRef::named("team-a"))).await.unwrap();
    assert_eq!(maps.status().parts().len(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(90)).await;
    tokio::time::resume();
    until(|| maps.status().parts().is_empty()).await.unwrap();
    assert_eq!(take(&events, 1).await, ["oteam-a/map"]);
    factory.shutdown().await.unwrap();
    following.await.unwrap().unwrap();
    server.shutdown().await;
}

/// The objects of a namespace of a set are deleted with it. Its part goes on, with an empty list.
// contract: D-14a
#[tokio::test]
async fn deleted_namespace_of_a_set_is_no_error() {
    let server = namespaces(&["team-a", "team-b"]).await;
    let factory = builder(&server).namespaces(["team-a", "team-b"]).build();
    let maps = factory.core().v1().config_maps();
    let events = record(&maps);
    synced(&factory).await;
    assert_eq!(take(&events, 2).await, ["+team-a/map", "+team-b/map"]);
    server.delete("v1", "Namespace", "", "team-b").unwrap();
    assert_eq!(take(&events, 1).await, ["-team-b/map"]);
    let part = maps.status().parts()[1].clone();
    let listed = || part.reflector().metrics().lists + part.reflector().metrics().watch_lists;
    let before = listed();
    server.faults().inject(Fault::expired().on(Verb::Watch).namespace("team-b").times(1));
    server.drop_watches();
    until(|| listed() > before).await.unwrap();
    watches(&server, 2).await;
    let code = part.reflector().last_error().and_then(|error| error.status().map(|status| status.code));
    assert!(!matches!(code, Some(403 | 404)), "{code:?}");
    assert_eq!((keys(&maps), maps.status().parts().len()), (vec!["team-a/map".to_owned()], 2));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A wait for a write ends when the namespace leaves the scope, with an error that names the key.
// contract: D-08b
#[tokio::test]
async fn wait_ends_when_its_namespace_leaves() {
    let server = namespaces(&["team-a", "team-b"]).await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    synced(&factory).await;
    set(&maps, &Scope::namespaces(["team-a", "team-b"])).await;
    server.faults().inject(Fault::stall().resource("configmaps").namespace("team-b").always());
    server.drop_watches();
    until(|| server.faults().fired() > 0).await.unwrap();
    let written = version(&server.update(config_map("team-b", "map", "2")).unwrap());
    let waiting = maps.wait_for(("team-b", "map"), &written).until(soon());
    let leaves = async {
        tokio::task::yield_now().await;
        maps.set_scope(&Scope::namespaces(["team-a"])).await
    };
    let (waited, left) = tokio::join!(waiting, leaves);
    left.unwrap();
    let error = waited.unwrap_err();
    assert!(matches!(error, Error::Informer(InformerError::VersionNotReached { .. })), "{error:?}");
    assert!(error.to_string().contains("team-b/map"), "{error}");
    let again = maps.wait_for(("team-b", "map"), &written).until(soon()).await.unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Without the right to list namespaces, their informer has the error; the other informers are synced and empty.
// contract: D-12d
#[tokio::test]
async fn namespaces_that_are_refused_are_a_state() {
    let server = namespaces(&["team-a"]).await;
    server.faults().inject(Fault::forbidden().resource("namespaces").always());
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let following = factory.follow_namespaces("team=x", Scope::all()).unwrap();
    let following = tokio::spawn(following);
    factory.start().unwrap();
    maps.wait_for_sync().until(soon()).await.unwrap();
    let namespaces = factory.metadata::<Namespace>();
    let error = || namespaces.status().parts()[0].reflector().last_error();
    until(|| error().is_some_and(|error| error.to_string().contains("403"))).await.unwrap();
    assert!(keys(&maps).is_empty() && take_requests(&server).is_empty());
    factory.shutdown().await.unwrap();
    following.await.unwrap().unwrap();
    server.shutdown().await;
}
