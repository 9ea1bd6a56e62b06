//! Resource versions: opaque on the wire, compared only where the result is certain.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The version of an object or of a whole collection, as the server wrote it.
///
/// The text is opaque and round-trips exactly. Decimal integers of any length without leading zeros can be
/// [compared](Self::compare), as Kubernetes 1.35 and newer guarantee for their own resources; comparing any other
/// version returns `None`. There is deliberately no `PartialOrd`: a `<` would have to guess.
///
/// The default is [unset](Self::is_unset), the empty string. A version that fits into 64 bits needs no heap allocation.
#[doc(alias = "ObjectRefExtra")]
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Repr);

#[derive(Clone, Default, PartialEq, Eq, Hash)]
enum Repr {
    #[default]
    Unset,
    /// A canonical decimal number: formats to the original text.
    Number(u64),
    /// Two allocations, so that a version takes 16 bytes: hardly any is a text.
    Text(Arc<Box<str>>),
}

impl ResourceVersion {
    /// The empty version: "unknown", and in a list request "the newest".
    pub const UNSET: Self = Self(Repr::Unset);

    /// Creates a numeric version.
    ///
    /// ```
    /// use kinformer_core::ResourceVersion;
    ///
    /// assert_eq!(ResourceVersion::number(42), ResourceVersion::from("42"));
    /// ```
    #[inline]
    pub const fn number(version: u64) -> Self {
        Self(Repr::Number(version))
    }

    /// Returns whether this is the empty string.
    ///
    /// ```
    /// use kinformer_core::ResourceVersion;
    ///
    /// assert!(ResourceVersion::from("").is_unset());
    /// assert!(!ResourceVersion::from("0").is_unset());
    /// ```
    #[inline]
    pub fn is_unset(&self) -> bool {
        matches!(self.0, Repr::Unset)
    }

    /// Compares two versions by age; `None` if their order is unknown.
    ///
    /// Equal texts are equal. Otherwise both must be decimal integers without leading zeros. An unset version is
    /// comparable only to itself.
    ///
    /// ```
    /// use std::cmp::Ordering;
    ///
    /// use kinformer_core::ResourceVersion;
    ///
    /// let [nine, ten, text] = ["9", "10", "x7"].map(ResourceVersion::from);
    /// assert_eq!(nine.compare(&ten), Some(Ordering::Less));
    /// assert_eq!(text.compare(&text), Some(Ordering::Equal));
    /// assert_eq!(text.compare(&ten), None);
    /// ```
    #[doc(alias = "ResourceVersionComparator")]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (Repr::Number(a), Repr::Number(b)) => Some(a.cmp(b)),
            (a, b) if a == b => Some(Ordering::Equal),
            // A decimal number stored as text does not fit into 64 bits.
            (Repr::Number(_), Repr::Text(b)) if is_decimal(b) => Some(Ordering::Less),
            (Repr::Text(a), Repr::Number(_)) if is_decimal(a) => Some(Ordering::Greater),
            (Repr::Text(a), Repr::Text(b)) if is_decimal(a) && is_decimal(b) => {
                Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
            }
            _ => None,
        }
    }

    /// Returns whether this version is known to be at least `other`.
    ///
    /// ```
    /// use kinformer_core::ResourceVersion;
    ///
    /// let [nine, ten, text] = ["9", "10", "x7"].map(ResourceVersion::from);
    /// assert!(ten.reaches(&nine) && ten.reaches(&ten));
    /// assert!(!nine.reaches(&ten));
    /// assert!(!text.reaches(&nine) && !nine.reaches(&text));
    /// ```
    #[inline]
    pub fn reaches(&self, other: &Self) -> bool {
        self.compare(other).is_some_and(Ordering::is_ge)
    }

    /// Sets this version to `other` if `other` is newer or cannot be compared. An unset `other` changes nothing.
    ///
    /// ```
    /// use kinformer_core::ResourceVersion;
    ///
    /// let mut version = ResourceVersion::number(10);
    /// version.advance(&ResourceVersion::number(9));
    /// assert_eq!(version, ResourceVersion::number(10));
    /// version.advance(&ResourceVersion::from("x7"));
    /// assert_eq!(version, ResourceVersion::from("x7"));
    /// ```
    pub fn advance(&mut self, other: &Self) {
        if !other.is_unset() && !self.reaches(other) {
            *self = other.clone();
        }
    }
}

/// How the version of a store changes after it has applied all preceding deltas.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionUpdate {
    /// Advances the version as [`ResourceVersion::advance`] does: for single changes and bookmarks.
    Advance(ResourceVersion),
    /// Sets the version, which may be lower or unset: for the end of a list.
    ///
    /// An incomplete list proves nothing about the objects that it lacks, so it does not raise the version. The version
    /// stays if it is not above that of the list, and is unset otherwise.
    Set {
        /// The version.
        version: ResourceVersion,
        /// Whether the list is [complete](crate::Replacement::is_complete).
        is_complete: bool,
    },
}

impl VersionUpdate {
    /// An update that leaves the version unchanged.
    pub const NONE: Self = Self::Advance(ResourceVersion::UNSET);

    /// Returns whether this update leaves the version unchanged.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Advance(version) if version.is_unset())
    }

    /// Merges `next` into this update: applying the result equals applying both in order, except that nothing before or
    /// after an incomplete list advances the version.
    #[inline]
    pub fn append(&mut self, next: Self) {
        match (&mut *self, next) {
            (_, next @ Self::Set { .. }) => *self = next,
            (Self::Set { is_complete: false, .. }, Self::Advance(_)) => {}
            (Self::Advance(version) | Self::Set { version, .. }, Self::Advance(next)) => {
                if !next.is_unset() && !version.reaches(&next) {
                    *version = next;
                }
            }
        }
    }

    /// Applies this update to a version.
    pub fn apply_to(&self, version: &mut ResourceVersion) {
        match self {
            Self::Advance(next) => version.advance(next),
            Self::Set { version: next, is_complete: true } => version.clone_from(next),
            Self::Set { version: next, is_complete: false } if next.reaches(version) => {}
            Self::Set { is_complete: false, .. } => *version = ResourceVersion::UNSET,
        }
    }
}

impl Default for VersionUpdate {
    fn default() -> Self {
        Self::NONE
    }
}

/// Returns whether the text has only digits and no leading zero. A server never writes a leading zero, so the order of
/// such a version is unknown.
fn is_decimal(text: &str) -> bool {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits && !text.is_empty() && (text.len() == 1 || !text.starts_with('0'))
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        if text.is_empty() {
            return Self::UNSET;
        }
        match text.parse() {
            Ok(number) if is_decimal(text) => Self::number(number),
            _ => Self(Repr::Text(Arc::new(text.into()))),
        }
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<u64> for ResourceVersion {
    fn from(version: u64) -> Self {
        Self::number(version)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Unset => Ok(()),
            Repr::Number(number) => fmt::Display::fmt(number, f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
