//! Exports the metrics of informers to a registry of prometheus-client.

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

/// Collects the [metrics](SharedIndexInformer::metrics) of informers at each scrape, with the labels `name`, `resource`
/// and, if set, `cluster` and `scope`. The series of an informer disappear when it has stopped or was dropped. Handlers
/// with the same name are merged: the sum of their backlogs and panics, and the longest lag.
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
#[doc(alias("InformerMetricsProvider", "SetInformerMetricsProvider", "SetReflectorMetricsProvider"))]
#[derive(Clone, Default)]
pub struct InformerCollector {
    informers: Arc<Mutex<BTreeMap<Identity, Registered>>>,
}

/// The labels that identify the series of an informer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    name: Arc<str>,
    resource: Arc<str>,
    cluster: Arc<str>,
    scope: Arc<str>,
}

struct Registered {
    informer: Weak<dyn Metrics>,
    stopped: CancellationToken,
    decode_errors: Arc<DecodeErrors>,
}

/// The number of decode errors that the informer itself does not count.
type DecodeErrors = dyn Fn() -> u64 + Send + Sync;

impl Registered {
    /// Returns whether the informer has stopped or was dropped.
    fn is_gone(&self) -> bool {
        self.stopped.is_cancelled() || self.informer.strong_count() == 0
    }
}

trait Metrics: Send + Sync {
    /// Returns the metrics and the memory of the objects; `None` if the informer has stopped.
    fn current(&self) -> Option<(InformerMetrics, Option<u64>)>;
}

impl<T: Object> Metrics for Inner<T> {
    fn current(&self) -> Option<(InformerMetrics, Option<u64>)> {
        (!self.has_stopped()).then(|| (self.metrics(), self.bytes()))
    }
}

impl InformerCollector {
    /// Creates a collector without informers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an informer, without keeping it alive. Adding it again has no effect.
    ///
    /// # Errors
    /// [`Error::DuplicateMetrics`], without any effect, if another informer with the same name, resource, cluster and
    /// [scope](crate::SharedIndexInformerBuilder::scope) was added and has neither stopped nor been dropped.
    ///
    /// Follows client-go 0.37 (`InformerName`), which rejects a name that is taken.
    pub fn add<T: Object>(&self, informer: &SharedIndexInformer<T>) -> Result<(), Error> {
        self.add_with(informer, || 0)
    }

    /// As [`Self::add`], for an informer whose objects are decoded by others, too: their errors are added to its own.
    #[doc(hidden)]
    pub fn add_with<T: Object>(
        &self,
        informer: &SharedIndexInformer<T>,
        decode_errors: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let inner = &informer.inner;
        let as_metrics: Arc<dyn Metrics> = inner.clone();
        let new = Registered {
            informer: Arc::downgrade(&as_metrics),
            stopped: inner.stopped.clone(),
            decode_errors: Arc::new(decode_errors),
        };
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

    /// Returns the metrics of the informers, and the memory of their objects where it is known.
    fn metrics(&self) -> (Vec<InformerMetrics>, Vec<Option<u64>>) {
        let upgrade = |registered: &Registered| {
            Some((registered.informer.upgrade()?, registered.decode_errors.clone()))
        };
        let informers: Vec<_> = self.informers.lock().values().filter_map(upgrade).collect();
        let current = informers.iter().filter_map(|(informer, decode_errors)| {
            let (mut metrics, bytes) = informer.current()?;
            metrics.handlers = by_name(&metrics.handlers);
            metrics.reflector.decode_errors += decode_errors();
            Some((metrics, bytes))
        });
        current.unzip()
    }
}

/// Returns the labels of an informer's series, with one more label for some of them.
fn labels(metrics: &InformerMetrics, more: Option<(&'static str, &str)>) -> Vec<(&'static str, String)> {
    let optional = [("cluster", &*metrics.cluster), ("scope", &*metrics.scope)];
    let optional = optional.into_iter().filter(|(_, value)| !value.is_empty());
    [("name", &*metrics.name), ("resource", &*metrics.resource)]
        .into_iter()
        .chain(optional)
        .chain(more)
        .map(|(label, value)| (label, escaped(value)))
        .collect()
}

/// The value of a label. prometheus-client writes it as it is, and a scraper refuses a page with a quote in a value.
#[doc(hidden)]
pub fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A metric: its name, its help text, and its value in the metrics of an informer.
type Metric = (&'static str, &'static str, fn(&InformerMetrics) -> Option<u64>);

const GAUGES: [Metric; 8] = [
    ("informer_synced", "1 if the store has had the first list of each part, else 0", |metrics| {
        Some(metrics.synced.into())
    }),
    ("informer_watching", "1 if the watch of each part is open, else 0", |metrics| {
        Some(metrics.watching.into())
    }),
    ("informer_queued_items", "Queued changes between the reflector and the store", |metrics| {
        Some(metrics.queue.depth as u64)
    }),
    ("informer_objects", "Objects in the store", |metrics| Some(metrics.objects as u64)),
    (
        "informer_unidentified_objects",
        "Objects of the last list whose keys are unknown; if not 0, the list deleted nothing and is repeated",
        |metrics| Some(metrics.reflector.unidentified_objects),
    ),
    (
        "informer_ignored_version_signs",
        "Signs that the server's versions went back, which were wrong twice and are ignored",
        |metrics| Some(metrics.reflector.ignored_version_signs),
    ),
    (
        "informer_not_watchable",
        "Parts that the server refuses to watch: their objects are as fresh as the last list",
        |metrics| Some(metrics.reflector.not_watchable),
    ),
    (
        "informer_store_resource_version",
        "Resource version of the store, the lowest of its parts, if versions are numbers",
        |metrics| metrics.resource_versions.lowest().to_string().parse().ok(),
    ),
];

const COUNTERS: [Metric; 8] = [
    ("informer_lists", "Requested lists and watch-lists", |metrics| {
        Some(metrics.reflector.lists + metrics.reflector.watch_lists)
    }),
    ("informer_relists", "Lists after the first", |metrics| Some(metrics.reflector.relists)),
    ("informer_watch_restarts", "Watches that continued an earlier watch without a list", |metrics| {
        Some(metrics.reflector.watch_restarts)
    }),
    ("informer_decode_errors", "Objects that could not be decoded", |metrics| {
        Some(metrics.reflector.decode_errors)
    }),
    (
        "informer_versions_went_back",
        "Times that the server's versions went back, as after the restore of an older state",
        |metrics| Some(metrics.reflector.versions_went_back),
    ),
    ("informer_version_probes", "Requests for the newest version of the server", |metrics| {
        Some(metrics.reflector.version_probes)
    }),
    ("informer_requests_throttled", "Delays of lists and watches by the limit on requests", |metrics| {
        Some(metrics.reflector.requests_throttled)
    }),
    ("informer_failures", "Lists and watches that failed", |metrics| Some(metrics.reflector.failures)),
];

impl Collector for InformerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (informers, bytes) = self.metrics();
        encode_bytes(&mut encoder, &informers, &bytes)?;
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
        encode_latency(&mut encoder, &informers)?;
        encode_handlers(
            &mut encoder,
            &informers,
            ("informer_handler_queued_events", "Undelivered events of a handler", MetricType::Gauge),
            |handler| ConstGauge::new(i64::try_from(handler.depth).unwrap_or(i64::MAX)),
        )?;
        let help = "Time since the publication of a handler's current event";
        let lag = ("informer_handler_lag_seconds", help, MetricType::Gauge);
        encode_handlers(&mut encoder, &informers, lag, |handler| ConstGauge::new(handler.lag.as_secs_f64()))?;
        let panics = ("informer_handler_panics", "Events over which a handler panicked", MetricType::Counter);
        encode_handlers(&mut encoder, &informers, panics, |handler| ConstCounter::new(handler.panics))?;
        if !informers.is_empty() {
            encode_threads(&mut encoder)?;
        }
        Ok(())
    }
}

/// Encodes the memory of the objects of each informer where it is known.
fn encode_bytes(
    encoder: &mut DescriptorEncoder<'_>,
    informers: &[InformerMetrics],
    bytes: &[Option<u64>],
) -> Result<(), fmt::Error> {
    let help = "Memory of the objects in the store, without decoded values";
    let mut family = encoder.encode_descriptor("informer_bytes", help, None, MetricType::Gauge)?;
    for (metrics, bytes) in informers.iter().zip(bytes) {
        if let Some(bytes) = bytes {
            ConstGauge::new(i64::try_from(*bytes).unwrap_or(i64::MAX))
                .encode(family.encode_family(&labels(metrics, None))?)?;
        }
    }
    Ok(())
}

fn encode_latency(
    encoder: &mut DescriptorEncoder<'_>,
    informers: &[InformerMetrics],
) -> Result<(), fmt::Error> {
    let help = "Processing time of a batch, from the queue to the handlers' log";
    let kind = MetricType::Histogram;
    let mut family = encoder.encode_descriptor("informer_processing_latency_seconds", help, None, kind)?;
    for metrics in informers {
        let processing = &metrics.processing;
        let mut buckets = processing.buckets.clone();
        let counted: u64 = buckets.iter().map(|(_, count)| count).sum();
        // The encoder writes this bound as infinity.
        buckets.push((f64::MAX, processing.count.saturating_sub(counted)));
        family.encode_family(&labels(metrics, None))?.encode_histogram::<[(&str, String); 0]>(
            processing.total.as_secs_f64(),
            processing.count,
            &buckets,
            None,
        )?;
    }
    Ok(())
}

fn encode_handlers<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    informers: &[InformerMetrics],
    (name, help, kind): (&str, &str, MetricType),
    value: fn(&HandlerMetrics) -> M,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for metrics in informers {
        for handler in &metrics.handlers {
            let labels = labels(metrics, Some(("handler", &handler.name)));
            value(handler).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Encodes the metrics of the threads of blocking handlers, which all informers of the process share.
fn encode_threads(encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let ThreadMetrics { threads, running, stuck, waiting, maximum, .. } = thread_metrics();
    let states = [
        ("running", running.saturating_sub(stuck)),
        ("stuck", stuck),
        ("idle", threads.saturating_sub(running)),
    ];
    let help = "Threads of blocking handlers; stuck: in one callback for longer than 1 s";
    let mut family = encoder.encode_descriptor("informer_handler_threads", help, None, MetricType::Gauge)?;
    for (state, threads) in states {
        let threads = i64::try_from(threads).unwrap_or(i64::MAX);
        ConstGauge::new(threads).encode(family.encode_family(&[("state", state)])?)?;
    }
    for (name, help, value) in [
        ("informer_handler_threads_limit", "Maximum number of threads of blocking handlers", maximum),
        ("informer_handler_turns_waiting", "Blocking handlers that wait for a thread", waiting),
    ] {
        let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    Ok(())
}

/// Merges handlers with the same name: Prometheus rejects a page with duplicate series.
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
