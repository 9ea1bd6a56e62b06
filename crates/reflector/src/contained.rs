//! Contains panics of asynchronous user code.

use std::any::Any;
use std::future::Future;

use kinformer_core::internal::{contain_async, panic_error};

use crate::SourceError;

/// Runs a request of the source and converts a panic to an error.
pub(crate) async fn contained<R>(
    operation: &'static str,
    request: impl Future<Output = Result<R, SourceError>>,
) -> Result<R, SourceError> {
    contain_async(request).await.unwrap_or_else(|source| Err(SourceError::Panic { operation, source }))
}

/// Converts the payload of a panic to an error.
pub(crate) fn panicked(operation: &'static str, panic: Box<dyn Any + Send>) -> SourceError {
    SourceError::Panic { operation, source: panic_error(panic) }
}
