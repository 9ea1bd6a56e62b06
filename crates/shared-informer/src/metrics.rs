//! The figures of an informer.

use std::sync::Arc;

use kinformer_core::Versions;
use kinformer_delta_fifo::QueueMetrics;
use kinformer_processor::HandlerMetrics;
use kinformer_reflector::ReflectorMetrics;

use crate::latency::LatencySummary;

/// What an informer has done and holds, read at one moment.
///
/// Follows client-go 1.37 (the `informer_*` and `reflector_*` metrics).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerMetrics {
    /// The name of the informer.
    pub name: Arc<str>,
    /// What it is about.
    pub resource: Arc<str>,
    /// The cluster of its objects; empty if it was not named.
    pub cluster: Arc<str>,
    /// Which of the resource's objects it holds; empty for all.
    pub scope: Arc<str>,
    /// How many objects the store holds.
    pub objects: usize,
    /// The version of each part that the store reflects.
    pub resource_versions: Versions,
    /// What waits between the reflector and the store.
    pub queue: QueueMetrics,
    /// How long batches took from the queue to the handlers' log.
    pub processing: LatencySummary,
    /// Lists, watches, relists, restarts of watches, objects that did not decode: of all parts together.
    pub reflector: ReflectorMetrics,
    /// How each handler is doing.
    pub handlers: Vec<HandlerMetrics>,
}
