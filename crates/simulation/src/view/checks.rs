//! The checks of an informer: its store, its parts and its handlers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kinformer::kube_core::Resource;
use tokio::time::{Instant, sleep};

use super::View;
use super::handler::CheckedHandler;
use crate::judge::{as_stored, difference};
use crate::snapshots::objects_of;

impl<K: Resource<DynamicType = ()> + 'static> View<K> {
    fn check_snapshot(&self) -> Result<(), String> {
        let Ok(snapshot) = self.informer.snapshot() else { return Ok(()) };
        let metrics = self.informer.status().metrics();
        if metrics.objects != snapshot.len() {
            return Err(format!("{} objects in the metrics, {} stored", metrics.objects, snapshot.len()));
        }
        let objects = objects_of(&snapshot);
        self.snapshots.lock().check(snapshot, &objects)
    }

    /// Checks the parts: an informer has synced when all of them have a version or an incomplete list, and no watch goes
    /// back to a version before that of the store.
    fn check_parts(&self) -> Result<(), String> {
        let Ok(snapshot) = self.informer.snapshot() else { return Ok(()) };
        if !self.scopes.is_settled() {
            return Ok(());
        }
        for part in self.informer.status().parts().iter() {
            let (stored, last) =
                (snapshot.resource_versions().of(part.id()), part.reflector().last_version());
            let stored_number = stored.to_string().parse::<u64>();
            // The reflector may have the complete list before the store.
            let is_incomplete =
                part.reflector().incomplete_list().is_some() || self.server.was_incomplete(&self.plural);
            let must_be_listed = part.is_listed() || !self.scopes.has_changed();
            if self.informer.has_synced() && stored_number.is_err() && !is_incomplete && must_be_listed {
                return Err(format!("has synced, but {:?} has not been listed", part.name()));
            }
            // The reflector learns of a restored backup before the store.
            let is_behind = stored_number.unwrap_or_default() > last.to_string().parse().unwrap_or_default();
            if is_behind && !self.server.is_restored() {
                return Err(format!("the store is at {stored}, but the reflector at {last}"));
            }
        }
        let back = self.informer.status().metrics().reflector.versions_went_back;
        match back > 0 && !self.server.is_restored() {
            true => Err("versions went back, but the server was not restored".into()),
            false => Ok(()),
        }
    }

    /// Checks the handlers: each that has synced has received its initial list, and each that waits for an event has
    /// received the objects of the store.
    fn check_handlers(&self) -> Result<(), String> {
        let handlers = self.all_handlers.lock();
        let live = handlers.iter().filter(|handler| !handler.registration.is_removed());
        let live: Vec<_> = live.collect();
        let stored = self.stored().1;
        // The store has objects whose events wait for the handlers with back-pressure, also while one is being removed.
        let holds_up =
            |handler: &Arc<CheckedHandler>| handler.has_back_pressure && !handler.known.lock().is_removed();
        let is_published = !handlers.iter().any(holds_up);
        for handler in live.into_iter().filter(|handler| handler.registration.has_synced()) {
            let name = handler.registration.name();
            let mut known = handler.known.lock();
            known.synced();
            self.server
                .history(&self.plural, |history| {
                    known.check_synced(history, &handler.joined, |key| self.scopes.has_excluded(key))
                })
                .map_err(|problem| format!("{name}: {problem}"))?;
            if is_published && handler.registration.metrics().depth == 0 {
                difference(name, known.objects(), "the store", &known.kept(&stored))?;
            }
        }
        Ok(())
    }

    pub(crate) fn check_store(&self) {
        for problem in [self.check_parts(), self.check_handlers()].into_iter().filter_map(Result::err) {
            self.recorder.violation(format_args!("{}: {problem}", self.plural));
        }
        if let Err(problem) = self.check_snapshot() {
            self.recorder.violation(format_args!("{}: {problem}", self.plural));
        }
        if !self.scopes.is_settled() {
            return;
        }
        let (versions, objects) = self.stored();
        let is_incomplete = self.server.was_incomplete(&self.plural);
        let checked = self.server.history(&self.plural, |history| {
            self.store.lock().check(history, &versions, &objects, is_incomplete)
        });
        if let Err(problem) = checked {
            self.recorder.violation(format_args!("{}: {problem}", self.plural));
        }
    }

    /// Waits until the store and all handlers have the objects of the server.
    pub(crate) async fn check_end(&self, deadline: Instant) -> Result<(), String> {
        loop {
            let ended = self.compare();
            if ended.is_ok() || Instant::now() >= deadline {
                self.check_store();
                return ended;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    fn compare(&self) -> Result<(), String> {
        let stored = self.stored().1;
        let server = self.scopes.kept(self.server.objects(&self.plural));
        let server = self.server.history(&self.plural, |history| as_stored(history, server, &stored));
        difference("the store", &stored, "the server", &server)?;
        for handler in &*self.handlers.lock() {
            let (name, known) = (handler.registration.name(), handler.known.lock());
            difference(name, known.objects(), "the server", &known.kept(&server))?;
            if !handler.registration.has_synced() {
                return Err(format!("{name} has not synced"));
            }
            // Resyncs of other handlers are not its events (P-04b, P-10g).
            let depth = handler.registration.metrics().depth;
            if handler.resync.is_zero() && depth > 0 {
                return Err(format!("{name} has {depth} undelivered events"));
            }
        }
        Ok(())
    }

    /// Waits until each handler with a period has been resynced.
    pub(crate) async fn check_resyncs(&self) -> Result<(), String> {
        let since = Instant::now();
        // The check period may be as long as the longest period, and a slow handler comes later.
        sleep(Duration::from_secs(400)).await;
        let handlers = self.handlers.lock();
        // A handler that was added later has no check period of its own (P-04d).
        let has_check_period = self.has_check_period.load(Ordering::Relaxed);
        let mut resynced = handlers
            .iter()
            .filter(|handler| !handler.resync.is_zero() && (!handler.is_late || has_check_period));
        resynced.try_for_each(|handler| {
            let resynced = handler.known.lock().check_resynced(since);
            resynced.map_err(|problem| format!("{}: {problem}", handler.registration.name()))
        })
    }
}
