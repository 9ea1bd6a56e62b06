//! Helpers shared by the kinformer crates. Not part of the public API; may change in any version.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::BoxError;

/// The locks of the model checker.
#[cfg(loom)]
pub mod modelled {
    pub use crate::modelled::*;
}

/// Formats an error and its causes in one line, omitting causes whose text is already included. For errors whose own
/// text omits the cause, such as connection errors.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// Implements `Debug` of an error as its message with its causes, since `Debug` is what Rust prints of an error that
/// `main` returns.
#[macro_export]
#[doc(hidden)]
macro_rules! debug_as_message {
    ($($error:ty),+ $(,)?) => {$(
        /// Formats the message and its causes, which Rust prints if `main` returns the error.
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&$crate::internal::with_causes(self))
            }
        }
    )+};
}

/// Runs user code and converts a panic into an error with the panic's message.
///
/// # Errors
/// The code panicked.
pub fn contain<R>(user_code: impl FnOnce() -> R) -> Result<R, BoxError> {
    // Values that the code borrowed mutably are dropped with it or belong to the user; ours are out of its reach.
    catch_unwind(AssertUnwindSafe(user_code)).map_err(panic_error)
}

/// Runs asynchronous user code as [`contain`]. Its future is dropped here when it ends, which may panic as well. Allocates
/// nothing.
///
/// # Cancel safety
/// As the user code: its future is dropped with this one, and a panic of that drop is not contained.
///
/// # Errors
/// The code, or the drop of its future, panicked.
pub async fn contain_async<R>(user_code: impl Future<Output = R>) -> Result<R, BoxError> {
    let mut user_code = pin!(Some(user_code));
    let ended = poll_fn(|context| match user_code.as_mut().as_pin_mut() {
        Some(future) => match contain(|| future.poll(context)) {
            Ok(polled) => polled.map(Ok),
            Err(error) => Poll::Ready(Err(error)),
        },
        None => Poll::Pending,
    });
    let ended = ended.await;
    let dropped = contain(|| user_code.set(None));
    ended.and_then(|ended| dropped.map(|()| ended))
}

/// Drops a value of a user type, whose `Drop` may panic.
///
/// # Errors
/// `Drop` panicked.
pub fn drop_contained<V>(value: V) -> Result<(), BoxError> {
    contain(|| drop(value))
}

/// Yields to other tasks, in any runtime. Wakes its task at once, so that it gets as many turns as other busy tasks;
/// tokio's `yield_now` wakes it only after the driver was polled.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Converts a panic payload into an error with the panic's message, and [drops](drop_payload) it.
pub fn panic_error(panic: Box<dyn Any + Send>) -> BoxError {
    format!("panicked: {}", panic_message(panic)).into()
}

/// Returns the message of a panic, and [drops](drop_payload) its payload.
pub fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let message = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "no message".to_owned(),
    };
    drop_payload(panic);
    message
}

/// Drops a panic payload, whose `Drop` is user code and may panic again.
pub fn drop_payload(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Its drop might panic again, without an end.
        std::mem::forget(again);
    }
}
