//! Server-side apply: a controller writes the fields that it decides about, and the API server keeps those of others.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kinformer_controller::{WriteError, apply};
//! use kube_client::Api;
//!
//! async fn write(api: &Api<ConfigMap>) -> Result<(), WriteError> {
//!     let mut config_map = ConfigMap::default(); // only the fields of this controller, not an object that was read
//!     config_map.metadata.name = Some("settings".to_owned());
//!     config_map.data = Some([("replicas".to_owned(), "3".to_owned())].into());
//!     apply::object(api, &config_map, "my-controller").await?;
//!     Ok(())
//! }
//! ```
//!
//! Fields that an earlier call of the same field manager has set, and this one does not, are removed. Fields of other
//! managers are taken over if they are set here, as Kubernetes recommends for controllers (`force`).
//!
//! Follows controller-runtime 0.25 (`Client.Apply` with `ForceOwnership`).

use std::fmt::Debug;

use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use kube_core::{Request, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::write_error::WriteError;

/// Creates or changes an object, without its status. Returns the state that the API server has stored.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = kinformer_apiserver::TestCluster::start().await?;
/// # let api = kube_client::Api::default_namespaced(cluster.client());
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::apply;
///
/// let settings = |key: &str| {
///     let mut map = ConfigMap::default();
///     map.metadata.name = Some("settings".to_owned());
///     map.data = Some([(key.to_owned(), "on".to_owned())].into());
///     map
/// };
/// apply::object(&api, &settings("cache"), "one").await?;
/// let map = apply::object(&api, &settings("metrics"), "other").await?;
/// assert_eq!(map.data.unwrap_or_default().len(), 2, "each manager has its own field");
/// let map = apply::object(&api, &settings("tracing"), "other").await?;
/// assert!(!map.data.unwrap_or_default().contains_key("metrics"), "it is not applied any more");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// No request is sent for an object without a name, `apiVersion` or `kind`. [`WriteError::Request`] if the API server
/// refuses the object.
///
/// # Cancel safety
/// The request may have been sent. Applying the same object again is safe.
#[doc(alias(
    "ApplyConfigurationFromUnstructured",
    "ApplyOption",
    "ApplyOptions",
    "FieldManager",
    "ForceOwnership"
))]
pub async fn object<K>(api: &Api<K>, object: &K, field_manager: &str) -> Result<K, WriteError>
where
    K: Resource + Clone + Serialize + DeserializeOwned + Debug,
{
    let (name, mut body) = body(object)?;
    body.remove("status");
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.remove("managedFields"); // the API server refuses them
    }
    let patched = api.patch(name, &params(field_manager), &Patch::Apply(body)).await;
    patched.map_err(|error| WriteError::request(name, error))
}

/// Changes the status of an object, which exists. Of `object` only the name and the status are sent. Returns the state
/// that the API server has stored.
///
/// ```
/// use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
/// use kinformer_controller::{WriteError, apply};
/// use kube_client::Api;
///
/// async fn report(api: &Api<Deployment>, name: &str, ready: i32) -> Result<(), WriteError> {
///     let mut deployment = Deployment::default();
///     deployment.metadata.name = Some(name.to_owned());
///     deployment.status = Some(DeploymentStatus { ready_replicas: Some(ready), ..Default::default() });
///     apply::status(api, &deployment, "my-controller").await?; // of the status, only this field
///     Ok(())
/// }
/// ```
///
/// # Errors
/// As [`object`]. Kinds without a status subresource answer with 404.
///
/// # Cancel safety
/// The request may have been sent. Applying the same status again is safe.
#[doc(alias("StatusClient", "StatusWriter", "SubResourceApplyOption", "SubResourceApplyOptions"))]
pub async fn status<K>(api: &Api<K>, object: &K, field_manager: &str) -> Result<K, WriteError>
where
    K: Resource + Clone + Serialize + DeserializeOwned + Debug,
{
    let (name, body) = status_body(object)?;
    let patched = api.patch_status(name, &params(field_manager), &Patch::Apply(body)).await;
    patched.map_err(|error| WriteError::request(name, error))
}

/// As [`status`], in the namespace of the object, for kinds with and without namespaces.
pub(crate) async fn status_of<K>(client: &Client, object: &K, field_manager: &str) -> Result<K, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let (name, body) = status_body(object)?;
    let url = K::url_path(&(), object.meta().namespace.as_deref());
    let patch = Patch::Apply(body);
    let request = Request::new(url).patch_subresource("status", name, &params(field_manager), &patch);
    let request =
        request.map_err(|error| WriteError::request(name, kube_client::Error::BuildRequest(error)))?;
    client.request(request).await.map_err(|error| WriteError::request(name, error))
}

/// Returns the name and the fields of an object that are applied with its status.
fn status_body<K: Resource + Serialize>(object: &K) -> Result<(&str, Map<String, Value>), WriteError> {
    let (name, mut body) = body(object)?;
    body.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.retain(|field, _| matches!(field.as_str(), "name" | "namespace" | "uid"));
    }
    Ok((name, body))
}

fn params(field_manager: &str) -> PatchParams {
    PatchParams::apply(field_manager).force()
}

/// Returns the name and the fields of an object.
fn body<K: Resource + Serialize>(object: &K) -> Result<(&str, Map<String, Value>), WriteError> {
    let name = object.meta().name.as_deref().ok_or(WriteError::NoName)?;
    let no_type = || WriteError::NoType { name: name.to_owned() };
    let body = serde_json::to_value(object)
        .map_err(|source| WriteError::Serialize { name: name.to_owned(), source })?;
    let Value::Object(body) = body else { return Err(no_type()) };
    let is_set = |field| body.get(field).and_then(Value::as_str).is_some_and(|value| !value.is_empty());
    if is_set("apiVersion") && is_set("kind") { Ok((name, body)) } else { Err(no_type()) }
}
