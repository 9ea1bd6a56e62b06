//! The kinds that are copied.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) trait Copied:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Default
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    /// Returns the keys of the data, ordered, with commas.
    fn keys(&self) -> String;

    /// Returns an object with this data and without metadata, for a target that may exist.
    fn without_metadata(&self, target: Option<&Self>) -> Self;
}

impl Copied for ConfigMap {
    fn keys(&self) -> String {
        let (text, binary) = (self.data.iter().flatten(), self.binary_data.iter().flatten());
        joined(text.map(|(key, _)| key).chain(binary.map(|(key, _)| key)))
    }

    fn without_metadata(&self, _: Option<&Self>) -> Self {
        Self { data: self.data.clone(), binary_data: self.binary_data.clone(), ..Self::default() }
    }
}

impl Copied for Secret {
    fn keys(&self) -> String {
        joined(self.data.iter().flatten().map(|(key, _)| key))
    }

    fn without_metadata(&self, target: Option<&Self>) -> Self {
        // The type cannot be changed.
        Self { data: self.data.clone(), type_: target.unwrap_or(self).type_.clone(), ..Self::default() }
    }
}

fn joined<'a>(keys: impl Iterator<Item = &'a String>) -> String {
    let mut keys: Vec<&str> = keys.map(String::as_str).collect();
    keys.sort_unstable();
    keys.join(",")
}
