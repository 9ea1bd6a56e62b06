//! Servers that record what is sent to them, and the material of the kubeconfigs.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Pod;
use kinformer_kube::{Kubeconfig, client};
use kinformer_testing::scripted_http::{Answer, Request, ScriptedServer};
use kube_client::api::{Api, ListParams};
use rcgen::KeyPair;
use serde_json::json;

use super::cases::Material;
use super::certificates::{authority, issue, tls};

/// The time limit of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers, and the files beside the kubeconfigs.
pub struct Fixture {
    secure: ScriptedServer,
    plain: ScriptedServer,
    pub folder: tempfile::TempDir,
    pub material: Material,
}

impl Fixture {
    pub async fn new() -> Self {
        let authority = authority("one");
        let server = issue(&authority, "server");
        let key = KeyPair::from_pem(&server.key).unwrap().serialize_der();
        // For a list of pods, and for a request for a token.
        let answer = |request: &Request| match request.target.ends_with("/token") {
            true => Answer::json(&json!({
                "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"audiences": []},
                "status": {"token": "requested", "expirationTimestamp": null},
            })),
            false => {
                Answer::json(&json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}))
            }
        };
        let secure = ScriptedServer::https(tls(server.der, key, Some(&authority)), answer).await;
        let plain = ScriptedServer::http(answer).await;
        let client = issue(&authority, "client");
        let folder = tempfile::tempdir().unwrap();
        let issued = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "issued"},
        });
        let plugin = format!("echo '{issued}'\n");
        for (name, content) in [
            ("ca", &authority.pem()),
            ("certificate", &client.certificate),
            ("key", &client.key),
            ("token", &"of-file\n".to_owned()),
            ("plugin", &plugin),
        ] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let material = Material {
            server: secure.config().cluster_url.to_string().trim_end_matches('/').to_owned(),
            plain: plain.config().cluster_url.to_string().trim_end_matches('/').to_owned(),
            ca: authority.pem(),
            server_certificate: server.certificate,
            certificate: client.certificate,
            key: client.key,
            other_key: KeyPair::generate().unwrap().serialize_pem(),
            exec: json!({
                "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": [folder.path().join("plugin")],
                "interactiveMode": "Never",
            }),
            base64: |bytes| STANDARD.encode(bytes),
        };
        Self { secure, plain, folder, material }
    }

    /// A short form of the request that arrived after these numbers of requests, if it succeeded.
    pub fn sent(&self, before: (usize, usize), succeeded: bool) -> String {
        let first = |server: &ScriptedServer, before: usize| server.requests().get(before).cloned();
        let secure = first(&self.secure, before.0).map(|request| ("https", request));
        let request = secure.or_else(|| first(&self.plain, before.1).map(|request| ("http", request)));
        let Some((scheme, request)) = request.filter(|_| succeeded) else { return "refused".to_owned() };
        let mut text = scheme.to_owned();
        let path = request.target.trim_end_matches("/pods?").trim_end_matches("/serviceaccounts/x/token");
        if path != "/api/v1/namespaces/default" {
            write!(text, " {path}").unwrap();
        }
        if let Some(authorization) = request.header("authorization") {
            write!(text, " {authorization:?}").unwrap();
        }
        if request.certificate.is_some() {
            text += " certificate";
        }
        let mut impersonation: Vec<_> = request.headers.iter().collect();
        impersonation.retain(|(name, _)| name.as_str().starts_with("impersonate-"));
        impersonation.sort_by_key(|(name, _)| name.as_str());
        for (name, value) in impersonation {
            write!(text, " {}={value:?}", name.as_str().trim_start_matches("impersonate-")).unwrap();
        }
        text
    }

    pub fn requests(&self) -> (usize, usize) {
        (self.secure.requests().len(), self.plain.requests().len())
    }
}

/// Lists the pods in the namespace of a kubeconfig.
///
/// # Errors
/// The reason for which the kubeconfig or the request is refused.
pub async fn send(path: &Path) -> Result<(), String> {
    let config = Kubeconfig::read_from(path).and_then(|kubeconfig| kubeconfig.config(None));
    let client = config.and_then(client).map_err(|error| error.to_string())?;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let answer = tokio::time::timeout(PATIENCE, pods.list(&ListParams::default())).await.unwrap();
    answer.map(drop).map_err(|error| error.to_string())
}
