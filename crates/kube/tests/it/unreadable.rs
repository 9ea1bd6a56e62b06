//! Parts of answers that cannot be read, and answers that are something else.

use std::borrow::Cow;
use std::time::Duration;

use crate::common::scripted::{Answer, Damage, ENCODINGS, Scripted, TestPod, bookmark, event, list_of, pod};
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer_core::Object;
use kinformer_kube::{Encoding, KubeListerWatcher};
use kinformer_reflector::{List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::{DynamicObject, GroupVersionKind, PartialObjectMeta, Resource};
use tokio::sync::watch;

/// A server that answers everything alike, and a source.
struct Bench<S> {
    answer: watch::Sender<(Encoding, Vec<u8>)>,
    source: S,
    _server: Scripted,
}

impl<S> Bench<S> {
    async fn new(source: fn(Client) -> S) -> Self {
        let (answer, now) = watch::channel((Encoding::Json, Vec::new()));
        let server = Scripted::start(move |_, _| {
            let (encoding, body) = now.borrow().clone();
            Answer::ok(encoding, body)
        })
        .await;
        Self { answer, source: source(server.client()), _server: server }
    }

    /// All events of a watch that is answered with these bytes.
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

/// It is the first event that counts, and the second one that is broken.
async fn ends_the_watch<T: Object, S: ListerWatcher<T>>(source: fn(Client) -> S, types: [&'static str; 2]) {
    let bench = Bench::new(source).await;
    for encoding in ENCODINGS {
        for damage in [Damage::Frame, Damage::Type, Damage::Metadata] {
            let pod = |name, version| pod(name, version).of(types[0], types[1]);
            let body = [
                event(encoding, "ADDED", pod("a", 11)),
                event(encoding, "MODIFIED", pod("b", 12).damaged(damage)),
                event(encoding, "ADDED", pod("c", 13)),
            ];
            let events = bench.watch(encoding, body.concat()).await;
            let [Ok(WatchEvent::Added(first)), Err(error)] = events.as_slice() else {
                panic!("{encoding:?} {damage:?}: {} events", events.len());
            };
            assert_eq!(first.key().to_string(), "default/a");
            assert!(matches!(error, SourceError::BrokenEvent { .. }), "{encoding:?} {damage:?}: {error:?}");
        }
    }
}

// contract: R-14
#[tokio::test]
async fn an_event_that_cannot_be_read_ends_the_watch() {
    let pod = ["v1", "Pod"];
    ends_the_watch(KubeListerWatcher::<Pod>::new, pod).await;
    ends_the_watch(KubeListerWatcher::packed::<Pod>, pod).await;
    ends_the_watch(dynamic, pod).await;
    let metadata = ["meta.k8s.io/v1", "PartialObjectMetadata"];
    ends_the_watch(KubeListerWatcher::<PartialObjectMeta<Pod>>::new, metadata).await;
}

// contract: R-14, L-04, L-10
#[tokio::test]
async fn a_bookmark_or_an_error_that_cannot_be_read_is_a_broken_event() {
    let bench = Bench::new(KubeListerWatcher::<Pod>::new).await;
    let lines = [
        r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":7}}"#,
        r#"{"type":"BOOKMARK","object":{"kind":"Pod"}}"#,
        r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        r#"{"type":"ERROR","object":{"kind":"Pod","metadata":{"name":"a"}}}"#,
        r#"{"type":"ERROR","object":{"kind":"Status","code":"x"}}"#,
        r#"{"type":"","object":{"kind":"Pod","metadata":{"name":"a"}}}"#,
        r#"{"type":"ADD\u0000D","object":{"kind":"Pod","metadata":{"name":"a"}}}"#,
        r#"{"type":"ADDED"}"#,
        r#"{"kind":"Status","code":410}"#,
    ];
    let mut bodies: Vec<_> =
        lines.iter().map(|line| (Encoding::Json, format!("{line}\n").into_bytes())).collect();
    let mut damaged = bookmark(Encoding::Protobuf, 12, false);
    // The last field of the object is its metadata, and the last byte of that the end of the version's text.
    let end = damaged.len() - 4;
    damaged[end] = 0x7f;
    bodies.push((Encoding::Protobuf, damaged));
    bodies.push((Encoding::Protobuf, event(Encoding::Protobuf, "ADDED", pod("a", 11).of("v1", ""))));
    bodies.push((Encoding::Protobuf, event(Encoding::Protobuf, "", pod("a", 11))));
    // A frame that is said to be longer than any, or shorter than it is.
    for (at, length) in [(0, 0x7f), (3, 9)] {
        let mut framed = event(Encoding::Protobuf, "ADDED", pod("a", 11));
        framed[at] = length;
        bodies.push((Encoding::Protobuf, framed));
    }
    for (encoding, body) in bodies {
        let text = String::from_utf8_lossy(&body).into_owned();
        let events = bench.watch(encoding, body).await;
        assert!(matches!(events.as_slice(), [Err(SourceError::BrokenEvent { .. })]), "{text:?}: {events:?}");
    }
    // The value of the annotation counts, and not that it is there.
    let line = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"false"}}}}"#;
    let events = bench.watch(Encoding::Json, format!("{line}\n").into_bytes()).await;
    assert!(
        matches!(events.as_slice(), [Ok(WatchEvent::Bookmark { initial_events_end: false, .. })]),
        "{events:?}"
    );
}

// contract: R-07, L-08
#[tokio::test]
async fn what_can_be_read_and_has_no_place_is_skipped_with_its_version() {
    let bench = Bench::new(KubeListerWatcher::<Pod>::new).await;
    for encoding in ENCODINGS {
        let body = [
            event(encoding, "SURPRISE", pod("a", 11)),
            event(encoding, "ADDED", pod("b", 12).of("v1", "Node")),
            event(encoding, "DELETED", pod("c", 13).damaged(Damage::Spec)),
            event(encoding, "ADDED", pod("d", 14)),
        ];
        let events = bench.watch(encoding, body.concat()).await;
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

// contract: R-15
#[tokio::test]
async fn an_item_that_cannot_be_read_says_where_it_is() {
    let bench = Bench::new(KubeListerWatcher::<Pod>::new).await;
    for encoding in ENCODINGS {
        let pods = [pod("a", 1), pod("b", 2).damaged(Damage::Metadata), pod("c", 3).damaged(Damage::Spec)];
        let body = list_of(encoding, "v1", "PodList", "9", "", &pods);
        let list = bench.list(encoding, body).await.unwrap();
        let bad: Vec<_> = list
            .undecodable
            .iter()
            .map(|error| (error.position, error.key.as_ref().map(ToString::to_string)))
            .collect();
        assert_eq!(bad, [(Some(1), None), (Some(2), Some("default/c".to_owned()))], "{encoding:?}");
    }
}

/// How a list calls itself, and whether it is taken.
type Case = (&'static str, &'static str, bool);

async fn kinds_of_lists<T: Object, S: ListerWatcher<T>>(
    source: fn(Client) -> S,
    item: TestPod,
    encoding: Encoding,
    cases: &[Case],
) {
    let bench = Bench::new(source).await;
    for (api_version, kind, taken) in cases {
        for items in [&[item] as &[TestPod], &[]] {
            let body = list_of(encoding, api_version, kind, "9", "", items);
            let list = bench.list(encoding, body).await;
            let what = format!("{encoding:?}, {api_version} {kind}, {} items", items.len());
            match list {
                Ok(list) => assert!(
                    *taken && list.objects.len() == items.len(),
                    "{what}: {list:?}",
                    list = list.objects.len()
                ),
                // Protobuf says before its items that it is no list at all.
                Err(SourceError::WrongList { .. } | SourceError::Decode { .. }) => assert!(!taken, "{what}"),
                Err(error) => panic!("{what}: {error:?}"),
            }
        }
    }
}

// contract: L-15a, L-15b, L-15e, L-15f
#[tokio::test]
async fn a_list_of_another_kind_is_refused() {
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

// contract: L-15b, L-15d, L-15e, L-15f
#[tokio::test]
async fn a_custom_resource_may_call_its_list_as_it_likes() {
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

// contract: L-15c, L-15g
#[tokio::test]
async fn the_items_of_a_list_say_what_it_is_too() {
    let pods = Bench::new(KubeListerWatcher::<Pod>::new).await;
    let packed = Bench::new(KubeListerWatcher::packed::<Pod>).await;
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
    let error = Bench::new(widgets).await.list(Encoding::Json, body).await.unwrap_err();
    assert!(matches!(error, SourceError::WrongList { .. }), "{error:?}");
}

/// A type of a custom resource, which does not look at the kind.
#[derive(Clone, Debug, serde::Deserialize)]
struct Widget {
    metadata: ObjectMeta,
}

impl Resource for Widget {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Widget".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "widgets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

// contract: R-07, L-15c
#[tokio::test]
async fn a_type_that_does_not_look_at_the_kind_is_given_no_other() {
    let bench = Bench::new(KubeListerWatcher::<Widget>::new).await;
    let (widget, gadget) = (("example.com/v1", "Widget"), ("example.com/v1", "Gadget"));
    let body = [
        event(Encoding::Json, "ADDED", pod("a", 11).of(gadget.0, gadget.1)),
        event(Encoding::Json, "ADDED", pod("b", 12).of(widget.0, widget.1)),
    ];
    let events = bench.watch(Encoding::Json, body.concat()).await;
    let [Ok(WatchEvent::Unexpected { what, .. }), Ok(WatchEvent::Added(added))] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!((what.as_str(), added.metadata.name.as_deref()), ("a Gadget in a watch of Widget", Some("b")));
    for pods in [
        [pod("a", 1).of(gadget.0, gadget.1), pod("b", 1).of(widget.0, widget.1)],
        [pod("b", 1).of(widget.0, widget.1), pod("a", 1).of(gadget.0, gadget.1)],
    ] {
        let body = list_of(Encoding::Json, widget.0, "WidgetList", "9", "", &pods);
        let error = bench.list(Encoding::Json, body).await.unwrap_err();
        assert!(matches!(error, SourceError::WrongList { .. }), "{error:?}");
    }
}

// contract: L-15f
#[tokio::test]
async fn what_has_no_kind_is_no_list() {
    let bench = Bench::new(KubeListerWatcher::<Pod>::new).await;
    for body in [
        r#"{"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#,
        r#"{}"#,
        r#"{"items":null}"#,
    ] {
        let error = bench.list(Encoding::Json, body.into()).await.unwrap_err();
        assert!(
            matches!(error, SourceError::WrongList { .. } | SourceError::Decode { .. }),
            "{body}: {error:?}"
        );
    }
}

// contract: L-16a, L-16d
#[tokio::test]
async fn a_content_type_that_is_none_of_the_apis_is_one_error() {
    let html = "<html>\n".repeat(53);
    for content_type in ["text/html; charset=utf-8", "text/plain", "application/cbor", "application/yaml"] {
        let body = html.clone();
        let server = Scripted::start(move |_, _| {
            Answer::ok(Encoding::Json, body.clone().into_bytes()).content_type(content_type)
        })
        .await;
        let source = KubeListerWatcher::<Pod>::new(server.client());
        let watch = source.watch(WatchOptions::from("10", Duration::from_secs(5))).await;
        for error in [watch.err().unwrap(), source.list(ListOptions::at_version("")).await.unwrap_err()] {
            let SourceError::ContentType { resource, content_type: received, start } = &error else {
                panic!("{error:?}");
            };
            assert_eq!((resource.as_str(), received.as_str()), ("pods", content_type));
            assert!(start.starts_with("<html>") && start.len() <= 200, "{start:?}");
        }
    }
    // With parameters, in another case, and without any type.
    for content_type in ["application/json;charset=utf-8", "Application/JSON", ""] {
        let body = crate::common::scripted::list(Encoding::Json, "9", &[pod("a", 1)]);
        let server =
            Scripted::start(move |_, _| Answer::ok(Encoding::Json, body.clone()).content_type(content_type))
                .await;
        let source = KubeListerWatcher::<Pod>::new(server.client());
        assert_eq!(
            source.list(ListOptions::at_version("")).await.unwrap().objects.len(),
            1,
            "{content_type:?}"
        );
    }
}
