//! Questions to the server about one object, by requests that an informer may send as well.

use kinformer::{ResourceVersion, is_list_of};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::params::ListParams;
use kube_core::{DynamicObject, Request, Resource as _};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;

/// The field selector of one object.
pub(super) fn of_name(name: &str) -> String {
    format!("metadata.name={name}")
}

/// Lists an object that this field selector matches, and returns it with the version of the list.
pub(super) async fn list_one(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    fields: Option<&str>,
) -> Result<(Option<Value>, ResourceVersion), kube_client::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List {
        api_version: String,
        kind: String,
        metadata: Metadata,
        #[serde(default)]
        items: Vec<Value>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let mut params = ListParams::default().limit(1);
    if let Some(fields) = fields {
        params = params.fields(fields);
    }
    let request = Request::new(DynamicObject::url_path(resource, namespace)).list(&params);
    let text = client.request_text(request.map_err(kube_client::Error::BuildRequest)?).await?;
    let list: List = serde_json::from_str(&text).map_err(kube_client::Error::SerdeError)?;
    // An empty list of other objects would prove that there is no such object.
    if !is_list_of(&list.kind, &list.api_version, resource) {
        let received = format!("expected a {}List, received a {}", resource.kind, list.kind);
        return Err(kube_client::Error::SerdeError(serde_json::Error::custom(received)));
    }
    Ok((list.items.into_iter().next(), ResourceVersion::from(list.metadata.resource_version)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_client::client::Body;
    use kube_core::gvk::GroupVersionKind;
    use serde_json::json;

    use super::*;

    // contract: C-08w, C-08y
    #[tokio::test]
    async fn answers_of_another_kind_are_refused() {
        let gvk = |group, version, kind| GroupVersionKind::gvk(group, version, kind);
        let maps = ApiResource::erase::<ConfigMap>(&());
        let widgets = ApiResource::from_gvk_with_plural(&gvk("example.com", "v1", "Widget"), "widgets");
        for (resource, kind, version, is_answer) in [
            (&maps, "ConfigMapList", "v1", true),
            (&maps, "SecretList", "v1", false),
            (&maps, "ConfigMapList", "example.com/v1", false),
            (&maps, "ConfigMap", "v1", false),
            (&maps, "", "v1", false),
            // A definition chooses the name of its lists.
            (&widgets, "WidgetList", "example.com/v1", true),
            (&widgets, "Widgets", "example.com/v1", true),
            (&widgets, "Widgets", "other.example.com/v1", false),
            (&widgets, "SecretList", "v1", false),
        ] {
            let list = json!({"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "7"}, "items": []});
            let service = tower::service_fn(move |_: http::Request<Body>| {
                let list = list.to_string();
                async move { Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes()))) }
            });
            let client = Client::new(service, "default");
            let answer = list_one(&client, resource, Some("default"), Some("metadata.name=a")).await;
            assert_eq!(answer.is_ok(), is_answer, "{kind} {version}");
        }
    }
}
