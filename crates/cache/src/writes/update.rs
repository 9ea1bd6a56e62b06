//! Updates that would remove the fields that the cache has dropped.

use std::fmt;
use std::sync::Arc;

use kinformer::{FieldPath, Informer, KeyRef, Packed, PackedRef, ResourceVersion};
use serde::Deserialize;
use serde_json::Value;
use tower::BoxError;

use super::question::{list_one, of_name};
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

/// Refuses an update of the cached state of an object that lacks fields which the cache does not have. If the objects are
/// transformed, the server is asked for the object, to find out which fields these are.
pub(super) async fn check(shared: &Shared, target: &Target, body: &[u8]) -> Result<(), BoxError> {
    let is_written: fn(&str) -> bool = match target.subresource.as_deref() {
        None => |_| true,
        Some("status") => |first| first == "status",
        Some(_) => return Ok(()), // the server takes single fields of it, or it is no object of the resource
    };
    // Another body is refused by the server.
    let Ok(Updated { metadata }) = serde_json::from_slice::<Updated>(body) else { return Ok(()) };
    let namespace = metadata.namespace.as_deref().or(target.namespace.as_deref());
    // The server refuses an update of another version, if it names one.
    let version = metadata.resource_version.as_deref().filter(|version| !version.is_empty());
    let version = version.map(ResourceVersion::from);
    let cached = cached(shared, target, namespace, &metadata.name, version.as_ref());
    let Some((informer, stored)) = cached else { return Ok(()) };
    let mut missing = stored.dropped_fields();
    // Without a version the server may have a later state.
    let dropped = if version.is_none() { informer.selection().dropped_fields() } else { &[] };
    let is_managed = |field: &FieldPath| field.names().eq(["metadata", "managedFields"]);
    let is_protected = |field: &FieldPath| !is_managed(field) && field.names().next().is_some_and(is_written);
    let dropped: Vec<_> = dropped.iter().filter(|field| is_protected(field)).collect();
    let is_asked = informer.selection().has_transform() || !dropped.is_empty();
    if missing.is_empty() && !is_asked {
        return Ok(());
    }
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return Ok(()) };
    missing.retain(|field| !has(&body, field));
    if is_asked {
        let (client, resource) = (&shared.client, informer.selection().api_resource());
        let (live, _) = list_one(client, resource, namespace, Some(&of_name(&metadata.name))).await?;
        for field in dropped {
            let is_live = live.as_ref().is_some_and(|live| has(live, field));
            if is_live && !has(&body, field) && !missing.contains(field) {
                missing.push(field.clone());
            }
        }
        // The server refuses an update of an earlier version, if it names one.
        let is_updated = |live: &Value| {
            let of_live = live.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            version.is_none() || of_live.map(ResourceVersion::from) == version
        };
        if let Some(live) = live.filter(is_updated).filter(|_| informer.selection().has_transform()) {
            let cached = stored.object().decode_new::<Value>()?;
            collect_missing(&live, &cached, &body, &mut Vec::new(), &mut missing);
        }
    }
    missing.retain(is_protected);
    if missing.is_empty() {
        return Ok(());
    }
    let resource = resource_name(&target.group, &target.plural);
    Err(IncompleteUpdate { resource, key: stored.key().to_string(), fields: missing }.into())
}

/// Returns the cached state that an update replaces, and its informer: one of the version of the target, in which alone the
/// fields have these names. If the update names a version, the state has that version.
fn cached(
    shared: &Shared,
    target: &Target,
    namespace: Option<&str>,
    name: &str,
    version: Option<&ResourceVersion>,
) -> Option<(Informer<()>, Packed<()>)> {
    let key = match namespace {
        Some(namespace) => KeyRef::new(namespace, name),
        None => KeyRef::named(name),
    };
    let informers = shared.factory.informers_of(&target.group, &target.plural).into_iter();
    informers.filter(|informer| target.is_of(informer.selection().api_resource())).find_map(|informer| {
        let stored = informer.snapshot().ok()?.get(key).map(PackedRef::into_owned)?;
        let is_updated = version.is_none_or(|version| *version == stored.resource_version());
        is_updated.then_some((informer, stored))
    })
}

/// Collects the paths of the fields that an object has on the server, and neither in the cache nor in the update.
fn collect_missing(
    live: &Value,
    cached: &Value,
    update: &Value,
    path: &mut Vec<String>,
    missing: &mut Vec<FieldPath>,
) {
    let members: Vec<(String, &Value)> = match live {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => return,
    };
    for (name, live) in members {
        let (cached, update) = (member(cached, &name), member(update, &name));
        path.push(name);
        match (cached, update) {
            (Some(cached), Some(update)) => collect_missing(live, cached, update, path, missing),
            (None, None) if !is_empty(live) => {
                let field = FieldPath::new(&path.iter().map(String::as_str).collect::<Vec<_>>());
                if !missing.contains(&field) {
                    missing.push(field);
                }
            }
            _ => {}
        }
        path.pop();
    }
}

fn member<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    let member = match of {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        of => of.get(name),
    };
    member.filter(|value| !value.is_null())
}

/// Whether a value may be left out when it is encoded.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn has(object: &Value, field: &FieldPath) -> bool {
    field.names().try_fold(object, |value, name| value.get(name)).is_some_and(|value| !value.is_null())
}
