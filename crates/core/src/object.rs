//! What can be cached: anything with a key.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::Deref;
use std::slice;

use crate::{KeyError, KeyRef, ObjectKey, ResourceVersion};

/// Anything that can be queued, stored and indexed. Only the key is required.
///
/// The methods are accessors in the sense in which `Hash` and `Eq` are for a hash map: cheap, without side
/// effects, the same answer for the same object. Layers call them whenever they like, also while they hold
/// their own short locks; so they must not call back into a store or a queue. A panic in one leaves every
/// structure consistent.
///
/// Code that is generic over `T: Object` calls these methods without an import of the trait.
pub trait Object: Send + Sync + 'static {
    /// The key: what makes two states be states of the same object.
    fn key(&self) -> KeyRef<'_>;

    /// The version of this state; unset where the objects have no versions.
    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::UNSET
    }

    /// What tells two objects apart that had the same key one after the other.
    fn uid(&self) -> Option<&str> {
        None
    }

    /// Whether the two have the same content, whatever form it is kept in; `None` where that is not known.
    ///
    /// Only states of one key, UID and version are compared. A server may give such states different content: with a
    /// default or a conversion that has changed since. What is the same is no event; what is not known to be the same
    /// is taken for the same where the version is, unless the source says that it was modified.
    fn has_same_content(&self, other: &Self) -> Option<bool>
    where
        Self: Sized,
    {
        let _ = other;
        None
    }

    /// All labels, in no particular order.
    fn labels(&self) -> Labels<'_> {
        Labels::default()
    }

    /// The value of one label.
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
    /// Labels from any iterator, at the price of one allocation.
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

/// Any value as an [`Object`], for types that are not yours: the value with its key beside it.
///
/// ```
/// use kinformer_core::{Keyed, Object};
///
/// let addr = Keyed::by(|a: &std::net::SocketAddr| a.to_string(), ([127, 0, 0, 1], 80).into())?;
/// assert_eq!(addr.key().name(), "127.0.0.1:80");
/// assert_eq!(addr.port(), 80);
/// # Ok::<(), kinformer_core::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed<T> {
    key: ObjectKey,
    value: T,
}

impl<T> Keyed<T> {
    /// A value under a key.
    pub fn new(key: ObjectKey, value: T) -> Self {
        Self { key, value }
    }

    /// A value under the string that the key function gives, whatever is in it: the key is a name, without a
    /// namespace. With [`Self::new`] a value has a key of several parts.
    ///
    /// # Errors
    /// The key function gave an empty string.
    pub fn by<K: AsRef<str>>(key_function: impl FnOnce(&T) -> K, value: T) -> Result<Self, KeyError> {
        let key = ObjectKey::named(key_function(&value).as_ref())?;
        Ok(Self { key, value })
    }

    /// The value without its key.
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
