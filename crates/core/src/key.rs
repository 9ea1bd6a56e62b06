//! Object keys: an optional cluster, an optional namespace and a name. Errors of invalid keys.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// A borrowed object key: an optional cluster, an optional namespace, and a name of any characters.
///
/// Created from an object without an allocation, and accepted by every look-up. Creation does not validate: a look-up
/// with an impossible key finds nothing. Everything that stores or queues an object calls [`KeyRef::check`] first.
///
/// Keys are compared and hashed by their parts. They are ordered by cluster, then namespace, then name, each byte by
/// byte; a missing part sorts first. Within one namespace this is the order of a Kubernetes list; across namespaces
/// Kubernetes orders by `namespace/name`, where `a-b/x` sorts before `a/x`.
///
/// `namespace/name` is the text form of Kubernetes keys. Only [`KeyRef::parse`] reads it; look-ups never do, because
/// the name of a non-Kubernetes object may contain a `/`:
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
// The derived order depends on the order of these fields. An empty string is a missing part.
#[doc(alias("ExplicitKey", "MetaNamespaceKeyFunc"))]
#[derive(Clone, Copy, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> KeyRef<'a> {
    /// Creates the key of a Kubernetes object in `namespace`; an empty namespace means none.
    ///
    /// ```
    /// use kinformer_core::KeyRef;
    ///
    /// assert_eq!(KeyRef::new("default", "web-0").namespace(), Some("default"));
    /// assert_eq!(KeyRef::new("", "node-0"), KeyRef::named("node-0"));
    /// ```
    pub const fn new(namespace: &'a str, name: &'a str) -> Self {
        Self { cluster: "", namespace, name }
    }

    /// Creates the key of a cluster-scoped Kubernetes object, or a key from any other string: a file path, a URL, an S3
    /// key.
    ///
    /// ```
    /// use kinformer_core::KeyRef;
    ///
    /// let key = KeyRef::named("s3://logs/2026/11");
    /// assert_eq!(key.name(), "s3://logs/2026/11");
    /// assert_eq!(key.namespace(), None);
    /// ```
    pub const fn named(name: &'a str) -> Self {
        Self::new("", name)
    }

    /// Returns the same key in this cluster; an empty cluster means none.
    ///
    /// ```
    /// use kinformer_core::KeyRef;
    ///
    /// let web = KeyRef::new("default", "web-0");
    /// assert_eq!(web.in_cluster("east").cluster(), Some("east"));
    /// assert_ne!(web.in_cluster("east"), web.in_cluster("west"));
    /// assert_eq!(web.in_cluster(""), web);
    /// ```
    #[must_use]
    pub const fn in_cluster(self, cluster: &'a str) -> Self {
        Self { cluster, ..self }
    }

    /// Parses the text form of Kubernetes keys: `namespace/name` or `name`. The key has no cluster.
    ///
    /// # Errors
    /// The text has more than one `/`, an empty name, or an empty namespace before a `/`.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::{KeyProblem, KeyRef};
    ///
    /// assert_eq!(KeyRef::parse("default/web-0")?, KeyRef::new("default", "web-0"));
    /// assert_eq!(KeyRef::parse("node-0")?, KeyRef::named("node-0"));
    /// assert_eq!(KeyRef::parse("a/b/c").unwrap_err().problem(), KeyProblem::TooManySlashes);
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    #[doc(alias("ParseObjectName", "SplitMetaNamespaceKey"))]
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

    /// Returns the cluster, if the key has one.
    pub const fn cluster(self) -> Option<&'a str> {
        if self.cluster.is_empty() { None } else { Some(self.cluster) }
    }

    /// Returns the namespace; `None` for a cluster-scoped object and for a key from any other string.
    pub const fn namespace(self) -> Option<&'a str> {
        if self.namespace.is_empty() { None } else { Some(self.namespace) }
    }

    /// Returns the name.
    pub const fn name(self) -> &'a str {
        self.name
    }

    /// Checks that an object may be stored or queued under this key.
    ///
    /// # Errors
    /// The name is empty.
    #[inline]
    pub fn check(self) -> Result<(), KeyError> {
        if self.name.is_empty() { Err(self.without_name()) } else { Ok(()) }
    }

    #[cold]
    fn without_name(self) -> KeyError {
        KeyError::new(self.to_string(), KeyProblem::EmptyName)
    }
}

// Compares the part that differs most often first, and the one that is usually missing last.
impl PartialEq for KeyRef<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.namespace == other.namespace
            && self.cluster.len() == other.cluster.len()
            && (self.cluster.is_empty() || self.cluster == other.cluster)
    }
}

/// Hashes the parts in one pass, without an allocation. An [`ObjectKey`] has the same hash.
impl Hash for KeyRef<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The lengths come before the bytes, so that the bytes can be split in only one way, if each part is shorter than
        // 64 KiB; the hashes of keys with a longer part may collide. One number costs less than a terminator after each
        // part.
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

/// Writes `namespace/name` or `name`, prefixed with `cluster|` if the key has a cluster. For display only: different
/// keys may have the same text.
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

/// Writes the quoted text form, or the individual parts if that text would be ambiguous.
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

/// Equivalent to [`KeyRef::parse`].
impl<'a> TryFrom<&'a str> for KeyRef<'a> {
    type Error = KeyError;

    fn try_from(text: &'a str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

/// Equivalent to [`KeyRef::parse`].
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

/// Creates a key from a namespace, which may be empty, and a name.
impl<'a> From<(&'a str, &'a str)> for KeyRef<'a> {
    fn from((namespace, name): (&'a str, &'a str)) -> Self {
        Self::new(namespace, name)
    }
}

/// An owned object key with a non-empty name: one shared allocation, 24 bytes in size, cheap to clone.
///
/// Compared, ordered and hashed like the [`KeyRef`] that it converts to.
#[doc(alias("NamespacedNameAsObjectName", "ObjectName", "ObjectRef"))]
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectKey {
    /// The concatenated parts.
    parts: Arc<str>,
    cluster_len: u32,
    namespace_len: u32,
}

impl ObjectKey {
    /// Creates the key of a Kubernetes object in `namespace`; an empty namespace means none.
    ///
    /// # Errors
    /// The name is empty, or the namespace is 4 GiB or longer.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::ObjectKey;
    ///
    /// let key = ObjectKey::new("default", "web-0")?;
    /// assert_eq!(key.to_string(), "default/web-0");
    /// assert!(ObjectKey::new("default", "").is_err());
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    #[doc(alias = "NewObjectName")]
    pub fn new(namespace: &str, name: &str) -> Result<Self, KeyError> {
        Self::try_from(KeyRef::new(namespace, name))
    }

    /// Creates the key of a cluster-scoped Kubernetes object, or a key from any other string.
    ///
    /// # Errors
    /// The name is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::ObjectKey;
    ///
    /// let key = ObjectKey::named("s3://logs/2026/11")?;
    /// assert_eq!((key.namespace(), key.name()), (None, "s3://logs/2026/11"));
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    pub fn named(name: &str) -> Result<Self, KeyError> {
        Self::try_from(KeyRef::named(name))
    }

    /// Returns the key as borrowed parts. O(1).
    ///
    /// ```
    /// use kinformer_core::{KeyRef, ObjectKey};
    ///
    /// let key = ObjectKey::new("default", "web-0")?;
    /// assert_eq!(key.as_key(), KeyRef::new("default", "web-0"));
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    #[inline]
    pub fn as_key(&self) -> KeyRef<'_> {
        let split = |text, length| str::split_at_checked(text, length as usize).unwrap_or_default();
        let (cluster, rest) = split(&*self.parts, self.cluster_len);
        let (namespace, name) = split(rest, self.namespace_len);
        KeyRef { cluster, namespace, name }
    }

    /// See [`KeyRef::cluster`].
    pub fn cluster(&self) -> Option<&str> {
        self.as_key().cluster()
    }

    /// See [`KeyRef::namespace`].
    pub fn namespace(&self) -> Option<&str> {
        self.as_key().namespace()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.as_key().name
    }
}

/// # Errors
/// The name is empty, or the cluster or the namespace is 4 GiB or longer.
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

/// Equivalent to [`KeyRef::parse`].
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

/// The error of an invalid object key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid object key {key:?}: {problem}")]
pub struct KeyError {
    key: String,
    problem: KeyProblem,
}

/// The reason why a key is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyProblem {
    /// The name is empty.
    EmptyName,
    /// The namespace before a `/` is empty.
    EmptyNamespace,
    /// A text parsed as the key of a Kubernetes object has more than one `/`.
    TooManySlashes,
    /// The cluster or the namespace is 4 GiB or longer.
    TooLong,
    /// `Object::key` panicked.
    Panicked,
}

impl KeyError {
    /// Creates an error for this key.
    pub fn new(key: impl Into<String>, problem: KeyProblem) -> Self {
        Self { key: key.into(), problem }
    }

    /// Returns the invalid key, as far as it is known.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the reason.
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
            Self::Panicked => "the key accessor of the object panicked",
        })
    }
}

/// Lets look-ups accept either a key or its text form: converting a key to a key cannot fail.
impl From<Infallible> for KeyError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

crate::debug_as_message!(KeyError);
