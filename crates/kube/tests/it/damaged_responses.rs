//! Damaged responses, and responses of another kind.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinformer_core::Object;
use kinformer_kube::{Encoding, KubeListerWatcher, client};
use kinformer_reflector::{List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions};
use kinformer_testing::pod_bytes::{self, Damage, ENCODINGS, TestPod, bookmark, event, list_of, pod};
use kinformer_testing::scripted_http::{Answer, ScriptedServer};
use kinformer_testing::widget::Widget;
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::{DynamicObject, GroupVersionKind, PartialObjectMeta};
use tokio::sync::watch;

/// A server that sends one response to every request, and its source.
struct Fixture<S> {
    answer: watch::Sender<(Encoding, Vec<u8>)>,
    source: S,
    _server: ScriptedServer,
}

impl<S> Fixture<S> {
    async fn new(source: fn(Client) -> S) -> Self {
        let (answer, now) = watch::channel((Encoding::Json, Vec::new()));
        let server = ScriptedServer::http(move |_| {
            let (encoding, body) = now.borrow().clone();
            Answer::new(200, encoding.media_type(), body)
        })
        .await;
        Self { answer, source: source(client(server.config()).unwrap()), _server: server }
    }

    /// All events of a watch with this body.
    async fn watch<T: Object>(
        &self,
        encoding: Encoding,
        body: Vec<u8>,
    ) -> Vec<Result<WatchEvent<T>, SourceError>>
    where
        S: ListerWatcher<T>,
    {
        self.answer.send_replace((encoding, body));
        let watch = self.source.watch(WatchOptions::from("10", Duration::from_secs(5))).await.unwrap();
        watch.collect().await
    }

    async fn list<T: Object>(&self, encoding: Encoding, body: Vec<u8>) -> Result<List<T>, SourceError>
    where
        S: ListerWatcher<T>,
    {
        self.answer.send_replace((encoding, body));
        self.source.list(ListOptions::at_version("")).await
    }
}

fn dynamic(client: Client) -> KubeListerWatcher<DynamicObject> {
    KubeListerWatcher::dynamic(client, ApiResource::erase::<Pod>(&()))
}

/// A custom resource.
fn widgets(client: Client) -> KubeListerWatcher<DynamicObject> {
    KubeListerWatcher::dynamic(
        client,
        ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget")),
    )
}

/// The first event is delivered, and the damaged second one ends the watch.
async fn ends_the_watch<T: Object, S: ListerWatcher<T>>(source: fn(Client) -> S, types: [&'static str; 2]) {
    let fixture = Fixture::new(source).await;
    for encoding in ENCODINGS {
        for damage in [Damage::Frame, Damage::Type, Damage::Metadata] {
            let pod = |name, version| pod(name, version).of(types[0], types[1]);
            let body = [
                event(encoding, "ADDED", pod("a", 11)),
                event(encoding, "MODIFIED", pod("b", 12).damaged(damage)),
                event(encoding, "ADDED", pod("c", 13)),
            ];
            let events = fixture.watch(encoding, body.concat()).await;
            let [Ok(WatchEvent::Added(first)), Err(error)] = events.as_slice() else {
                panic!("{encoding:?} {damage:?}: {} events", events.len());
            };
            assert_eq!(first.key().to_string(), "default/a");
            assert!(
                matches!(error, SourceError::UnidentifiedEvent { .. }),
                "{encoding:?} {damage:?}: {error:?}"
            );
        }
    }
}

/// An event whose frame, type or metadata cannot be read ends the watch.
// contract: R-14a, R-14c
#[tokio::test]
async fn unidentified_event_ends_watch() {
    let pod = ["v1", "Pod"];
    ends_the_watch(KubeListerWatcher::<Pod>::new, pod).await;
    ends_the_watch(KubeListerWatcher::packed::<Pod>, pod).await;
    ends_the_watch(dynamic, pod).await;
    let metadata = ["meta.k8s.io/v1", "PartialObjectMetadata"];
    ends_the_watch(KubeListerWatcher::<PartialObjectMeta<Pod>>::new, metadata).await;
}

/// Errors of a watch are typed in any form: a `Status` without a kind, over several lines, or in place of an event.
// contract: L-10, L-42a, L-42b
#[tokio::test]
async fn errors_of_a_watch_are_typed_in_any_form() {
    let fixture = Fixture::new(KubeListerWatcher::<Pod>::new).await;
    for body in [
        r#"{"type":"ERROR","object":{"status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#,
        "{\n  \"type\": \"ERROR\",\n  \"object\": {\n    \"kind\": \"Status\",\n    \"code\": 410\n  }\n}\n",
        "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"code\": 410\n}",
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"code":410}"#,
    ] {
        let events = fixture.watch(Encoding::Json, body.as_bytes().to_vec()).await;
        let [Err(error)] = events.as_slice() else { panic!("{body}: {events:?}") };
        assert!(error.is_expired(), "{body}: {error}");
    }
}

/// A bookmark or an error event that cannot be read is an unidentified event.
// contract: R-14a, R-14b, R-14c, L-04a, L-10
#[tokio::test]
async fn damaged_bookmark_or_error_is_unidentified() {
    let fixture = Fixture::new(KubeListerWatcher::<Pod>::new).await;
    let lines = [
        r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":7}}"#,
        r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        r#"{"type":"ERROR","object":{"kind":"Pod","metadata":{"name":"a"}}}"#,
        r#"{"type":"ERROR","object":{"kind":"Status","code":"x"}}"#,
        r#"{"type":"","object":{"kind":"Pod","metadata":{"name":"a"}}}"#,
        r#"{"type":"ADD\u0000D","object":{"kind":"Pod","metadata":{"name":"a"}}}"#,
        r#"{"type":"ERROR","object":{"code":410,"reason":""}}"#,
        r#"{"type":"ADDED"}"#,
        r#"{"kind":"Statue","code":410}"#,
    ];
    let mut bodies: Vec<_> =
        lines.iter().map(|line| (Encoding::Json, format!("{line}\n").into_bytes())).collect();
    let mut damaged = bookmark(Encoding::Protobuf, 12, false);
    // The last field of the object is its metadata, and the last byte of the metadata is the end of the version.
    let end = damaged.len() - 4;
    damaged[end] = 0x7f;
    bodies.push((Encoding::Protobuf, damaged));
    bodies.push((Encoding::Protobuf, event(Encoding::Protobuf, "ADDED", pod("a", 11).of("v1", ""))));
    bodies.push((Encoding::Protobuf, event(Encoding::Protobuf, "", pod("a", 11))));
    // A frame length above the limit, and one below the actual length.
    for (index, length) in [(0, 0x7f), (3, 9)] {
        let mut framed = event(Encoding::Protobuf, "ADDED", pod("a", 11));
        framed[index] = length;
        bodies.push((Encoding::Protobuf, framed));
    }
    for (encoding, body) in bodies {
        let text = String::from_utf8_lossy(&body).into_owned();
        let events = fixture.watch(encoding, body).await;
        assert!(
            matches!(events.as_slice(), [Err(SourceError::UnidentifiedEvent { .. })]),
            "{text:?}: {events:?}"
        );
    }
    // The annotation counts only with the value `true`.
    let line = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"false"}}}}"#;
    let events = fixture.watch(Encoding::Json, format!("{line}\n").into_bytes()).await;
    assert!(
        matches!(events.as_slice(), [Ok(WatchEvent::Bookmark { initial_events_end: false, .. })]),
        "{events:?}"
    );
}

/// An event of unknown type, of another kind or with an undecodable object is reported with its resource version, and
/// the watch continues.
// contract: R-07a, R-07b, L-08a, L-08b
#[tokio::test]
async fn unusable_event_is_skipped_with_its_version() {
    let fixture = Fixture::new(KubeListerWatcher::<Pod>::new).await;
    for encoding in ENCODINGS {
        let body = [
            event(encoding, "SURPRISE", pod("a", 11)),
            event(encoding, "ADDED", pod("b", 12).of("v1", "Node")),
            event(encoding, "DELETED", pod("c", 13).damaged(Damage::Spec)),
            event(encoding, "ADDED", pod("d", 14)),
        ];
        let events = fixture.watch(encoding, body.concat()).await;
        let [Ok(surprise), Ok(node), Ok(WatchEvent::Undecodable(error)), Ok(WatchEvent::Added(_))] =
            events.as_slice()
        else {
            panic!("{events:?}");
        };
        for (event, version) in [(surprise, 11), (node, 12)] {
            let WatchEvent::Unexpected { resource_version, .. } = event else { panic!("{event:?}") };
            assert_eq!(*resource_version, version.into());
        }
        assert_eq!(error.key.as_ref().unwrap().to_string(), "default/c");
        assert_eq!(error.resource_version, 13.into());
    }
}

/// An item that cannot be decoded is reported with its index, and with its key if that can be read.
// contract: R-15c
#[tokio::test]
async fn undecodable_item_reports_index_and_key() {
    let fixture = Fixture::new(KubeListerWatcher::<Pod>::new).await;
    for encoding in ENCODINGS {
        let pods = [pod("a", 1), pod("b", 2).damaged(Damage::Metadata), pod("c", 3).damaged(Damage::Spec)];
        let body = list_of(encoding, "v1", "PodList", "9", "", &pods);
        let list = fixture.list(encoding, body).await.unwrap();
        let bad: Vec<_> = list
            .undecodable
            .iter()
            .map(|error| (error.index, error.key.as_ref().map(ToString::to_string)))
            .collect();
        assert_eq!(bad, [(Some(1), None), (Some(2), Some("default/c".to_owned()))], "{encoding:?}");
    }
}

/// The API version and kind of a list, and whether it is accepted.
type Case = (&'static str, &'static str, bool);

async fn kinds_of_lists<T: Object, S: ListerWatcher<T>>(
    source: fn(Client) -> S,
    item: TestPod,
    encoding: Encoding,
    cases: &[Case],
) {
    let fixture = Fixture::new(source).await;
    for (api_version, kind, accepted) in cases {
        for items in [&[item] as &[TestPod], &[]] {
            let body = list_of(encoding, api_version, kind, "9", "", items);
            let list = fixture.list(encoding, body).await;
            let what = format!("{encoding:?}, {api_version} {kind}, {} items", items.len());
            match list {
                Ok(list) => assert!(
                    *accepted && list.objects.len() == items.len(),
                    "{what}: {list:?}",
                    list = list.objects.len()
                ),
                // In protobuf the kind precedes the items, so this is a decoding error.
                Err(SourceError::WrongList { .. } | SourceError::Decode { .. }) => {
                    assert!(!accepted, "{what}")
                }
                Err(error) => panic!("{what}: {error:?}"),
            }
        }
    }
}

// contract: L-15a, L-15b, L-15e, L-15f
#[tokio::test]
async fn list_of_another_kind_is_refused() {
    let built_in: [Case; 10] = [
        ("v1", "PodList", true),
        ("", "PodList", true),
        ("v1", "List", true),
        ("v1", "ServiceList", false),
        ("", "ServiceList", false),
        ("apps/v1", "PodList", false),
        ("meta.k8s.io/v1", "Table", false),
        ("custom.group/v1", "Table", false),
        ("v1", "Pods", false),
        ("v1", "", false),
    ];
    for encoding in ENCODINGS {
        kinds_of_lists(KubeListerWatcher::<Pod>::new, pod("a", 1), encoding, &built_in).await;
        kinds_of_lists(KubeListerWatcher::packed::<Pod>, pod("a", 1), encoding, &built_in).await;
        kinds_of_lists(dynamic, pod("a", 1), encoding, &built_in).await;
        let metadata: [Case; 4] = [
            ("meta.k8s.io/v1", "PartialObjectMetadataList", true),
            ("", "PartialObjectMetadataList", true),
            ("v1", "PodList", false),
            ("v1", "", false),
        ];
        let item = pod("a", 1).of("meta.k8s.io/v1", "PartialObjectMetadata");
        kinds_of_lists(KubeListerWatcher::<PartialObjectMeta<Pod>>::new, item, encoding, &metadata).await;
    }
}

/// The list of a custom resource may have any kind in its own group.
// contract: L-15b, L-15d, L-15e, L-15f
#[tokio::test]
async fn custom_resource_list_kind_is_arbitrary() {
    let cases: [Case; 11] = [
        ("example.com/v1", "WidgetList", true),
        ("", "WidgetList", true),
        ("example.com/v1", "Widgets", true),
        ("example.com/v1", "Table", true),
        ("v1", "List", true),
        ("other.com/v1", "WidgetList", false),
        ("meta.k8s.io/v1", "Table", false),
        ("v1", "ServiceList", false),
        ("", "Widgets", false),
        ("", "Table", false),
        ("example.com/v1", "", false),
    ];
    for item in [pod("a", 1).of("example.com/v1", "Widget"), pod("a", 1).of("", "")] {
        kinds_of_lists(widgets, item, Encoding::Json, &cases).await;
    }
}

/// A list whose items have another kind is refused, whatever the kind of the list.
// contract: L-15c, L-15g
#[tokio::test]
async fn list_with_items_of_another_kind_is_refused() {
    let pods = Fixture::new(KubeListerWatcher::<Pod>::new).await;
    let packed = Fixture::new(KubeListerWatcher::packed::<Pod>).await;
    let service = pod("a", 1).of("v1", "Service");
    for kind in ["List", "PodList"] {
        let body = || list_of(Encoding::Json, "v1", kind, "9", "", &[service]);
        let error = pods.list(Encoding::Json, body()).await.unwrap_err();
        let text = "a list of pods must be a PodList of v1, but the server sent a list with a Service in it";
        assert_eq!(error.to_string(), text);
        let error = packed.list(Encoding::Json, body()).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let body = list_of(
        Encoding::Json,
        "example.com/v1",
        "Gadgets",
        "9",
        "",
        &[pod("a", 1).of("example.com/v1", "Gadget")],
    );
    let error = Fixture::new(widgets).await.list(Encoding::Json, body).await.unwrap_err();
    assert!(matches!(error, SourceError::WrongList { .. }), "{error:?}");
}

/// A type that does not check the kind while decoding never receives an object of another kind.
// contract: R-07a, L-15c
#[tokio::test]
async fn type_without_kind_check_gets_only_its_kind() {
    let fixture = Fixture::new(KubeListerWatcher::<Widget>::new).await;
    let (widget, gadget) = (("example.com/v1", "Widget"), ("example.com/v1", "Gadget"));
    let body = [
        event(Encoding::Json, "ADDED", pod("a", 11).of(gadget.0, gadget.1)),
        event(Encoding::Json, "ADDED", pod("b", 12).of(widget.0, widget.1)),
    ];
    let events = fixture.watch(Encoding::Json, body.concat()).await;
    let [Ok(WatchEvent::Unexpected { what, .. }), Ok(WatchEvent::Added(added))] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!((what.as_str(), added.metadata.name.as_deref()), ("a Gadget in a watch of Widget", Some("b")));
    for pods in [
        [pod("a", 1).of(gadget.0, gadget.1), pod("b", 1).of(widget.0, widget.1)],
        [pod("b", 1).of(widget.0, widget.1), pod("a", 1).of(gadget.0, gadget.1)],
    ] {
        let body = list_of(Encoding::Json, widget.0, "WidgetList", "9", "", &pods);
        let error = fixture.list(Encoding::Json, body).await.unwrap_err();
        assert!(matches!(error, SourceError::WrongList { .. }), "{error:?}");
    }
}

// contract: L-15f
#[tokio::test]
async fn list_without_kind_is_refused() {
    let fixture = Fixture::new(KubeListerWatcher::<Pod>::new).await;
    for body in [
        r#"{"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#,
        r#"{}"#,
        r#"{"items":null}"#,
    ] {
        let error = fixture.list(Encoding::Json, body.into()).await.unwrap_err();
        assert!(
            matches!(error, SourceError::WrongList { .. } | SourceError::Decode { .. }),
            "{body}: {error:?}"
        );
    }
}

/// A response with a content type that no Kubernetes API has fails with the content type and the start of the body.
// contract: L-16a, L-16d
#[tokio::test]
async fn unknown_content_type_is_its_own_error() {
    let html = "<html>\n".repeat(53);
    for content_type in ["text/html; charset=utf-8", "text/plain", "application/cbor", "application/yaml"] {
        let body = html.clone();
        let server = ScriptedServer::http(move |_| Answer::new(200, content_type, body.clone())).await;
        let source = KubeListerWatcher::<Pod>::new(client(server.config()).unwrap());
        let watch = source.watch(WatchOptions::from("10", Duration::from_secs(5))).await;
        for error in [watch.err().unwrap(), source.list(ListOptions::at_version("")).await.unwrap_err()] {
            let SourceError::ContentType { resource, content_type: received, start } = &error else {
                panic!("{error:?}");
            };
            assert_eq!((resource.as_str(), received.as_str()), ("pods", content_type));
            assert!(start.starts_with("<html>") && start.len() <= 200, "{start:?}");
        }
    }
    // With parameters, in upper case, and without a type.
    for content_type in ["application/json;charset=utf-8", "Application/JSON", ""] {
        let body = pod_bytes::list(Encoding::Json, "9", &[pod("a", 1)]);
        let server = ScriptedServer::http(move |_| Answer::new(200, content_type, body.clone())).await;
        let source = KubeListerWatcher::<Pod>::new(client(server.config()).unwrap());
        assert_eq!(
            source.list(ListOptions::at_version("")).await.unwrap().objects.len(),
            1,
            "{content_type:?}"
        );
    }
}

/// A list with too many objects without a key fails, before all of it is in memory. With fewer it is incomplete.
// contract: L-17e
#[tokio::test]
async fn list_with_too_many_unidentified_objects_fails() {
    async fn check<T: Object + std::fmt::Debug, S: ListerWatcher<T>>(source: fn(Client) -> S) {
        let fixture = Fixture::new(source).await;
        let list = |objects| {
            let items = vec!["{}"; objects].join(",");
            let metadata = r#""metadata":{"resourceVersion":"9"}"#;
            format!(r#"{{"kind":"PodList","apiVersion":"v1",{metadata},"items":[{items}]}}"#).into_bytes()
        };
        let incomplete = fixture.list(Encoding::Json, list(10_000)).await.unwrap();
        assert_eq!((incomplete.objects.len(), incomplete.undecodable.len()), (0, 10_000));
        let error = fixture.list(Encoding::Json, list(10_001)).await.unwrap_err();
        assert!(matches!(error, SourceError::TooManyUnidentified { limit: 10_000 }), "{error}");
    }
    check(KubeListerWatcher::packed::<Pod>).await;
    check(KubeListerWatcher::<Pod>::new).await;
}
