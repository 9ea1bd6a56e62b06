//! Finalizers: a cleanup that runs before an object is deleted.
//!
//! ```
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kinformer_controller::finalizer::finalize;
//! use kinformer_controller::{Action, ReconcileError};
//! use kube_client::Api;
//!
//! async fn reconcile(api: &Api<ConfigMap>, config_map: Arc<ConfigMap>) -> Result<Action, ReconcileError> {
//!     finalize(api, config_map, "example.com/bucket", create_bucket, delete_bucket).await
//! }
//!
//! async fn create_bucket(_config_map: Arc<ConfigMap>) -> Result<Action, ReconcileError> {
//!     Ok(Action::none()) // creates a bucket outside of Kubernetes; runs for each reconciliation
//! }
//!
//! async fn delete_bucket(_config_map: Arc<ConfigMap>) -> Result<(), ReconcileError> {
//!     Ok(()) // also if there is no bucket any more
//! }
//! ```

use std::fmt::Debug;
use std::sync::Arc;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch as Operations, PatchOperation, TestOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_core::Resource;
use serde::de::DeserializeOwned;

use crate::write_error::WriteError;

/// Calls `apply` while the object exists, and `cleanup` once its deletion was requested. The finalizer is added before
/// the first `apply`, and removed after a `cleanup` that succeeded. Until then the API server keeps the object.
///
/// Returns the result of `apply`, and the default after a cleanup. Neither is called for an object whose deletion was
/// requested and which does not have the finalizer.
///
/// `cleanup` runs at least once: it is repeated if the finalizer could not be removed, or if the store does not have the
/// removal yet. It must succeed if there is nothing left to clean up.
///
/// kube-runtime 5.0 (`finalizer`) ends the reconciliation after adding the finalizer, and relies on the event of this
/// change. Here `apply` follows at once, with the state that the API server returned, so that a controller may ignore
/// events that do not change the generation.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kinformer_controller::{Action, ReconcileError, finalizer};
/// # async fn upload(_: &ConfigMap) -> Result<(), ReconcileError> { Ok(()) }
/// # async fn delete(_: Option<&String>) -> Result<(), ReconcileError> { Ok(()) }
/// # async fn example(api: &kube_client::Api<ConfigMap>, map: Arc<ConfigMap>) -> Result<Action, ReconcileError> {
/// let apply = async |map: Arc<ConfigMap>| {
///     upload(&map).await?;
///     Ok(Action::none())
/// };
/// let cleanup = async |map: Arc<ConfigMap>| delete(map.metadata.name.as_ref()).await;
/// finalizer::finalize(api, map, "example.com/upload", apply, cleanup).await
/// # }
/// ```
///
/// # Errors
/// The error of `apply` or `cleanup`; a [`WriteError`] if the finalizer could not be added or removed, such as
/// [`WriteError::Changed`] because the given state is not the newest one. A retry with the newest state mends this.
///
/// # Cancel safety
/// Every step can be repeated: dropping the future leaves an object that the next call continues with.
#[doc(alias("AddFinalizer", "RemoveFinalizer"))]
pub async fn finalize<K, T, E, A, C>(
    api: &Api<K>,
    object: Arc<K>,
    finalizer: &str,
    apply: impl FnOnce(Arc<K>) -> A,
    cleanup: impl FnOnce(Arc<K>) -> C,
) -> Result<T, E>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    T: Default,
    E: From<WriteError>,
    A: Future<Output = Result<T, E>>,
    C: Future<Output = Result<(), E>>,
{
    let is_deleted = object.meta().deletion_timestamp.is_some();
    match (is_deleted, has(&*object, finalizer)) {
        (false, true) => apply(object).await,
        (false, false) => apply(Arc::new(add(api, &*object, finalizer).await?)).await,
        (true, true) => {
            cleanup(object.clone()).await?;
            remove(api, &*object, finalizer).await?;
            Ok(T::default())
        }
        (true, false) => Ok(T::default()),
    }
}

/// Whether the object has this finalizer.
#[doc(alias = "ContainsFinalizer")]
pub fn has(object: &impl Resource, finalizer: &str) -> bool {
    finalizers(object.meta()).iter().any(|existing| existing == finalizer)
}

/// Adds a finalizer, and returns the new state of the object. Returns a copy, without a request, if the object has the
/// finalizer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = kinformer_apiserver::TestCluster::start().await?;
/// # let api = kube_client::Api::default_namespaced(cluster.client());
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("settings".to_owned());
/// # let map = cluster.create(&map)?;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::finalizer;
///
/// let map = finalizer::add(&api, &map, "example.com/bucket").await?;
/// api.delete("settings", &Default::default()).await?;
/// let map: ConfigMap = api.get("settings").await?; // it waits for the cleanup
/// assert!(map.metadata.deletion_timestamp.is_some() && finalizer::has(&map, "example.com/bucket"));
/// finalizer::remove(&api, &map, "example.com/bucket").await?;
/// assert!(api.get_opt("settings").await?.is_none());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`WriteError::Changed`] if the object or its finalizers have changed since `object` was read.
///
/// # Cancel safety
/// The request may have been sent. Adding the finalizer again is safe.
#[doc(alias = "AddFinalizer")]
pub async fn add<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<K, WriteError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    if has(object, finalizer) {
        return Ok(object.clone());
    }
    let mut list = finalizers(object.meta()).to_vec();
    list.push(finalizer.to_owned());
    write(api, object.meta(), list).await
}

/// Removes a finalizer. Sends no request if the object does not have it. An object that the API server does not have any
/// more is no error.
///
/// # Errors
/// [`WriteError::Changed`] if the finalizers have changed since `object` was read.
///
/// # Cancel safety
/// The request may have been sent. Removing the finalizer again is safe.
#[doc(alias = "RemoveFinalizer")]
pub async fn remove<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<(), WriteError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    if !has(object, finalizer) {
        return Ok(());
    }
    let mut list = finalizers(object.meta()).to_vec();
    list.retain(|existing| existing != finalizer);
    match write(api, object.meta(), list).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn finalizers(meta: &ObjectMeta) -> &[String] {
    meta.finalizers.as_deref().unwrap_or_default()
}

/// Replaces the finalizers of the object that was read, unless they have changed.
async fn write<K>(api: &Api<K>, read: &ObjectMeta, list: Vec<String>) -> Result<K, WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let name = read.name.as_deref().ok_or(WriteError::NoName)?;
    let (Some(uid), Some(version)) = (&read.uid, &read.resource_version) else {
        return Err(WriteError::NotStored { name: name.to_owned() });
    };
    let field = |field| PointerBuf::from_tokens(["metadata", field]);
    let test = |path, value| PatchOperation::Test(TestOperation { path, value });
    // Servers differ in whether a test of a missing list succeeds, so an empty one is tested by the version.
    let is_unchanged = match finalizers(read) {
        [] => test(field("resourceVersion"), version.as_str().into()),
        before => test(field("finalizers"), before.into()),
    };
    let replace = PatchOperation::Add(AddOperation { path: field("finalizers"), value: list.into() });
    let patch = Operations(vec![test(field("uid"), uid.as_str().into()), is_unchanged, replace]);
    let patch: Patch<()> = Patch::Json(patch);
    api.patch(name, &PatchParams::default(), &patch).await.map_err(|error| WriteError::tested(name, error))
}
