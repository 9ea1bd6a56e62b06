//! What the tests with an informer in their own process judge it by: what its handlers were told, and the server.

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

use crate::mode::{Informer, Kind, KubeEvent, answers_were_as_asked, whole};

/// How long anything may take.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// Asks until the answer is good; the server is a process of somebody else, and there is nothing to be woken by.
pub(crate) async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + BOUND;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(seen) if Instant::now() >= deadline => panic!("{what}, not within {BOUND:?}: {seen}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// As [`eventually`], for what needs no waiting to be asked.
pub(crate) async fn until(what: &str, mut good: impl FnMut() -> Result<(), String>) {
    eventually(what, || std::future::ready(good())).await;
}

/// An error that says this, unless it holds.
pub(crate) fn check(holds: bool, seen: impl Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{seen:?}")) }
}

/// Keys and the versions of their objects.
pub(crate) type State = BTreeMap<String, String>;

/// Keys and whole objects.
type Objects = BTreeMap<String, Value>;

/// What the server has now, under this path; it may have a query.
async fn server<K: Kind>(client: &Client, path: &str) -> Result<(State, Objects), String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let list = client.request::<ObjectList<KubeObject<K>>>(request).await;
    Ok(taken_down(&list.map_err(|error| error.to_string())?.items))
}

/// Waits until the server's cache has what there is. A first list that is no watch-list comes from there, and the
/// cache may be a moment behind.
pub(crate) async fn cached(client: &Client, path: &str) {
    let cache = format!("{path}{}resourceVersion=0", if path.contains('?') { '&' } else { '?' });
    eventually("the server's cache has what there is", || async {
        let newest = server::<DynamicObject>(client, path).await?.0;
        let cached = server::<DynamicObject>(client, &cache).await?.0;
        check(cached == newest, (&cached, &newest))
    })
    .await;
}

fn taken_down<K: Kind>(objects: &[impl Borrow<KubeObject<K>>]) -> (State, Objects) {
    let objects = || objects.iter().map(|object| (object.borrow().key().to_string(), object.borrow()));
    let state = objects().map(|(key, object)| (key, object.resource_version().to_string())).collect();
    (state, objects().map(|(key, object)| (key, whole(object))).collect())
}

/// A handler that remembers everything.
pub(crate) struct Witness<K> {
    events: Arc<Mutex<Vec<KubeEvent<K>>>>,
}

impl<K: Kind> Witness<K> {
    pub(crate) fn of(informer: &Informer<K>) -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        informer.tell(move |event| told.lock().push(event));
        Self { events }
    }

    pub(crate) fn events(&self) -> Vec<KubeEvent<K>> {
        self.events.lock().clone()
    }

    /// What it was told of one object.
    pub(crate) fn events_of(&self, key: &str) -> Vec<KubeEvent<K>> {
        self.events().into_iter().filter(|event| event.key().to_string() == key).collect()
    }

    /// How many objects the first list brought.
    pub(crate) fn initial(&self) -> usize {
        let initial =
            |event: &&KubeEvent<K>| matches!(event, Event::Added(Added { in_initial_list: true, .. }));
        self.events.lock().iter().filter(initial).count()
    }

    /// The state that it was told. Time must not have gone backwards for any object: each version is newer than the
    /// one before, also over a deletion; an update's old state is the one told last; what is added was not there,
    /// what is updated or deleted was.
    pub(crate) fn state(&self) -> State {
        let mut present: BTreeMap<String, ResourceVersion> = BTreeMap::new();
        let mut newest: BTreeMap<String, ResourceVersion> = BTreeMap::new();
        for (at, event) in self.events().iter().enumerate() {
            let key = event.key().to_string();
            let wrong = |why: &str| {
                let told: Vec<_> = self.events_of(&key).iter().map(short).collect();
                panic!("event {at} is {why}; of {key} was told: {told:#?}")
            };
            let told = present.get(&key).cloned();
            let version = match event {
                Event::Added(Added { object, .. }) => {
                    told.is_some().then(|| wrong("an addition of what was there"));
                    object.resource_version()
                }
                Event::Updated(Updated { old, new, .. }) => {
                    (told != Some(old.resource_version())).then(|| wrong("an update of another state"));
                    new.resource_version()
                }
                Event::Deleted(Deleted { tombstone: Tombstone::FinalState(object), .. }) => {
                    told.is_none().then(|| wrong("a deletion of what was not there"));
                    object.resource_version()
                }
                Event::Deleted(Deleted { tombstone, .. }) => {
                    let last_known = tombstone.object().map(|object| object.resource_version());
                    (told.is_none() || last_known != told).then(|| wrong("a deletion of another state"));
                    newest.remove(&key);
                    last_known.unwrap_or_default()
                }
                _ => unreachable!("not known to this test"),
            };
            if newest
                .get(&key)
                .is_some_and(|newest| version.compare(newest) != Some(std::cmp::Ordering::Greater))
            {
                wrong("not newer than the one before");
            }
            newest.insert(key.clone(), version.clone());
            match event {
                Event::Deleted(_) => present.remove(&key),
                Event::Added(_) | Event::Updated(_) => present.insert(key, version),
                _ => unreachable!("not known to this test"),
            };
        }
        present.into_iter().map(|(key, version)| (key, version.to_string())).collect()
    }
}

/// What an event says without its objects.
fn short<T: Object>(event: &Event<Arc<T>>) -> String {
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
        _ => unreachable!("not known to this test"),
    }
}

/// Waits until store, handler and server have the same state. Then the store's objects are the server's, whole.
pub(crate) async fn equal<K: Kind>(
    informer: &Informer<K>,
    witness: &Witness<K>,
    client: &Client,
    path: &str,
) {
    eventually("store, handler and server have the same state", || async {
        let (server, objects) = server::<K>(client, path).await?;
        let ((store, stored), told) = (taken_down::<K>(&informer.objects()), witness.state());
        check(store == server && told == server, (("server", &server), ("store", &store), ("told", &told)))?;
        for (key, object) in objects {
            assert_eq!(stored[&key], object, "{key}");
        }
        Ok(())
    })
    .await;
    answers_were_as_asked();
}

/// What went wrong with lists and watches.
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
    /// What is told to a factory.
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

    /// How often the server no longer had the version that was asked for.
    pub(crate) fn expired(&self) -> u64 {
        self.0.lock().iter().filter(|problem| problem.expired).count() as u64
    }
}
