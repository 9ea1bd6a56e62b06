//! Metrics for a registry of prometheus-client.

use std::fmt;

pub use kinformer_shared_informer::prometheus::*;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::layers::request_counts;

/// Collects the [numbers of requests](request_counts) of the clients of this process.
///
/// ```
/// use kinformer::prometheus::RequestCollector;
/// use prometheus_client::registry::Registry;
///
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(RequestCollector));
/// ```
///
/// The name, the labels and their values follow client-go 0.37 and controller-runtime 0.25 (`rest_client_requests_total`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestCollector;

impl Collector for RequestCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Number of HTTP requests, partitioned by status code, method, and host";
        let mut family =
            encoder.encode_descriptor("rest_client_requests", help, None, MetricType::Counter)?;
        for request in request_counts() {
            let code = request.status.map_or("<error>".to_owned(), |status| status.to_string());
            let labels = [
                ("code", code),
                ("host", escaped(&request.host)),
                ("method", escaped(request.method.as_str())),
            ];
            ConstCounter::new(request.count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
