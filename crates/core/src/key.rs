//! Object keys: an optional cluster, an optional namespace and a name; and what is wrong with one that is not valid.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// A borrowed object key: an optional cluster, an optional namespace, and a name of any characters.
///
/// It is made from an object without an allocation and is what every look-up takes. It is not checked when
/// it is made: a key that no object can have simply finds nothing. Whatever stores or queues an object calls
/// [`KeyRef::check`] first.
///
/// Keys are equal, and are hashed, by their parts. They are ordered by cluster, then by namespace, then by name, each
/// byte by byte; a part that is missing comes before any other. This is the order of a Kubernetes list within one
/// namespace; across namespaces Kubernetes orders by `namespace/name`, so that `a-b/x` comes before `a/x` there.
///
/// `namespace/name` is the text form of Kubernetes keys. It is read by [`KeyRef::parse`] only, never by a look-up,
/// since the name of an object that is not of Kubernetes may contain a `/`:
///
/// ```
/// use kinformer_core::KeyRef;
///
/// assert_eq!(KeyRef::parse("default/web-0")?, KeyRef::new("default", "web-0"));
/// assert_ne!(KeyRef::named("default/web-0"), KeyRef::new("default", "web-0"));
/// assert_eq!(KeyRef::named("s3://logs/2026/11").namespace(), None);
/// assert_eq!(KeyRef::new("default", "web-0").in_cluster("east").to_string(), "east|default/web-0");
/// # Ok::<(), kinformer_core::KeyError>(())
/// ```
// The order of the fields is the order of keys. An empty text is a part that is missing.
#[derive(Clone, Copy, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> KeyRef<'a> {
    /// The key of a Kubernetes object in `namespace`; an empty namespace means none.
    pub const fn new(namespace: &'a str, name: &'a str) -> Self {
        Self { cluster: "", namespace, name }
    }

    /// The key of a cluster-scoped Kubernetes object, or a string of the user's own, whatever is in it: a file path, a
    /// URL, an S3 key.
    pub const fn named(name: &'a str) -> Self {
        Self::new("", name)
    }

    /// The same key in this cluster; an empty cluster means none.
    #[must_use]
    pub const fn in_cluster(self, cluster: &'a str) -> Self {
        Self { cluster, ..self }
    }

    /// Reads the text form of Kubernetes keys: `namespace/name` or `name`. The key has no cluster.
    ///
    /// # Errors
    /// More than one `/`, an empty name, or an empty namespace in front of a `/`.
    pub fn parse(text: &'a str) -> Result<Self, KeyError> {
        let problem = match text.split_once('/') {
            Some(("", _)) => KeyProblem::EmptyNamespace,
            Some((_, name)) if name.contains('/') => KeyProblem::TooManySlashes,
            Some((namespace, name)) if !name.is_empty() => return Ok(Self::new(namespace, name)),
            None if !text.is_empty() => return Ok(Self::named(text)),
            _ => KeyProblem::EmptyName,
        };
        Err(KeyError::new(text, problem))
    }

    /// The cluster, if the key has one.
    pub const fn cluster(self) -> Option<&'a str> {
        if self.cluster.is_empty() { None } else { Some(self.cluster) }
    }

    /// The namespace; `None` for a cluster-scoped object and for a string of the user's own.
    pub const fn namespace(self) -> Option<&'a str> {
        if self.namespace.is_empty() { None } else { Some(self.namespace) }
    }

    /// The name.
    pub const fn name(self) -> &'a str {
        self.name
    }

    /// Whether an object may be stored or queued under this key.
    ///
    /// # Errors
    /// An empty name.
    #[inline]
    pub fn check(self) -> Result<(), KeyError> {
        if self.name.is_empty() { Err(self.without_name()) } else { Ok(()) }
    }

    #[cold]
    fn without_name(self) -> KeyError {
        KeyError::new(self.to_string(), KeyProblem::EmptyName)
    }
}

// The part that differs most often comes first, and the one that is hardly ever there last.
impl PartialEq for KeyRef<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.namespace == other.namespace
            && self.cluster.len() == other.cluster.len()
            && (self.cluster.is_empty() || self.cluster == other.cluster)
    }
}

/// One pass over the parts, without an allocation. An [`ObjectKey`] has the same hash.
impl Hash for KeyRef<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // In front of the bytes, so that they are split in one way only. One number costs less than a byte behind each part.
        let length = |part: &str| part.len() as u64;
        state.write_u64(
            length(self.cluster).rotate_left(48) ^ length(self.namespace).rotate_left(32) ^ length(self.name),
        );
        if !self.cluster.is_empty() {
            state.write(self.cluster.as_bytes());
        }
        if !self.namespace.is_empty() {
            state.write(self.namespace.as_bytes());
        }
        state.write(self.name.as_bytes());
    }
}

/// `namespace/name` or `name`, after `cluster|` if the key has a cluster. For people: keys that differ may look the
/// same.
impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, separator) in [(self.cluster, "|"), (self.namespace, "/")] {
            if !part.is_empty() {
                f.write_str(part)?;
                f.write_str(separator)?;
            }
        }
        f.write_str(self.name)
    }
}

/// The text form in quotation marks; the parts where that could be another key.
impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cluster.is_empty() && !self.namespace.contains('/') && !self.name.contains('/') {
            return write!(f, "\"{self}\"");
        }
        f.debug_struct("KeyRef")
            .field("cluster", &self.cluster())
            .field("namespace", &self.namespace())
            .field("name", &self.name)
            .finish()
    }
}

/// As [`KeyRef::parse`].
impl<'a> TryFrom<&'a str> for KeyRef<'a> {
    type Error = KeyError;

    fn try_from(text: &'a str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

/// As [`KeyRef::parse`].
impl<'a> TryFrom<&'a String> for KeyRef<'a> {
    type Error = KeyError;

    fn try_from(text: &'a String) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl<'a> From<&'a ObjectKey> for KeyRef<'a> {
    fn from(key: &'a ObjectKey) -> Self {
        key.as_key()
    }
}

/// The namespace, which may be empty, and the name.
impl<'a> From<(&'a str, &'a str)> for KeyRef<'a> {
    fn from((namespace, name): (&'a str, &'a str)) -> Self {
        Self::new(namespace, name)
    }
}

/// An owned object key, whose name is not empty: one shared allocation, 24 bytes to hold, cheap to clone.
///
/// Equal, ordered and hashed as the [`KeyRef`] that it gives.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectKey {
    /// The parts, one behind the other.
    parts: Arc<str>,
    cluster_len: u32,
    namespace_len: u32,
}

impl ObjectKey {
    /// The key of a Kubernetes object in `namespace`; an empty namespace means none.
    ///
    /// # Errors
    /// An empty name, or a namespace of 4 GiB or more.
    pub fn new(namespace: &str, name: &str) -> Result<Self, KeyError> {
        Self::try_from(KeyRef::new(namespace, name))
    }

    /// The key of a cluster-scoped Kubernetes object, or a string of the user's own, whatever is in it.
    ///
    /// # Errors
    /// An empty name.
    pub fn named(name: &str) -> Result<Self, KeyError> {
        Self::try_from(KeyRef::named(name))
    }

    /// The key as borrowed parts. O(1).
    #[inline]
    pub fn as_key(&self) -> KeyRef<'_> {
        let split = |text, length| str::split_at_checked(text, length as usize).unwrap_or_default();
        let (cluster, rest) = split(&*self.parts, self.cluster_len);
        let (namespace, name) = split(rest, self.namespace_len);
        KeyRef { cluster, namespace, name }
    }

    /// As [`KeyRef::cluster`].
    pub fn cluster(&self) -> Option<&str> {
        self.as_key().cluster()
    }

    /// As [`KeyRef::namespace`].
    pub fn namespace(&self) -> Option<&str> {
        self.as_key().namespace()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.as_key().name
    }
}

/// # Errors
/// An empty name, or a cluster or a namespace of 4 GiB or more.
impl TryFrom<KeyRef<'_>> for ObjectKey {
    type Error = KeyError;

    fn try_from(key: KeyRef<'_>) -> Result<Self, KeyError> {
        key.check()?;
        let length =
            |part: &str| u32::try_from(part.len()).map_err(|_| KeyError::new(key.name, KeyProblem::TooLong));
        Ok(Self {
            parts: match (key.cluster, key.namespace) {
                ("", "") => key.name.into(),
                _ => [key.cluster, key.namespace, key.name].concat().into(),
            },
            cluster_len: length(key.cluster)?,
            namespace_len: length(key.namespace)?,
        })
    }
}

/// As [`KeyRef::parse`].
impl FromStr for ObjectKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        KeyRef::parse(text)?.try_into()
    }
}

impl PartialEq<KeyRef<'_>> for ObjectKey {
    fn eq(&self, other: &KeyRef<'_>) -> bool {
        self.as_key() == *other
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_key().cmp(&other.as_key())
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_key().hash(state);
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_key(), f)
    }
}

/// An object without a valid key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid object key {key:?}: {problem}")]
pub struct KeyError {
    key: String,
    problem: KeyProblem,
}

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyProblem {
    /// There is no name.
    EmptyName,
    /// There is a `/` with no namespace in front of it.
    EmptyNamespace,
    /// A text that was to be read as the key of a Kubernetes object has more than one `/`.
    TooManySlashes,
    /// The cluster or the namespace has 4 GiB or more.
    TooLong,
    /// The object panicked when it was asked for its key.
    Panicked,
}

impl KeyError {
    /// Says what is wrong with a key.
    pub fn new(key: impl Into<String>, problem: KeyProblem) -> Self {
        Self { key: key.into(), problem }
    }

    /// The key as far as there is one.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong with it.
    pub fn problem(&self) -> KeyProblem {
        self.problem
    }
}

impl fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyName => "the name is empty",
            Self::EmptyNamespace => "the namespace is empty",
            Self::TooManySlashes => "there is more than one '/'; expected namespace/name or name",
            Self::TooLong => "the cluster or the namespace is longer than 4 GiB",
            Self::Panicked => "the object panicked when asked for it",
        })
    }
}

/// For look-ups that take a key or its text form: a key that is one already cannot fail.
impl From<Infallible> for KeyError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
