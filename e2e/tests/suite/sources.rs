//! Healthy servers that are not kube-apiserver: client-go's informer, kinformer's and the reference reflector of the
//! simulation, at the same time.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use e2e::{InformerProgram, Line, programs};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kinformer::generic::{ListOptions, ListerWatcher, WatchEvent, WatchOptions};
use kinformer::{
    CancellationToken, Event, KeyRef, KubeListerWatcher, Object as _, PackedObject, ResourceVersion,
    SharedIndexInformer, SourceError,
};
use kinformer_simulation::reference::{Reference, Stored};
use kinformer_testing::fake_source::Versions;
use kinformer_testing::scripted_http::{Answer, Request, ScriptedServer};
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::recorder::{BOUND, check, until};

/// The reference reflector behaves as client-go on these too.
const WITH_REFERENCE: [Versions; 5] =
    [Versions::Server, Versions::None, Versions::PerObject, Versions::Replayed, Versions::LastUpdate];

/// Keys and the contents of their objects.
type Contents = BTreeMap<String, String>;

/// The type of an event, the key, and the content of the object.
type Delivered = (&'static str, String, String);

/// An event for each change, in the order of the changes, by client-go's informer and by kinformer's, on each server of the
/// table in `docs/reliability.md` that has other versions. Both have the server's objects after each change.
// contract: I-03, R-16c, R-17g, R-17h, R-17j
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthy_servers_beside_client_go() {
    let others = [Versions::HighestItem, Versions::Constant];
    let worlds = WITH_REFERENCE.into_iter().chain(others).map(|versions| tokio::spawn(follow(versions)));
    for world in worlds.collect::<Vec<_>>() {
        world.await.unwrap();
    }
}

async fn follow(versions: Versions) {
    let source = FakeSource::new().without_watch_list().versions(versions);
    for name in ["a", "b", "c"] {
        source.apply(item(name, 1));
    }
    let mut world = World::start(source.clone(), versions).await;
    world.wait_until_equal("the first list").await;
    world.apply("d", 1).await;
    world.delete("d").await;
    world.delete("b").await;
    // No deletion is the last event of a watch: client-go would continue at its version, which may be lower than those of
    // other events, and deliver them again. kinformer never moves back (R-08c).
    world.apply("a", 2).await;
    world.next_watches_after(FakeSource::disconnect).await;
    world.delete("a").await;
    world.apply("c", 2).await;
    // A list has to follow, unless the versions of watches are ignored. The version of the highest item would stay expired.
    if versions == Versions::HighestItem {
        world.next_watches_after(FakeSource::disconnect).await;
    } else {
        source.tick();
        world.next_watches_after(FakeSource::disconnect_and_compact).await;
    }
    world.apply("c", 3).await;
    world.apply("end", 1).await;
    world.compare().await;
}

fn item(name: &str, value: u64) -> Item {
    Item::of(&format!("default/{name}"), 0, value)
}

/// Three followers of one source, each with a server of its own before it.
struct World {
    versions: Versions,
    source: FakeSource<Item>,
    client_go: InformerProgram,
    kinformer: SharedIndexInformer<PackedObject>,
    events: Arc<Mutex<Vec<Delivered>>>,
    reference: Option<Stored<PackedObject>>,
    /// The servers of client-go, kinformer and the reference.
    servers: [ScriptedServer; 3],
    tasks: Vec<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn start(source: FakeSource<Item>, versions: Versions) -> Self {
        let servers = [serve(&source).await, serve(&source).await, serve(&source).await];
        let [for_client_go, for_kinformer, for_reference] = &servers;
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, for_client_go);
        let program = programs::client_go(&kubeconfig, ["v1/pods"]).unwrap();
        let client_go = InformerProgram::start("client-go", program).unwrap();

        let kinformer = SharedIndexInformer::new(pods(for_kinformer)).unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let recorded = events.clone();
        kinformer
            .handler()
            .inline()
            .for_each(move |event| recorded.lock().push(delivered(event.clone())))
            .unwrap();
        let running = kinformer.clone();
        let mut tasks = vec![tokio::spawn(async move { _ = running.run(CancellationToken::new()).await })];
        let reference = WITH_REFERENCE.contains(&versions).then(|| {
            let reference = Reference::new(pods(for_reference), true, Duration::from_secs(300));
            let stored = reference.stored();
            tasks.push(tokio::spawn(reference.run()));
            stored
        });
        Self { versions, source, client_go, kinformer, events, reference, servers, tasks, _folder: folder }
    }

    async fn apply(&mut self, name: &str, value: u64) {
        self.source.apply(item(name, value));
        self.wait_until_equal(&format!("{name} {value}")).await;
    }

    async fn delete(&mut self, name: &str) {
        self.source.delete(KeyRef::new("default", name));
        self.wait_until_equal(&format!("no {name}")).await;
    }

    /// Ends all watches by `end`, and waits for the next ones.
    async fn next_watches_after(&self, end: fn(&FakeSource<Item>)) {
        let followers = 2 + usize::from(self.reference.is_some());
        let before = self.source.requests().1;
        end(&self.source);
        until("the next watches", || {
            let (watches, open) = (self.source.requests().1 - before, self.source.open_watches());
            check(open == followers && watches >= followers as u64, (self.versions, watches, open))
        })
        .await;
    }

    /// Waits until all followers have the objects of the source.
    async fn wait_until_equal(&mut self, after: &str) {
        let objects = self.source.decodable();
        let expected: Contents =
            objects.values().map(|item| (item.key().to_string(), item.value.to_string())).collect();
        let what = format!("{:?}: {after}", self.versions);
        let equal = |lines: &[Line]| state(&of_client_go(lines)) == expected;
        self.client_go.until(&what, BOUND, equal).await.unwrap();
        until(&what, || {
            let stored = contents(self.kinformer.snapshot().iter().cloned());
            check(stored == expected && state(&self.events.lock()) == expected, stored)
        })
        .await;
        if let Some(reference) = &self.reference {
            until(&what, || {
                let stored = contents(reference.lock().values().cloned());
                check(stored == expected, stored)
            })
            .await;
        }
    }

    /// Compares the events, and the requests of the reference with those of client-go.
    async fn compare(self) {
        for task in &self.tasks {
            task.abort();
        }
        let [client_go, _, reference] = self.servers.each_ref().map(|server| server.log().texts());
        let is_alike = self.reference.is_none() || reference == client_go;
        assert!(is_alike, "{:?}\nreference: {reference:?}\nclient-go: {client_go:?}", self.versions);

        let theirs = of_client_go(&self.client_go.stop().await.unwrap());
        let ours = self.events.lock().clone();
        // On purpose: a list or a watch that repeats an object is no update (I-06). client-go delivers one.
        let (theirs, repeated) = without_repetitions(theirs);
        assert_eq!(repeated > 0, self.versions != Versions::HighestItem, "{:?}: {theirs:?}", self.versions);
        assert_eq!(without_repetitions(ours.clone()), (ours.clone(), 0), "{:?}", self.versions);
        assert_eq!(ours, theirs, "{:?}", self.versions);
        assert_eq!(ours.len(), 11, "an event for each change: {ours:?}");
    }
}

/// Returns the state after events, which must be possible.
fn state(events: &[Delivered]) -> Contents {
    let mut state = Contents::new();
    for event @ (what, key, content) in events {
        let was_known = match *what {
            "delete" => state.remove(key).is_some(),
            _ => state.insert(key.clone(), content.clone()).is_some(),
        };
        assert_eq!(was_known, *what != "add", "{event:?} of {events:?}");
    }
    state
}

/// Removes the updates that leave the content as it was. Returns their number too.
fn without_repetitions(events: Vec<Delivered>) -> (Vec<Delivered>, usize) {
    let all = events.len();
    let mut known = Contents::new();
    let mut changes = events;
    changes.retain(|(what, key, content)| {
        let before = known.insert(key.clone(), content.clone());
        *what != "update" || before.as_ref() != Some(content)
    });
    let repeated = all - changes.len();
    (changes, repeated)
}

fn of_client_go(lines: &[Line]) -> Vec<Delivered> {
    let event = |line: &Line| {
        let what = match line {
            Line::Add(_) => "add",
            Line::Update(_) => "update",
            Line::Delete(_) => "delete",
            Line::Synced { .. } | Line::Stopped(_) => return None,
        };
        let event = line.object_event()?;
        Some((what, event.key.clone(), event.content.clone().unwrap_or_default()))
    };
    lines.iter().filter_map(event).collect()
}

fn delivered(event: Event<Arc<PackedObject>>) -> Delivered {
    let (what, object) = match event {
        Event::Added(added) => ("add", added.object),
        Event::Updated(updated) => ("update", updated.new),
        Event::Deleted(deleted) => ("delete", deleted.tombstone.into_object().unwrap()),
        event => panic!("{event:?}"),
    };
    (what, object.key().to_string(), content(&object))
}

fn content(object: &PackedObject) -> String {
    object.label("content").unwrap_or_default().to_owned()
}

fn contents(objects: impl Iterator<Item = Arc<PackedObject>>) -> Contents {
    objects.map(|object| (object.key().to_string(), content(&object))).collect()
}

fn pods(server: &ScriptedServer) -> KubeListerWatcher<PackedObject> {
    KubeListerWatcher::packed::<Pod>(kinformer::client(server.config()).unwrap())
}

fn write_kubeconfig(path: &Path, server: &ScriptedServer) {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", server.address())}}],
        "users": [{"name": "c", "user": {}}]});
    std::fs::write(path, config.to_string()).unwrap();
}

/// Serves a source over HTTP, as pods.
async fn serve(source: &FakeSource<Item>) -> ScriptedServer {
    let source = source.clone();
    ScriptedServer::http(
        move |request| if request.is_watch() { watch(&source, request) } else { list(&source, request) },
    )
    .await
}

fn list(source: &FakeSource<Item>, request: &Request) -> Answer {
    let mut options = ListOptions::at_version(request.version());
    options.limit = request.limit().and_then(|limit| NonZeroU32::new(limit.try_into().unwrap()));
    options.continue_token = request.continue_token().map(str::to_owned);
    // A source in memory answers at once.
    match source.list(options).now_or_never().unwrap() {
        Ok(list) => Answer::json(&json!({"kind": "PodList", "apiVersion": "v1",
            "metadata": {"resourceVersion": list.resource_version.to_string(), "continue": list.continue_token},
            "items": list.objects.iter().map(|item| pod(item)).collect::<Vec<_>>()})),
        Err(error) => refused(&error),
    }
}

fn watch(source: &FakeSource<Item>, request: &Request) -> Answer {
    let timeout = request.param("timeoutSeconds").map_or(300, |seconds| seconds.parse().unwrap());
    let mut options = WatchOptions::from(request.version(), Duration::from_secs(timeout));
    options.send_initial_events = request.is_watch_list();
    let mut events = match source.watch(options).now_or_never().unwrap() {
        Ok(events) => events,
        Err(error) => return refused(&error),
    };
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(Ok(event)) = events.next().await {
            if sender.send(format!("{}\n", wire(event)).into()).await.is_err() {
                return;
            }
        }
    });
    Answer::watch([]).then_received(pieces)
}

fn refused(error: &SourceError) -> Answer {
    let status = error.status().unwrap();
    Answer::failure(status.code, &status.reason)
}

fn wire(event: WatchEvent<Item>) -> Value {
    let (what, object) = match event {
        WatchEvent::Added(item) => ("ADDED", pod(&item)),
        WatchEvent::Modified(item) => ("MODIFIED", pod(&item)),
        WatchEvent::Deleted(item) => ("DELETED", pod(&item)),
        WatchEvent::Bookmark { version, .. } => (
            "BOOKMARK",
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}}),
        ),
        event => panic!("{event:?}"),
    };
    json!({"type": what, "object": object})
}

fn pod(item: &Item) -> Value {
    let version: ResourceVersion = item.resource_version();
    json!({"kind": "Pod", "apiVersion": "v1", "spec": {"containers": []}, "metadata": {
        "namespace": item.namespace, "name": item.name, "uid": item.name, "resourceVersion": version.to_string(),
        "labels": {"content": item.value.to_string()}}})
}
