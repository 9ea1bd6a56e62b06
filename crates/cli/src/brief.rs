//! Objects of any kind that are decoded as they arrive, with only what the program shows of them.
//!
//! Everything else is skipped while the bytes are decoded, so that a hundred thousand objects stay small.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer::KubeListerWatcher;
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::{DynamicResourceScope, Resource};
use serde::{Deserialize, Deserializer};

use crate::shown::{Fields, Shown, Text};

/// An object of any kind. With `METADATA_ONLY` the server is asked for nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Brief<const METADATA_ONLY: bool> {
    metadata: ObjectMeta,
    /// `spec.nodeName`: where a pod is.
    node: Option<Box<str>>,
    /// `status.phase`: how pods, namespaces and volumes are.
    phase: Option<Box<str>>,
}

impl<const METADATA_ONLY: bool> Resource for Brief<METADATA_ONLY> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn metadata_api() -> bool {
        METADATA_ONLY
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<'de, const METADATA_ONLY: bool> Deserialize<'de> for Brief<METADATA_ONLY> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Decoded {
            metadata: Metadata,
            #[serde(default)]
            spec: Option<Spec>,
            #[serde(default)]
            status: Option<Status>,
        }
        let Decoded { metadata, spec, status } = Decoded::deserialize(deserializer)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            labels: metadata.labels,
            ..ObjectMeta::default()
        };
        let node = spec.and_then(|spec| spec.node_name.0);
        Ok(Self { metadata, node, phase: status.and_then(|status| status.phase.0) })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_name: Text,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    phase: Text,
}

impl<const METADATA_ONLY: bool> Shown for Brief<METADATA_ONLY> {
    fn source(client: Client, resource: ApiResource) -> KubeListerWatcher<Self> {
        KubeListerWatcher::dynamic(client, resource)
    }

    fn phase(&self, _fields: &Fields) -> Option<Cow<'_, str>> {
        self.phase.as_deref().map(Cow::Borrowed)
    }

    fn node(&self, _fields: &Fields) -> Option<Cow<'_, str>> {
        self.node.as_deref().map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use kinformer::Object;

    use super::*;

    #[test]
    fn what_is_shown_is_decoded_and_the_rest_is_skipped() {
        let pod: Brief<false> = serde_json::from_str(
            r#"{"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"7","labels":{"app":"x"},
                "annotations":{"long":"text"}},"spec":{"nodeName":"n","containers":[{"name":"c"}]},
                "status":{"phase":"Running"}}"#,
        )
        .expect("a pod");
        assert_eq!(pod.key().to_string(), "b/a");
        assert_eq!(pod.resource_version(), "7".into());
        assert_eq!((pod.label("app"), pod.uid()), (Some("x"), Some("u")));
        assert_eq!((pod.node.as_deref(), pod.phase.as_deref()), (Some("n"), Some("Running")));
        assert_eq!(pod.meta().annotations, None);
    }

    #[test]
    fn kinds_without_or_with_other_fields_decode_too() {
        for text in [
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a"},"spec":null,"status":{"phase":{"a":1}}}"#,
            r#"{"metadata":{"name":"a"},"spec":{"nodeName":7}}"#,
        ] {
            let object: Brief<true> = serde_json::from_str(text).expect(text);
            assert_eq!((object.node, object.phase), (None, None));
        }
        assert!(serde_json::from_str::<Brief<false>>(r#"{"spec":{}}"#).is_err());
    }
}
