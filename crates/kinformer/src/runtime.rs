//! kube-runtime's controllers on shared informers: any number of them, and one watch.
//!
//! kube-runtime's events own their objects: each is decoded for them.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;

use futures::stream::{self, FusedStream, StreamExt as _};
use kinformer_kube::Packed;
use kinformer_processor::{Added, Deleted, Event, Updated};
use kinformer_shared_informer::Error;
use kube_core::Resource;
use kube_runtime::reflector::{self, Store, store::Writer};
use kube_runtime::watcher;
use serde::de::DeserializeOwned;

use crate::{EventStream, Informer};

/// The events of an informer as those of a kube-runtime watcher: `Init`, an `InitApply` for each object there is,
/// `InitDone` when the informer has synced and all of them were taken, and then every change. It never fails: the
/// informer mends what goes wrong, and tells nobody twice.
///
/// It ends with the informer, and polled after its end it is at its end again. Dropping it takes it off the informer. Objects are cloned for it, one by one,
/// since kube-runtime's events own theirs. A deletion whose last state is not known is left out, and logged; so is an
/// object that does not decode.
///
/// # Errors
/// The informer has stopped.
pub fn watcher_events<K>(
    informer: &Informer<K>,
) -> Result<impl FusedStream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K>, Error>
where
    K: Resource + DeserializeOwned + Clone + Send + Sync + 'static,
{
    let events = informer.handler().name("kube-runtime watcher").stream()?;
    let begun = stream::once(async { Ok(watcher::Event::Init) });
    let follow = Follow { events, initial: true, held: VecDeque::new() };
    let events = begun.chain(stream::unfold(follow, |mut follow| async {
        let event = follow.next().await?;
        Some((Ok(event), follow))
    }));
    Ok(events.fuse())
}

/// The object as kube-runtime wants it.
fn owned<K: DeserializeOwned + Clone + Send + Sync + 'static>(object: &Packed<K>) -> Option<K> {
    match object.decode() {
        Ok(decoded) => Some((*decoded).clone()),
        Err(error) => {
            tracing::warn!(key = %object.key(), %error, "an object that does not decode was left out");
            None
        }
    }
}

struct Follow<K> {
    events: EventStream<K>,
    initial: bool,
    /// What comes after `InitDone`: what made it due, and deletions of objects of the initial list, which
    /// kube-runtime's stores take into account only then.
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
                    // There may be no event behind the initial list for a long time.
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
            let told = match event {
                Event::Added(Added { object, .. }) | Event::Updated(Updated { new: object, .. })
                    if self.initial =>
                {
                    self.held.retain(|deleted| deleted.key() != object.key());
                    owned(&object).map(watcher::Event::InitApply)
                }
                Event::Added(Added { object, .. }) | Event::Updated(Updated { new: object, .. }) => {
                    owned(&object).map(watcher::Event::Apply)
                }
                deleted @ Event::Deleted(_) if self.initial => {
                    self.held.push_back(deleted);
                    None
                }
                Event::Deleted(Deleted { tombstone, .. }) => match tombstone.object() {
                    Some(object) => owned(object).map(watcher::Event::Delete),
                    None => {
                        tracing::warn!(key = %tombstone.key(), "a deletion without a last state was left out");
                        None
                    }
                },
                _ => {
                    tracing::warn!("an event of an unknown type was left out");
                    None
                }
            };
            if told.is_some() {
                return told;
            }
        }
    }
}

/// The events of an informer as kube-runtime's [`reflector`](kube_runtime::reflector()): a [`Store`] for its
/// controllers to read, and the stream that fills it and passes everything on.
///
/// Both together are what `Controller::for_stream` takes: `events.applied_objects()` and the store. The store is a
/// copy of the informer's references' contents: one for all the controllers of a kind is enough.
///
/// # Errors
/// The informer has stopped.
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
