//! Helpers shared by the kinformer crates. Not part of the public API; may change in any version.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{BoxError, KeyRef, ObjectKey};

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

/// Drops a value of a user type, whose `Drop` may panic.
///
/// # Errors
/// `Drop` panicked.
pub fn drop_contained<V>(value: V) -> Result<(), BoxError> {
    contain(|| drop(value))
}

/// Calls accessors of an object, and calls them again if they panic, so that a panic that does not repeat has no
/// effect.
///
/// # Errors
/// The accessors panicked both times.
#[inline]
pub fn try_accessors<R>(accessors: impl Fn() -> R) -> Result<R, BoxError> {
    contain(&accessors).or_else(|_| try_again(&accessors))
}

/// Separate and without a type parameter for the accessors, so that they are compiled once, in line with the first call.
#[cold]
fn try_again<R>(accessors: &dyn Fn() -> R) -> Result<R, BoxError> {
    contain(accessors)
}

/// Returns the key of an object for messages; `None` if its accessor panics or the key is invalid.
pub fn readable_key<'a>(key: impl Fn() -> KeyRef<'a>) -> Option<ObjectKey> {
    try_accessors(|| ObjectKey::try_from(key()).ok()).ok().flatten()
}

/// Converts a panic payload into an error with the panic's message. For async code, which cannot use [`contain`].
pub fn panic_error(panic: Box<dyn Any + Send>) -> BoxError {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("panicked: {message}").into()
}
