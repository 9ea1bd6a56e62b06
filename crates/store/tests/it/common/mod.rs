//! The objects stored by the tests.

use std::sync::Arc;

use kinformer_core::{KeyRef, Labels, Object, ObjectKey, ResourceVersion};

#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub nodes: Vec<String>,
    pub labels: Vec<(String, String)>,
    pub version: ResourceVersion,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(&self.namespace, &self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.clone()
    }

    fn labels(&self) -> Labels<'_> {
        self.labels.as_slice().into()
    }
}

impl Pod {
    pub fn node(mut self, node: &str) -> Self {
        self.nodes.push(node.into());
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    pub fn version(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.version = version.into();
        self
    }

    pub fn arc(self) -> Arc<Self> {
        Arc::new(self)
    }
}

pub fn pod(key: &str) -> Pod {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        nodes: Vec::new(),
        labels: Vec::new(),
        version: ResourceVersion::UNSET,
    }
}

pub fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

pub fn sorted<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort();
    items
}

pub fn keys<'a>(objects: impl IntoIterator<Item = &'a Arc<Pod>>) -> Vec<String> {
    sorted(objects.into_iter().map(|pod| pod.key().to_string()))
}

/// The message of expected panics.
pub const EXPECTED: &str = "expected panic";

/// Hides panics with the message [`EXPECTED`] from the output.
pub fn hide_expected_panics() {
    kinformer_testing::panics::hide(EXPECTED);
}
