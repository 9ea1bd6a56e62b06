//! Questions to the server about one object, by requests that an informer may send as well.

use kinformer::ResourceVersion;
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::params::ListParams;
use kube_core::{DynamicObject, Request, Resource as _};
use serde::Deserialize;
use serde_json::Value;

/// Lists the object of this name, or else any object, and returns it with the version of the list.
pub(super) async fn list_one(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<(Option<Value>, ResourceVersion), kube_client::Error> {
    #[derive(Deserialize)]
    struct List {
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
    Ok((list.items.into_iter().next(), ResourceVersion::from(list.metadata.resource_version)))
}
