//! The metrics of the informers, under client-go's names where they exist, and of the server.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kinformer::Informer;
use kinformer::prometheus::{InformerCollector, RequestCollector};
use kinformer_core::internal::contain;
use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::Error;

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
    /// The registries of the program.
    added: Vec<Arc<Registry>>,
}

/// How often the files of the certificate were read, under controller-runtime's names.
#[derive(Clone, Debug, Default)]
pub(crate) struct CertificateReads {
    pub(crate) total: Counter,
    pub(crate) errors: Counter,
}

impl CertificateReads {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "certwatcher_read_certificate",
            "Reads of the files of the certificate",
            self.total.clone(),
        );
        registry.register(
            "certwatcher_read_certificate_errors",
            "Reads of files that are no certificate and its key",
            self.errors.clone(),
        );
    }
}

/// The figures that are read when the metrics are.
pub(crate) struct Figures {
    pub(crate) streams: usize,
    pub(crate) views: (usize, usize),
    pub(crate) changes: (usize, usize, u64),
}

impl Metrics {
    /// # Errors
    /// [`Error::DuplicateMetric`], [`Error::Metrics`].
    pub(crate) fn new(
        added: Vec<Arc<Registry>>,
        certificate: Option<&CertificateReads>,
    ) -> Result<Self, Error> {
        let informers = InformerCollector::new();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(informers.clone()));
        registry.register_collector(Box::new(RequestCollector));
        #[cfg(target_os = "linux")]
        registry.register_collector(Box::new(crate::process::ProcessCollector));
        if let Some(reads) = certificate {
            reads.register(&mut registry);
        }
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
            added,
        };
        this.register(&mut registry);
        *this.registry.lock() = registry;
        this.check_names()?;
        Ok(this)
    }

    /// Registers the metrics of the server itself.
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "kinformer_serve_requests",
            "Answered HTTP requests by status code",
            self.requests.clone(),
        );
        registry.register(
            "kinformer_serve_api_server_reads",
            "Objects requested from the API server",
            self.asked.clone(),
        );
        registry.register(
            "kinformer_serve_encoded_changes",
            "Changes encoded for streams and histories",
            self.encoded.clone(),
        );
        registry.register("kinformer_serve_streams", "Open streams of events", self.streams.clone());
        registry.register("kinformer_serve_views", "Lists whose pages can be read", self.views.clone());
        registry.register(
            "kinformer_serve_view_bytes",
            "Encoded bytes of the objects of these lists",
            self.view_bytes.clone(),
        );
        registry.register("kinformer_serve_changes", "Remembered changes", self.changes.clone());
        registry.register(
            "kinformer_serve_change_bytes",
            "Encoded bytes of remembered changes",
            self.change_bytes.clone(),
        );
    }

    /// Checks that no two registries have a family of the same name. A registry does not list its families, so that these
    /// are the ones that it writes now: not those of a `Family` without a metric, nor what a collector adds later.
    fn check_names(&self) -> Result<(), Error> {
        let text = self.written().map_err(|message| Error::Metrics { message })?;
        let mut known = HashSet::new();
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        match names.into_iter().find(|name| !known.insert(*name)) {
            Some(name) => Err(Error::DuplicateMetric { name: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// # Errors
    /// A collector has failed, or panicked.
    fn written(&self) -> Result<String, String> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry.lock()).map_err(|error| error.to_string())?;
        for registry in &self.added {
            // Its collectors are of the program.
            match contain(|| encode_registry(&mut text, registry)) {
                Ok(written) => written.map_err(|error| error.to_string())?,
                Err(panic) => return Err(panic.to_string()),
            }
        }
        Ok(text)
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
    pub(crate) fn text(&self, figures: &Figures) -> Result<String, String> {
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.streams.set(number(figures.streams));
        self.views.set(number(figures.views.0));
        self.view_bytes.set(number(figures.views.1));
        self.changes.set(number(figures.changes.0));
        self.change_bytes.set(number(figures.changes.1));
        let mut text = self.written()?;
        encode_eof(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }
}
