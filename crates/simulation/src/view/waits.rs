//! Waits for versions.

use std::time::Duration;

use kinformer::kube_core::Resource;
use tokio::time::Instant;

use super::View;
use crate::judge::check_namespace_reached;

/// The time within which a write is stored. A watch that ends is opened again within half a second.
const OWN_WRITE: Duration = Duration::from_secs(5);

impl<K: Resource<DynamicType = ()> + 'static> View<K> {
    /// Waits until the store has a version of an object, for at most some time.
    pub(crate) async fn wait_for(&self, key: &str, version: u64, longest: Duration) -> Result<(), String> {
        let deadline = Instant::now() + longest;
        let place = key.split_once('/').unwrap_or_default();
        let (changes, has_begun) = (self.scopes.len(), self.informer.snapshot().is_ok());
        let waited = self.informer.wait_for(place, &version.to_string().into()).until(deadline).await;
        // A namespace that leaves ends the wait with an error, and one that has come back may not be listed yet.
        // Before the start, the parts are still those of the first scope.
        if !has_begun && self.scopes.has_changed() {
            return Ok(());
        }
        if self.scopes.len() > changes || !self.scopes.is_settled() || !self.scopes.contains(key) {
            return Ok(());
        }
        match waited {
            Ok(()) => {
                let stored = self.stored();
                self.server.history(&self.plural, |history| {
                    check_namespace_reached(history, place.0, version, &stored)
                })
            }
            Err(error) if Instant::now() < deadline => {
                Err(format!("waiting for {key} at {version}: {error}"))
            }
            Err(_) => Ok(()),
        }
    }

    /// Waits until the newest change is stored.
    pub(crate) async fn check_wait(&self, longest: Duration) -> Result<(), String> {
        let Some((key, version)) = self.newest() else { return Ok(()) };
        let began = Instant::now();
        self.wait_for(&key, version, longest).await?;
        if began.elapsed() < longest {
            Ok(())
        } else {
            Err(format!("{key} at {version} is not stored in time"))
        }
    }

    /// Waits for a version that the server does not have, until the informer stops.
    pub(crate) fn wait_forever(&self) -> tokio::task::JoinHandle<bool> {
        let informer = self.informer.clone();
        let version = u64::MAX.to_string().into();
        tokio::spawn(async move { informer.wait_for(("a", "p0"), &version).await.is_err() })
    }

    /// Writes an object, and checks that a wait for it ends with its event (S-17, S-18). Not if a handler makes the store
    /// wait.
    pub(crate) async fn check_own_write(&self, decodes: bool) -> Result<(), String> {
        if self.handlers.lock().iter().any(|handler| handler.has_back_pressure) {
            return Ok(());
        }
        let key = "a/own";
        let version = match decodes {
            true => self.server.put(&self.plural, key, "own"),
            false => self.server.put_undecodable(&self.plural, key),
        };
        self.recorder
            .note("world", format_args!("writes {} {key} at {version}, decodes {decodes}", self.plural));
        let began = Instant::now();
        self.wait_for(key, version, OWN_WRITE).await?;
        match began.elapsed() < OWN_WRITE {
            true => Ok(()),
            false => Err(format!("the wait for {key} at {version} has not ended with its event")),
        }
    }
}
