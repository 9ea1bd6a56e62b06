//! The metrics of an informer.

use std::sync::Arc;

use kinformer_core::Versions;
use kinformer_delta_fifo::DeltaQueueMetrics;
use kinformer_processor::HandlerMetrics;
use kinformer_reflector::ReflectorMetrics;

use crate::latency::LatencySummary;

/// The metrics of an informer, read at one moment.
///
/// Follows client-go 0.37 (the `informer_*` and `reflector_*` metrics).
#[doc(alias(
    "CounterMetric",
    "GaugeMetric",
    "GetController",
    "WithStoreMetrics",
    "WithThreadSafeStoreMetrics"
))]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerMetrics {
    /// The name of the informer.
    #[doc(alias = "InformerNameAndResource")]
    pub name: Arc<str>,
    /// The resource name, such as `deployments.apps`.
    pub resource: Arc<str>,
    /// The cluster of its objects; empty if it was not set.
    pub cluster: Arc<str>,
    /// The subset of the resource's objects that the informer holds; empty for all.
    pub scope: Arc<str>,
    /// Whether the store has had the first list of each part.
    pub synced: bool,
    /// Whether the watch of each part is open. Between two watches it is not.
    pub watching: bool,
    /// The number of objects in the store.
    pub objects: usize,
    /// The version of each part in the store.
    #[doc(alias = "LastSyncResourceVersion")]
    pub resource_versions: Versions,
    /// The metrics of the queue between the reflector and the store.
    pub queue: DeltaQueueMetrics,
    /// The processing times of batches, from the queue to the handlers' log.
    pub processing: LatencySummary,
    /// The sum of the reflectors' metrics of all parts: lists, watches, relists, restarts of watches, decode errors.
    pub reflector: ReflectorMetrics,
    /// The metrics of each handler.
    pub handlers: Vec<HandlerMetrics>,
}
