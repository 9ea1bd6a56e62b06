//! The recorder of events.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ObjectReference;
use kinformer::SharedInformerFactory;
use kinformer_controller::events::{EventRecorder, EventType, NewEvent};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::{Action, CancellationToken, Controller, Manager};
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// As a status code: no response, without an end.
const HANGS: u16 = 1;
/// 409, since there is an event with this name. Another 409 is a conflict, such as that of a quota.
const EXISTS: u16 = 2;

/// Answers requests with the given status codes, 0 for no answer, then with success.
struct Server {
    client: Client,
    requests: mpsc::Receiver<(Method, String, Value)>,
}

impl Server {
    fn new(codes: &[u16]) -> Self {
        let codes = Arc::new(Mutex::new(codes.iter().rev().copied().collect::<Vec<_>>()));
        let (sender, requests) = mpsc::channel(10_000);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (codes, sender) = (codes.clone(), sender.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let sent: Value = serde_json::from_slice(&body).unwrap();
                sender.try_send((head.method, head.uri.path().to_owned(), sent.clone())).unwrap();
                let code = codes.lock().pop().unwrap_or(200);
                let body = match code {
                    200 => json!({"metadata": {}, "eventTime": null}),
                    0 => return Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                    HANGS => std::future::pending().await,
                    EXISTS => {
                        json!({"status": "Failure", "code": 409, "message": "", "reason": "AlreadyExists"})
                    }
                    code => json!({"status": "Failure", "code": code, "message": "", "reason": ""}),
                };
                let response = Response::builder().status(if code == EXISTS { 409 } else { code });
                let response = if code == 429 { response.header("retry-after", "3") } else { response };
                Ok::<_, io::Error>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
            }
        });
        Self { client: Client::new(service, "default"), requests }
    }

    /// The method, the path and the body of the next request.
    async fn next(&mut self) -> (Method, String, Value) {
        self.requests.recv().await.unwrap()
    }

    /// No request follows without the passage of time.
    async fn is_quiet(&mut self) -> bool {
        sleep(Duration::from_millis(1)).await;
        self.requests.try_recv().is_err()
    }
}

fn object(namespace: Option<&str>) -> ObjectReference {
    ObjectReference {
        kind: Some("Foo".to_owned()),
        name: Some("a".to_owned()),
        namespace: namespace.map(str::to_owned),
        uid: Some("1".to_owned()),
        ..ObjectReference::default()
    }
}

fn report(recorder: &EventRecorder, object: &ObjectReference) {
    recorder.event(object, EventType::Warning, "Failed", "Reconcile", "it failed");
}

/// The first event is created, the second one makes it a series, later ones are counted; the series is refreshed and
/// finished.
// contract: K-16a, K-16b
#[tokio::test(start_paused = true)]
async fn equal_events_are_a_series() {
    let mut server = Server::new(&[]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let foo = object(Some("apps"));
    report(&recorder, &foo);
    let (method, path, event) = server.next().await;
    assert_eq!((method, &*path), (Method::POST, "/apis/events.k8s.io/v1/namespaces/apps/events"));
    let name = event["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("a."), "{name}");
    assert_eq!(event["regarding"], json!({"kind": "Foo", "name": "a", "namespace": "apps", "uid": "1"}));
    assert_eq!([&event["reportingController"], &event["reportingInstance"]], ["example.com/test", "test-1"]);
    assert_eq!([&event["type"], &event["reason"], &event["action"]], ["Warning", "Failed", "Reconcile"]);
    assert_eq!([&event["note"], &event["metadata"]["namespace"]], ["it failed", "apps"]);
    assert!(event["eventTime"].is_string() && event.get("series").is_none(), "{event}");

    report(&recorder, &foo);
    let patched = (Method::PATCH, format!("/apis/events.k8s.io/v1/namespaces/apps/events/{name}"));
    let (method, path, patch) = server.next().await;
    assert_eq!((method, path), patched);
    assert_eq!(patch["series"]["count"], 2);
    assert!(patch["series"]["lastObservedTime"].is_string(), "{patch}");
    assert_eq!(patch.as_object().unwrap().len(), 1, "{patch}");
    // Ten events at intervals shorter than 6 minutes, until the series is refreshed.
    for _ in 0..10 {
        report(&recorder, &foo);
        assert!(server.is_quiet().await);
        sleep(Duration::from_secs(170)).await;
    }
    for _ in 0..2 {
        // First the refresh after 30 minutes, then the end.
        let (method, path, patch) = server.next().await;
        assert_eq!(((method, path), &patch["series"]["count"]), (patched.clone(), &json!(12)));
    }
    assert!(server.is_quiet().await);
    sleep(Duration::from_secs(3600)).await;
    assert!(server.is_quiet().await, "it is finished");
    report(&recorder, &foo);
    assert_eq!(server.next().await.0, Method::POST, "a new event");
}

/// Another object, related object, type, reason or action is another event, and another version of the object is not. A cluster-scoped object's is in `default`.
// contract: K-16a, K-16c
#[tokio::test(start_paused = true)]
async fn different_events_are_no_series() {
    let mut server = Server::new(&[]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let node = object(None);
    let changed = ObjectReference { resource_version: Some("2".to_owned()), ..node.clone() };
    let related = NewEvent::new(&node, EventType::Normal, "Failed", "Reconcile", "");
    let long = "é".repeat(600); // 1,200 bytes
    recorder.event(&node, EventType::Normal, "Failed", "Reconcile", &long);
    recorder.publish(related.related(&changed).annotation("a", "1"));
    recorder.event(&node, EventType::Warning, "Failed", "Reconcile", "");
    recorder.event(&node, EventType::Normal, "Done", "Reconcile", "");
    recorder.event(&node, EventType::Normal, "Failed", "Delete", "");
    let (.., first) = server.next().await;
    assert_eq!(first["note"].as_str().unwrap().len(), 1024);
    for number in 0..4 {
        let (method, path, event) = server.next().await;
        assert_eq!((method, &*path), (Method::POST, "/apis/events.k8s.io/v1/namespaces/default/events"));
        if number == 0 {
            assert_eq!(
                [&event["related"]["resourceVersion"], &event["metadata"]["annotations"]["a"]],
                ["2", "1"]
            );
        }
    }
    recorder.event(&changed, EventType::Normal, "Done", "Reconcile", "");
    let (method, _, patch) = server.next().await;
    assert_eq!((method, &patch["series"]["count"]), (Method::PATCH, &json!(2)), "another version");
    assert!(server.is_quiet().await);
}

/// A refused event is not repeated, one without an answer of the API server is, and one that has expired is created again.
/// The losses are counted.
// contract: K-16d, K-16i, K-16k
#[tokio::test(start_paused = true)]
async fn failed_writes() {
    let mut server = Server::new(&[403, 0, 0, 200, 404, 200]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let foo = object(None);
    recorder.event(&foo, EventType::Normal, "Refused", "Reconcile", "");
    server.next().await;
    sleep(Duration::from_secs(60)).await;
    assert!(server.is_quiet().await);
    report(&recorder, &foo);
    let first = server.next().await;
    assert_eq!([server.next().await, server.next().await], [first.clone(), first.clone()]);
    assert!(server.is_quiet().await);
    report(&recorder, &foo);
    assert_eq!(server.next().await.0, Method::PATCH);
    let (method, _, again) = server.next().await;
    assert_eq!(
        (method, &again["metadata"], &again["series"]["count"]),
        (Method::POST, &first.2["metadata"], &json!(2))
    );
    assert!(server.is_quiet().await);
    let metrics = recorder.metrics();
    assert_eq!((metrics.written, metrics.refused, metrics.lost(), metrics.pending), (2, 1, 1, 0));
}

/// 429, 5xx and conflicts are repeated when the server says, else after 10 s, 12 times. A create that took effect without a response is
/// found by the next one.
// contract: K-16d, K-16i, K-16k
#[tokio::test(start_paused = true)]
async fn overloaded_server() {
    let mut server = Server::new(&[429, 500, EXISTS]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let began = Instant::now();
    report(&recorder, &object(None));
    server.next().await;
    server.next().await;
    assert_eq!(began.elapsed(), Duration::from_secs(3), "Retry-After");
    server.next().await;
    assert_eq!(began.elapsed(), Duration::from_secs(13));
    assert!(server.is_quiet().await);
    assert_eq!((recorder.metrics().written, recorder.metrics().lost()), (1, 0));

    for code in [503, 409] {
        let mut server = Server::new(&[code; 12]);
        let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
        report(&recorder, &object(None));
        for _ in 0..12 {
            server.next().await;
        }
        sleep(Duration::from_secs(3600)).await;
        assert!(server.is_quiet().await);
        let metrics = recorder.metrics();
        assert_eq!((metrics.written, metrics.failed, metrics.pending), (0, 1, 0), "{code}");
    }
}

/// A request without an end is given up and repeated. Meanwhile the events of other objects are written, and those of one
/// object stay in order.
// contract: K-16h
#[tokio::test(start_paused = true)]
async fn requests_that_hang() {
    let mut server = Server::new(&[HANGS; 7]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let of = |name: &str| ObjectReference { name: Some(name.to_owned()), ..object(None) };
    for i in 0..7 {
        report(&recorder, &of(&format!("hangs-{i}")));
        server.next().await;
    }
    recorder.event(&of("hangs-0"), EventType::Normal, "Second", "Reconcile", "");
    for i in 0..50 {
        report(&recorder, &of(&format!("other-{i}")));
    }
    for i in 0..50 {
        assert_eq!(server.next().await.2["regarding"]["name"], format!("other-{i}"));
    }
    let began = Instant::now();
    let mut again: Vec<_> = Vec::new();
    for _ in 0..8 {
        let (.., event) = server.next().await;
        again.push((event["regarding"]["name"].clone(), event["reason"].clone()));
    }
    assert_eq!(began.elapsed(), Duration::from_secs(40), "30 s and 10 s");
    let of_first: Vec<_> =
        again.iter().filter(|(name, _)| name == "hangs-0").map(|(_, reason)| reason).collect();
    assert_eq!(of_first, ["Failed", "Second"]);
    assert!(server.is_quiet().await);
    assert_eq!((recorder.metrics().written, recorder.metrics().lost()), (58, 0));
}

/// An event that the client of an election refuses is not retried.
// contract: K-16i
#[tokio::test(start_paused = true)]
async fn events_of_a_process_that_does_not_lead() {
    let mut server = Server::new(&[]);
    let elector = LeaderElector::builder(server.client.clone(), "default", "test").build().unwrap();
    let recorder = EventRecorder::new(elector.client(&server.client), "example.com/test", "test-1");
    report(&recorder, &object(None));
    let began = Instant::now();
    assert!(recorder.shutdown(Duration::from_secs(60)).await);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!((recorder.metrics().not_leader, recorder.metrics().lost()), (1, 1));
    assert!(server.is_quiet().await);
}

/// A manager writes the last events when its controllers have ended.
// contract: K-16j
#[tokio::test(start_paused = true)]
async fn manager_writes_the_last_events() {
    let server = Server::new(&[0]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let factory = SharedInformerFactory::new(server.client.clone());
    let last = recorder.clone();
    let (started, begun) = tokio::sync::oneshot::channel();
    let started = Arc::new(Mutex::new(Some(started)));
    let controller = Controller::of(&factory).keyed::<u8>("numbers").build(move |_| {
        let (last, started) = (last.clone(), started.lock().take());
        async move {
            started.map(|started| started.send(()));
            sleep(Duration::from_secs(1)).await;
            report(&last, &object(None));
            Ok(Action::none())
        }
    });
    controller.queue().add(1);
    let shutdown = CancellationToken::new();
    let manager = Manager::new().add(controller).unwrap().events(&recorder, Duration::from_secs(60));
    let running = tokio::spawn(manager.run(shutdown.clone()));
    begun.await.unwrap();
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((recorder.metrics().written, recorder.metrics().pending), (1, 0));
    report(&recorder, &object(None));
    assert_eq!(recorder.metrics().shut_down, 1);
}

/// Two events of one object at the same time have two names.
// contract: K-16g
#[tokio::test(start_paused = true)]
async fn names_of_events_are_unique() {
    let mut server = Server::new(&[]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let mut names = std::collections::BTreeSet::new();
    for i in 0..100 {
        recorder.event(&object(None), EventType::Normal, &format!("Reason{i}"), "Reconcile", "");
        let name = server.next().await.2["metadata"]["name"].as_str().unwrap().to_owned();
        names.insert(name.rsplit_once('-').unwrap().1.to_owned());
    }
    assert_eq!(names.len(), 100, "the numbers differ, whatever the clock");
}

/// Events above the bound are dropped and counted. The task ends with the recorder.
// contract: K-16e
#[tokio::test(start_paused = true)]
async fn events_above_the_bound_are_dropped() {
    let mut server = Server::new(&[]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    // Without an await the task does not run.
    (0..1003).for_each(|_| report(&recorder, &object(None)));
    assert_eq!((recorder.metrics().queue_full, recorder.metrics().pending), (3, 1000));
    assert_eq!(server.next().await.0, Method::POST);
    assert_eq!(server.next().await.0, Method::PATCH);
    assert!(server.is_quiet().await);
    drop(recorder.clone());
    report(&recorder, &ObjectReference { name: Some("b".to_owned()), ..object(None) });
    assert_eq!(server.next().await.0, Method::POST);
    report(&recorder, &ObjectReference { name: Some("c".to_owned()), ..object(None) });
    drop(recorder);
    assert!(server.is_quiet().await);
}

/// A shutdown writes the events that wait and the counts of series. Later events are dropped and counted.
// contract: K-16f
#[tokio::test(start_paused = true)]
async fn shutdown_writes_the_last_events() {
    let mut server = Server::new(&[0]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let foo = object(None);
    (0..3).for_each(|_| report(&recorder, &foo));
    recorder.event(&foo, EventType::Normal, "Done", "Reconcile", "");
    assert!(recorder.shutdown(Duration::from_secs(60)).await);
    let requests: Vec<_> = std::iter::from_fn(|| server.requests.try_recv().ok()).collect();
    let counts: Vec<_> = requests
        .iter()
        .map(|(method, _, sent)| (method.as_str(), sent["series"]["count"].as_i64()))
        .collect();
    let expected = [("POST", None), ("POST", None), ("PATCH", Some(2)), ("POST", None), ("PATCH", Some(3))];
    assert_eq!(counts, expected, "the first one had no answer");
    report(&recorder.clone(), &foo);
    let metrics = recorder.metrics();
    assert_eq!((metrics.written, metrics.shut_down, metrics.lost(), metrics.pending), (4, 1, 1, 0));
    assert!(recorder.shutdown(Duration::ZERO).await, "it has ended");
    assert!(server.is_quiet().await);
}

fn event_of(recorder: &EventRecorder, number: usize) {
    recorder.event(&object(None), EventType::Normal, &format!("Reason{number}"), "Reconcile", "");
}

/// More series than events may wait: a shutdown writes the counts of all.
// contract: K-16f
#[tokio::test(start_paused = true)]
async fn shutdown_writes_the_counts_of_many_series() {
    const SERIES: usize = 1500;
    let mut server = Server::new(&[]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    for _ in 0..3 {
        for number in 0..SERIES {
            event_of(&recorder, number);
            if number % 500 == 0 {
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
    sleep(Duration::from_secs(1)).await;
    assert!(recorder.shutdown(Duration::from_secs(60)).await);
    let requests = std::iter::from_fn(|| server.requests.try_recv().ok());
    let thirds = requests.filter(|(.., sent)| sent["series"]["count"] == 3).count();
    assert_eq!((thirds, recorder.metrics().lost(), recorder.metrics().pending), (SERIES, 0, 0));
}

/// Of more than 10,000 events, those that were not repeated for longest are finished.
// contract: K-16l
#[tokio::test(start_paused = true)]
async fn events_that_may_be_repeated_are_bounded() {
    let mut server = Server::new(&[]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    for _ in 0..3 {
        event_of(&recorder, 0);
    }
    let mut counts = 0;
    for number in 1..=10_000 {
        event_of(&recorder, number);
        if number % 100 == 0 {
            sleep(Duration::from_millis(1)).await;
            let requests = std::iter::from_fn(|| server.requests.try_recv().ok());
            counts += requests.filter(|(.., sent)| sent["series"]["count"] == 3).count();
        }
    }
    assert_eq!(counts, 1, "of the series that is finished");
    event_of(&recorder, 0);
    event_of(&recorder, 9_999);
    let requests = [server.next().await, server.next().await];
    assert_eq!(requests.map(|(method, ..)| method), [Method::POST, Method::PATCH]);
    assert_eq!((recorder.metrics().lost(), recorder.metrics().pending), (0, 0));
}

/// A shutdown ends at its limit while the API server is away.
// contract: K-16f
#[tokio::test(start_paused = true)]
async fn shutdown_has_a_limit() {
    let mut server = Server::new(&[0; 12]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    report(&recorder, &object(None));
    let began = Instant::now();
    assert!(!recorder.shutdown(Duration::from_secs(15)).await);
    assert_eq!(began.elapsed(), Duration::from_secs(15));
    let requests = std::iter::from_fn(|| server.requests.try_recv().ok()).count();
    assert_eq!(requests, 2, "at once, and after 10 s");
    report(&recorder, &object(None));
    sleep(Duration::from_secs(60)).await;
    assert!(server.is_quiet().await);
    assert_eq!((recorder.metrics().shut_down, recorder.metrics().pending), (2, 0));
}

/// The name of an event is valid for any name of its object.
// contract: K-16g
#[tokio::test(start_paused = true)]
async fn names_of_events_are_valid() {
    let mut server = Server::new(&[]);
    let recorder = EventRecorder::new(server.client.clone(), "example.com/test", "test-1");
    let long = format!("{}.b", "a".repeat(229));
    let names =
        [("a.b-c", "a.b-c"), ("system:node", "event"), ("a.-b", "event"), ("A", "event"), ("", "event")];
    for (name, prefix) in names.into_iter().chain([(&*long, &long[..220])]) {
        let object = ObjectReference { name: Some(name.to_owned()), ..object(None) };
        report(&recorder, &object);
        let (.., event) = server.next().await;
        let name = event["metadata"]["name"].as_str().unwrap();
        assert_eq!(name.rsplit_once('.').unwrap().0, prefix);
    }
}
