//! The encoded form of a packed object.

use std::borrow::Cow;

use serde::de::DeserializeSeed;

use super::layout::Layout;
use crate::codec::AnyCodec;
use crate::dropped::Dropped;
use crate::recent::Recent;
use crate::{Error, ObjectDecoder};

/// The indexes of the parsed parts. The labels follow as pairs of key and value, then the record of dropped fields, if
/// any were dropped.
pub(super) const NAMESPACE: usize = 0;
pub(super) const NAME: usize = 1;
pub(super) const UID: usize = 2;
pub(super) const LABELS: usize = 3;

/// The bytes of an object with its parsed parts, and its decoder.
pub(super) struct Encoded {
    pub(super) layout: Layout,
    pub(super) decoder: ObjectDecoder,
}

impl Encoded {
    /// The encoded object.
    pub(super) fn bytes(&self) -> &[u8] {
        self.layout.object()
    }

    /// Returns the part of this index; empty if there is none.
    #[inline]
    pub(super) fn part(&self, number: usize) -> &str {
        self.layout.part(number)
    }

    pub(super) fn recent(&self) -> &Recent {
        self.decoder.recent()
    }

    pub(super) fn dropped(&self) -> Dropped<'_> {
        // Labels are pairs, so an extra part is the record.
        let after_labels = self.layout.parts().saturating_sub(1);
        Dropped(if after_labels % 2 == LABELS % 2 { self.layout.part(after_labels) } else { "" })
    }

    /// Returns the codec of this object.
    pub(super) fn codec(&self) -> Cow<'_, AnyCodec> {
        match self.dropped() {
            Dropped("") => Cow::Borrowed(self.decoder.codec()),
            dropped => Cow::Owned(self.decoder.codec().without(dropped)),
        }
    }

    pub(super) fn decode<'de, S: DeserializeSeed<'de>>(&'de self, seed: S) -> Result<S::Value, Error> {
        self.decoder.decode_seed(&self.codec(), self.layout.object(), seed)
    }
}
