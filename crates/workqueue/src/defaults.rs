//! The default rate limiter.

use std::hash::Hash;

use crate::bucket::Bucket;
use crate::rate_limiter::{ItemExponential, MaxOf};

/// Returns client-go's default rate limiter (`DefaultTypedControllerRateLimiter`): a delay for each key from 5 ms to
/// 1,000 s, and for all keys together 10 retries each second, in bursts of up to 100.
#[doc(alias("DefaultControllerRateLimiter", "DefaultTypedControllerRateLimiter"))]
pub fn default_rate_limiter<K: Eq + Hash + Clone + Send + 'static>() -> MaxOf<K> {
    MaxOf::new().with(ItemExponential::default()).with(Bucket::default())
}
