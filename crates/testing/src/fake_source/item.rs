//! The object of most tests.

use std::sync::Arc;

use kinformer_core::{KeyRef, Object, ResourceVersion};

/// An object to which a fake server can give a version.
pub trait Versioned: Object + Clone {
    /// The same object at another version.
    fn set_version(&mut self, version: u64);
}

/// A namespace, a name, a version, a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Empty for cluster-scoped.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// 0 stands for no version.
    pub version: u64,
    /// What changes.
    pub value: u64,
}

impl Item {
    /// An item, ready to be shared. `name` may be `namespace/name`.
    pub fn new(name: &str, version: u64) -> Arc<Self> {
        Arc::new(Self::of(name, version, 0))
    }

    /// An item that nobody shares yet. `name` may be `namespace/name`.
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
