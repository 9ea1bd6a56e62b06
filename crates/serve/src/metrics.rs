//! The metrics of the informers, under client-go's names where they exist, and of the server.

use std::fmt;
use std::sync::atomic::AtomicU64;

use kinformer::Informer;
use kinformer::prometheus::InformerCollector;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The content type of the metrics.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

/// The metrics of a server.
pub(crate) struct Metrics {
    informers: InformerCollector,
    requests: Family<Labels, Counter>,
    asked: Counter<u64, AtomicU64>,
    encoded: Counter<u64, AtomicU64>,
    streams: Gauge,
    views: Gauge,
    view_bytes: Gauge,
    changes: Gauge,
    change_bytes: Gauge,
    /// Not locked while metrics are updated, only while they are written.
    registry: Mutex<Registry>,
}

/// The figures that are read when the metrics are.
pub(crate) struct Figures {
    pub(crate) streams: usize,
    pub(crate) views: (usize, usize),
    pub(crate) changes: (usize, usize, u64),
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let informers = InformerCollector::new();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(informers.clone()));
        let this = Self {
            informers,
            requests: Family::default(),
            asked: Counter::default(),
            encoded: Counter::default(),
            streams: Gauge::default(),
            views: Gauge::default(),
            view_bytes: Gauge::default(),
            changes: Gauge::default(),
            change_bytes: Gauge::default(),
            registry: Mutex::default(),
        };
        registry.register(
            "kinformer_serve_requests",
            "Answered HTTP requests by status code",
            this.requests.clone(),
        );
        registry.register(
            "kinformer_serve_api_server_reads",
            "Objects requested from the API server",
            this.asked.clone(),
        );
        registry.register(
            "kinformer_serve_encoded_changes",
            "Changes encoded for streams and histories",
            this.encoded.clone(),
        );
        registry.register("kinformer_serve_streams", "Open streams of events", this.streams.clone());
        registry.register("kinformer_serve_views", "Lists whose pages can be read", this.views.clone());
        registry.register(
            "kinformer_serve_view_bytes",
            "Encoded bytes of the objects of these lists",
            this.view_bytes.clone(),
        );
        registry.register("kinformer_serve_changes", "Remembered changes", this.changes.clone());
        registry.register(
            "kinformer_serve_change_bytes",
            "Encoded bytes of remembered changes",
            this.change_bytes.clone(),
        );
        *this.registry.lock() = registry;
        this
    }

    /// Adds an informer. One whose labels are those of another informer is left out.
    pub(crate) fn add<K>(&self, informer: &Informer<K>) {
        if let Err(error) = informer.add_to(&self.informers) {
            tracing::warn!(%error, "an informer has no metrics");
        }
    }

    pub(crate) fn answered(&self, code: u16) {
        self.requests.get_or_create(&vec![("code", code.to_string())]).inc();
    }

    pub(crate) fn encoded(&self) {
        self.encoded.inc();
    }

    pub(crate) fn asked(&self) {
        self.asked.inc();
    }

    /// Returns all metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// The text could not be written.
    pub(crate) fn text(&self, figures: &Figures) -> Result<String, fmt::Error> {
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.streams.set(number(figures.streams));
        self.views.set(number(figures.views.0));
        self.view_bytes.set(number(figures.views.1));
        self.changes.set(number(figures.changes.0));
        self.change_bytes.set(number(figures.changes.1));
        let mut text = String::new();
        encode(&mut text, &self.registry.lock())?;
        Ok(text)
    }
}
