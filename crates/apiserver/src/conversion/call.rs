//! One call of a conversion webhook.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::admission::{Endpoint, Services};
use crate::apply::unpack;
use crate::registry::Kind;
use crate::status::Status;

use super::{ConversionWebhook, review};

/// The time limit of a call, in seconds. The limit of Kubernetes.
const LIMIT: u64 = 30;

/// Returns an object in another version of its definition, with its metadata apart from labels and annotations.
///
/// # Cancel safety
/// If the future is dropped, the call is ended; the webhook may have seen it.
///
/// # Errors
/// 500 for a webhook that cannot be called, or whose answer is not accepted.
pub(crate) async fn convert(
    services: &Services,
    kind: &Kind,
    object: Map<String, Value>,
    to: &str,
) -> Result<Map<String, Value>, Status> {
    let Some(webhook) = kind.forms.as_ref().and_then(|forms| forms.webhook.as_ref()) else {
        return Ok(object);
    };
    if object.get("apiVersion").is_some_and(|version| version == to) {
        return Ok(object);
    }
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or("");
    let about = review::type_text(text("apiVersion"), text("kind"));
    let mut sent = object.clone();
    unpack(&mut sent);
    // what Kubernetes stores has no version
    if let Some(Value::Object(metadata)) = sent.get_mut("metadata") {
        metadata.remove("resourceVersion");
    }
    let error = |why: String| Status::new(500, "", why);
    let version = review::negotiated(&webhook.conversion_review_versions)
        .ok_or_else(|| error("no supported conversion review versions".into()))?;
    let uid = uuid::Uuid::new_v4().to_string();
    let body = review::request(version, &uid, sent, to).to_string();
    let answer = match post(services, webhook, body).await {
        Ok(body) => review::objects(version, &uid, &body),
        Err(why) => Err(why),
    };
    let answer = answer.map_err(|why| error(format!("conversion webhook for {about} failed: {why}")))?;
    review::converted(&object, answer, to).map_err(error)
}

/// # Errors
/// Why there is no answer.
async fn post(services: &Services, webhook: &ConversionWebhook, body: String) -> Result<Bytes, String> {
    Endpoint::of(&webhook.client_config)?.exchange(services, LIMIT, Bytes::from(body)).await
}
