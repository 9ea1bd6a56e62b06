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
            return Err(format!("0-length response with status code: {} and content type: ", response.code));
        }
        Ok(response.body)
    }
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
    let text = if response.is_text { text.trim() } else { "unknown" };
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
