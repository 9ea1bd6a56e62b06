//! Drops user values: contains and logs panics of their `Drop`.

use kinformer_core::internal;

/// Drops an object or a container of objects. `what` is its name in the log.
pub(crate) fn drop_contained<V>(what: &'static str, value: V) {
    if let Err(error) = internal::drop_contained(value) {
        tracing::error!(%error, "{what} panicked in its drop");
    }
}

/// Drops a handler or a value that contains it.
pub(crate) fn drop_handler<V>(name: &str, value: V) {
    if let Err(error) = internal::drop_contained(value) {
        tracing::error!(handler = %name, %error, "handler panicked in its drop");
    }
}
