//! An informer of a world with its handlers: what they receive, and the comparison with the server.

mod add;
mod checks;
mod handler;
mod waits;
mod witness;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kinformer::kube_core::Resource;
use kinformer::{IndexValues, Informer, PackedRef, QueueKind, ResourceVersion};
use parking_lot::Mutex;

use crate::api_server::ApiServer;
use crate::judge::StoreView;
use crate::record::Objects;
use crate::scopes::{NAMESPACES, ScopeLog, Scoped};
use crate::snapshots::{BY_END, BY_VALUE, Snapshots, index_by_end};
use crate::state::state_of;
use crate::trace::Recorder;
use handler::CheckedHandler;

/// An informer with its handlers, and what the judge knows about them.
pub(crate) struct View<K> {
    informer: Arc<Informer<K>>,
    plural: Arc<str>,
    server: ApiServer,
    pub(crate) recorder: Recorder,
    queue: QueueKind,
    store: Arc<Mutex<StoreView>>,
    snapshots: Arc<Mutex<Snapshots<K>>>,
    pub(crate) scopes: ScopeLog,
    /// The handlers that stay.
    handlers: Arc<Mutex<Vec<Arc<CheckedHandler>>>>,
    /// All handlers.
    all_handlers: Arc<Mutex<Vec<Arc<CheckedHandler>>>>,
    /// Whether a handler with a resync period was added before the start.
    has_check_period: Arc<AtomicBool>,
}

impl<K> Clone for View<K> {
    fn clone(&self) -> Self {
        Self {
            informer: self.informer.clone(),
            plural: self.plural.clone(),
            server: self.server.clone(),
            recorder: self.recorder.clone(),
            queue: self.queue,
            store: self.store.clone(),
            snapshots: self.snapshots.clone(),
            scopes: self.scopes.clone(),
            handlers: self.handlers.clone(),
            all_handlers: self.all_handlers.clone(),
            has_check_period: self.has_check_period.clone(),
        }
    }
}

impl<K: Resource<DynamicType = ()> + 'static> View<K> {
    pub(crate) fn of(
        informer: Informer<K>,
        queue: QueueKind,
        server: &ApiServer,
        recorder: &Recorder,
    ) -> Self {
        if let Err(error) = informer.index_by_field(BY_VALUE, &["data", "value"]) {
            recorder.violation(error);
        }
        let by_end = |object: PackedRef<'_, K>, values: &mut IndexValues| {
            index_by_end(object.object(), values);
            Ok(())
        };
        if let Err(error) = informer.index(BY_END, by_end) {
            recorder.violation(error);
        }
        Self {
            informer: Arc::new(informer),
            plural: K::plural(&()).into(),
            server: server.clone(),
            recorder: recorder.clone(),
            queue,
            // A queue without atomic lists pops parts of a list.
            store: Arc::new(Mutex::new(StoreView::new(!matches!(queue, QueueKind::RealFifo)))),
            snapshots: Arc::default(),
            scopes: ScopeLog::default(),
            handlers: Arc::default(),
            all_handlers: Arc::default(),
            has_check_period: Arc::default(),
        }
    }

    /// Compares a handler with the server at the end.
    pub(crate) fn keep(&self, handler: Option<Arc<CheckedHandler>>) {
        self.handlers.lock().extend(handler);
    }

    /// Returns the key of the newest change, and the version from which on stores have it.
    pub(crate) fn newest(&self) -> Option<(String, u64)> {
        self.server.history(&self.plural, |history| {
            let change = history.changes().next_back()?;
            // A restored backup sets the version back, and perhaps no object of this resource.
            Some((change.key.path(), change.version.min(history.newest_version())))
        })
    }

    /// The informer.
    pub(crate) fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    /// The informer has ended: no handler receives anything more.
    pub(crate) fn has_ended(&self) {
        self.all_handlers.lock().iter().for_each(|handler| handler.known.lock().removed());
    }

    /// The number of parts. Each has a reflector.
    pub(crate) fn parts(&self) -> usize {
        self.informer.status().parts().len()
    }

    /// Whether all parts have reached a version.
    pub(crate) fn has_reached(&self, version: u64) -> bool {
        let (versions, _) = self.stored();
        !versions.is_empty() && versions.iter().all(|(_, part)| part.is_some_and(|part| part >= version))
    }

    /// Returns the versions of the objects whose keys have a prefix.
    pub(crate) fn versions(&self, prefix: &str) -> Vec<(String, ResourceVersion)> {
        let Ok(snapshot) = self.informer.snapshot() else { return Vec::new() };
        let versions =
            snapshot.iter().map(|object| (object.key().to_string(), object.object().resource_version()));
        versions.filter(|(key, _)| key.starts_with(prefix)).collect()
    }

    /// Whether the store may wait for a handler with back-pressure.
    pub(crate) fn is_held_up(&self) -> bool {
        let handlers = self.all_handlers.lock();
        let mut live = handlers.iter().filter(|handler| !handler.registration.is_removed());
        live.any(|handler| handler.has_back_pressure && handler.registration.metrics().depth > 0)
    }

    /// The revision of the store; 0 before the start.
    pub(crate) fn revision(&self) -> u64 {
        self.informer.snapshot().map_or(0, |snapshot| snapshot.revision())
    }

    /// A scope is requested. Returns the number of the request.
    pub(crate) fn request_scope(&self, scope: &Scoped) -> usize {
        // The objects of other parts stay for the time being, until the new part of their namespace is listed.
        self.store.lock().parts_change(|prefix| self.scopes.keeps_part(scope, prefix.trim_end_matches('/')));
        self.scopes.request(scope, self.revision())
    }

    /// A requested scope has taken effect.
    pub(crate) fn scope_applied(&self, number: usize) {
        self.scopes.applied(number, self.revision());
    }

    /// Returns the prefixes of the keys in a part: none for all, or those of its namespaces.
    fn prefixes(&self, part: &str) -> Vec<String> {
        let selection = self.informer.selection();
        let is_of_part = |namespace: &&str| selection.part_of(namespace).is_some_and(|name| *name == *part);
        match part {
            "" => vec![String::new()],
            name if name.starts_with("namespaces ") => {
                NAMESPACES.iter().filter(|name| is_of_part(name)).map(|name| format!("{name}/")).collect()
            }
            name => vec![format!("{name}/")],
        }
    }

    /// Returns the objects of the store with the version of each part.
    fn stored(&self) -> (Vec<(String, Option<u64>)>, Objects) {
        // Empty before the start.
        let Ok(snapshot) = self.informer.snapshot() else { return Default::default() };
        let parts = self.informer.status().parts();
        let parts = parts.iter().flat_map(|part| {
            let version = snapshot.resource_versions().of(part.id()).to_string().parse().ok();
            self.prefixes(part.name()).into_iter().map(move |prefix| (prefix, version))
        });
        let objects = snapshot.iter().map(|object| (object.key().to_string(), state_of(object.object())));
        (parts.collect(), objects.collect())
    }
}
