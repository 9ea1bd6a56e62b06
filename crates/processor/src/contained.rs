//! Dropping what is the user's: a panic of its `Drop` ends here.

use kinformer_core::internal::contain;

/// Drops an object, or what holds objects. `what` names it in the log.
pub(crate) fn drop_contained<V>(what: &'static str, value: V) {
    if let Err(error) = contain(|| drop(value)) {
        tracing::error!(%error, "{what} panicked when it was dropped");
    }
}

/// Drops a handler, or what contains it.
pub(crate) fn drop_handler<V>(name: &str, value: V) {
    if let Err(error) = contain(|| drop(value)) {
        tracing::error!(handler = %name, %error, "handler panicked when it was dropped");
    }
}
