//! An informer of pods that follows a scripted server, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Added, Event, Object, SharedIndexInformer, SharedIndexInformerBuilder, Updated};
use kinformer_kube::KubeListerWatcher;
use kinformer_reflector::ListerWatcher;
use kinformer_testing::reentrant;
use kube_client::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::server::{Answer, Log, Request, client};

/// The objects by name: version and value.
pub(crate) type State = BTreeMap<String, (String, String)>;

pub(crate) struct Followed {
    pub(crate) requests: Vec<Request>,
    /// What the store has at the end.
    pub(crate) store: State,
    /// What a handler has received: `add a@5=x`, `update a@6=y`, `delete a`.
    pub(crate) events: Vec<String>,
    /// What the error hook has received.
    pub(crate) errors: Vec<String>,
    pub(crate) synced: bool,
}

pub(crate) fn state(objects: &[(&str, u64, &str)]) -> State {
    let entry = |(name, version, value): &(&str, u64, &str)| {
        ((*name).to_owned(), (version.to_string(), (*value).to_owned()))
    };
    objects.iter().map(entry).collect()
}

/// Follows the server for so long, with each form of objects; both have to come to the same.
pub(crate) async fn follow<S, F>(time: Duration, script: S) -> Followed
where
    S: Fn() -> F,
    F: FnMut(&Request) -> Answer + Send + 'static,
{
    let packed = follow_with(time, script(), KubeListerWatcher::packed::<Pod>).await;
    let eager = follow_with(time, script(), KubeListerWatcher::<Pod>::new).await;
    assert_eq!(packed.store, eager.store);
    assert_eq!(packed.events, eager.events);
    packed
}

pub(crate) async fn follow_with<T: Object, S: ListerWatcher<T> + 'static>(
    time: Duration,
    script: impl FnMut(&Request) -> Answer + Send + 'static,
    source: impl FnOnce(Client) -> S,
) -> Followed {
    follow_built(time, script, source, |builder| builder).await
}

/// As [`follow_with`], with an informer that is built in another way.
pub(crate) async fn follow_built<T: Object, S: ListerWatcher<T> + 'static>(
    time: Duration,
    script: impl FnMut(&Request) -> Answer + Send + 'static,
    source: impl FnOnce(Client) -> S,
    build: impl FnOnce(SharedIndexInformerBuilder<T>) -> SharedIndexInformerBuilder<T>,
) -> Followed {
    let (client, log): (Client, Log) = client(script);
    let (events, errors) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
    let hook = errors.clone();
    let informer = build(SharedIndexInformer::builder(source(client)))
        .on_error(move |failure| hook.lock().push(failure.error.to_string()))
        .build()
        .unwrap();
    let heard = events.clone();
    informer.handler().inline().for_each(move |event| heard.lock().push(described(event))).unwrap();
    // From each log call, on another thread: a lock that is held then would fail the test.
    reentrant::install();
    let asked = informer.clone();
    let _asked =
        reentrant::add_check(move || drop((asked.metrics(), asked.snapshot(), format!("{asked:?}"))));
    let cancel = CancellationToken::new();
    let task = informer.spawn(cancel.clone());
    tokio::time::sleep(time).await;
    let synced = informer.has_synced();
    let entry = |object: &Arc<T>| {
        (object.key().name().to_owned(), (object.resource_version().to_string(), value(&**object)))
    };
    let store = informer.snapshot().list().iter().map(entry).collect();
    cancel.cancel();
    task.await.unwrap().unwrap();
    assert_eq!(reentrant::blocked_checks(), [""; 0]);
    let (events, errors) = (events.lock().clone(), errors.lock().clone());
    Followed { requests: log.all(), store, events, errors, synced }
}

fn value(object: &impl Object) -> String {
    object.labels().find(|(label, _)| *label == "value").map_or("", |(_, value)| value).to_owned()
}

fn described<K: Object>(event: &Event<Arc<K>>) -> String {
    let name = event.key().name().to_owned();
    let is = |object: &K| format!("{name}@{}={}", object.resource_version(), value(object));
    match event {
        Event::Added(Added { object, .. }) => format!("add {}", is(object)),
        Event::Updated(Updated { new, .. }) => format!("update {}", is(new)),
        Event::Deleted(_) => format!("delete {name}"),
        _ => unreachable!("not known to this test"),
    }
}

impl Followed {
    /// No more lists and watches were begun than the contract allows: 10 in any 10 s, 30 in any minute.
    pub(crate) fn was_gentle(&self) -> &Self {
        // A page of a list that has begun is not another list.
        let begun: Vec<_> =
            self.requests.iter().filter(|r| r.continue_token.is_none()).map(|r| r.at).collect();
        for (window, most) in [(Duration::from_secs(10), 10), (Duration::from_secs(60), 30)] {
            for (first, from) in begun.iter().enumerate() {
                let within = begun.iter().skip(first).take_while(|at| **at < *from + window).count();
                assert!(
                    within <= most,
                    "{within} requests in {window:?} from {from:?} on: {:#?}",
                    self.requests
                );
            }
        }
        self
    }

    /// Some error was reported that contains the text.
    #[track_caller]
    pub(crate) fn reported(&self, text: &str) -> &Self {
        assert!(
            self.errors.iter().any(|error| error.contains(text)),
            "{text:?} is not in {:#?}",
            self.errors
        );
        self
    }

    /// The intervals between requests that begin a list or a watch.
    pub(crate) fn intervals(&self) -> Vec<Duration> {
        self.requests.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
    }
}
