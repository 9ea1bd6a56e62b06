//! Decoding of objects when they arrive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use kinformer_core::internal::contain;
use kinformer_core::{BoxError, ObjectKey};
use kinformer_kube::{DecodeAs, PackedObject};
use kinformer_reflector::{DecodeError, Failure, SourceError};

pub(crate) type ErrorHook = dyn Fn(&Failure<'_>) + Send + Sync;

/// Decodes objects on arrival and reports failures.
pub(crate) struct Arrival {
    /// The name of the informer.
    informer: Arc<str>,
    /// The type that objects are decoded as, and which of them.
    target: OnceLock<(DecodeAs, Decoded)>,
    failed: AtomicU64,
    hook: Option<Arc<ErrorHook>>,
}

/// The objects that are decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decoded {
    /// Whole objects, but not those that were fetched as metadata: the type is that of whole objects.
    Whole,
    All,
}

impl Arrival {
    /// `decode` is the type of whole objects in the options of the resource.
    pub(crate) fn new(informer: Arc<str>, decode: Option<DecodeAs>, hook: Option<Arc<ErrorHook>>) -> Self {
        let target = decode.map_or_else(OnceLock::new, |to| OnceLock::from((to, Decoded::Whole)));
        Self { informer, target, failed: AtomicU64::new(0), hook }
    }

    /// Sets the type to decode all objects as, unless one is set. Returns whether it was set by this call.
    pub(crate) fn decode_as(&self, to: DecodeAs) -> bool {
        self.target.set((to, Decoded::All)).is_ok()
    }

    /// The number of objects that could not be decoded.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Decodes the object if a type is set. The object is stored even if this fails. Returns whether a type is set.
    pub(crate) fn decode(&self, object: &PackedObject) -> bool {
        let Some((to, decoded)) = self.target.get() else { return false };
        if *decoded == Decoded::Whole && object.is_metadata_only() {
            return true;
        }
        // Decoding runs the type's own code, which may panic.
        let decoded = contain(|| object.keep_decoded(*to));
        if let Err(error) = decoded.and_then(|decoded| decoded.map_err(BoxError::from)) {
            self.undecodable(object, *to, error);
        }
        true
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
            tracing::error!(informer, %panic, "error hook panicked");
        }
    }
}
