//! A source that can be slow or forbidden.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use kinformer_reflector::{
    ApiStatus, List, ListOptions, ListerWatcher, SourceError, WatchOptions, WatchStream,
};
use kinformer_testing::{FakeSource, Item};

/// A server that, on demand, forbids every request or delays each response and event.
#[derive(Clone)]
pub(crate) struct Gated {
    pub(crate) server: FakeSource<Item>,
    pub(crate) forbidden: Arc<AtomicBool>,
    /// Milliseconds.
    pub(crate) delay: Arc<AtomicU64>,
}

impl Gated {
    pub(crate) fn new() -> Self {
        Self {
            server: FakeSource::new().without_watch_list(),
            forbidden: Arc::default(),
            delay: Arc::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SourceError> {
        match self.forbidden.load(Ordering::Relaxed) {
            true => Err(ApiStatus::new(403, "Forbidden", "not allowed").into()),
            false => Ok(()),
        }
    }
}

/// Sleeps for this delay on the paused clock.
pub(crate) async fn wait(delay: &AtomicU64) {
    match delay.load(Ordering::Relaxed) {
        0 => {}
        delay => tokio::time::sleep(Duration::from_millis(delay)).await,
    }
}

#[async_trait]
impl ListerWatcher<Item> for Gated {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        self.check()?;
        let list = self.server.list(options).await;
        wait(&self.delay).await;
        list
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        self.check()?;
        let stream = self.server.watch(options).await?;
        let delay = self.delay.clone();
        Ok(stream
            .then(move |event| {
                let delay = delay.clone();
                async move {
                    wait(&delay).await;
                    event
                }
            })
            .boxed())
    }
}
