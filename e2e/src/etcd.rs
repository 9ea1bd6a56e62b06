//! What is asked of etcd itself, through its JSON gateway.

use kube_client::{Client, Config};
use serde_json::{Value, json};

/// Forgets every version before the newest one, which it gives.
pub(crate) async fn compact(url: &str) -> Result<u64, String> {
    let url = url.parse().map_err(|error: http::uri::InvalidUri| format!("{url}: {error}"))?;
    let etcd = Client::try_from(Config::new(url)).map_err(|error| error.to_string())?;
    let status = ask(&etcd, "/v3/maintenance/status", &json!({})).await?;
    let revision = status.pointer("/header/revision").and_then(Value::as_str);
    let revision: u64 =
        revision.and_then(|text| text.parse().ok()).ok_or(format!("no revision: {status}"))?;
    ask(&etcd, "/v3/kv/compaction", &json!({"revision": revision.to_string(), "physical": true})).await?;
    Ok(revision)
}

/// kube-client is used for its HTTP: it knows nothing of etcd.
async fn ask(etcd: &Client, path: &str, question: &Value) -> Result<Value, String> {
    let request = http::Request::post(path).body(question.to_string().into_bytes());
    let request = request.map_err(|error| format!("{path}: {error}"))?;
    etcd.request(request).await.map_err(|error| format!("{path}: {error}"))
}
