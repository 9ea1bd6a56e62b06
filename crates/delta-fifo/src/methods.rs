//! The methods that both delta queues have, word for word.

/// The common settings, the inherent methods and the [`Queue`](crate::Queue) of a queue over [`Shared`](crate::shared::Shared).
macro_rules! delta_queue {
    ($queue:ident, $builder:ident, $known:literal, $one:literal) => {
        impl<T: Object> $builder<T> {
            #[doc = $known]
            pub fn known_objects(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
                self.known = Some(known);
                self
            }

            /// Every object passes this once before it is queued.
            pub fn transform(mut self, transform: Transform<T>) -> Self {
                self.transform = Some(transform);
                self
            }

            /// How many deltas the queue takes; 10,000 by default.
            pub fn bound(mut self, bound: Bound) -> Self {
                self.bound = bound;
                self
            }
        }

        impl<T: Object> Default for $queue<T> {
            fn default() -> Self {
                Self::new()
            }
        }

        /// Writing, without having to import [`Sink`]. Nothing here waits: at the bound, operations fail with
        /// `Error::Full` and change nothing; [`Self::ready`] waits for room.
        impl<T: Object> $queue<T> {
            /// See [`Sink::add`].
            ///
            /// # Errors
            /// No valid key, a failed transform, full, closed. Nothing has changed.
            pub fn add(&self, object: impl Into<Arc<T>>) -> Result<Report, SinkError> {
                Sink::add(self, object.into())
            }

            /// See [`Sink::update`].
            ///
            /// # Errors
            /// As [`Self::add`].
            pub fn update(&self, object: impl Into<Arc<T>>) -> Result<Report, SinkError> {
                Sink::update(self, object.into())
            }

            /// See [`Sink::delete`].
            ///
            /// # Errors
            /// No valid key, full, closed, known objects that panic. Nothing has changed.
            pub fn delete(&self, tombstone: impl Into<Tombstone<Arc<T>>>) -> Result<Report, SinkError> {
                Sink::delete(self, tombstone.into())
            }

            /// See [`Sink::replace`].
            ///
            /// # Errors
            /// Full, closed, known objects that panic. Nothing has changed.
            pub fn replace(&self, replacement: Replacement<T>) -> Result<Report, SinkError> {
                Sink::replace(self, replacement)
            }

            /// See [`Sink::resync`].
            ///
            /// # Errors
            /// As [`Self::replace`].
            pub fn resync(&self) -> Result<(), SinkError> {
                Sink::resync(self)
            }

            /// See [`Sink::bookmark`].
            ///
            /// # Errors
            /// Full, closed. Nothing has changed.
            pub fn bookmark(&self, version: impl Into<ResourceVersion>) -> Result<(), SinkError> {
                Sink::bookmark(self, version.into())
            }

            /// Waits until there is room, or the queue is closed. Cancel-safe. Another producer may be faster.
            pub async fn ready(&self) {
                self.shared.ready().await;
            }

            /// As [`Self::ready`], blocking the thread.
            #[cfg(not(loom))]
            pub fn ready_blocking(&self) {
                _ = self.shared.ready_blocking(None);
            }

            /// As [`Self::ready_blocking`], but not beyond the deadline.
            ///
            /// # Errors
            /// [`Error::DeadlineExceeded`].
            #[cfg(not(loom))]
            pub fn ready_blocking_until(&self, deadline: std::time::Instant) -> Result<(), Error> {
                self.shared.ready_blocking(Some(deadline))
            }
        }

        /// Popping. What is popped counts as processed when the [`Popped`] is dropped.
        impl<T: Object> $queue<T> {
            #[doc = $one]
            /// Waits until there is something. Cancel-safe: dropped while it waits, it has taken nothing; so a
            /// deadline is `tokio::time::timeout` or the like around it.
            ///
            /// # Errors
            /// [`Error::Closed`]: everything has been popped and nothing will come.
            pub async fn pop(&self) -> Result<Popped<T>, Error> {
                self.shared.pop(1).await
            }

            /// As [`Self::pop`], for up to `max` distinct keys at once: it ends at a repeated key, at a delta
            /// that is about all objects, and with the initial list. 1,000 is a good size.
            ///
            /// # Errors
            /// [`Error::Closed`]: everything has been popped and nothing will come.
            pub async fn pop_batch(&self, max: usize) -> Result<Popped<T>, Error> {
                self.shared.pop(max).await
            }

            /// As [`Self::pop`], without waiting; `None` when there is nothing.
            ///
            /// # Errors
            /// [`Error::Closed`]: everything has been popped and nothing will come.
            pub fn try_pop(&self) -> Result<Option<Popped<T>>, Error> {
                self.shared.try_pop(1)
            }

            /// As [`Self::pop_batch`], without waiting; `None` when there is nothing.
            ///
            /// # Errors
            /// [`Error::Closed`]: everything has been popped and nothing will come.
            pub fn try_pop_batch(&self, max: usize) -> Result<Option<Popped<T>>, Error> {
                self.shared.try_pop(max)
            }

            /// As [`Self::pop`], blocking the thread.
            ///
            /// # Errors
            /// [`Error::Closed`]: everything has been popped and nothing will come.
            #[cfg(not(loom))]
            pub fn pop_blocking(&self) -> Result<Popped<T>, Error> {
                self.shared.pop_blocking(1, None)
            }

            /// As [`Self::pop_blocking`], but not beyond the deadline.
            ///
            /// # Errors
            /// [`Error::Closed`]; [`Error::DeadlineExceeded`].
            #[cfg(not(loom))]
            pub fn pop_blocking_until(&self, deadline: std::time::Instant) -> Result<Popped<T>, Error> {
                self.shared.pop_blocking(1, Some(deadline))
            }

            /// As [`Self::pop_batch`], blocking the thread.
            ///
            /// # Errors
            /// [`Error::Closed`]: everything has been popped and nothing will come.
            #[cfg(not(loom))]
            pub fn pop_batch_blocking(&self, max: usize) -> Result<Popped<T>, Error> {
                self.shared.pop_blocking(max, None)
            }

            /// As [`Self::pop_batch_blocking`], but not beyond the deadline.
            ///
            /// # Errors
            /// [`Error::Closed`]; [`Error::DeadlineExceeded`].
            #[cfg(not(loom))]
            pub fn pop_batch_blocking_until(
                &self,
                max: usize,
                deadline: std::time::Instant,
            ) -> Result<Popped<T>, Error> {
                self.shared.pop_blocking(max, Some(deadline))
            }

            /// Whether everything that the first replace brought has been processed. False while nothing was
            /// written; true at once if an object was written first.
            pub fn has_synced(&self) -> bool {
                self.shared.has_synced()
            }

            /// Waits for [`Self::has_synced`]. Any number may wait. Cancel-safe.
            ///
            /// # Errors
            /// [`Error::Closed`]: it has not synced and will not.
            pub async fn synced(&self) -> Result<(), Error> {
                self.shared.synced().await
            }

            /// As [`Self::synced`], blocking the thread.
            ///
            /// # Errors
            /// [`Error::Closed`]: it has not synced and will not.
            #[cfg(not(loom))]
            pub fn synced_blocking(&self) -> Result<(), Error> {
                self.shared.synced_blocking(None)
            }

            /// As [`Self::synced_blocking`], but not beyond the deadline.
            ///
            /// # Errors
            /// [`Error::Closed`]; [`Error::DeadlineExceeded`].
            #[cfg(not(loom))]
            pub fn synced_blocking_until(&self, deadline: std::time::Instant) -> Result<(), Error> {
                self.shared.synced_blocking(Some(deadline))
            }

            /// Closes the queue: it takes nothing more, what is in it can still be popped, and everyone who
            /// waits wakes. Says whether it was open; closing again changes nothing.
            pub fn close(&self) -> bool {
                self.shared.close()
            }

            /// Whether the queue was closed.
            pub fn is_closed(&self) -> bool {
                self.shared.is_closed()
            }

            /// How many deltas are queued. What the bound is about.
            pub fn depth(&self) -> usize {
                self.shared.lock().backlog.depth()
            }

            /// What the queue holds and has done.
            pub fn stats(&self) -> Stats {
                self.shared.stats()
            }
        }

        impl<T: Object> Queue<T> for $queue<T> {
            fn try_pop_batch(&self, max: usize) -> Result<Option<Popped<T>>, Error> {
                self.shared.try_pop(max)
            }

            fn pop_batch(&self, max: usize) -> BoxFuture<'_, Result<Popped<T>, Error>> {
                Box::pin(self.shared.pop(max))
            }

            fn has_synced(&self) -> bool {
                self.shared.has_synced()
            }

            fn synced(&self) -> BoxFuture<'_, Result<(), Error>> {
                Box::pin(self.shared.synced())
            }

            fn close(&self) -> bool {
                self.shared.close()
            }

            fn is_closed(&self) -> bool {
                self.shared.is_closed()
            }

            fn depth(&self) -> usize {
                $queue::depth(self)
            }

            fn stats(&self) -> Stats {
                self.shared.stats()
            }
        }

        impl<T: Object> std::fmt::Debug for $queue<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($queue))
                    .field("depth", &$queue::depth(self))
                    .field("has_synced", &self.shared.has_synced())
                    .field("is_closed", &self.shared.is_closed())
                    .finish()
            }
        }
    };
}

pub(crate) use delta_queue;
