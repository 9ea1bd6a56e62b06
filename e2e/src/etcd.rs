//! etcd, through its JSON gateway.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_client::{Client, Config};
use serde_json::{Value, json};

use crate::Error;

/// The page size of reads.
const PAGE: usize = 500;

/// The etcd of a control plane, which stores kube-apiserver's objects.
#[derive(Clone)]
pub struct Etcd {
    /// kube-client only provides HTTP here.
    client: Client,
}

/// A stored key and value.
pub struct Stored {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
}

impl Etcd {
    pub(crate) fn connect(url: &str) -> Result<Self, Error> {
        let url =
            url.parse().map_err(|error: http::uri::InvalidUri| Error::Etcd(format!("{url}: {error}")))?;
        let client = Client::try_from(Config::new(url)).map_err(|error| Error::Etcd(error.to_string()))?;
        Ok(Self { client })
    }

    /// Returns all keys with this prefix, in order, with their values.
    ///
    /// # Errors
    /// The request to etcd fails.
    pub async fn all(&self, prefix: &str) -> Result<Vec<Stored>, Error> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let mut from = prefix.as_bytes().to_vec();
        let mut all = Vec::new();
        loop {
            let range =
                json!({"key": STANDARD.encode(&from), "range_end": STANDARD.encode(&end), "limit": PAGE});
            let mut page = self.ask("/v3/kv/range", &range).await?;
            let more = page.get("more").and_then(Value::as_bool).unwrap_or_default();
            let found = page.get_mut("kvs").map(Value::take).unwrap_or_default();
            for found in found.as_array().into_iter().flatten() {
                let part = |name: &str| {
                    let part = found.get(name).and_then(Value::as_str).unwrap_or_default();
                    STANDARD.decode(part).map_err(|error| Error::Etcd(error.to_string()))
                };
                let key = String::from_utf8(part("key")?).map_err(|error| Error::Etcd(error.to_string()))?;
                // The smallest key after this one.
                from = [key.as_bytes(), b"\0"].concat();
                all.push(Stored { key, value: part("value")? });
            }
            if !more {
                return Ok(all);
            }
        }
    }

    /// Stores a value, and returns its revision.
    ///
    /// # Errors
    /// The request to etcd fails.
    pub async fn put(&self, stored: &Stored) -> Result<u64, Error> {
        let put = json!({"key": STANDARD.encode(&stored.key), "value": STANDARD.encode(&stored.value)});
        version(&self.ask("/v3/kv/put", &put).await?)
    }

    /// Drops all revisions before the current one, which is returned. kube-apiserver continues to serve the revisions in
    /// its watch cache until it is restarted.
    ///
    /// # Errors
    /// The request to etcd fails.
    pub async fn compact(&self) -> Result<u64, Error> {
        let version = version(&self.ask("/v3/maintenance/status", &json!({})).await?)?;
        let compaction = json!({"revision": version.to_string(), "physical": true});
        self.ask("/v3/kv/compaction", &compaction).await?;
        Ok(version)
    }

    async fn ask(&self, path: &str, question: &Value) -> Result<Value, Error> {
        let problem = |error: &dyn std::error::Error| Error::Etcd(format!("{path}: {error}"));
        let request = http::Request::post(path).body(question.to_string().into_bytes());
        let request = request.map_err(|error| problem(&error))?;
        self.client.request(request).await.map_err(|error| problem(&error))
    }
}

/// Returns the current revision of etcd.
fn version(answer: &Value) -> Result<u64, Error> {
    let version = answer.pointer("/header/revision").and_then(Value::as_str);
    version.and_then(|text| text.parse().ok()).ok_or_else(|| Error::Etcd(format!("no revision: {answer}")))
}
