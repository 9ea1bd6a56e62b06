//! The figures of informers for a registry of prometheus-client.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::fmt;
use std::sync::{Arc, Weak};

use kinformer_core::Object;
use kinformer_processor::{HandlerMetrics, ThreadMetrics, thread_metrics};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio_util::sync::CancellationToken;

use crate::informer::Inner;
use crate::{Error, InformerMetrics, SharedIndexInformer};

/// Shows the [metrics](SharedIndexInformer::metrics) of informers, by `name`, `resource` and, where an informer has
/// them, `cluster` and `scope`, whenever they are asked for. Those of an informer vanish when it has stopped or was dropped; nothing is
/// kept. Handlers of one name are shown as one: their queues and panics together, the longest lag.
///
/// Cheap to clone; register one clone and add informers to another.
///
/// ```
/// use kinformer_shared_informer::{SharedIndexInformer, prometheus::InformerCollector};
/// use kinformer_testing::{FakeSource, Item};
/// use prometheus_client::{encoding::text, registry::Registry};
///
/// let informers = InformerCollector::new();
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(informers.clone()));
///
/// let informer = SharedIndexInformer::<Item>::builder(FakeSource::new()).name("items").build()?;
/// informers.add(&informer)?;
///
/// let mut page = String::new();
/// text::encode(&mut page, &registry)?;
/// assert!(page.contains(r#"informer_queued_items{name="items",resource="items"} 0"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct InformerCollector {
    informers: Arc<Mutex<BTreeMap<Identity, Registered>>>,
}

/// The labels by which the series of an informer differ from those of any other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    name: Arc<str>,
    resource: Arc<str>,
    cluster: Arc<str>,
    scope: Arc<str>,
}

struct Registered {
    informer: Weak<dyn Figures>,
    stopped: CancellationToken,
}

impl Registered {
    /// Whether the informer has stopped or was dropped.
    fn is_gone(&self) -> bool {
        self.stopped.is_cancelled() || self.informer.strong_count() == 0
    }
}

trait Figures: Send + Sync {
    /// `None` if the informer has stopped.
    fn figures(&self) -> Option<InformerMetrics>;
}

impl<T: Object> Figures for Inner<T> {
    fn figures(&self) -> Option<InformerMetrics> {
        (!self.has_stopped()).then(|| self.metrics())
    }
}

impl InformerCollector {
    /// A collector without informers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an informer, without keeping it alive. Added twice it is there once.
    ///
    /// # Errors
    /// [`Error::DuplicateMetrics`]: another informer with the same name, resource, cluster and
    /// [scope](crate::SharedIndexInformerBuilder::scope) was added and has neither stopped nor been dropped. Nothing
    /// has changed.
    ///
    /// Follows client-go 1.37 (`InformerName`), which refuses a name that is taken.
    pub fn add<T: Object>(&self, informer: &SharedIndexInformer<T>) -> Result<(), Error> {
        let inner = &informer.inner;
        let as_figures: Arc<dyn Figures> = inner.clone();
        let new = Registered { informer: Arc::downgrade(&as_figures), stopped: inner.stopped.clone() };
        let identity = Identity {
            name: inner.name.clone(),
            resource: inner.resource.clone(),
            cluster: inner.cluster.clone(),
            scope: inner.scope.clone(),
        };
        let mut informers = self.informers.lock();
        informers.retain(|_, registered| !registered.is_gone());
        match informers.entry(identity) {
            Place::Vacant(place) => {
                place.insert(new);
                Ok(())
            }
            Place::Occupied(place) if Weak::ptr_eq(&place.get().informer, &new.informer) => Ok(()),
            Place::Occupied(place) => {
                let Identity { name, resource, cluster, scope } = place.key().clone();
                Err(Error::DuplicateMetrics { informer: name, resource, cluster, scope })
            }
        }
    }

    fn figures(&self) -> Vec<InformerMetrics> {
        let informers: Vec<_> =
            self.informers.lock().values().filter_map(|registered| registered.informer.upgrade()).collect();
        let figures = informers.iter().filter_map(|informer| informer.figures());
        figures.map(|metrics| InformerMetrics { handlers: by_name(&metrics.handlers), ..metrics }).collect()
    }
}

/// What all series of an informer are labelled with, and what some are beside it.
fn labels(metrics: &InformerMetrics, more: Option<(&'static str, &str)>) -> Vec<(&'static str, String)> {
    let optional = [("cluster", &*metrics.cluster), ("scope", &*metrics.scope)];
    let optional = optional.into_iter().filter(|(_, value)| !value.is_empty());
    [("name", &*metrics.name), ("resource", &*metrics.resource)]
        .into_iter()
        .chain(optional)
        .chain(more)
        .map(|(label, value)| (label, value.to_owned()))
        .collect()
}

/// One metric: its name, its meaning, and its value in the figures of an informer.
type Figure = (&'static str, &'static str, fn(&InformerMetrics) -> Option<u64>);

const GAUGES: [Figure; 4] = [
    ("informer_queued_items", "Changes that wait between the reflector and the store", |metrics| {
        Some(metrics.queue.depth as u64)
    }),
    ("informer_objects", "Objects in the store", |metrics| Some(metrics.objects as u64)),
    (
        "informer_unreadable_items",
        "Objects of the last list whose keys cannot be read; with any of them the informer is degraded",
        |metrics| Some(metrics.reflector.unreadable_items),
    ),
    (
        "informer_store_resource_version",
        "The resource version that the store reflects, the lowest of its parts, where versions are numbers",
        |metrics| metrics.resource_versions.lowest().to_string().parse().ok(),
    ),
];

const COUNTERS: [Figure; 8] = [
    ("informer_lists", "Lists that were asked for", |metrics| {
        Some(metrics.reflector.lists + metrics.reflector.watch_lists)
    }),
    ("informer_relists", "Lists after the first", |metrics| Some(metrics.reflector.relists)),
    ("informer_watch_restarts", "Watches that took the place of one that had failed", |metrics| {
        Some(metrics.reflector.watch_restarts)
    }),
    ("informer_decode_errors", "Objects that could not be decoded", |metrics| {
        Some(metrics.reflector.decode_errors)
    }),
    (
        "informer_versions_went_back",
        "Lists because the versions of the server had gone back, as after the restore of an older state",
        |metrics| Some(metrics.reflector.versions_went_back),
    ),
    ("informer_version_probes", "Questions for the newest version of the server", |metrics| {
        Some(metrics.reflector.version_probes)
    }),
    (
        "informer_requests_put_off",
        "Lists and watches that waited because of the limit on requests",
        |metrics| Some(metrics.reflector.requests_put_off),
    ),
    ("informer_failures", "Lists and watches that failed", |metrics| Some(metrics.reflector.failures)),
];

impl Collector for InformerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let informers = self.figures();
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for metrics in &informers {
                if let Some(value) = value(metrics) {
                    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
                        .encode(family.encode_family(&labels(metrics, None))?)?;
                }
            }
        }
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for metrics in &informers {
                if let Some(value) = value(metrics) {
                    ConstCounter::new(value).encode(family.encode_family(&labels(metrics, None))?)?;
                }
            }
        }

        let mut latency = encoder.encode_descriptor(
            "informer_processing_latency_seconds",
            "From the queue to the handlers' log, by batch",
            None,
            MetricType::Histogram,
        )?;
        for metrics in &informers {
            let processing = &metrics.processing;
            let mut buckets = processing.buckets.clone();
            let counted: u64 = buckets.iter().map(|(_, count)| count).sum();
            // The encoder's way to say infinity.
            buckets.push((f64::MAX, processing.count.saturating_sub(counted)));
            latency.encode_family(&labels(metrics, None))?.encode_histogram::<[(&str, String); 0]>(
                processing.total.as_secs_f64(),
                processing.count,
                &buckets,
                None,
            )?;
        }

        let handler_labels =
            |metrics: &InformerMetrics, handler: &str| labels(metrics, Some(("handler", handler)));
        let mut queued = encoder.encode_descriptor(
            "informer_handler_queued_events",
            "Events that a handler has not been told yet",
            None,
            MetricType::Gauge,
        )?;
        for metrics in &informers {
            for handler in &metrics.handlers {
                let depth = i64::try_from(handler.depth).unwrap_or(i64::MAX);
                let labels = handler_labels(metrics, &handler.name);
                ConstGauge::new(depth).encode(queued.encode_family(&labels)?)?;
            }
        }
        let mut lag = encoder.encode_descriptor(
            "informer_handler_lag_seconds",
            "How long ago what a handler is being told was published",
            None,
            MetricType::Gauge,
        )?;
        for metrics in &informers {
            for handler in &metrics.handlers {
                let labels = handler_labels(metrics, &handler.name);
                ConstGauge::new(handler.lag.as_secs_f64()).encode(lag.encode_family(&labels)?)?;
            }
        }
        let mut panics = encoder.encode_descriptor(
            "informer_handler_panics",
            "Events in which a handler panicked",
            None,
            MetricType::Counter,
        )?;
        for metrics in &informers {
            for handler in &metrics.handlers {
                let labels = handler_labels(metrics, &handler.name);
                ConstCounter::new(handler.panics).encode(panics.encode_family(&labels)?)?;
            }
        }
        if !informers.is_empty() {
            encode_threads(&mut encoder)?;
        }
        Ok(())
    }
}

/// The threads of blocking handlers, which all informers of the process share.
fn encode_threads(encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let ThreadMetrics { threads, running, stuck, waiting, maximum, .. } = thread_metrics();
    let states = [
        ("running", running.saturating_sub(stuck)),
        ("stuck", stuck),
        ("idle", threads.saturating_sub(running)),
    ];
    let help = "Threads of blocking handlers; those in one callback for longer than 1 s are stuck";
    let mut family = encoder.encode_descriptor("informer_handler_threads", help, None, MetricType::Gauge)?;
    for (state, threads) in states {
        let threads = i64::try_from(threads).unwrap_or(i64::MAX);
        ConstGauge::new(threads).encode(family.encode_family(&[("state", state)])?)?;
    }
    for (name, help, value) in [
        ("informer_handler_threads_limit", "The largest number of threads of blocking handlers", maximum),
        ("informer_handler_turns_waiting", "Blocking handlers that wait for a thread", waiting),
    ] {
        let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    Ok(())
}

/// Handlers of the same name as one: a page that has the same series twice is refused.
fn by_name(handlers: &[HandlerMetrics]) -> Vec<HandlerMetrics> {
    let mut merged: Vec<HandlerMetrics> = Vec::with_capacity(handlers.len());
    for handler in handlers {
        match merged.iter_mut().find(|other| other.name == handler.name) {
            Some(other) => {
                other.depth += handler.depth;
                other.lag = other.lag.max(handler.lag);
                other.panics += handler.panics;
            }
            None => merged.push(handler.clone()),
        }
    }
    merged
}

impl fmt::Debug for InformerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerCollector").field("informers", &self.informers.lock().len()).finish()
    }
}
