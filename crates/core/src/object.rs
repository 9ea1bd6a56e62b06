//! Objects: anything with a key.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::Deref;
use std::slice;

use crate::{KeyError, KeyRef, ObjectKey, ResourceVersion};

/// A value that can be queued, stored and indexed. Only the key is required.
///
/// All methods are accessors, under the same rules as `Hash` and `Eq` in a hash map: cheap, free of side effects, and
/// deterministic for the same object. Layers may call them at any time, including while they hold their own short
/// locks, so an accessor must not call back into a store or a queue. A panic in an accessor leaves every structure
/// consistent.
///
/// Code that is generic over `T: Object` calls these methods without importing the trait.
pub trait Object: Send + Sync + 'static {
    /// Returns the key. Two states with the same key are states of the same object.
    #[doc(alias(
        "from_obj",
        "KeyFunc",
        "KeyFunction",
        "MetaNamespaceKeyFunc",
        "MetaObjectToName",
        "ObjectKeyFromObject",
        "ObjectToName"
    ))]
    fn key(&self) -> KeyRef<'_>;

    /// Returns the version of this state; unset if the objects have no versions.
    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::UNSET
    }

    /// Returns the UID, which distinguishes an object from an earlier one with the same key.
    fn uid(&self) -> Option<&str> {
        None
    }

    /// Returns whether both states have the same content, regardless of how they are encoded; `None` if unknown.
    ///
    /// Only states with the same key, UID and version are compared. A server may return different content for such
    /// states, for example after a change of a default or a conversion. States with the same content produce no event.
    /// If the result is `None`, states with the same version count as equal unless the source reports a modification, and
    /// states without a version as different.
    fn has_same_content(&self, other: &Self) -> Option<bool>
    where
        Self: Sized,
    {
        let _ = other;
        None
    }

    /// Returns how many bytes of memory this object takes; `None` if unknown, which is better than a part of them.
    fn memory_size(&self) -> Option<usize> {
        None
    }

    /// Returns all labels, in no particular order.
    fn labels(&self) -> Labels<'_> {
        Labels::default()
    }

    /// Returns the value of one label.
    fn label(&self, key: &str) -> Option<&str> {
        self.labels().find_map(|(k, v)| (k == key).then_some(v))
    }
}

/// The labels of an object, as pairs of key and value.
#[derive(Default)]
pub struct Labels<'a>(Pairs<'a>);

#[derive(Default)]
enum Pairs<'a> {
    #[default]
    None,
    Map(btree_map::Iter<'a, String, String>),
    Slice(slice::Iter<'a, (String, String)>),
    Boxed(Box<dyn Iterator<Item = (&'a str, &'a str)> + 'a>),
}

impl<'a> Labels<'a> {
    /// Creates labels from any iterator. Costs one allocation.
    ///
    /// ```
    /// use kinformer_core::Labels;
    ///
    /// let labels = Labels::from_iterator([("app", "web"), ("tier", "front")].into_iter());
    /// assert_eq!(labels.collect::<Vec<_>>(), [("app", "web"), ("tier", "front")]);
    /// ```
    pub fn from_iterator(pairs: impl Iterator<Item = (&'a str, &'a str)> + 'a) -> Self {
        Self(Pairs::Boxed(Box::new(pairs)))
    }
}

impl<'a> From<&'a BTreeMap<String, String>> for Labels<'a> {
    fn from(map: &'a BTreeMap<String, String>) -> Self {
        Self(Pairs::Map(map.iter()))
    }
}

impl<'a> From<Option<&'a BTreeMap<String, String>>> for Labels<'a> {
    fn from(map: Option<&'a BTreeMap<String, String>>) -> Self {
        map.map(Self::from).unwrap_or_default()
    }
}

impl<'a> From<&'a [(String, String)]> for Labels<'a> {
    fn from(pairs: &'a [(String, String)]) -> Self {
        Self(Pairs::Slice(pairs.iter()))
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Pairs::None => None,
            Pairs::Map(pairs) => pairs.next().map(|(k, v)| (k.as_str(), v.as_str())),
            Pairs::Slice(pairs) => pairs.next().map(|(k, v)| (k.as_str(), v.as_str())),
            Pairs::Boxed(pairs) => pairs.next(),
        }
    }
}

impl fmt::Debug for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Labels")
    }
}

/// A value with its key stored beside it: makes an [`Object`] of any type, including foreign ones.
///
/// ```
/// use kinformer_core::{Keyed, Object};
///
/// let addr = Keyed::by(|a: &std::net::SocketAddr| a.to_string(), ([127, 0, 0, 1], 80).into())?;
/// assert_eq!(addr.key().name(), "127.0.0.1:80");
/// assert_eq!(addr.port(), 80);
/// # Ok::<(), kinformer_core::KeyError>(())
/// ```
#[doc(alias = "KeyFunc")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed<T> {
    key: ObjectKey,
    value: T,
}

impl<T> Keyed<T> {
    /// Creates a value with this key.
    ///
    /// ```
    /// use kinformer_core::{KeyRef, Keyed, Object};
    ///
    /// let pod = Keyed::new("default/web-0".parse()?, 7);
    /// assert_eq!(pod.key(), KeyRef::new("default", "web-0"));
    /// assert_eq!(*pod, 7);
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    pub fn new(key: ObjectKey, value: T) -> Self {
        Self { key, value }
    }

    /// Creates a value whose key is the string returned by `key_function`, with any characters. The key is a name
    /// without a namespace; use [`Self::new`] for a key with several parts.
    ///
    /// # Errors
    /// `key_function` returned an empty string.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::{Keyed, Object};
    ///
    /// let job = Keyed::by(|n: &u32| format!("job/{n}"), 7)?;
    /// assert_eq!(job.key().name(), "job/7");
    /// assert!(Keyed::by(|_| "", 7).is_err());
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    pub fn by<K: AsRef<str>>(key_function: impl FnOnce(&T) -> K, value: T) -> Result<Self, KeyError> {
        let key = ObjectKey::named(key_function(&value).as_ref())?;
        Ok(Self { key, value })
    }

    /// Returns the value without its key.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Keyed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Send + Sync + 'static> Object for Keyed<T> {
    fn key(&self) -> KeyRef<'_> {
        self.key.as_key()
    }
}
