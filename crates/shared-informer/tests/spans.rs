//! The spans of an informer, and the log lines in them. A test binary of its own, because it records the spans of the
//! process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

#[allow(dead_code, unreachable_pub, reason = "the tests of the other binary use the rest")]
#[path = "it/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use common::{Running, Seen};
use kinformer_processor::Event;
use kinformer_reflector::{ApiStatus, SourceError};
use kinformer_shared_informer::SharedIndexInformer;
use kinformer_testing::spans::{RecordedLine, RecordedSpan, SpanRecorder};
use kinformer_testing::{FakeSource, Item};

/// The record of all tests of this file. Each test has an informer name of its own.
static RECORD: LazyLock<SpanRecorder> = LazyLock::new(SpanRecorder::of_this_process);

const NAME: &str = "kinformer.informer.name";

fn informer(source: FakeSource<Item>, name: &str) -> SharedIndexInformer<Item> {
    LazyLock::force(&RECORD);
    let builder = SharedIndexInformer::builder(source).name(name).resource("items.test");
    builder.cluster("east").scope("kitchen").build().unwrap()
}

/// The spans of an informer: first its own.
fn spans_of(informer: &str) -> Vec<RecordedSpan> {
    let is_own = |span: &RecordedSpan| {
        span.inherited.get(NAME).or(span.fields.get(NAME)).is_some_and(|name| name == informer)
    };
    RECORD.spans().into_iter().filter(is_own).collect()
}

/// The spans in the span of an informer that have this name.
fn spans_in(informer: &str, name: &str) -> Vec<RecordedSpan> {
    spans_of(informer).into_iter().filter(|span| span.name == name).collect()
}

/// The lines with this text in the span of an informer.
fn lines_of(informer: &str, message: &str) -> Vec<RecordedLine> {
    let is_own = |line: &RecordedLine| {
        line.inherited.get(NAME).is_some_and(|name| name == informer)
            && line.fields.get("message").is_some_and(|text| text == message)
    };
    RECORD.lines().into_iter().filter(is_own).collect()
}

fn field<'s>(span: &'s RecordedSpan, name: &str) -> Option<&'s str> {
    span.fields.get(name).map(String::as_str)
}

/// A run is a span. Its lists, watches and handlers are spans in it, and record their results.
// contract: I-28a, I-28c, I-28e
#[tokio::test(start_paused = true)]
async fn spans_of_a_scripted_run() {
    let name = "scripted";
    let source = FakeSource::new().without_watch_list();
    source.apply(Item::of("kettle", 0, 1));
    for _ in 0..3 {
        source.fail_next_list(ApiStatus::new(403, "Forbidden", "you may not list kettles").into());
    }
    let informer = informer(source.clone(), name);
    let seen = Seen::default();
    let recorder = seen.clone();
    informer.handler().name("recorder").for_each(move |event| recorder.record(event)).unwrap();
    let running = Running::start(informer).await;
    let last = source.apply(Item::of("toaster", 0, 1));
    seen.wait_for_version(last).await;
    source.break_watches(|| SourceError::expired("too old"));
    let last = source.apply(Item::of("mixer", 0, 1));
    seen.wait_for_version(last).await;
    running.stop().await.unwrap();

    let spans = spans_of(name);
    let open: Vec<_> = spans.iter().filter(|span| !span.is_closed).collect();
    assert!(open.is_empty(), "{open:?}");
    let own = &spans[0];
    assert_eq!((own.name, &*own.parents), ("informer", &[][..]));
    let fields = ["kinformer.informer.resource", "kinformer.informer.scope", "k8s.cluster.name"];
    assert_eq!(fields.map(|name| field(own, name).unwrap()), ["items.test", "kitchen", "east"]);
    assert!(spans.iter().skip(1).all(|span| span.parents == ["informer"]), "{spans:#?}");

    let result = |span: &RecordedSpan| {
        let names = ["kinformer.list.kind", "kinformer.list.relist", "kinformer.list.objects", "error.type"];
        names.map(|name| field(span, name).unwrap_or_default().to_owned()).join(" ")
    };
    let lists: Vec<_> = spans_in(name, "list").iter().map(result).collect();
    let failed = "list false  403";
    let expected = ["watch_list false  422", failed, failed, failed, "list false 1 ", "list true 3 "];
    assert_eq!(lists, expected);
    let watches = spans_in(name, "watch");
    assert_eq!(field(&watches[0], "kinformer.watch.events"), Some("1"));
    assert_eq!(field(&watches[0], "error.type"), Some("410"));
    assert_eq!(watches[0].fields.get("kinformer.reflector.name").unwrap(), name);

    // A warning names its reflector itself; the span names it for the rest.
    let failed = lines_of(name, "list or watch failed");
    assert_eq!(failed[0].parents, ["informer", "list"]);
    assert_eq!(failed[0].fields["reflector"], name);
    let [recovered] = lines_of(name, "recovered").try_into().unwrap();
    assert_eq!(recovered.inherited["kinformer.reflector.name"], name);
    assert!(!lines_of(name, "informer stopping").is_empty());
}

/// Callbacks run in the span of their handler, on any thread, and whatever span the handler was added in.
// contract: P-25a, I-28d
#[tokio::test(start_paused = true)]
async fn callbacks_run_in_the_span_of_their_handler() {
    let name = "with handlers";
    let source = FakeSource::new();
    let informer = informer(source.clone(), name);
    let add = |informer: &SharedIndexInformer<Item>, kind: &'static str| {
        let seen = Seen::default();
        let recorder = seen.clone();
        let log = move |event: &Event<Arc<Item>>| {
            tracing::info!(kind, "a callback");
            recorder.record(event);
        };
        let handler = informer.handler().name(kind);
        let _ = match kind {
            "inline" => handler.inline().for_each(log),
            "async" => handler.add_async(move |event: Event<Arc<Item>>| {
                log(&event);
                async { tokio::task::yield_now().await }
            }),
            _ => handler.for_each(log),
        }
        .unwrap();
        seen
    };
    let mut all = Vec::from(["blocking", "inline", "async"].map(|kind| add(&informer, kind)));
    let running = Running::start(informer.clone()).await;
    all.push(tracing::info_span!("another").in_scope(|| add(&informer, "late")));
    for round in 1..=20 {
        source.apply(Item::of("kettle", 0, round));
    }
    let last = source.apply(Item::of("toaster", 0, 1));
    for seen in &all {
        seen.wait_for_version(last).await;
    }
    running.stop().await.unwrap();

    let lines = lines_of(name, "a callback");
    assert!(lines.len() >= 4 * 2, "{lines:?}");
    for line in &lines {
        assert_eq!(line.parents, ["informer", "handler"], "{line:?}");
        assert_eq!(line.inherited["kinformer.handler.name"], line.fields["kind"]);
    }
    let handlers: BTreeSet<_> =
        spans_in(name, "handler").iter().map(|span| span.fields["kinformer.handler.name"].clone()).collect();
    assert_eq!(handlers.len(), 4, "{handlers:?}");
    let spans = spans_of(name);
    // Not one for each event.
    assert_eq!(spans.iter().filter(|span| span.name == "handler").count(), 4);
    assert!(spans.len() < 10, "{spans:#?}");
    assert!(spans.iter().all(|span| span.is_closed), "{spans:#?}");

    let page = include_str!("../../../docs/observability.md");
    for span in &spans {
        assert!(
            page.contains(&span.row()),
            "docs/observability.md has no row that begins with\n{}",
            span.row()
        );
    }
    let names: BTreeSet<_> = spans.iter().map(|span| span.name).collect();
    assert_eq!(names, ["handler", "informer", "list", "watch"].into());
}
