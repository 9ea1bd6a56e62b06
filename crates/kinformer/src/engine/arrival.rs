//! Decoding objects when they arrive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use kinformer_core::internal::contain;
use kinformer_core::{BoxError, ObjectKey};
use kinformer_kube::{DecodeAs, PackedObject};
use kinformer_reflector::{DecodeError, Failure, SourceError};

use crate::engine::projection::Projection;

pub(crate) type ErrorHook = dyn Fn(&Failure<'_>) + Send + Sync;

/// What is done with each object that arrives.
pub(crate) struct Arrival {
    /// The name of the informer.
    informer: Arc<str>,
    /// The type as which objects are decoded on arrival; those of metadata alone too, if the projection says so.
    decode: OnceLock<(DecodeAs, Projection)>,
    failed: AtomicU64,
    hook: Option<Arc<ErrorHook>>,
}

impl Arrival {
    pub(crate) fn new(informer: Arc<str>, decode: Option<DecodeAs>, hook: Option<Arc<ErrorHook>>) -> Self {
        let decode = decode.map_or_else(OnceLock::new, |to| OnceLock::from((to, Projection::Whole)));
        Self { informer, decode, failed: AtomicU64::new(0), hook }
    }

    /// From now on objects are decoded as this type, unless that was said before: returns whether it was not. Those of
    /// metadata alone too, if the projection says so.
    pub(crate) fn decode_as(&self, to: DecodeAs, projection: Projection) -> bool {
        self.decode.set((to, projection)).is_ok()
    }

    /// How many objects did not decode.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Decodes the object if that is the policy. It is stored whatever comes of it.
    pub(crate) fn arrived(&self, object: &PackedObject) {
        let Some((to, projection)) = self.decode.get() else { return };
        if *projection == Projection::Whole && object.is_metadata_only() {
            return;
        }
        // Decoding is the type's own code.
        let decoded = contain(|| object.keep_decoded(*to));
        if let Err(error) = decoded.and_then(|decoded| decoded.map_err(BoxError::from)) {
            self.undecodable(object, *to, error);
        }
    }

    fn undecodable(&self, object: &PackedObject, to: DecodeAs, error: BoxError) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let informer = &*self.informer;
        tracing::warn!(informer, key = %object.key(), to = to.type_name(), %error, "object not decoded on arrival");
        let Some(hook) = &self.hook else { return };
        let error = DecodeError::new(error).resource_version(object.resource_version());
        let error = match ObjectKey::try_from(object.key()) {
            Ok(key) => error.key(key),
            Err(_) => error,
        };
        let error = SourceError::Undecodable(error);
        if let Err(panic) = contain(|| hook(&Failure::skipped(informer, &error))) {
            tracing::error!(informer, %panic, "the error hook panicked");
        }
    }
}
