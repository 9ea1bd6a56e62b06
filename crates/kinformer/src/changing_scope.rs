//! The scope of one informer.

use std::sync::Arc;

use kinformer_kube::PackedObject;
use kinformer_shared_informer::SharedIndexInformer;
use parking_lot::Mutex;

use crate::Error;
use crate::error::FixedScope;
use crate::make_source::MakeSource;
use crate::scope::Scope;
use crate::selection::Selected;

/// The parts of an informer, as they were requested last.
pub(crate) struct ChangingScope {
    selected: Mutex<Arc<[Selected]>>,
    make_source: Result<MakeSource, FixedScope>,
    /// Locked while a change is requested and takes effect.
    changing: tokio::sync::Mutex<()>,
}

impl ChangingScope {
    pub(crate) fn new(parts: Vec<Selected>, make_source: Result<MakeSource, FixedScope>) -> Self {
        Self { selected: Mutex::new(parts.into()), make_source, changing: tokio::sync::Mutex::default() }
    }

    pub(crate) fn selected(&self) -> Arc<[Selected]> {
        self.selected.lock().clone()
    }

    /// Whether the scope can change.
    pub(crate) fn is_fixed(&self) -> bool {
        self.make_source.is_err()
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
        let make_source = match &self.make_source {
            Ok(make_source) => make_source,
            Err(reason) => return Err(Error::FixedScope { resource: resource.clone(), reason: *reason }),
        };
        let _changing = self.changing.lock().await;
        let (parts, sources) = make_source.of_scope(scope);
        // Requested with its first poll, so that both are the same scope if this future is dropped.
        let changed = informer.set_sources(sources);
        *self.selected.lock() = parts.into();
        Ok(changed.await?)
    }
}
