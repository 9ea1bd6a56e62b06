//! Async code of the user's that may panic.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use kinformer_core::internal::panic_error;

use crate::SourceError;

/// Runs a request of the source; a panic is an error of it.
pub(crate) async fn contained<R>(
    operation: &'static str,
    request: impl Future<Output = Result<R, SourceError>>,
) -> Result<R, SourceError> {
    // Whatever the request had borrowed mutably is dropped with it.
    AssertUnwindSafe(request).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(operation, panic)))
}

/// What was thrown, as an error.
pub(crate) fn panicked(operation: &'static str, panic: Box<dyn Any + Send>) -> SourceError {
    SourceError::Panic { operation, source: panic_error(panic) }
}
