//! What a cache and its kinds share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kinformer::SharedInformerFactory;

pub(crate) struct Shared {
    pub(crate) factory: SharedInformerFactory,
    /// How long a read waits for an informer to sync.
    pub(crate) sync_timeout: Duration,
    /// Whether reads start informers.
    pub(crate) starts_on_read: bool,
    is_started: AtomicBool,
}

impl Shared {
    pub(crate) fn new(factory: SharedInformerFactory, sync_timeout: Duration, starts_on_read: bool) -> Self {
        Self { factory, sync_timeout, starts_on_read, is_started: AtomicBool::new(false) }
    }

    pub(crate) fn start(&self) -> Result<(), kinformer::Error> {
        self.factory.start()?;
        self.is_started.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Acquire)
    }
}
