//! The scope of one informer.

use std::sync::Arc;

use kinformer_kube::PackedObject;
use kinformer_shared_informer::{SharedIndexInformer, Sources};
use parking_lot::Mutex;

use crate::Error;
use crate::error::FixedScope;
use crate::scope::Scope;
use crate::selection::Selected;

/// Makes the parts of a scope, with their sources.
pub(crate) type MakeParts =
    Box<dyn Fn(&Scope, &[Selected], &mut u32) -> (Vec<Selected>, Sources<PackedObject>) + Send + Sync>;

/// The parts of an informer, as they were requested last.
pub(crate) struct ChangingScope {
    selected: Mutex<Arc<[Selected]>>,
    make_parts: Result<MakeParts, FixedScope>,
    /// Locked while a change is requested and takes effect. The number of the next new part of a shard: two parts never have
    /// one name.
    changing: tokio::sync::Mutex<u32>,
}

impl ChangingScope {
    pub(crate) fn new(parts: Vec<Selected>, make_parts: Result<MakeParts, FixedScope>) -> Self {
        let next = u32::try_from(parts.len()).unwrap_or(u32::MAX).saturating_add(1);
        Self { selected: Mutex::new(parts.into()), make_parts, changing: tokio::sync::Mutex::new(next) }
    }

    pub(crate) fn selected(&self) -> Arc<[Selected]> {
        self.selected.lock().clone()
    }

    /// Whether the scope can change.
    pub(crate) fn is_fixed(&self) -> bool {
        self.make_parts.is_err()
    }

    /// Changes the scope.
    ///
    /// # Cancel safety
    /// Before the end of an earlier change, a dropped future changes nothing. From then on the change takes effect.
    pub(crate) async fn set(
        &self,
        informer: &SharedIndexInformer<PackedObject>,
        resource: &Arc<str>,
        scope: &Scope,
    ) -> Result<(), Error> {
        let make_parts = match &self.make_parts {
            Ok(make_parts) => make_parts,
            Err(reason) => return Err(Error::FixedScope { resource: resource.clone(), reason: *reason }),
        };
        let mut next = self.changing.lock().await;
        let (parts, sources) = make_parts(scope, &self.selected(), &mut next);
        // Requested with its first poll, so that both are the same scope if this future is dropped.
        let changed = informer.set_sources(sources);
        *self.selected.lock() = parts.into();
        Ok(changed.await?)
    }
}
