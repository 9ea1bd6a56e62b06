//! Records which handlers' code runs on a thread, so that a handler does not wait for itself.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::listener::{Listener, Task};

thread_local! {
    /// The listeners whose code runs on this thread, the innermost last.
    static RUNNING: RefCell<Vec<*const Listener>> = const { RefCell::new(Vec::new()) };
}

/// Marks this thread as running code of a listener, until it is dropped. Not `Send`.
pub(crate) struct Entered(PhantomData<*const ()>);

pub(crate) fn enter(listener: &Arc<Listener>) -> Entered {
    let _ = RUNNING.try_with(|running| running.borrow_mut().push(Arc::as_ptr(listener)));
    Entered(PhantomData)
}

/// Returns whether the caller is code of the listener: its callback, its filter, or the `Drop` of a value that it
/// holds.
pub(crate) fn is_of(listener: &Arc<Listener>) -> bool {
    // No such code runs while the thread ends.
    RUNNING.try_with(|running| running.borrow().contains(&Arc::as_ptr(listener))).unwrap_or(false)
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = RUNNING.try_with(|running| running.borrow_mut().pop());
    }
}

/// The task of a listener: marks its polls and its drop as code of the listener.
pub(crate) struct OwnCode {
    listener: Arc<Listener>,
    task: Option<Task>,
}

impl OwnCode {
    pub(crate) fn new(listener: Arc<Listener>, task: Task) -> Self {
        Self { listener, task: Some(task) }
    }
}

impl Future for OwnCode {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { listener, task } = &mut *self;
        let _entered = enter(listener);
        let Some(running) = task else { return Poll::Ready(()) };
        if running.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        // Dropped while marked: the values that the task still holds are dropped here.
        *task = None;
        Poll::Ready(())
    }
}

impl Drop for OwnCode {
    fn drop(&mut self) {
        let _entered = enter(&self.listener);
        self.task = None;
    }
}
