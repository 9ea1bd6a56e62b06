//! Writes of objects that are read first.

use std::fmt::Debug;
use std::time::Duration;

use kube_client::Api;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::sleep;

use crate::write_error::{WriteError, is_conflict};

/// What [`create_or_update`] or [`create_or_patch`] has done.
#[doc(alias = "OperationResult")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// Nothing: the object is as it should be.
    #[doc(alias = "OperationResultNone")]
    Unchanged,
    /// The object was created.
    #[doc(alias = "OperationResultCreated")]
    Created,
    /// The object was changed.
    #[doc(alias(
        "OperationResultUpdated",
        "OperationResultUpdatedStatus",
        "OperationResultUpdatedStatusOnly"
    ))]
    Updated,
}

/// Creates an object, or changes the one that exists, by an update. `change` makes of an object what it should be. No request is
/// sent if the object is so already.
///
/// `object` is a state that was read, such as that of a lister. An object without a resource version is one that may not exist:
/// it is read from the API server by its name. Returns the state that the API server has stored.
///
/// An update needs the resource version that was read, and removes fields that the type does not have; see [`create_or_patch`].
/// Changes of the status are ignored: write it by [`apply::status`](crate::apply::status).
///
/// ```
/// use std::collections::BTreeMap;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::{ReconcileError, Written, create_or_update, set_controller_reference};
/// use kube_client::Api;
///
/// # async fn example(api: &Api<ConfigMap>, owner: &ConfigMap) -> Result<(), ReconcileError> {
/// let mut config_map = ConfigMap::default();
/// config_map.metadata.name = Some("settings".to_owned());
/// config_map.metadata.namespace = owner.metadata.namespace.clone();
/// let (_, written) = create_or_update(api, config_map, |config_map| {
///     config_map.data.get_or_insert_default().insert("replicas".to_owned(), "3".to_owned());
///     set_controller_reference(owner, config_map)?;
///     Ok::<_, ReconcileError>(())
/// })
/// .await?;
/// println!("{written:?}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The error of `change`, or a [`WriteError`]. It is a [conflict](WriteError::is_conflict) if the object was changed or created since
/// it was read.
///
/// # Cancel safety
/// The request may have been sent. Calling it again is safe.
///
/// Follows controller-runtime 0.25 (`controllerutil.CreateOrUpdate`).
#[doc(alias = "MutateFn")]
pub async fn create_or_update<K, E>(
    api: &Api<K>,
    object: K,
    change: impl FnOnce(&mut K) -> Result<(), E>,
) -> Result<(K, Written), E>
where
    K: Resource + Clone + Serialize + DeserializeOwned + Debug,
    E: From<WriteError>,
{
    let prepared = prepare(api, object, change).await?;
    let Prepared { name, changed, difference, exists } = prepared;
    if exists && difference.is_none() {
        return Ok((changed, Written::Unchanged));
    }
    let error = |error| WriteError::request(&name, error);
    let params = PostParams::default();
    if exists {
        let stored = api.replace(&name, &params, &changed).await.map_err(error)?;
        return Ok((stored, Written::Updated));
    }
    let stored = api.create(&params, &changed).await.map_err(error)?;
    Ok((stored, Written::Created))
}

/// As [`create_or_update`], but changes an object that exists by a merge patch with the fields that `change` has changed, so that
/// fields are kept that the type does not have. The patch has the resource version that was read.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = kinformer_apiserver::TestCluster::start().await?;
/// # let api = kube_client::Api::default_namespaced(cluster.client());
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::{WriteError, Written, create_or_patch};
///
/// let mut settings = ConfigMap::default();
/// settings.metadata.name = Some("settings".to_owned());
/// let change = |map: &mut ConfigMap| {
///     map.data.get_or_insert_default().insert("replicas".to_owned(), "3".to_owned());
///     Ok::<_, WriteError>(())
/// };
/// let (_, written) = create_or_patch(&api, settings.clone(), change).await?;
/// assert_eq!(written, Written::Created);
/// let (_, written) = create_or_patch(&api, settings, change).await?;
/// assert_eq!(written, Written::Unchanged); // and no write was sent
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`create_or_update`].
///
/// # Cancel safety
/// As [`create_or_update`].
///
/// Follows controller-runtime 0.25 (`controllerutil.CreateOrPatch`), which sends no resource version.
#[doc(alias(
    "MergeFrom",
    "MergeFromOption",
    "MergeFromOptions",
    "MergeFromWithOptimisticLock",
    "MergeFromWithOptions",
    "OptimisticLock",
    "StrategicMergeFrom"
))]
pub async fn create_or_patch<K, E>(
    api: &Api<K>,
    object: K,
    change: impl FnOnce(&mut K) -> Result<(), E>,
) -> Result<(K, Written), E>
where
    K: Resource + Clone + Serialize + DeserializeOwned + Debug,
    E: From<WriteError>,
{
    let prepared = prepare(api, object, change).await?;
    let Prepared { name, changed, difference, exists } = prepared;
    let error = |error| WriteError::request(&name, error);
    if !exists {
        let stored = api.create(&PostParams::default(), &changed).await.map_err(error)?;
        return Ok((stored, Written::Created));
    }
    let Some(mut patch) = difference else { return Ok((changed, Written::Unchanged)) };
    if let Value::Object(metadata) = patch.entry("metadata").or_insert_with(|| Map::new().into()) {
        metadata.insert("resourceVersion".to_owned(), changed.meta().resource_version.clone().into());
    }
    let stored = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map_err(error)?;
    Ok((stored, Written::Updated))
}

/// Repeats a write that is a conflict, 5 times at most, after 10 ms: for one that reads the newest state itself. A reconciliation
/// rather returns the error, and reads the next state with its next run.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::{WriteError, create_or_patch, retry_on_conflict};
/// use kube_client::Api;
///
/// # async fn example(api: &Api<ConfigMap>, config_map: &ConfigMap) -> Result<(), WriteError> {
/// retry_on_conflict(async || {
///     create_or_patch(api, config_map.clone(), |config_map| {
///         config_map.data.get_or_insert_default().insert("replicas".to_owned(), "3".to_owned());
///         Ok(())
///     })
///     .await
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The last error of the write. A conflict is a [`WriteError::is_conflict`], or a response of the API server with the code 409.
///
/// # Cancel safety
/// As that of the write.
///
/// Follows client-go 0.37 (`retry.RetryOnConflict` with `DefaultRetry`).
pub async fn retry_on_conflict<T, E: std::error::Error + 'static>(
    mut write: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    const ATTEMPTS: u32 = 5;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..ATTEMPTS {
        match write().await {
            Err(error) if is_conflict(&error) => {}
            result => return result,
        }
        sleep(PAUSE).await;
    }
    write().await
}

/// An object as it should be.
struct Prepared<K> {
    name: String,
    changed: K,
    /// What has changed, without the status, as a merge patch.
    difference: Option<Map<String, Value>>,
    exists: bool,
}

async fn prepare<K, E>(
    api: &Api<K>,
    object: K,
    change: impl FnOnce(&mut K) -> Result<(), E>,
) -> Result<Prepared<K>, E>
where
    K: Resource + Clone + Serialize + DeserializeOwned + Debug,
    E: From<WriteError>,
{
    let name = object.meta().name.clone().ok_or(WriteError::NoName)?;
    let is_read = |object: &K| object.meta().resource_version.is_some();
    let mut changed = match is_read(&object) {
        true => object,
        false => {
            let found = api.get_opt(&name).await.map_err(|error| WriteError::request(&name, error))?;
            found.unwrap_or(object)
        }
    };
    let exists = is_read(&changed);
    let before = value(&name, &changed)?;
    let identity = |object: &K| (object.meta().name.clone(), object.meta().resource_version.clone());
    let identity_before = identity(&changed);
    change(&mut changed)?;
    if identity(&changed) != identity_before {
        return Err(WriteError::OtherObject { name }.into());
    }
    let after = value(&name, &changed)?;
    let difference = difference(before, after);
    Ok(Prepared { name, changed, difference: (!difference.is_empty()).then_some(difference), exists })
}

fn value(name: &str, object: &impl Serialize) -> Result<Map<String, Value>, WriteError> {
    let value = serde_json::to_value(object);
    let value = value.map_err(|source| WriteError::Serialize { name: name.to_owned(), source })?;
    let Value::Object(mut fields) = value else {
        return Err(WriteError::NoType { name: name.to_owned() });
    };
    fields.remove("status");
    Ok(fields)
}

/// Returns the merge patch (RFC 7386) from one object to another.
fn difference(mut before: Map<String, Value>, after: Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (field, value) in after {
        match (before.remove(&field), value) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                _ = patch.insert(field, difference(old, new).into());
            }
            (_, new) => _ = patch.insert(field, new),
        }
    }
    patch.extend(before.into_iter().map(|(field, _)| (field, Value::Null)));
    patch
}
