//! A type that counts its decodings.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Deserializer};

/// Each test uses its own number, so that tests do not affect each other.
pub(crate) struct Counted<const NUMBER: usize>;

static DECODED: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// The number of times a [`Counted`] of this number was decoded.
pub(crate) fn decoded<const NUMBER: usize>() -> usize {
    DECODED[NUMBER].load(Ordering::Relaxed)
}

impl<'de, const NUMBER: usize> Deserialize<'de> for Counted<NUMBER> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED[NUMBER].fetch_add(1, Ordering::Relaxed);
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}
