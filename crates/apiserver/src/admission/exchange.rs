//! A request to a webhook, and the body of its answer.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::client::{Endpoint, Response};
use super::services::Services;

impl Endpoint {
    /// Sends a body, and returns that of the answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn exchange(
        &self,
        services: &Services,
        seconds: u64,
        body: Bytes,
    ) -> Result<Bytes, String> {
        let post = self.post(services, seconds, body);
        let response = match tokio::time::timeout(Duration::from_secs(seconds), post).await {
            Ok(response) => response,
            Err(_) => Err("context deadline exceeded".into()),
        };
        let response = response.map_err(|why| self.posted(seconds, &why))?;
        if !(200..=206).contains(&response.code) {
            return Err(unexpected(&response));
        }
        if response.body.is_empty() {
            let content_type = response.content_type.unwrap_or_default();
            return Err(format!(
                "0-length response with status code: {} and content type: {content_type}",
                response.code
            ));
        }
        Ok(response.body)
    }
}

/// Parses a review, which may have no type.
///
/// `scheme` is the line of a file that Kubernetes 1.37 names in its message about a kind that does not exist.
///
/// # Errors
/// Why the body is no review of this version.
pub(crate) fn parse_review(
    body: &[u8],
    (api_version, kind): (&str, &str),
    scheme: u32,
) -> Result<Value, String> {
    let review: Value = serde_json::from_slice(body)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    let text = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or("");
    let (given_version, given_kind) = (text("apiVersion"), text("kind"));
    if !given_kind.is_empty() && given_kind != kind {
        return Err(format!(
            "no kind {given_kind:?} is registered for version {given_version:?} in scheme \
             \"pkg/runtime/scheme.go:{scheme}\""
        ));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let given = given_version.split_once('/').filter(|(given, _)| *given == group);
    if let Some((_, given @ ("v1" | "v1beta1"))) = given
        && given != version
    {
        return Err(format!("converting ({given}.{kind}) to ({version}.{kind}): unknown conversion"));
    }
    Ok(review)
}

/// Describes a response with an error code. Follows client-go 1.37 (`NewGenericServerResponse`).
fn unexpected(response: &Response) -> String {
    if let Ok(status) = serde_json::from_slice::<Value>(&response.body)
        && status.get("kind").is_some_and(|kind| kind == "Status")
        && let Some(message) = status.get("message").and_then(Value::as_str)
    {
        return message.to_owned();
    }
    let text = String::from_utf8_lossy(&response.body);
    let is_text = response.content_type.as_deref().is_none_or(|media_type| media_type.starts_with("text/"));
    let text = if is_text { text.trim() } else { "unknown" };
    let known = match response.code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => text,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if matches!(text, "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => text,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            return format!("an error on the server ({text:?}) has prevented the request from succeeding");
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    known.to_owned()
}
