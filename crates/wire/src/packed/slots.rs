//! The decoded values of one object.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::decoded::Boxed;
use super::encoded::Encoded;
use crate::Error;
use crate::recent::Recent;

/// A decoded value of any type.
type DecodedValue = Arc<dyn Any + Send + Sync>;

/// The decoder of one type, as a value. Code that takes it is not generic over the type and is compiled once for all
/// types.
#[derive(Clone, Copy)]
pub struct DecodeAs {
    of: TypeId,
    name: &'static str,
    decode: fn(&Encoded) -> Result<DecodedValue, Error>,
}

impl DecodeAs {
    /// Returns the decoder of the type `K`.
    pub fn of<K: DeserializeOwned + Send + Sync + 'static>() -> Self {
        Self { of: TypeId::of::<Boxed<K>>(), name: type_name::<K>(), decode: decode::<K> }
    }

    /// The name of the type, for messages.
    pub fn type_name(&self) -> &'static str {
        self.name
    }
}

/// The only code that is compiled for each type, beside its `Deserialize`.
fn decode<K: DeserializeOwned + Send + Sync + 'static>(object: &Encoded) -> Result<DecodedValue, Error> {
    Ok(Arc::new(Boxed::<K>(Arc::new(object.decode(PhantomData::<K>)?))))
}

/// Two decoders are equal if they decode as the same type.
impl PartialEq for DecodeAs {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of
    }
}

impl Eq for DecodeAs {}

impl fmt::Debug for DecodeAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DecodeAs").field(&self.name).finish()
    }
}

/// The decoded values of one object, created with the first value.
#[derive(Default)]
pub(super) struct Slots {
    /// The value that is kept as long as the object.
    kept: OnceLock<DecodedValue>,
    /// The values decoded on read: one for each type that the object was read as, which is nearly always one.
    shared: Mutex<Vec<Slot>>,
}

/// The last decoded value of one type.
struct Slot {
    of: TypeId,
    value: Weak<dyn Any + Send + Sync>,
    /// The index of the value in the cache of [`Recent`]; `u32::MAX` if it is not cached.
    place: u32,
}

impl Slots {
    #[inline]
    pub(super) fn kept(&self) -> Option<&DecodedValue> {
        self.kept.get()
    }

    /// Creates slots that keep a value.
    pub(super) fn of(value: DecodedValue) -> Self {
        Self { kept: OnceLock::from(value), shared: Mutex::default() }
    }

    /// Decodes the object and keeps the value, unless a value is already kept.
    pub(super) fn keep(&self, object: &Encoded, to: DecodeAs) -> Result<(), Error> {
        if self.kept.get().is_none() {
            // The value may be cached from a read; the object is then not decoded again.
            let value = self.find(object.recent(), to.of).map_or_else(|| (to.decode)(object), Ok)?;
            _ = self.kept.set(value);
        }
        Ok(())
    }

    /// Returns the value of this type: the kept one, one that is still held or cached, or a newly decoded one.
    pub(super) fn value(&self, object: &Encoded, to: DecodeAs) -> Result<DecodedValue, Error> {
        if let Some(kept) = self.kept.get().filter(|kept| (***kept).type_id() == to.of) {
            return Ok(kept.clone());
        }
        // Decoding runs the type's own code under this lock, which belongs to this object only. Without the lock,
        // concurrent readers would decode the object several times.
        let mut shared = self.shared.lock();
        let recent = object.recent();
        let slot = shared.iter().position(|slot| slot.of == to.of);
        let known = slot.and_then(|slot| shared.get(slot));
        if let Some(slot) = known
            && let Some(value) = slot.value.upgrade()
        {
            recent.read(slot.place as usize);
            return Ok(value);
        }
        let value = (to.decode)(object)?;
        let (place, evicted) = recent.keep(value.clone());
        let place = place.and_then(|place| u32::try_from(place).ok()).unwrap_or(u32::MAX);
        let new = Slot { of: to.of, value: Arc::downgrade(&value), place };
        let before = match slot.and_then(|slot| shared.get_mut(slot)) {
            Some(slot) => Some(std::mem::replace(slot, new)),
            None => {
                shared.reserve_exact(1);
                shared.push(new);
                None
            }
        };
        drop(shared);
        drop((before, evicted));
        Ok(value)
    }

    fn find(&self, recent: &Recent, of: TypeId) -> Option<DecodedValue> {
        let shared = self.shared.lock();
        let slot = shared.iter().find(|slot| slot.of == of)?;
        recent.read(slot.place as usize);
        slot.value.upgrade()
    }

    pub(super) fn is_any_held(&self) -> bool {
        self.kept.get().is_some() || self.shared.lock().iter().any(|slot| slot.value.strong_count() > 0)
    }

    /// Removes the values of a dropped object from the cache.
    pub(super) fn evict(&mut self, recent: &Recent) {
        for Slot { value, place, .. } in self.shared.get_mut() {
            if value.strong_count() > 0 {
                drop(recent.take(*place as usize, value.as_ptr().cast()));
            }
        }
    }
}
