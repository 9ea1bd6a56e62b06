//! An informer of pods that follows a scripted server, and its result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Added, Event, Object, SharedIndexInformer, SharedIndexInformerBuilder, Updated};
use kinformer_kube::KubeListerWatcher;
use kinformer_reflector::ListerWatcher;
use kinformer_testing::reentrant;
use kinformer_testing::scripted_http::{Answer, Request, in_process_client};
use kube_client::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The objects by name: version and value.
pub(crate) type State = BTreeMap<String, (String, String)>;

pub(crate) struct Followed {
    pub(crate) requests: Vec<Request>,
    /// The contents of the store at the end.
    pub(crate) store: State,
    /// The events of a handler: `add a@5=x`, `update a@6=y`, `delete a`.
    pub(crate) events: Vec<String>,
    /// The errors passed to the error hook.
    pub(crate) errors: Vec<String>,
    pub(crate) synced: bool,
}

pub(crate) fn state(objects: &[(&str, u64, &str)]) -> State {
    let entry = |(name, version, value): &(&str, u64, &str)| {
        ((*name).to_owned(), (version.to_string(), (*value).to_owned()))
    };
    objects.iter().map(entry).collect()
}

/// Follows the server for this time, with each form of objects. Both must have the same result.
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

/// As [`follow_with`], with changes to the builder.
pub(crate) async fn follow_built<T: Object, S: ListerWatcher<T> + 'static>(
    time: Duration,
    script: impl FnMut(&Request) -> Answer + Send + 'static,
    source: impl FnOnce(Client) -> S,
    build: impl FnOnce(SharedIndexInformerBuilder<T>) -> SharedIndexInformerBuilder<T>,
) -> Followed {
    let (client, requests) = in_process_client(script);
    let (events, errors) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
    let hook = errors.clone();
    let informer = build(SharedIndexInformer::builder(source(client)))
        .on_error(move |failure| hook.lock().push(failure.error.to_string()))
        .build()
        .unwrap();
    let recorder = events.clone();
    informer.handler().inline().for_each(move |event| recorder.lock().push(described(event))).unwrap();
    // Runs in each log call, on another thread. A lock that is held there fails the test.
    reentrant::install();
    let checked = informer.clone();
    let _check =
        reentrant::add_check(move || drop((checked.metrics(), checked.snapshot(), format!("{checked:?}"))));
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
    Followed { requests: requests.all(), store, events, errors, synced }
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
    /// Asserts that no more lists and watches were started than the contract allows: 10 in any 10 s, 30 in any minute.
    pub(crate) fn assert_request_limit(&self) -> &Self {
        // Later pages of a list do not count.
        let started: Vec<_> =
            self.requests.iter().filter(|r| r.continue_token().is_none()).map(|r| r.at).collect();
        for (window, most) in [(Duration::from_secs(10), 10), (Duration::from_secs(60), 30)] {
            for (first, from) in started.iter().enumerate() {
                let within = started.iter().skip(first).take_while(|at| **at < *from + window).count();
                assert!(
                    within <= most,
                    "{within} requests in {window:?} from {from:?} on: {:#?}",
                    self.requests
                );
            }
        }
        self
    }

    /// Asserts that an error with this text was reported.
    #[track_caller]
    pub(crate) fn assert_reported(&self, text: &str) -> &Self {
        assert!(
            self.errors.iter().any(|error| error.contains(text)),
            "{text:?} is not in {:#?}",
            self.errors
        );
        self
    }

    /// The intervals between requests.
    pub(crate) fn intervals(&self) -> Vec<Duration> {
        self.requests.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
    }
}
