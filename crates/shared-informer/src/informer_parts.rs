//! The parts of an informer, and their change while it runs.

use std::future::Future;
use std::sync::Arc;

use kinformer_core::{Object, PartId, Wait};

use crate::Error;
use crate::error::WaitOutcome;
use crate::informer::{Phase, SharedIndexInformer};
use crate::parts::{Part, Sources};

impl<T: Object> SharedIndexInformer<T> {
    /// Changes the sources, also while the informer runs. Sources are distinguished by their names: a part whose name is
    /// present before and after goes on with its reflector and its first source. Nothing of it is listed or delivered again.
    ///
    /// The reflectors of the other present parts end first. Then the objects that belong to no part now leave the store and
    /// are delivered as [left](kinformer_processor::Event::Left), and the new sources are listed and watched. An object that
    /// stays, but belongs to a new part, is delivered only if it has changed. [`Self::has_synced`] and the handlers stay synced.
    ///
    /// Changes take effect one after the other; one that is replaced by another before it begins has no effect. Returns when
    /// this change or a later one has taken effect, and then [`Self::wait_for_parts`] waits for the lists of the new parts.
    /// Before the start it returns at once, and the informer starts with these sources.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_testing::{FakeSource, Item};
    /// use kinformer_shared_informer::{SharedIndexInformer, Sources};
    ///
    /// # let (kitchen, office) = (FakeSource::new(), FakeSource::new());
    /// # kitchen.apply(Item::of("kitchen/kettle", 0, 1));
    /// # office.apply(Item::of("office/lamp", 0, 1));
    /// let informer = SharedIndexInformer::builder_of(Sources::by_namespace([("kitchen", kitchen)])).build()?;
    /// informer.spawn(Default::default());
    /// informer.wait_for_sync().await?;
    /// informer.set_sources(Sources::by_namespace([("office", office)])).await?;
    /// informer.wait_for_parts().await?;
    /// assert!(informer.get(("kitchen", "kettle")).is_none());
    /// assert!(informer.get(("office", "lamp")).is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Sources`], without any effect, if there is not one source for each part or two have one name.
    /// [`Error::Stopped`] if the informer has stopped, or stops before the change takes effect.
    ///
    /// # Cancel safety
    /// The first poll requests the change, which then takes effect whether the future is polled or not.
    pub async fn set_sources(&self, sources: Sources<T>) -> Result<(), Error> {
        sources.check(&self.inner.name)?;
        if self.is_stopped() {
            return Err(self.stopped_error());
        }
        let number = self.inner.list.request(sources);
        if self.phase() == Phase::NotStarted {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.inner.list.until_applied(number) => Ok(()),
            () = self.inner.stopped.cancelled() => Err(self.stopped_error()),
        }
    }

    /// Waits until the store has included the first list of every part: also of parts that were added by a
    /// [change](Self::set_sources), even if it was requested only during this wait.
    ///
    /// # Errors
    /// [`Error::NotSynced`], with the parts that have no list and the last error, if the informer stops or
    /// [the deadline](Wait::until) passes first.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer.
    pub fn wait_for_parts(
        &self,
    ) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let list = &self.inner.list;
        let wait = async {
            tokio::select! {
                biased;
                () = list.until_complete() => Ok(()),
                () = self.inner.stopped.cancelled() => Err(self.not_synced(WaitOutcome::Stopped)),
            }
        };
        let at_deadline = || match list.is_complete() {
            true => Ok(()),
            false if self.is_stopped() => Err(self.not_synced(WaitOutcome::Stopped)),
            false => Err(self.not_synced(WaitOutcome::DeadlineExceeded)),
        };
        Wait::new(wait, at_deadline)
    }

    /// Waits until the store has included the first list of the part with this name, or there is no such part after all
    /// requested [changes](Self::set_sources).
    ///
    /// # Errors
    /// [`Error::NotSynced`], with all parts that have no list and the last error, if the informer stops or
    /// [the deadline](Wait::until) passes first.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer.
    pub fn wait_for_part<'a>(
        &'a self,
        name: &'a str,
    ) -> Wait<impl Future<Output = Result<(), Error>> + 'a, impl Fn() -> Result<(), Error> + 'a> {
        let list = &self.inner.list;
        let wait = async move {
            tokio::select! {
                biased;
                () = list.until_listed(name) => Ok(()),
                () = self.inner.stopped.cancelled() => Err(self.not_synced(WaitOutcome::Stopped)),
            }
        };
        let at_deadline = move || match list.is_listed(name) {
            true => Ok(()),
            false if self.is_stopped() => Err(self.not_synced(WaitOutcome::Stopped)),
            false => Err(self.not_synced(WaitOutcome::DeadlineExceeded)),
        };
        Wait::new(wait, at_deadline)
    }

    /// Returns the present parts, one for each source, in the order of the sources. Each part has its own reflector.
    pub fn parts(&self) -> Arc<[Part]> {
        self.inner.list.current()
    }

    /// Returns the part with this number; use [`PartId::ONLY`] for an informer with one source.
    pub fn part(&self, part: PartId) -> Option<Part> {
        self.parts().iter().find(|one| one.id() == part).cloned()
    }
}
