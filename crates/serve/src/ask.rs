//! The only read from the API server: one object, on request.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::{Request, StatusCode};
use kinformer::kube_core::DynamicObject;
use kinformer::{ObjectDecoder, ObjectKey, Packed, PackedObject};
use kinformer_core::internal::with_causes;
use percent_encoding::utf8_percent_encode;
use serde::Serialize;
use serde_json::Value;

use crate::app::App;
use crate::explain::selectors;
use crate::objects::ESCAPED;
use crate::reply::{Failure, json_of};
use crate::watched::Watched;

/// The timeout of the request.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    key: String,
    found: bool,
    resource_version: Option<String>,
    message: String,
    object: Option<Value>,
}

/// `POST …/objects/{namespace}/{name}/ask`.
pub(crate) async fn ask(app: Arc<App>, watched: Arc<Watched>, key: ObjectKey) -> Result<Response, Failure> {
    watched.check_shown()?;
    let Some(client) = app.settings.clients.get(&*watched.cluster).cloned() else {
        return Err(Failure::new(
            StatusCode::NOT_IMPLEMENTED,
            "NoClient",
            "this server was started without a client for the cluster, so it cannot ask the API server",
        ));
    };
    if ![key.namespace(), Some(key.name())].into_iter().flatten().all(is_name) {
        return Err(Failure::bad_request(format!("{key} is not requested: no object has such a name")));
    }
    app.ask_limit.take()?;
    app.metrics.asked();
    let request = Request::get(path(&watched, &key)).body(Vec::new());
    let request =
        request.map_err(|error| Failure::bad_request(format!("{key} cannot be requested: {error}")))?;
    let answer = tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await;
    let found = match answer {
        Ok(Ok(object)) => exists(&app, &watched, &key, object),
        Ok(Err(kube_client::Error::Api(status))) if status.code == 404 => Found {
            key: key.to_string(),
            found: false,
            resource_version: None,
            message: format!("the server does not have it: {}", status.message),
            object: None,
        },
        Ok(Err(error)) => {
            let message = format!("the API server did not answer the request: {}", with_causes(&error));
            return Err(Failure::new(StatusCode::BAD_GATEWAY, "ApiServer", message));
        }
        Err(_) => {
            return Err(Failure::new(
                StatusCode::GATEWAY_TIMEOUT,
                "Timeout",
                "the API server did not answer within 10 s",
            ));
        }
    };
    Ok(json_of(&found))
}

/// Whether a name can be a segment of a path. Follows Kubernetes 1.37 (`path.IsValidPathSegmentName`).
fn is_name(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.contains(['/', '%'])
}

fn path(watched: &Watched, key: &ObjectKey) -> String {
    let api = watched.informer.selection().api_resource();
    let root = if api.group.is_empty() { "/api" } else { "/apis" };
    let mut path = format!("{root}/{}", api.api_version);
    if let Some(namespace) = key.namespace() {
        path.push_str(&format!("/namespaces/{}", utf8_percent_encode(namespace, ESCAPED)));
    }
    path.push_str(&format!("/{}/{}", api.plural, utf8_percent_encode(key.name(), ESCAPED)));
    path
}

fn exists(app: &App, watched: &Watched, key: &ObjectKey, mut object: Value) -> Found {
    let packed = PackedObject::encode(&object, &ObjectDecoder::json()).ok().map(Arc::new);
    let version = packed.as_ref().map(|object| object.resource_version().to_string());
    let mut message = match &version {
        Some(version) => format!("the server has it at version {version}"),
        None => "the server has it".to_owned(),
    };
    message.push_str("; ");
    message.push_str(&why(watched, key, packed.as_ref()));
    app.settings.hidden.remove_from(&mut object);
    Found { key: key.to_string(), found: true, resource_version: version, message, object: Some(object) }
}

/// Why the store has the object, or does not.
fn why(watched: &Watched, key: &ObjectKey, object: Option<&Arc<PackedObject>>) -> String {
    let informer = &watched.informer;
    let namespace = key.namespace().unwrap_or_default();
    if informer.selection().is_namespaced() && !informer.selection().has_namespace(namespace) {
        return format!("the informer holds no objects of namespace {namespace:?}");
    }
    let stored = watched.snapshot().and_then(|snapshot| {
        let object = snapshot.get(key)?;
        Some(object.resource_version())
    });
    let Some(object) = object else { return "its metadata cannot be read".to_owned() };
    if !informer.selection().selects(&Packed::<DynamicObject>::new(object.clone())) {
        let selectors = selectors(watched, namespace).unwrap_or_else(|| "of the informer".to_owned());
        return format!("its labels or fields do not match the selector {selectors}");
    }
    match stored {
        Some(stored) if stored == object.resource_version() => "the store has the same version".to_owned(),
        Some(stored) => format!("the store has version {stored}"),
        None if !informer.has_synced() => "the informer has not synced yet".to_owned(),
        None => "the store does not have it: its event has not arrived, or it could not be stored".to_owned(),
    }
}
