//! Adapters that run any number of kube-runtime controllers on one shared informer and its watch.
//!
//! kube-runtime's events own their objects, so each object is decoded and cloned for them.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;

use futures::stream::{self, FusedStream, StreamExt as _};
use kinformer_kube::Packed;
use kinformer_processor::{Added, Deleted, Event, Left, Updated};
use kube_core::Resource;
use kube_runtime::reflector::{self, Store, store::Writer};
use kube_runtime::watcher;
use serde::de::DeserializeOwned;

use crate::{Error, EventStream, Informer};

/// Returns the events of an informer as a kube-runtime watcher's: `Init`, an `InitApply` for each stored object,
/// `InitDone` when the informer has synced and all stored objects were returned, then every change. The stream never
/// returns an error: the informer recovers from failures, and no event is delivered twice.
///
/// The stream ends when the informer stops, and may be polled after its end. Dropping it removes its handler from the
/// informer. An object that leaves the scope of the informer is a deletion here, as kube-runtime's watcher returns one that
/// leaves its selector. Objects are cloned one by one, since kube-runtime's events own theirs. A deletion whose last state is
/// unknown is skipped and logged, and so is an object that cannot be decoded.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # async fn example(pods: &kinformer::Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// use futures::TryStreamExt as _;
/// use kube_runtime::WatchStreamExt as _;
///
/// // Code that was written for a watcher of kube-runtime gets its stream from the shared informer.
/// let mut pods = std::pin::pin!(kinformer::runtime::watcher_events(pods)?.applied_objects());
/// while let Some(pod) = pods.try_next().await? {
///     println!("{:?}", pod.metadata.name);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
pub fn watcher_events<K>(
    informer: &Informer<K>,
) -> Result<impl FusedStream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K>, Error>
where
    K: Resource + DeserializeOwned + Clone + Send + Sync + 'static,
{
    let events = informer.handler().name("kube-runtime watcher").stream()?;
    let init = stream::once(async { Ok(watcher::Event::Init) });
    let follow = Follow { events, initial: true, held: VecDeque::new() };
    let events = init.chain(stream::unfold(follow, |mut follow| async {
        let event = follow.next().await?;
        Some((Ok(event), follow))
    }));
    Ok(events.fuse())
}

/// Returns an owned object, as kube-runtime's events need it.
fn owned<K: DeserializeOwned + Clone + Send + Sync + 'static>(object: &Packed<K>) -> Option<K> {
    match object.decode() {
        Ok(decoded) => Some((*decoded).clone()),
        Err(error) => {
            tracing::warn!(key = %object.key(), %error, "skipping an object that cannot be decoded");
            None
        }
    }
}

struct Follow<K> {
    events: EventStream<K>,
    initial: bool,
    /// The events to return after `InitDone`: the event that triggered `InitDone`, and deletions of objects of the
    /// initial list, which kube-runtime's stores ignore before `InitDone`.
    held: VecDeque<Event<Packed<K>>>,
}

impl<K: DeserializeOwned + Clone + Send + Sync + 'static> Follow<K> {
    async fn next(&mut self) -> Option<watcher::Event<K>> {
        loop {
            let event = if self.initial {
                let registration = self.events.registration().clone();
                let event = tokio::select! {
                    biased;
                    event = self.events.next() => Some(event?),
                    // There may be no event after the initial list for a long time.
                    synced = registration.synced() => {
                        synced.ok()?;
                        None
                    }
                };
                if registration.has_synced() {
                    self.initial = false;
                    self.held.extend(event);
                    return Some(watcher::Event::InitDone);
                }
                event?
            } else if let Some(event) = self.held.pop_front() {
                event
            } else {
                self.events.next().await?
            };
            let converted = self.convert(event);
            if converted.is_some() {
                return converted;
            }
        }
    }

    fn convert(&mut self, event: Event<Packed<K>>) -> Option<watcher::Event<K>> {
        match event {
            Event::Added(Added { object, .. }) | Event::Updated(Updated { new: object, .. })
                if self.initial =>
            {
                self.held.retain(|deleted| deleted.key() != object.key());
                owned(&object).map(watcher::Event::InitApply)
            }
            Event::Added(Added { object, .. }) | Event::Updated(Updated { new: object, .. }) => {
                owned(&object).map(watcher::Event::Apply)
            }
            deleted @ (Event::Deleted(_) | Event::Left(_)) if self.initial => {
                self.held.push_back(deleted);
                None
            }
            Event::Deleted(Deleted { tombstone, .. }) => match tombstone.object() {
                Some(object) => owned(object).map(watcher::Event::Delete),
                None => {
                    tracing::warn!(key = %tombstone.key(), "skipping a deletion without a last state");
                    None
                }
            },
            Event::Left(Left { object, .. }) => owned(&object).map(watcher::Event::Delete),
        }
    }
}

/// Returns the events of an informer as kube-runtime's [`reflector`](kube_runtime::reflector()): a [`Store`] for its
/// controllers to read, and a stream that fills the store and passes all events on.
///
/// `Controller::for_stream` takes both: `events.applied_objects()` and the store. The store has copies of the
/// informer's objects, so use one store for all controllers of a kind.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # fn example(pods: &kinformer::Informer<Pod>) -> Result<(), kinformer::Error> {
/// use kube_runtime::{Controller, WatchStreamExt as _};
///
/// let (store, events) = kinformer::runtime::reflector_store(pods)?;
/// let controller = Controller::for_stream(events.applied_objects(), store);
/// # _ = controller;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
pub fn reflector_store<K>(
    informer: &Informer<K>,
) -> Result<(Store<K>, impl FusedStream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K>), Error>
where
    K: Resource<DynamicType: Clone + Debug + Default + Eq + Hash>
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static,
{
    let writer = Writer::<K>::default();
    let store = writer.as_reader();
    Ok((store, reflector::reflector(writer, watcher_events(informer)?).fuse()))
}
