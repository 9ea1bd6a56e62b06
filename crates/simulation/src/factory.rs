//! Factories with random options.

use std::num::NonZeroU32;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::{
    Bound, BoxError, Packed, QueueKind, SharedInformerFactory, SharedInformerFactoryBuilder, WatchListMode,
};

use crate::api_server::ApiServer;
use crate::random::pick;
use crate::state::{PANICS, state_of, text_of};
use crate::trace::Recorder;

/// Options that were chosen at random.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) queue: QueueKind,
    pub(crate) watch_lists: bool,
    pub(crate) min_watch: Duration,
    pub(crate) page_size: Option<NonZeroU32>,
}

/// Creates a factory with random options.
pub(crate) fn factory(
    rng: &mut Rng,
    server: &ApiServer,
    recorder: &Recorder,
) -> (SharedInformerFactory, Settings) {
    let (builder, settings) =
        configured(rng, server, recorder, SharedInformerFactory::builder(server.client()));
    let builder = match server.has_panicking_transform() {
        true => builder.transform_packed::<ConfigMap>(transform).transform_packed::<Secret>(transform),
        false => builder,
    };
    let factory = if rng.bool() { builder.build() } else { builder.namespaces(["a", "b"]).build() };
    (factory, settings)
}

/// Sets the options of the reflectors, the queues and the resyncs at random.
pub(crate) fn configured(
    rng: &mut Rng,
    server: &ApiServer,
    recorder: &Recorder,
    builder: SharedInformerFactoryBuilder,
) -> (SharedInformerFactoryBuilder, Settings) {
    let watch_list = if rng.bool() { WatchListMode::Auto } else { WatchListMode::Off };
    let page = rng.u32(1..10) * if server.is_crowded() { 100 } else { 1 };
    let page_size = NonZeroU32::new(page);
    let watch = Duration::from_secs(rng.u64(5..200));
    let builder = builder.reflector(move |options| {
        let options = options.watch_list(watch_list).min_watch_timeout_unbounded(watch);
        match page_size {
            Some(page) => options.page_size(page),
            None => options,
        }
    });
    let queue = pick(rng, [QueueKind::RealFifo, QueueKind::RealFifoByObject, QueueKind::DeltaFifo]);
    recorder.note("world", format_args!("queue {queue:?}, watch-lists {watch_list:?}"));
    let resync = if rng.bool() { Duration::ZERO } else { Duration::from_secs(rng.u64(5..60)) };
    let bound = pick(rng, [Bound::default(), Bound::default(), Bound::Deltas(rng.clone().usize(1..6))]);
    let builder = builder.queue_with(move |mut parts| {
        parts.bound = bound;
        queue.build(parts)
    });
    let watch_lists = watch_list == WatchListMode::Auto;
    let settings = Settings { queue, watch_lists, min_watch: watch, page_size };
    (builder.default_resync(resync), settings)
}

/// Panics for some states, without a message on stderr.
fn transform<K>(object: Packed<K>) -> Result<Packed<K>, BoxError> {
    match text_of(&state_of(object.object()), ["data", "value"]) {
        Some(PANICS) => std::panic::resume_unwind(Box::new("a panic of a transform")),
        _ => Ok(object),
    }
}
