//! Objects of any kind as the server sent them, with what is shown and indexed of them beside it.
//!
//! The text of an object takes a fraction of what it takes as a tree of values.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::discovery::ApiResource;
use kube_core::{DynamicResourceScope, Resource};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::brief::{Brief, Decoded};

/// An object of any kind.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    brief: Brief<false>,
    /// `Kind/name`.
    owners: Box<[Box<str>]>,
    json: Box<RawValue>,
}

impl Whole {
    /// All of it.
    pub(crate) fn json(&self) -> &str {
        self.json.get()
    }

    /// The node that a pod is on.
    pub(crate) fn node(&self) -> Option<&str> {
        self.brief.node.as_deref()
    }

    /// The phase of what has one: pods, namespaces, volumes.
    pub(crate) fn phase(&self) -> Option<&str> {
        self.brief.phase.as_deref()
    }

    /// Its owners, each as `Kind/name`.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owners.iter().map(AsRef::as_ref)
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Owner {
            kind: String,
            name: String,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let decoded: Decoded<Vec<Owner>> = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let (brief, owners) = decoded.split();
        let owners =
            owners.into_iter().flatten().map(|owner| format!("{}/{}", owner.kind, owner.name).into());
        Ok(Self { brief, owners: owners.collect(), json })
    }
}

impl Resource for Whole {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        Brief::<false>::kind(resource)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        Brief::<false>::group(resource)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        Brief::<false>::version(resource)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        Brief::<false>::plural(resource)
    }

    fn meta(&self) -> &ObjectMeta {
        self.brief.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.brief.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_kept_and_what_is_shown_is_decoded() {
        let text = r#"{"metadata":{"name":"a","ownerReferences":[{"kind":"Job","name":"b","uid":"u"}]},"spec":{"x":[1, 2]}}"#;
        let whole: Whole = serde_json::from_str(text).expect("an object");
        assert_eq!(whole.json(), text);
        assert_eq!(whole.owners().collect::<Vec<_>>(), ["Job/b"]);
        assert_eq!((whole.node(), whole.phase()), (None, None));
        assert_eq!(whole.meta().name.as_deref(), Some("a"));
        assert!(serde_json::from_str::<Whole>("7").is_err());
    }
}
