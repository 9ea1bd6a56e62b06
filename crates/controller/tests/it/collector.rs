//! The page of the collector for prometheus-client.

use std::collections::BTreeMap;
use std::time::Duration;

use kinformer_controller::kinformer_workqueue::Add;
use kinformer_controller::prometheus::ControllerCollector;
use kinformer_controller::{Action, Controller, Error, Manager, ReconcileError, State};
use prometheus_client::{encoding::text, registry::Registry};

use crate::common::{Cluster, Running, short, within};

struct Page {
    collector: ControllerCollector,
    registry: Registry,
}

impl Page {
    fn new() -> Self {
        let collector = ControllerCollector::new();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(collector.clone()));
        Self { collector, registry }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// The value of each series.
    fn series(&self) -> BTreeMap<String, f64> {
        let text = self.text();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let mut series = BTreeMap::new();
        for (name, value) in samples.map(|line| line.rsplit_once(' ').unwrap()) {
            assert_eq!(series.insert(name.to_owned(), value.parse().unwrap()), None, "twice: {name}");
        }
        series
    }

    /// The name and the type of each metric.
    fn types(&self) -> Vec<(String, String)> {
        let text = self.text();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
    }
}

/// The page of a controller that has run has the names, the types, the buckets and the values.
// contract: K-14a, K-14d
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_of_a_controller() {
    let cluster = Cluster::start().await;
    let builder = Controller::of(&cluster.factory).keyed::<u32>("numbers").workers(3);
    let controller = builder.timeout(Duration::from_millis(20)).rate_limiter(short()).build(
        async |request| match *request {
            1 => Ok(Action::requeue_after(Duration::from_secs(3600))),
            2 => Err(ReconcileError::permanent("error")),
            3 if request.failures == 0 => panic!("panic"),
            4 if request.failures == 0 => std::future::pending().await,
            _ => Ok(Action::none()),
        },
    );
    let page = Page::new();
    page.collector.add(&controller).unwrap();
    let (monitor, queue) = (controller.monitor(), controller.queue().clone());
    let running = Running::of(controller);
    (0..5).for_each(|key| assert!(queue.add(key)));
    within(async {
        while monitor.metrics().reconcile_time.count() < 7 || queue.metrics().in_flight > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;

    let series = page.series();
    let of = |name: &str| *series.get(name).unwrap_or_else(|| panic!("no {name} in\n{series:#?}"));
    for (name, value) in [
        ("reconcile_total{controller=\"numbers\",result=\"success\"}", 3.0),
        ("reconcile_total{controller=\"numbers\",result=\"requeue_after\"}", 1.0),
        ("reconcile_total{controller=\"numbers\",result=\"requeue\"}", 0.0),
        ("reconcile_total{controller=\"numbers\",result=\"error\"}", 3.0),
        ("reconcile_errors_total{controller=\"numbers\"}", 3.0),
        ("terminal_reconcile_errors_total{controller=\"numbers\"}", 1.0),
        ("reconcile_panics_total{controller=\"numbers\"}", 1.0),
        ("reconcile_timeouts_total{controller=\"numbers\"}", 1.0),
        ("max_concurrent_reconciles{controller=\"numbers\"}", 3.0),
        ("active_workers{controller=\"numbers\"}", 0.0),
        ("reconcile_time_seconds_count{controller=\"numbers\"}", 7.0),
        ("reconcile_time_seconds_bucket{le=\"+Inf\",controller=\"numbers\"}", 7.0),
    ] {
        assert_eq!(of(&format!("controller_runtime_{name}")), value, "{name}");
    }
    let labels = "{name=\"numbers\",controller=\"numbers\"}";
    for (name, value) in [
        ("adds_total", 7.0),
        ("retries_total", 3.0),
        ("queue_duration_seconds_count", 7.0),
        ("work_duration_seconds_count", 7.0),
        ("unfinished_work_seconds", 0.0),
        ("longest_running_processor_seconds", 0.0),
    ] {
        assert_eq!(of(&format!("workqueue_{name}{labels}")), value, "{name}");
    }
    for name in ["failing_keys", "oldest_key_seconds"] {
        assert_eq!(of(&format!("kinformer_workqueue_{name}{labels}")), 0.0, "{name}");
    }
    for priority in [-100, 0] {
        let labels = format!("{{name=\"numbers\",controller=\"numbers\",priority=\"{priority}\"}}");
        assert_eq!(of(&format!("workqueue_depth{labels}")), 0.0, "{priority}");
    }
    let took = of("controller_runtime_reconcile_time_seconds_sum{controller=\"numbers\"}");
    assert!(took >= 0.02, "the timeout: {took}");
    let bucket = "controller_runtime_reconcile_time_seconds_bucket{";
    let buckets = series.keys().filter(|name| name.starts_with(bucket)).count();
    assert_eq!(buckets, 41, "controller-runtime has 40 and +Inf");
    let timed_out = of(&format!("{bucket}le=\"0.01\",controller=\"numbers\"}}"));
    assert!(timed_out <= 6.0, "the timeout is longer than 10 ms: {timed_out}");

    let runtime = |name: &str, kind: &str| (format!("controller_runtime_{name}"), kind.to_owned());
    let queue = |name: &str, kind: &str| (format!("workqueue_{name}"), kind.to_owned());
    let ours = |name: &str| (format!("kinformer_workqueue_{name}"), "gauge".to_owned());
    let types = [
        runtime("reconcile", "counter"),
        runtime("reconcile_errors", "counter"),
        runtime("terminal_reconcile_errors", "counter"),
        runtime("reconcile_panics", "counter"),
        runtime("reconcile_timeouts", "counter"),
        runtime("reconcile_time_seconds", "histogram"),
        runtime("max_concurrent_reconciles", "gauge"),
        runtime("active_workers", "gauge"),
        queue("depth", "gauge"),
        ours("failing_keys"),
        queue("adds", "counter"),
        queue("retries", "counter"),
        queue("queue_duration_seconds", "histogram"),
        queue("work_duration_seconds", "histogram"),
        ours("oldest_key_seconds"),
        queue("unfinished_work_seconds", "gauge"),
        queue("longest_running_processor_seconds", "gauge"),
    ];
    assert_eq!(page.types(), types);

    running.end().await.unwrap();
    assert_eq!(page.series().len(), 0, "it has ended");
    cluster.end().await;
}

/// Each priority has a series, and what exceeds 25 of them has one.
// contract: K-14c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn depth_by_priority() {
    let cluster = Cluster::start().await;
    let controller =
        Controller::of(&cluster.factory).keyed::<i64>("numbers").build(async |_| Ok(Action::none()));
    let page = Page::new();
    page.collector.add(&controller).unwrap();
    let depths = || {
        let depth = "workqueue_depth{name=\"numbers\",controller=\"numbers\",priority=\"";
        let series = page.series().into_iter();
        let of = |(name, value): (String, f64)| {
            Some((name.strip_prefix(depth)?.strip_suffix("\"}")?.to_owned(), value))
        };
        series.filter_map(of).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(depths(), BTreeMap::from([("-100".to_owned(), 0.0), ("0".to_owned(), 0.0)]));
    for key in 0..30 {
        controller.queue().add_with(key, Add::new().priority(key));
    }
    controller.queue().add_with(100, Add::new().priority(7));
    let depths = depths();
    assert_eq!(depths.len(), 26, "{depths:?}");
    for (priority, depth) in [("-100", 0.0), ("0", 1.0), ("7", 2.0), ("exceeded_cardinality_limit", 6.0)] {
        assert_eq!(depths.get(priority), Some(&depth), "{depths:?}");
    }
    drop(controller);
    cluster.end().await;
}

/// A manager adds all of its controllers, or none. A name is free again when its controller has ended.
// contract: K-14b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_of_a_manager() {
    let cluster = Cluster::start().await;
    let controller =
        |name: &str| Controller::of(&cluster.factory).keyed::<u32>(name).build(async |_| Ok(Action::none()));
    let page = Page::new();
    let manager = Manager::new().add(controller("a")).unwrap().add(controller("b")).unwrap();
    page.collector.add_manager(&manager).unwrap();
    page.collector.add_manager(&manager).unwrap();
    let names = |page: &Page| {
        let series = page.series().into_keys();
        let names = series.filter_map(|name| {
            name.strip_prefix("controller_runtime_active_workers{controller=").map(str::to_owned)
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&page), ["\"a\"}", "\"b\"}"]);

    let other = Manager::new().add(controller("c")).unwrap().add(controller("b")).unwrap();
    let refused = page.collector.add_manager(&other);
    assert!(matches!(&refused, Err(Error::DuplicateMetrics { name }) if &**name == "b"), "{refused:?}");
    assert_eq!(names(&page), ["\"a\"}", "\"b\"}"]);

    let (health, shutdown) = (manager.health(), kinformer_controller::CancellationToken::new());
    let running = tokio::spawn(manager.run(shutdown.clone()));
    within(async {
        while health.state() != State::Running {
            tokio::task::yield_now().await;
        }
    })
    .await;
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    page.collector.add_manager(&other).unwrap();
    assert_eq!(names(&page), ["\"b\"}", "\"c\"}"]);
    drop(other);
    assert_eq!(names(&page), Vec::<String>::new(), "it was dropped");
    cluster.end().await;
}

/// A name with quotes, backslashes and line ends is escaped. The series of a controller that was dropped are gone.
// contract: K-14a, K-14b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_names_are_escaped() {
    let cluster = Cluster::start().await;
    let page = Page::new();
    let controller =
        || Controller::of(&cluster.factory).keyed::<u32>("a\"b\\c\nd").build(async |_| Ok(Action::none()));
    let first = controller();
    let _monitor = first.monitor();
    page.collector.add(&first).unwrap();
    let series = page.series();
    let escaped = r#"controller_runtime_active_workers{controller="a\"b\\c\nd"}"#;
    assert_eq!(series.get(escaped), Some(&0.0), "{series:?}");
    drop(first);
    assert!(page.series().is_empty());
    page.collector.add(&controller()).unwrap();
    cluster.end().await;
}
