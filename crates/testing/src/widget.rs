//! A custom resource with a type: its definition, and its objects.

use std::borrow::Cow;

use kube_client::core::metadata::ObjectMeta;
use kube_client::core::{NamespaceResourceScope, Resource};
use serde::Deserialize;
use serde_json::{Value, json};

/// An object of `widgets.example.com`, in version `v1`. The type does not check the kind.
#[derive(Clone, Debug, Deserialize)]
pub struct Widget {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// Zero if it is absent.
    #[serde(default)]
    pub size: u32,
}

impl Widget {
    /// The name of the definition.
    pub const DEFINITION: &'static str = "widgets.example.com";

    /// Returns the definition with this scope, `Namespaced` or `Cluster`, and the type of `size` in OpenAPI.
    pub fn definition(scope: &str, size: &str) -> Value {
        let schema = json!({"type": "object", "properties": {"size": {"type": size}}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": Self::DEFINITION},
            "spec": {
                "group": "example.com", "scope": scope,
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    }

    /// Returns an object.
    pub fn json(namespace: Option<&str>, name: &str, size: impl Into<Value>) -> Value {
        let metadata = json!({"name": name, "namespace": namespace});
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "size": size.into()})
    }
}

impl Resource for Widget {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Widget".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "widgets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
