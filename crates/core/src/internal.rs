//! Helpers that our crates share. They are no part of the API and may change with any version.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{BoxError, KeyRef, ObjectKey};

/// An error with what caused it, in one line, each part once. For errors that say less than their causes, as those
/// of connections do.
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

/// Runs user code and turns a panic of it into an error that carries the panic's message.
///
/// # Errors
/// The code panicked.
pub fn contain<R>(user_code: impl FnOnce() -> R) -> Result<R, BoxError> {
    // What the code had borrowed mutably is dropped with it or belongs to the user; ours is not in its reach.
    catch_unwind(AssertUnwindSafe(user_code)).map_err(panic_error)
}

/// Drops a value of the user's, whose `Drop` may panic.
///
/// # Errors
/// It panicked.
pub fn drop_contained<V>(value: V) -> Result<(), BoxError> {
    contain(|| drop(value))
}

/// Asks an object something, and asks once more if it panics: a panic that does not repeat loses nothing.
///
/// # Errors
/// It panicked both times.
pub fn ask<R>(accessors: impl Fn() -> R) -> Result<R, BoxError> {
    contain(&accessors).or_else(|_| contain(&accessors))
}

/// The key of an object that may panic or have no valid key, for messages.
pub fn readable_key<'a>(key: impl Fn() -> KeyRef<'a>) -> Option<ObjectKey> {
    ask(|| ObjectKey::try_from(key()).ok()).ok().flatten()
}

/// What was thrown by a panic, as an error that carries its message: for those who catch one themselves, as code
/// that awaits has to.
pub fn panic_error(panic: Box<dyn Any + Send>) -> BoxError {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("panicked: {message}").into()
}
