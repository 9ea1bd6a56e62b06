//! Contains panics of asynchronous user code.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use kinformer_core::internal::panic_error;

use crate::SourceError;

/// Runs a request of the source and converts a panic to an error.
pub(crate) async fn contained<R>(
    operation: &'static str,
    request: impl Future<Output = Result<R, SourceError>>,
) -> Result<R, SourceError> {
    // Unwind safe: everything that the request borrows mutably is dropped with it.
    AssertUnwindSafe(request).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(operation, panic)))
}

/// Converts the payload of a panic to an error.
pub(crate) fn panicked(operation: &'static str, panic: Box<dyn Any + Send>) -> SourceError {
    SourceError::Panic { operation, source: panic_error(panic) }
}
