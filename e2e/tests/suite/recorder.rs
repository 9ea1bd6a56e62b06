//! Compares an informer of this process with the server: its store, and the events delivered to its handler.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kinformer::{
    Added, Deleted, Event, Failure, KubeObject, Object, Recovery, ResourceVersion, Tombstone, Updated,
};
use kube_client::Client;
use kube_core::{DynamicObject, ObjectList};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::mode::{Informer, Kind, KubeEvent, assert_negotiated_encodings, content};

/// The timeout of every wait.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// Polls until `poll` succeeds, since another process does not notify this one.
pub(crate) async fn eventually<T, F>(what: &str, mut poll: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + BOUND;
    loop {
        match poll().await {
            Ok(answer) => return answer,
            Err(seen) if Instant::now() >= deadline => panic!("{what}, not within {BOUND:?}: {seen}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// The same as [`eventually`], for a function that is not async.
pub(crate) async fn until(what: &str, mut poll: impl FnMut() -> Result<(), String>) {
    eventually(what, || std::future::ready(poll())).await;
}

/// Returns an error with `seen` unless the condition holds.
pub(crate) fn check(holds: bool, seen: impl Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{seen:?}")) }
}

/// Keys and the versions of their objects.
pub(crate) type State = BTreeMap<String, String>;

/// Keys and their objects, as JSON.
type Objects = BTreeMap<String, Value>;

/// Lists the objects of the server under this path, which may have a query.
async fn server<K: Kind>(client: &Client, path: &str) -> Result<(State, Objects), String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let list = client.request::<ObjectList<KubeObject<K>>>(request).await;
    Ok(state_of(&list.map_err(|error| error.to_string())?.items))
}

/// Waits until the server's watch cache is current. An initial list that is not a watch-list is served from the cache,
/// which may lag behind.
pub(crate) async fn cached(client: &Client, path: &str) {
    let cache = format!("{path}{}resourceVersion=0", if path.contains('?') { '&' } else { '?' });
    eventually("the server's watch cache is current", || async {
        let newest = server::<DynamicObject>(client, path).await?.0;
        let cached = server::<DynamicObject>(client, &cache).await?.0;
        check(cached == newest, (&cached, &newest))
    })
    .await;
}

fn state_of<K: Kind>(objects: &[impl Borrow<KubeObject<K>>]) -> (State, Objects) {
    let objects = || objects.iter().map(|object| (object.borrow().key().to_string(), object.borrow()));
    let state = objects().map(|(key, object)| (key, object.resource_version().to_string())).collect();
    (state, objects().map(|(key, object)| (key, content(object))).collect())
}

/// A handler that records all events.
pub(crate) struct Recorder<K> {
    events: Arc<Mutex<Vec<KubeEvent<K>>>>,
}

impl<K: Kind> Recorder<K> {
    pub(crate) fn of(informer: &Informer<K>) -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let recorded = events.clone();
        informer.on_event(move |event| recorded.lock().push(event));
        Self { events }
    }

    pub(crate) fn events(&self) -> Vec<KubeEvent<K>> {
        self.events.lock().clone()
    }

    /// Returns the events of one object.
    pub(crate) fn events_of(&self, key: &str) -> Vec<KubeEvent<K>> {
        self.events().into_iter().filter(|event| event.key().to_string() == key).collect()
    }

    /// Returns the number of objects in the initial list.
    pub(crate) fn initial(&self) -> usize {
        let initial =
            |event: &&KubeEvent<K>| matches!(event, Event::Added(Added { in_initial_list: true, .. }));
        self.events.lock().iter().filter(initial).count()
    }

    /// Returns the state that follows from the events, and checks their order. The versions of an object must increase,
    /// also across a deletion. The old state of an update must be the last delivered state. Added objects must be
    /// unknown, updated and deleted ones known.
    pub(crate) fn state(&self) -> State {
        let mut present: BTreeMap<String, ResourceVersion> = BTreeMap::new();
        let mut newest: BTreeMap<String, ResourceVersion> = BTreeMap::new();
        for (number, event) in self.events().iter().enumerate() {
            let key = event.key().to_string();
            let wrong = |why: &str| {
                let events: Vec<_> = self.events_of(&key).iter().map(describe).collect();
                panic!("event {number} is {why}; events of {key}: {events:#?}")
            };
            let known = present.get(&key).cloned();
            let version = match event {
                Event::Added(Added { object, .. }) => {
                    known.is_some().then(|| wrong("an addition of a known object"));
                    object.resource_version()
                }
                Event::Updated(Updated { old, new, .. }) => {
                    (known != Some(old.resource_version())).then(|| wrong("an update of another state"));
                    new.resource_version()
                }
                Event::Deleted(Deleted { tombstone: Tombstone::FinalState(object), .. }) => {
                    known.is_none().then(|| wrong("a deletion of an unknown object"));
                    object.resource_version()
                }
                Event::Deleted(Deleted { tombstone, .. }) => {
                    let last_known = tombstone.object().map(|object| object.resource_version());
                    (known.is_none() || last_known != known).then(|| wrong("a deletion of another state"));
                    newest.remove(&key);
                    last_known.unwrap_or_default()
                }
                Event::Left(_) => unreachable!("the scope is fixed"),
            };
            if newest
                .get(&key)
                .is_some_and(|newest| version.compare(newest) != Some(std::cmp::Ordering::Greater))
            {
                wrong("not newer than the previous one");
            }
            newest.insert(key.clone(), version.clone());
            match event {
                Event::Deleted(_) => present.remove(&key),
                Event::Added(_) | Event::Updated(_) => present.insert(key, version),
                Event::Left(_) => unreachable!("the scope is fixed"),
            };
        }
        present.into_iter().map(|(key, version)| (key, version.to_string())).collect()
    }
}

/// Describes an event without its objects.
fn describe<T: Object>(event: &Event<Arc<T>>) -> String {
    match event {
        Event::Added(Added { object, in_initial_list, .. }) => {
            format!("added {}, in initial list: {in_initial_list}", object.resource_version())
        }
        Event::Updated(Updated { old, new, .. }) => {
            format!("updated {} -> {}", old.resource_version(), new.resource_version())
        }
        Event::Deleted(Deleted { tombstone: Tombstone::FinalState(object), .. }) => {
            format!("deleted {}", object.resource_version())
        }
        Event::Deleted(_) => "deleted, final state unknown".into(),
        Event::Left(_) => unreachable!("the scope is fixed"),
    }
}

/// Waits until store, handler and server have the same state, and then compares the objects of store and server.
pub(crate) async fn equal<K: Kind>(
    informer: &Informer<K>,
    recorder: &Recorder<K>,
    client: &Client,
    path: &str,
) {
    eventually("store, handler and server have the same state", || async {
        let (server, objects) = server::<K>(client, path).await?;
        let ((store, stored), delivered) = (state_of::<K>(&informer.objects()), recorder.state());
        check(
            store == server && delivered == server,
            (("server", &server), ("store", &store), ("delivered", &delivered)),
        )?;
        for (key, object) in objects {
            assert_eq!(stored[&key], object, "{key}");
        }
        Ok(())
    })
    .await;
    assert_negotiated_encodings();
}

/// The recorded failures of lists and watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(Arc<Mutex<Vec<Problem>>>);

#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) text: String,
    pub(crate) code: Option<u16>,
    pub(crate) expired: bool,
    pub(crate) recovery: Recovery,
}

impl Problems {
    /// Returns the error hook for a factory.
    pub(crate) fn hook(&self) -> impl Fn(&Failure<'_>) + Send + Sync + 'static {
        let problems = self.0.clone();
        move |failure| {
            problems.lock().push(Problem {
                text: failure.error.to_string(),
                code: failure.error.status().map(|status| status.code),
                expired: failure.error.is_expired(),
                recovery: failure.recovery,
            });
        }
    }

    pub(crate) fn all(&self) -> Vec<Problem> {
        self.0.lock().clone()
    }

    /// Returns how often the server no longer had the requested version.
    pub(crate) fn expired(&self) -> u64 {
        self.0.lock().iter().filter(|problem| problem.expired).count() as u64
    }
}
