//! The informers of a factory by resource, and their holders.

use std::convert::Infallible;
use std::sync::Arc;

use kube_core::discovery::ApiResource;
use kube_core::gvk::GroupVersionResource;

use crate::entry::{Entry, Key, Registered};
use crate::factory::SharedInformerFactory;
use crate::factory::new_informer::{make, registered};
use crate::projection::Projection;
use crate::target::{Bound, Target};

/// Returns the informer of a resource that has these objects now: for metadata, that of the whole objects if there is one.
fn having(entries: &[Arc<Entry>], projection: Projection) -> Option<&Arc<Entry>> {
    let whole = entries.iter().find(|entry| entry.projection() == Projection::Whole);
    whole.or_else(|| entries.first().filter(|_| projection == Projection::Metadata))
}

impl SharedInformerFactory {
    /// Creates the informer without a holder if there is none.
    pub(crate) fn request(&self, target: &Target) {
        let make = || Ok::<_, Infallible>(self.make(target));
        let Ok(_) = self.entry((&target.key(), target.projection), make);
    }

    /// Returns the informer of a target, after `hold` has registered a holder.
    pub(super) fn bind(&self, target: &Target, hold: fn(&Entry) -> bool) -> Bound {
        let make = || Ok::<_, Infallible>(self.make(target));
        let kube_informer = |entry: &Entry| entry.kube_informer().cloned();
        let Ok((entry, informer)) = self.hold((&target.key(), target.projection), hold, make, kube_informer);
        Bound { entry, informer }
    }

    fn make(&self, target: &Target) -> Registered {
        registered(target, make(&self.inner.client, &self.inner.options, target))
    }

    /// Whether the factory has an informer of this resource, whatever its type: one that was requested and has not been
    /// released or removed since. An informer of whole objects has their metadata as well. One of metadata that has not
    /// started yet does not have whole objects, although a request would make it fetch them.
    pub fn has_informer(&self, resource: &ApiResource, projection: Projection) -> bool {
        self.having(&Key::of_resource(resource), projection).is_some()
    }

    fn having(&self, key: &Key, projection: Projection) -> Option<Arc<Entry>> {
        having(&self.inner.informers.get(key)?, projection).cloned()
    }

    /// Returns the entries of all versions of a resource, ordered by version and projection.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.inner.entries()
    }

    pub(crate) fn entries_of(&self, group: &str, plural: &str) -> Vec<Arc<Entry>> {
        self.inner.entries_with(|key| key.is_version_of(group, plural))
    }

    /// Makes the informers of these resources request them now, if the server did not serve them until now: for callers that
    /// have learnt that it does. See [`InformerStatus::retry_if_not_served`](crate::InformerStatus::retry_if_not_served).
    pub fn retry_not_served(&self, is_served: impl Fn(&GroupVersionResource) -> bool) {
        for entry in self.inner.entries() {
            let is_wanted = entry.key().to_resource().is_some_and(|resource| is_served(&resource));
            if let Some(informer) = entry.kube_informer().filter(|_| is_wanted) {
                informer.parts().iter().for_each(|part| part.reflector().retry_if_not_served());
            }
        }
    }

    /// Stops the informer of a target, regardless of its holders, and removes it. Returns `false` if there was none, or if
    /// it was removed or released before.
    pub(crate) async fn remove_target(&self, target: &Target) -> bool {
        match self.having(&target.key(), target.projection) {
            Some(entry) => self.remove_entry(&entry).await,
            None => false,
        }
    }

    /// Returns the entry for this request, and creates it if there is none. `make` may be user code and is called without a
    /// lock.
    fn entry<E>(
        &self,
        (key, projection): (&Key, Projection),
        make: impl FnOnce() -> Result<Registered, E>,
    ) -> Result<Arc<Entry>, E> {
        if let Some(entry) = self.having(key, projection) {
            return Ok(entry);
        }
        let new = Arc::new(Entry::new(key.clone(), make()?));
        let mut unused = Vec::new();
        let (entry, is_second) = {
            let mut entries = self.inner.informers.entry(key.clone()).or_default();
            if let Some(entry) = having(&entries, projection) {
                return Ok(entry.clone());
            }
            // Only of metadata, if any: one without a holder makes room for the new one, which has the right name.
            unused.extend(entries.extract_if(.., |entry| entry.release_unused()));
            match entries.iter().find(|entry| entry.request_whole()) {
                Some(entry) => (entry.clone(), false),
                None => {
                    entries.push(new.clone());
                    (new, entries.len() > 1)
                }
            }
        };
        unused.iter().for_each(|entry| _ = entry.stop());
        if is_second {
            tracing::info!(
                informer = entry.name(),
                "second informer of a resource: the first has only metadata; set whole_objects to have one"
            );
        }
        if self.is_shut_down() {
            entry.discard();
        }
        Ok(entry)
    }

    /// Returns the entry of this key and its informer, after `hold` has registered a holder.
    pub(super) fn hold<I, E>(
        &self,
        key: (&Key, Projection),
        hold: impl Fn(&Entry) -> bool,
        make: impl Fn() -> Result<Registered, E>,
        informer: impl Fn(&Entry) -> Option<I>,
    ) -> Result<(Arc<Entry>, I), E> {
        loop {
            let entry = self.entry(key, &make)?;
            // The entry may have been released since it was found.
            if hold(&entry)
                && let Some(informer) = informer(&entry)
            {
                return Ok((entry, informer));
            }
        }
    }

    /// Returns a lease. The informer stops with its last lease, unless the factory keeps it.
    pub(crate) fn give_back(&self, entry: &Arc<Entry>) {
        if !entry.give_back() {
            self.forget(entry);
            entry.stop();
        }
    }

    /// Removes an entry from the registry.
    fn forget(&self, entry: &Arc<Entry>) {
        self.inner.informers.remove_if_mut(entry.key(), |_, entries| {
            entries.retain(|other| !Arc::ptr_eq(other, entry));
            entries.is_empty()
        });
    }

    /// Stops an informer, regardless of its holders, and removes it. Returns `false` if it was removed or released
    /// before.
    pub(crate) async fn remove_entry(&self, entry: &Arc<Entry>) -> bool {
        self.forget(entry);
        let first = entry.stop();
        entry.ended().await;
        first
    }
}
