//! Object keys: `namespace/name`, or `name` for what is cluster-scoped.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{KeyError, KeyProblem};

/// A borrowed object key: the namespace (empty for a cluster-scoped object) and the name.
///
/// It is made from an object without an allocation and is what every look-up takes. It is not checked when
/// it is made: a key that no object can have simply finds nothing. Whatever stores or queues an object calls
/// [`KeyRef::check`] first.
///
/// Keys are ordered as their text is, byte by byte, which is the order of a Kubernetes list.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyRef<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> KeyRef<'a> {
    /// The key of an object in `namespace`; an empty namespace means cluster-scoped.
    pub const fn new(namespace: &'a str, name: &'a str) -> Self {
        Self { namespace, name }
    }

    /// The key of a cluster-scoped object.
    pub const fn cluster(name: &'a str) -> Self {
        Self { namespace: "", name }
    }

    /// Reads `namespace/name` or `name`.
    ///
    /// # Errors
    /// More than one `/`, an empty name, or an empty namespace in front of a `/`.
    pub fn parse(text: &'a str) -> Result<Self, KeyError> {
        let key = Self::from(text);
        if key.namespace.is_empty() && text.starts_with('/') {
            return Err(KeyError::new(text, KeyProblem::EmptyNamespace));
        }
        key.check()?;
        Ok(key)
    }

    /// The namespace; empty for a cluster-scoped object.
    pub const fn namespace(self) -> &'a str {
        self.namespace
    }

    /// The name.
    pub const fn name(self) -> &'a str {
        self.name
    }

    /// Whether an object may be stored or queued under this key.
    ///
    /// # Errors
    /// An empty name, or a `/` in the namespace or the name (the key could not be read back).
    pub fn check(self) -> Result<(), KeyError> {
        let problem = if self.name.is_empty() {
            KeyProblem::EmptyName
        } else if self.name.contains('/') || self.namespace.contains('/') {
            KeyProblem::TooManySlashes
        } else {
            return Ok(());
        };
        Err(KeyError::new(self.to_string(), problem))
    }

    fn parts(self) -> [&'a str; 3] {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        [self.namespace, slash, self.name]
    }
}

impl Ord for KeyRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(other.name);
        }
        let bytes = |key: &Self| key.parts().into_iter().flat_map(str::bytes);
        bytes(self).cmp(bytes(other))
    }
}

impl PartialOrd for KeyRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().into_iter().try_for_each(|part| f.write_str(part))
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Splits at the first `/`; without one the key is cluster-scoped. Never fails: see [`KeyRef::parse`] for the
/// form that does.
impl<'a> From<&'a str> for KeyRef<'a> {
    fn from(text: &'a str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Self { namespace, name },
            None => Self::cluster(text),
        }
    }
}

impl<'a> From<&'a String> for KeyRef<'a> {
    fn from(text: &'a String) -> Self {
        Self::from(text.as_str())
    }
}

impl<'a> From<&'a ObjectKey> for KeyRef<'a> {
    fn from(key: &'a ObjectKey) -> Self {
        key.as_key()
    }
}

impl<'a> From<(&'a str, &'a str)> for KeyRef<'a> {
    fn from((namespace, name): (&'a str, &'a str)) -> Self {
        Self { namespace, name }
    }
}

/// An owned object key, always well formed: one shared string, 16 bytes to hold, cheap to clone.
///
/// Ordered as its text is, byte by byte, which is the order of a Kubernetes list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// Makes a key of its parts; an empty namespace means cluster-scoped.
    ///
    /// # Errors
    /// As [`KeyRef::check`].
    pub fn new(namespace: &str, name: &str) -> Result<Self, KeyError> {
        Self::try_from(KeyRef::new(namespace, name))
    }

    /// The key as borrowed parts. O(length).
    pub fn as_key(&self) -> KeyRef<'_> {
        KeyRef::from(&*self.0)
    }

    /// The key as text: `namespace/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.as_key().namespace
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.as_key().name
    }
}

impl TryFrom<KeyRef<'_>> for ObjectKey {
    type Error = KeyError;

    fn try_from(key: KeyRef<'_>) -> Result<Self, KeyError> {
        key.check()?;
        Ok(Self(match key.namespace {
            "" => key.name.into(),
            _ => key.to_string().into(),
        }))
    }
}

impl FromStr for ObjectKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        KeyRef::parse(text).map(|_| Self(text.into()))
    }
}

impl AsRef<str> for ObjectKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<KeyRef<'_>> for ObjectKey {
    fn eq(&self, other: &KeyRef<'_>) -> bool {
        self.as_key() == *other
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
