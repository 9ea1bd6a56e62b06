//! Exports the metrics of controllers to a registry of prometheus-client, under the names of controller-runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kinformer::prometheus::escaped;
use kinformer_leader_election::LeaderElector;
#[cfg(feature = "ring")]
use kinformer_ring::Ring;
use kinformer_workqueue::{Histogram, LOW_PRIORITY};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::controller::Controller;
use crate::error::Error;
use crate::event_metrics::{Counters, EventMetrics};
use crate::events::EventRecorder;
use crate::metrics::ControllerMetrics;
use crate::worker::{Key, Named, Observed};

/// Collects the [metrics](crate::Monitor::metrics) of controllers and of their queues at each scrape. The series of a
/// controller disappear when it has ended or was dropped.
///
/// Cheap to clone; register one clone and add controllers to another.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::prometheus::ControllerCollector;
/// use kinformer_controller::{Action, Controller};
/// use prometheus_client::{encoding::text, registry::Registry};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
/// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
/// let collector = ControllerCollector::new();
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(collector.clone()));
///
/// let controller = Controller::of(&factory).reconciles::<ConfigMap>().build(async |_| Ok(Action::none()));
/// collector.add(&controller)?; // or add_manager
///
/// let mut page = String::new();
/// text::encode(&mut page, &registry)?;
/// assert!(page.contains(r#"controller_runtime_active_workers{controller="configmap"} 0"#));
/// # Ok(())
/// # }
/// ```
///
/// Follows controller-runtime 0.25.
#[derive(Clone, Default)]
pub struct ControllerCollector {
    controllers: Arc<Mutex<Registered>>,
    recorders: Arc<Mutex<Recorders>>,
    electors: Arc<Mutex<Vec<LeaderElector>>>,
    #[cfg(feature = "ring")]
    rings: Arc<Mutex<Vec<Ring>>>,
}

/// Recorders of events, by the name of their controller.
type Recorders = BTreeMap<Arc<str>, Weak<Counters>>;

type Registered = BTreeMap<Arc<str>, Weak<dyn Observed>>;

impl ControllerCollector {
    /// Creates a collector without controllers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a controller, without keeping it alive. Adding it again has no effect.
    ///
    /// # Errors
    /// [`Error::DuplicateMetrics`], without any effect, if another controller with the same name was added and has neither
    /// ended nor been dropped.
    pub fn add<K: Key>(&self, controller: &Controller<K>) -> Result<(), Error> {
        self.add_all(&[(controller.name().clone(), controller.observed())])
    }

    /// Adds a recorder of events, without keeping it alive, by the name of its controller. Replaces another one with this name.
    pub fn add_events(&self, recorder: &EventRecorder) {
        let (controller, counters) = recorder.observed();
        self.recorders.lock().insert(controller, counters);
    }

    /// Adds an elector, by the name of its Lease. Replaces another one with this name.
    ///
    /// Follows client-go 0.37 (`leader_election_master_status`, `leader_election_slowpath_total`).
    #[doc(alias("LeaderMetric", "MetricsProvider", "SetProvider"))]
    pub fn add_election(&self, elector: &LeaderElector) {
        let mut electors = self.electors.lock();
        electors.retain(|other| other.lease_name() != elector.lease_name());
        electors.push(elector.clone());
    }

    /// Adds a ring by its name. Replaces another one with this name.
    #[cfg(feature = "ring")]
    pub fn add_ring(&self, ring: &Ring) {
        let mut rings = self.rings.lock();
        rings.retain(|other| other.name() != ring.name());
        rings.push(ring.clone());
    }

    /// Encodes the metrics of the rings, if there is one.
    #[cfg(feature = "ring")]
    fn encode_rings(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let rings = self.rings.lock().clone();
        if rings.is_empty() {
            return Ok(());
        }
        type Gauge = (&'static str, &'static str, fn(&Ring) -> usize);
        let gauges: [Gauge; 4] = [
            ("kinformer_ring_owned_slots", "Slots that this process owns", |ring| ring.status().owned.len()),
            ("kinformer_ring_owned_ranges", "Ranges of these slots", |ring| {
                ring.status().owned.ranges().len()
            }),
            (
                "kinformer_ring_unowned_slots",
                "Slots that no process owns, as far as this one knows",
                |ring| ring.status().unowned.len(),
            ),
            (
                "kinformer_ring_problem",
                "1 if something prevents this process from owning its share of the slots, else 0",
                |ring| usize::from(ring.status().problem.is_some()),
            ),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for ring in &rings {
                count(value(ring)).encode(family.encode_family(&[("name", escaped(ring.name()))])?)?;
            }
        }
        let (name, help) =
            ("kinformer_ring_moved_slots", "Slots that this process began to own, gave away, or lost");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for ring in &rings {
            let metrics = ring.metrics();
            let moves = [
                ("begun", metrics.slots_begun),
                ("released", metrics.slots_released),
                ("stopped", metrics.slots_stopped),
            ];
            for (what, slots) in moves {
                let labels = [("name", escaped(ring.name())), ("move", what.into())];
                ConstCounter::new(slots).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Encodes the metrics of the electors, if there is one.
    fn encode_elections(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let electors = self.electors.lock().clone();
        if electors.is_empty() {
            return Ok(());
        }
        let (name, help) = ("leader_election_master_status", "1 if this process is the leader, else 0");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for elector in &electors {
            let labels = [("name", escaped(elector.lease_name()))];
            count(usize::from(elector.is_leader())).encode(family.encode_family(&labels)?)?;
        }
        let (name, help) = ("leader_election_slowpath", "Renewals that needed a read of the Lease");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for elector in &electors {
            let labels = [("name", escaped(elector.lease_name()))];
            ConstCounter::new(elector.slow_renewals()).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Encodes the metrics of the recorders, if there is one.
    fn encode_events(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut recorders: Vec<(String, EventMetrics)> = Vec::new();
        self.recorders.lock().retain(|controller, counters| {
            let metrics = counters.upgrade().map(|counters| counters.read());
            recorders.extend(metrics.map(|metrics| (escaped(controller), metrics)));
            metrics.is_some()
        });
        if recorders.is_empty() {
            return Ok(());
        }
        let (name, help) = ("kinformer_events_written", "Events, and counts of series, that were stored");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (controller, metrics) in &recorders {
            let labels = [("controller", &**controller)];
            ConstCounter::new(metrics.written).encode(family.encode_family(&labels)?)?;
        }
        let help = "Events that were not stored, by reason";
        let mut family =
            encoder.encode_descriptor("kinformer_events_lost", help, None, MetricType::Counter)?;
        for (controller, metrics) in &recorders {
            for (reason, count) in LOSSES {
                let labels = [("controller", &**controller), ("reason", reason)];
                ConstCounter::new(count(metrics)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    pub(crate) fn add_all(&self, added: &[Named]) -> Result<(), Error> {
        let mut controllers = self.controllers.lock();
        for (name, new) in added {
            if let Some(old) = controllers.get(name)
                && !Weak::ptr_eq(old, new)
                && old.upgrade().is_some_and(|old| old.current().is_some())
            {
                return Err(Error::DuplicateMetrics { name: name.clone() });
            }
        }
        controllers.extend(added.iter().cloned());
        Ok(())
    }

    fn metrics(&self) -> Vec<(Arc<str>, ControllerMetrics)> {
        let mut controllers = Vec::new();
        self.controllers.lock().retain(|name, controller| {
            let controller = controller.upgrade();
            let is_kept = controller.is_some();
            controllers.extend(controller.map(|controller| (name.clone(), controller)));
            is_kept
        });
        // Without the lock, and controllers that end meanwhile are dropped here.
        let metrics = controllers
            .into_iter()
            .map(|(name, controller)| Some((escaped(&name).into(), controller.current()?)));
        metrics.flatten().collect()
    }
}

/// A metric: its name, its help text, and its value in the metrics of a controller.
type Metric<V> = (&'static str, &'static str, fn(&ControllerMetrics) -> V);

/// The encoder appends `_total` to their names.
const COUNTERS: [Metric<u64>; 4] = [
    ("controller_runtime_reconcile_errors", "Reconciliations that failed", |metrics| metrics.failed),
    (
        "controller_runtime_terminal_reconcile_errors",
        "Reconciliations that failed with a permanent error",
        |metrics| metrics.permanent,
    ),
    ("controller_runtime_reconcile_panics", "Reconciliations that panicked", |metrics| metrics.panicked),
    (
        "controller_runtime_reconcile_timeouts",
        "Reconciliations that took longer than the timeout",
        |metrics| metrics.timed_out,
    ),
];

const GAUGES: [Metric<usize>; 2] = [
    ("controller_runtime_max_concurrent_reconciles", "Number of workers", |metrics| metrics.workers),
    ("controller_runtime_active_workers", "Reconciliations that run", |metrics| metrics.active),
];

/// The keys with failures.
const FAILING: Metric<usize> =
    ("kinformer_workqueue_failing_keys", "Keys that have failed and not succeeded since", |metrics| {
        metrics.queue.failing
    });

const QUEUE_COUNTERS: [Metric<u64>; 2] = [
    ("workqueue_adds", "Keys that were queued", |metrics| metrics.queue.adds),
    ("workqueue_retries", "Requests with a delay", |metrics| metrics.queue.retries),
];

const QUEUE_DURATIONS: [Metric<Duration>; 3] = [
    (
        "kinformer_workqueue_oldest_key_seconds",
        "How long the key that has waited longest has been queued",
        |metrics| metrics.queue.oldest,
    ),
    (
        "workqueue_unfinished_work_seconds",
        "How long the keys in flight have been in flight, as a sum",
        |metrics| metrics.queue.unfinished_work,
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "How long the longest of the keys in flight has been in flight",
        |metrics| metrics.queue.longest_running,
    ),
];

const QUEUE_HISTOGRAMS: [Metric<Histogram>; 2] = [
    (
        "workqueue_queue_duration_seconds",
        "How long keys were queued before they were handed out",
        |metrics| metrics.queue.queue_duration,
    ),
    ("workqueue_work_duration_seconds", "How long keys were in flight", |metrics| {
        metrics.queue.work_duration
    }),
];

/// A result of reconciliations, and their number.
type ByResult = (&'static str, fn(&ControllerMetrics) -> u64);

/// The series of `controller_runtime_reconcile_total`. No reconciliation has the result `requeue`, which is deprecated in
/// controller-runtime.
const RESULTS: [ByResult; 4] = [
    ("error", |metrics| metrics.failed),
    ("requeue", |_| 0),
    ("requeue_after", |metrics| metrics.requeued),
    ("success", |metrics| metrics.succeeded),
];

/// A reason for which events are lost, and their number.
type ByReason = (&'static str, fn(&EventMetrics) -> u64);

/// The series of `kinformer_events_lost_total`.
const LOSSES: [ByReason; 5] = [
    ("queue_full", |metrics| metrics.queue_full),
    ("refused", |metrics| metrics.refused),
    ("failed", |metrics| metrics.failed),
    ("not_leader", |metrics| metrics.not_leader),
    ("shut_down", |metrics| metrics.shut_down),
];

/// The largest number of priorities with series of their own, and the label of further ones, both as in controller-runtime.
const PRIORITIES: usize = 25;
const FURTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

/// The queued keys by the label of their priority. The priorities that controllers use by themselves always have a series.
fn by_priority(depths: &[(i64, usize)]) -> BTreeMap<String, usize> {
    let mut priorities = BTreeMap::from([(LOW_PRIORITY.to_string(), 0), (0.to_string(), 0)]);
    for (priority, depth) in depths {
        let label = priority.to_string();
        let has_room = priorities.len() < PRIORITIES || priorities.contains_key(&label);
        *priorities.entry(if has_room { label } else { FURTHER_PRIORITIES.to_owned() }).or_default() += depth;
    }
    priorities
}

type Controllers = [(Arc<str>, ControllerMetrics)];
type Labels<'a> = Vec<(&'static str, &'a str)>;

fn of_controller(name: &str) -> Labels<'_> {
    vec![("controller", name)]
}

fn of_queue(name: &str) -> Labels<'_> {
    vec![("name", name), ("controller", name)]
}

impl Collector for ControllerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let controllers = self.metrics();
        let mut page = Page { encoder: &mut encoder, controllers: &controllers };
        let help = "Reconciliations by result";
        let mut results = page.encoder.encode_descriptor(
            "controller_runtime_reconcile",
            help,
            None,
            MetricType::Counter,
        )?;
        for (name, metrics) in &controllers {
            for (result, count) in RESULTS {
                let labels = [("controller", &**name), ("result", result)];
                ConstCounter::new(count(metrics)).encode(results.encode_family(&labels)?)?;
            }
        }
        for metric in COUNTERS {
            page.counter(metric, of_controller)?;
        }
        page.histogram(
            (
                "controller_runtime_reconcile_time_seconds",
                "How long reconciliations took",
                |metrics: &ControllerMetrics| metrics.reconcile_time,
            ),
            of_controller,
        )?;
        for metric in GAUGES {
            page.gauge(metric, of_controller, count)?;
        }
        page.depths()?;
        page.gauge(FAILING, of_queue, count)?;
        for metric in QUEUE_COUNTERS {
            page.counter(metric, of_queue)?;
        }
        for metric in QUEUE_HISTOGRAMS {
            page.histogram(metric, of_queue)?;
        }
        for metric in QUEUE_DURATIONS {
            page.gauge(metric, of_queue, |duration| ConstGauge::new(duration.as_secs_f64()))?;
        }
        self.encode_events(&mut encoder)?;
        #[cfg(feature = "ring")]
        self.encode_rings(&mut encoder)?;
        self.encode_elections(&mut encoder)
    }
}

fn count(value: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

struct Page<'a, 'b> {
    encoder: &'a mut DescriptorEncoder<'b>,
    controllers: &'a Controllers,
}

impl Page<'_, '_> {
    fn counter(
        &mut self,
        (name, help, value): Metric<u64>,
        labels: fn(&str) -> Labels<'_>,
    ) -> Result<(), fmt::Error> {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (name, metrics) in self.controllers {
            ConstCounter::new(value(metrics)).encode(family.encode_family(&labels(name))?)?;
        }
        Ok(())
    }

    fn gauge<V, G: EncodeMetric>(
        &mut self,
        (name, help, value): Metric<V>,
        labels: fn(&str) -> Labels<'_>,
        gauge: fn(V) -> G,
    ) -> Result<(), fmt::Error> {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (name, metrics) in self.controllers {
            gauge(value(metrics)).encode(family.encode_family(&labels(name))?)?;
        }
        Ok(())
    }

    fn depths(&mut self) -> Result<(), fmt::Error> {
        let help = "Queued keys by priority";
        let mut family = self.encoder.encode_descriptor("workqueue_depth", help, None, MetricType::Gauge)?;
        for (name, metrics) in self.controllers {
            for (priority, depth) in by_priority(&metrics.queue_depths) {
                let mut labels = of_queue(name);
                labels.push(("priority", &priority));
                count(depth).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn histogram<const N: usize>(
        &mut self,
        (name, help, value): Metric<Histogram<N>>,
        labels: fn(&str) -> Labels<'_>,
    ) -> Result<(), fmt::Error> {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (name, metrics) in self.controllers {
            let histogram = value(metrics);
            let mut below = 0;
            let mut buckets = Vec::with_capacity(N + 1);
            for (bound, cumulative) in histogram.buckets() {
                buckets.push((bound.as_secs_f64(), cumulative - below));
                below = cumulative;
            }
            // The encoder writes this bound as infinity.
            buckets.push((f64::MAX, histogram.count() - below));
            family.encode_family(&labels(name))?.encode_histogram::<[(&str, &str); 0]>(
                histogram.sum().as_secs_f64(),
                histogram.count(),
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for ControllerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerCollector").field("controllers", &self.controllers.lock().len()).finish()
    }
}
