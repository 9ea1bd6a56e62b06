//! A minimal object for tests.

use std::sync::Arc;

use kinformer_core::{KeyRef, Object, ResourceVersion};

/// An object whose version a fake server can set.
pub trait Versioned: Object + Clone {
    /// Sets the version of the object.
    fn set_version(&mut self, version: u64);
}

/// An object with a namespace, a name, a version and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The version; 0 for none.
    pub version: u64,
    /// The content.
    pub value: u64,
}

impl Item {
    /// Creates an item in an `Arc`. `name` may be `namespace/name`.
    pub fn new(name: &str, version: u64) -> Arc<Self> {
        Arc::new(Self::of(name, version, 0))
    }

    /// Creates an item. `name` may be `namespace/name`.
    pub fn of(name: &str, version: u64, value: u64) -> Self {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        Self { namespace: namespace.to_owned(), name: name.to_owned(), version, value }
    }
}

impl Object for Item {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(&self.namespace, &self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        match self.version {
            0 => ResourceVersion::UNSET,
            version => version.into(),
        }
    }

    fn has_same_content(&self, other: &Self) -> Option<bool> {
        Some(self == other)
    }
}

impl Versioned for Item {
    fn set_version(&mut self, version: u64) {
        self.version = version;
    }
}
