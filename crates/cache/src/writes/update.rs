//! Updates that would remove the fields that the cache has dropped.

use std::fmt;
use std::sync::Arc;

use kinformer::{FieldPath, KeyRef, PackedRef, ResourceVersion};
use serde::Deserialize;
use serde_json::Value;
use tower::BoxError;

use super::request::Target;
use crate::shared::{Shared, resource_name};

/// The error of an update that was not sent, because it would have removed fields from the object: the cache does not have
/// them, since it drops them or a transform has removed them, and neither has the update.
///
/// A [patch or apply](kube_client::Api::patch) with only the changed fields does what was meant. Otherwise read the object
/// from the API server, or let the cache keep the fields. The errors of [`kube_client::Api`] have this as the source of
/// [`kube_client::Error::Service`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "{resource} \"{key}\" was not updated: the cache does not have {}, so the update would remove them; use a patch or apply",
    Fields(fields)
)]
pub struct IncompleteUpdate {
    /// The resource.
    pub resource: Arc<str>,
    /// The key, as `namespace/name` or `name`.
    pub key: String,
    /// The fields that the object has on the server, and the update has not.
    pub fields: Vec<FieldPath>,
}

struct Fields<'a>(&'a [FieldPath]);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, field) in self.0.iter().enumerate() {
            write!(f, "{}{field}", if number > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Updated {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
}

/// Refuses an update of the cached state of an object that lacks fields which the cache does not have.
pub(super) async fn check(shared: &Shared, target: &Target, body: &[u8]) -> Result<(), BoxError> {
    let is_written: fn(&str) -> bool = match target.subresource.as_deref() {
        None => |_| true,
        Some("status") => |first| first == "status",
        Some(_) => return Ok(()), // the server takes single fields of it, or it is no object of the resource
    };
    // The fields of another version have other names.
    let informers = shared.factory.informers_of(&target.group, &target.plural);
    let informer = informers.into_iter().find(|informer| target.is_of(informer.api_resource()));
    let Some((snapshot, informer)) = informer.and_then(|known| Some((known.snapshot().ok()?, known))) else {
        return Ok(());
    };
    // Another body is refused by the server.
    let Ok(Updated { metadata }) = serde_json::from_slice::<Updated>(body) else { return Ok(()) };
    let namespace = metadata.namespace.as_deref().or(target.namespace.as_deref());
    let stored = match namespace {
        Some(namespace) => snapshot.get((namespace, &*metadata.name)),
        None => snapshot.get(KeyRef::named(&metadata.name)),
    };
    let Some(stored) = stored.map(PackedRef::into_owned) else { return Ok(()) };
    drop(snapshot); // its objects may be released meanwhile
    // The server refuses an update of another version, if it names one.
    let version = metadata.resource_version.as_deref().filter(|version| !version.is_empty());
    let version = version.map(ResourceVersion::from);
    if version.is_some_and(|version| version != stored.resource_version()) {
        return Ok(());
    }
    let mut missing = stored.dropped_fields();
    if missing.is_empty() {
        return Ok(());
    }
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return Ok(()) };
    missing.retain(|field| !has(&body, field));
    let is_managed = |field: &FieldPath| field.names().eq(["metadata", "managedFields"]);
    missing.retain(|field| !is_managed(field) && field.names().next().is_some_and(is_written));
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let resource = resource_name(&target.group, &target.plural);
            Err(IncompleteUpdate { resource, key: stored.key().to_string(), fields: missing }.into())
        }
    }
}

fn has(object: &Value, field: &FieldPath) -> bool {
    field.names().try_fold(object, |value, name| value.get(name)).is_some_and(|value| !value.is_null())
}
