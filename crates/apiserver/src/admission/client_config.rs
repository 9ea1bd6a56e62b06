//! Where a webhook is.

use serde::Deserialize;

/// Where a webhook is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    pub(super) url: Option<String>,
    pub(super) service: Option<Service>,
    /// Certificates in PEM, in base64.
    pub(super) ca_bundle: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) path: String,
    pub(super) port: Option<u16>,
}
