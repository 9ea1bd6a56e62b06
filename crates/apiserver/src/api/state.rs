//! The whole state of the API, which is read and replaced at one version.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::builtin::Validation;
use crate::gc::SavedGraph;
use crate::registry::{Observer, SavedRegistry};
use crate::storage::Versions;

use super::Api;

/// The served resources, their objects, their owners and the version, between two writes.
pub(crate) struct State {
    version: u64,
    registry: SavedRegistry,
    graph: SavedGraph,
    next_store: u32,
    /// Whether all objects have defaults.
    is_complete: bool,
}

/// Who may have seen the former state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    None,
    Any,
}

impl State {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

impl Api {
    /// Returns the state after all writes that have begun, with what follows from them. O(resources + objects with owners).
    pub(crate) fn save(&self) -> State {
        let _all = self.writing.write();
        let registry = self.registry();
        State {
            version: registry.versions.current(),
            registry: registry.save(),
            graph: self.graph.save(),
            next_store: self.next_store.load(Ordering::Relaxed),
            is_complete: self.settings.validation == Validation::On
                && !self.has_incomplete.load(Ordering::Relaxed),
        }
    }

    /// Replaces the state. Watches of the former one end; their resources are closed. O(resources + objects with owners).
    ///
    /// A version that the former state had is not issued again, and the history begins after all of them: a client that
    /// has seen one cannot continue from it.
    pub(crate) fn load(&self, state: &State, clients: Clients) {
        let _all = self.writing.write();
        let issued = self.registry().versions.current();
        let version = match clients {
            Clients::Any if issued >= state.version => issued.saturating_add(1),
            Clients::Any | Clients::None => state.version,
        };
        // The former versions stay with the former stores, so that a list that has begun names a version of its own state.
        let versions = Arc::new(Versions::new(version, self.activity.clone()));
        let observer: Observer = self.graph.clone();
        let registry = state.registry.load(&versions, self.settings.window, &observer);
        self.graph.load(&state.graph);
        self.next_store.store(state.next_store, Ordering::Relaxed);
        self.has_incomplete.store(!state.is_complete, Ordering::Relaxed);
        let old = std::mem::replace(&mut *self.registry.write(), Arc::new(registry));
        for resource in old.iter() {
            resource.store.close();
        }
        self.activity.send_replace(());
    }
}
