//! Dropping what is the user's: a panic of its `Drop` ends here, and is logged.

use kinformer_core::internal;

/// Drops an object, or what holds objects. `what` names it in the log.
pub(crate) fn drop_contained<V>(what: &'static str, value: V) {
    if let Err(error) = internal::drop_contained(value) {
        tracing::error!(%error, "{what} panicked when it was dropped");
    }
}

/// Drops a handler, or what contains it.
pub(crate) fn drop_handler<V>(name: &str, value: V) {
    if let Err(error) = internal::drop_contained(value) {
        tracing::error!(handler = %name, %error, "handler panicked when it was dropped");
    }
}
