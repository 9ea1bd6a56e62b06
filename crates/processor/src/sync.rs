//! The synchronization primitives of the log and the bell, which the model checker replaces.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering, fence},
};

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;

#[cfg(not(loom))]
pub(crate) use tokio::sync::{Notify, futures::OwnedNotified};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};

#[cfg(loom)]
pub(crate) use kinformer_core::internal::modelled::Mutex;

#[cfg(loom)]
pub(crate) use self::model::{Notify, OnceLock, OwnedNotified};

#[cfg(loom)]
mod model {
    use std::future::Future;
    use std::ops::Deref;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use loom::sync::atomic::{AtomicBool, Ordering};

    use super::Mutex;

    /// The checker tracks the flag, which has the memory ordering of the real type.
    pub(crate) struct OnceLock<V> {
        set: AtomicBool,
        value: std::sync::OnceLock<V>,
    }

    impl<V> OnceLock<V> {
        pub(crate) fn new() -> Self {
            Self { set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
        }

        pub(crate) fn get(&self) -> Option<&V> {
            if self.set.load(Ordering::Acquire) { self.value.get() } else { None }
        }

        pub(crate) fn set(&self, value: V) -> Result<(), V> {
            self.value.set(value)?;
            self.set.store(true, Ordering::Release);
            Ok(())
        }

        pub(crate) fn take(&mut self) -> Option<V> {
            self.value.take()
        }
    }

    /// Follows tokio's `Notify`: `notify_one` leaves a permit if there is no waiter, `notify_waiters` wakes all
    /// existing futures.
    #[derive(Default)]
    struct State {
        permit: bool,
        generation: usize,
        wakers: Vec<Waker>,
    }

    pub(crate) struct Notify(Mutex<State>);

    impl Notify {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(State::default()))
        }

        pub(crate) fn notify_one(&self) {
            let mut state = self.0.lock();
            state.permit = true;
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }

        pub(crate) fn notify_waiters(&self) {
            let mut state = self.0.lock();
            state.generation += 1;
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }

        pub(crate) fn notified(&self) -> Notified<&Self> {
            Notified { made_at: self.0.lock().generation, notify: self }
        }

        pub(crate) fn notified_owned(self: Arc<Self>) -> OwnedNotified {
            let made_at = self.0.lock().generation;
            Notified { made_at, notify: self }
        }
    }

    pub(crate) type OwnedNotified = Notified<Arc<Notify>>;

    pub(crate) struct Notified<N> {
        notify: N,
        made_at: usize,
    }

    impl<N: Deref<Target = Notify>> Future for Notified<N> {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            let mut state = self.notify.0.lock();
            if state.generation != self.made_at {
                return Poll::Ready(());
            }
            if std::mem::take(&mut state.permit) {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        }
    }
}
