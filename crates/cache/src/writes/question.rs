//! Questions to the server about one object, by requests that an informer may send as well.

use kinformer::ResourceVersion;
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::params::ListParams;
use kube_core::{DynamicObject, Request, Resource as _};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;

/// Lists the object of this name, or else any object, and returns it with the version of the list.
pub(super) async fn list_one(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: Option<&str>,
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
    if let Some(name) = name {
        params = params.fields(&format!("metadata.name={name}"));
    }
    let request = Request::new(DynamicObject::url_path(resource, namespace)).list(&params);
    let text = client.request_text(request.map_err(kube_client::Error::BuildRequest)?).await?;
    let list: List = serde_json::from_str(&text).map_err(kube_client::Error::SerdeError)?;
    // An empty list of other objects would prove that there is no such object.
    if list.kind.strip_suffix("List") != Some(&resource.kind) || list.api_version != resource.api_version {
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
    use serde_json::json;

    use super::*;

    // contract: C-08w
    #[tokio::test]
    async fn answers_of_another_kind_are_refused() {
        let resource = ApiResource::erase::<ConfigMap>(&());
        for (kind, version, is_answer) in [
            ("ConfigMapList", "v1", true),
            ("SecretList", "v1", false),
            ("ConfigMapList", "v2", false),
            ("ConfigMap", "v1", false),
        ] {
            let list = json!({"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "7"}, "items": []});
            let service = tower::service_fn(move |_: http::Request<Body>| {
                let list = list.to_string();
                async move { Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes()))) }
            });
            let client = Client::new(service, "default");
            let answer = list_one(&client, &resource, Some("default"), Some("a")).await;
            assert_eq!(answer.is_ok(), is_answer, "{kind} {version}");
        }
    }
}
