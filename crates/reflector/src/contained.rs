//! Async code of the user's that may panic.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt;
use kinformer_core::contain;

use crate::ApiError;

/// Runs a request of the source; a panic is an error of it.
pub(crate) async fn contained<R>(
    operation: &'static str,
    request: impl Future<Output = Result<R, ApiError>>,
) -> Result<R, ApiError> {
    // Whatever the request had borrowed mutably is dropped with it.
    AssertUnwindSafe(request).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(operation, panic)))
}

/// What was thrown, as an error.
pub(crate) fn panicked(operation: &'static str, panic: Box<dyn Any + Send>) -> ApiError {
    let message = contain(|| resume_unwind(panic))
        .map_or_else(|source| source, |never: std::convert::Infallible| match never {});
    ApiError::Panic { operation, source: message }
}
