//! The metrics of an informer.

use crate::common::Running;
use kinformer_core::PartId;
use kinformer_processor::Event;
use kinformer_reflector::{ApiStatus, DecodeError, List, SourceError};
use kinformer_shared_informer::SharedIndexInformer;
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{FakeSource, Item, ScriptedSource};
use std::sync::Arc;

/// A source of two objects. One cannot be decoded. Its watch breaks once and expires once. Two handlers have the same
/// name.
async fn eventful() -> (Running, FakeSource<Item>) {
    let source = FakeSource::new();
    source.apply(Item::of("kettle", 0, 1));
    source.apply_undecodable(Item::of("broken", 0, 1));
    let informer =
        SharedIndexInformer::builder(source.clone()).name("items").resource("items.test").build().unwrap();
    for _ in 0..2 {
        informer.handler().name("printer").inline().for_each(|_| ()).unwrap();
    }
    let gate =
        informer.handler().name("never returns").add_async(|_: Event<Arc<Item>>| std::future::pending());
    gate.unwrap();
    let running = Running::start(informer).await;
    source.break_watches(|| ApiStatus::new(500, "InternalError", "the disk is full").into());
    let version = source.apply(Item::of("kettle", 0, 2));
    running.informer.wait_for(PartId::ONLY, &version.into()).await.unwrap();
    source.break_watches(|| SourceError::expired("compacted"));
    let version = source.apply(Item::of("toaster", 0, 2));
    running.informer.wait_for(PartId::ONLY, &version.into()).await.unwrap();
    // Until the batch is counted and the events are delivered.
    tokio::time::sleep(crate::common::HOUR).await;
    (running, source)
}

// contract: I-09
#[tokio::test(start_paused = true)]
async fn informer_reports_its_metrics() {
    let (running, source) = eventful().await;
    let metrics = running.informer.metrics();
    assert_eq!((&*metrics.name, &*metrics.resource), ("items", "items.test"));
    assert_eq!(metrics.objects, 2);
    assert_eq!(metrics.resource_versions.lowest(), source.version().into());
    assert_eq!(metrics.queue.depth, 0);
    assert!(metrics.processing.count >= 3, "{:?}", metrics.processing);
    let counted: u64 = metrics.processing.buckets.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, metrics.processing.count, "no batch takes long in paused time");
    // The expired watch, and the object that does not decode, unless it was listed by then.
    assert!((1..=2).contains(&metrics.reflector.relists), "{:?}", metrics.reflector);
    assert!(metrics.reflector.watch_restarts >= 1, "{:?}", metrics.reflector);
    assert!(metrics.reflector.decode_errors >= 1, "{:?}", metrics.reflector);
    let names: Vec<_> = metrics.handlers.iter().map(|handler| &*handler.name).collect();
    assert_eq!(names, ["printer", "printer", "never returns"]);
    let still = metrics.handlers.iter().find(|handler| &*handler.name == "never returns").unwrap();
    assert!(still.depth >= 1 && still.lag >= crate::common::HOUR, "{still:?}");
    let printer = metrics.handlers.first().unwrap();
    assert_eq!((printer.depth, printer.lag.as_nanos()), (0, 0));
    assert_eq!(printer.delivered, 3);
    let _ = running.stop().await;
}

/// A source whose second list has two unidentified items, and whose third list is complete.
fn unidentified_once() -> ScriptedSource<Item> {
    let list =
        |version: u64, names: &[&str]| List::new(names.iter().map(|name| Item::new(name, version)), version);
    ScriptedSource::new()
        .list(list(7, &["kettle", "toaster"]))
        .watch_error(SourceError::expired("compacted"))
        .list(list(9, &["pan"]).undecodable([DecodeError::new("no name"), DecodeError::new("no name")]))
        .watch(WatchScript::new().deleted(Item::new("toaster", 10)).hang())
        .list(list(12, &["pan"]))
        .watch(WatchScript::new().hang())
}

/// After an incomplete list, the informer reports that list, and deletes an object only if the watch reports
/// its deletion.
// contract: R-15a, R-15c, R-15d, R-15f, S-17c, I-09
#[tokio::test(start_paused = true)]
async fn incomplete_list_deletes_only_by_watch() {
    for queue in crate::common::QUEUES {
        let source = unidentified_once();
        let informer = SharedIndexInformer::builder(source).queue(queue).build().unwrap();
        let seen = crate::common::Seen::default();
        let recorder = seen.clone();
        informer.handler().inline().for_each(move |event| recorder.record(event)).unwrap();
        let running = Running::start(informer).await;
        seen.wait(|view| view.map.contains_key("pan")).await;
        seen.wait(|view| !view.map.contains_key("toaster")).await;
        assert_eq!(running.informer.store().keys().len(), 2, "{queue:?}: the kettle may be one of the two");
        let reflector = running.informer.part(PartId::ONLY).unwrap().reflector().clone();
        assert_eq!(running.informer.metrics().reflector.unidentified_objects, 2);
        let error = reflector.incomplete_list().unwrap();
        assert!(matches!(&*error, SourceError::IncompleteList { unidentified: 2, .. }), "{error}");
        let version = || running.informer.snapshot().resource_versions().lowest();
        assert_eq!(version(), 7.into(), "{queue:?}: the kettle may have a state between 7 and 10");

        seen.wait(|view| !view.map.contains_key("kettle")).await;
        assert!(reflector.incomplete_list().is_none());
        assert_eq!(running.informer.metrics().reflector.unidentified_objects, 0);
        assert_eq!(version(), 12.into(), "{queue:?}");
        seen.assert_no_faults();
        let _ = running.stop().await;
    }
}

/// The page contains the series of an informer until it stops or is dropped.
// contract: I-09, I-16f, I-30
#[cfg(feature = "prometheus")]
#[tokio::test(start_paused = true)]
async fn page_has_an_informer_until_it_stops() {
    use kinformer_shared_informer::prometheus::InformerCollector;
    use prometheus_client::{encoding::text, registry::Registry};

    let collector = InformerCollector::new();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector.clone()));
    let page = || {
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        page
    };
    let samples = |page: &str| {
        page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };

    let (running, source) = eventful().await;
    collector.add(&running.informer).unwrap();
    collector.add(&running.informer).unwrap();
    let text = page();
    let labels = r#"{name="items",resource="items.test"}"#;
    let of = |handler: &str| format!(r#"{{name="items",resource="items.test",handler="{handler}"}}"#);
    for line in [
        format!("informer_queued_items{labels} 0"),
        format!("informer_synced{labels} 1"),
        format!("informer_watching{labels} 1"),
        format!("informer_objects{labels} 2"),
        format!("informer_unidentified_objects{labels} 0"),
        format!("informer_ignored_version_signs{labels} 0"),
        format!("informer_not_watchable{labels} 0"),
        format!("informer_store_resource_version{labels} {}", source.version()),
        format!("informer_relists_total{labels} {}", running.informer.metrics().reflector.relists),
        format!("informer_handler_queued_events{} 0", of("printer")),
        format!("informer_handler_lag_seconds{} 0.0", of("printer")),
        format!("informer_handler_panics_total{} 0", of("never returns")),
        "informer_handler_threads_limit 4096".to_owned(),
    ] {
        assert!(text.lines().any(|other| other == line), "no {line:?} in\n{text}");
    }
    for name in [
        "informer_watch_restarts_total{",
        "informer_decode_errors_total{",
        "informer_failures_total{",
        "informer_processing_latency_seconds_count{",
    ] {
        let line = text.lines().find(|line| line.starts_with(name));
        let value: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(value >= 1.0, "{line:?}");
    }
    assert!(!text.contains("informer_bytes{"), "the memory of these objects is unknown");
    for state in ["running", "stuck", "idle"] {
        assert!(
            text.contains(&format!("informer_handler_threads{{state={state:?}}} ")),
            "{state} in\n{text}"
        );
    }
    let mut series: Vec<_> =
        samples(&text).iter().map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect();
    let all = series.len();
    series.sort();
    series.dedup();
    assert_eq!(series.len(), all, "duplicate series:\n{text}");

    let _ = running.stop().await;
    assert_eq!(samples(&page()), Vec::<String>::new(), "it has stopped");

    let never_run = SharedIndexInformer::<Item>::builder(source).name("idle").build().unwrap();
    collector.add(&never_run).unwrap();
    assert!(page().contains(r#"name="idle""#));
    for name in ["synced", "watching"] {
        let line = format!(r#"informer_{name}{{name="idle",resource="idle"}} 0"#);
        assert!(page().contains(&line), "no {line} in\n{}", page());
    }
    drop(never_run);
    assert_eq!(samples(&page()), Vec::<String>::new(), "it was dropped");
}

// contract: I-16a, I-16b
#[cfg(feature = "prometheus")]
#[tokio::test(start_paused = true)]
async fn page_has_no_duplicate_series() {
    use kinformer_shared_informer::Error;
    use kinformer_shared_informer::prometheus::InformerCollector;
    use prometheus_client::{encoding::text, registry::Registry};

    let collector = InformerCollector::new();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector.clone()));
    let page = || {
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        let lines = page.lines().filter(|line| line.starts_with("informer_objects{"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let informer = |scope: &str| {
        let builder = SharedIndexInformer::<Item>::builder(FakeSource::new());
        builder.name("items").resource("items.test").scope(scope).build().unwrap()
    };
    let first = Running::start(informer("")).await;
    let second = informer("");
    collector.add(&first.informer).unwrap();
    let refused = collector.add(&second).unwrap_err();
    assert!(
        matches!(&refused, Error::DuplicateMetrics { informer, resource, cluster, scope }
            if (&**informer, &**resource, &**cluster, &**scope) == ("items", "items.test", "", "")),
        "{refused:?}"
    );
    let text = refused.to_string();
    assert!(
        text.contains(r#""items" of "items.test""#) && text.contains("another name or a scope"),
        "{text}"
    );
    let unscoped = r#"informer_objects{name="items",resource="items.test"} 0"#;
    assert_eq!(page(), [unscoped]);

    // A scope distinguishes them.
    let scoped = informer("team-a");
    collector.add(&scoped).unwrap();
    assert!(collector.add(&informer("team-a")).is_err());
    let labels = r#"informer_objects{name="items",resource="items.test",scope="team-a"} 0"#;
    assert_eq!(page(), [unscoped, labels]);
    assert_eq!((scoped.scope(), &*scoped.metrics().scope), ("team-a", "team-a"));

    // The labels are free once the informer has stopped, even if it is still referenced, or was dropped.
    let stopped = first.informer.clone();
    first.stop().await.unwrap();
    collector.add(&second).unwrap();
    drop((stopped, scoped));
    collector.add(&informer("team-a")).unwrap();
    assert_eq!(page(), [unscoped], "the last one was dropped at once");
}

/// A page with a quote in a label would be refused as a whole.
// contract: I-16e
#[cfg(feature = "prometheus")]
#[tokio::test(start_paused = true)]
async fn labels_are_escaped() {
    use kinformer_shared_informer::prometheus::InformerCollector;
    use prometheus_client::{encoding::text, registry::Registry};

    let collector = InformerCollector::new();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector.clone()));
    let builder = SharedIndexInformer::<Item>::builder(FakeSource::new());
    let informer = builder.name("a\"b\\c\nd").resource("items.test").build().unwrap();
    collector.add(&informer).unwrap();
    let mut page = String::new();
    text::encode(&mut page, &registry).unwrap();
    let line = r#"informer_objects{name="a\"b\\c\nd",resource="items.test"} 0"#;
    assert!(page.lines().any(|other| other == line), "{page}");
}
