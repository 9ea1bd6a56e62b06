//! What is sent for each kubeconfig, compared with kubectl.

mod cases;

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kinformer_kube::{Kubeconfig, client};
use kinformer_testing::scripted_http::{Answer, Request, ScriptedServer};
use rcgen::KeyPair;
use serde_json::json;

use crate::common::PATIENCE;
use crate::common::certificates::{authority, issue, tls};
use cases::{Material, cases};

/// The case, and what kubectl sends. A difference is followed by what is sent here: `case | kubectl | here`.
const TABLE: &str = include_str!("table.txt");

/// Servers, and the files beside the kubeconfigs.
struct Fixture {
    secure: ScriptedServer,
    plain: ScriptedServer,
    folder: tempfile::TempDir,
    material: Material,
}

impl Fixture {
    async fn new() -> Self {
        let authority = authority("one");
        let server = issue(&authority, "server");
        let key = KeyPair::from_pem(&server.key).unwrap().serialize_der();
        let answer = |_: &Request| Answer::json(&json!({"kind": "APIVersions"}));
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

    /// A short form of the request that arrived after these numbers of requests.
    fn sent(&self, before: (usize, usize)) -> Option<String> {
        let secure = self.secure.requests().get(before.0).cloned();
        let request = secure.clone().or_else(|| self.plain.requests().get(before.1).cloned())?;
        let mut text = if secure.is_some() { "https".to_owned() } else { "http".to_owned() };
        let path = request.target.trim_end_matches("api");
        if path != "/" {
            write!(text, " {path}").unwrap();
        }
        if let Some(authorization) = request.header("authorization") {
            write!(text, " {authorization:?}").unwrap();
        }
        if request.certificate.is_some() {
            text += " certificate";
        }
        for name in ["user", "uid", "group", "extra-x"] {
            for value in request.headers.get_all(format!("impersonate-{name}")) {
                write!(text, " {name}={value:?}").unwrap();
            }
        }
        Some(text)
    }

    fn requests(&self) -> (usize, usize) {
        (self.secure.requests().len(), self.plain.requests().len())
    }
}

async fn send(path: &Path) -> Result<String, String> {
    let config = Kubeconfig::read_from(path).and_then(|kubeconfig| kubeconfig.config(None));
    let client = config.and_then(client).map_err(|error| error.to_string())?;
    let request = http::Request::get("/api").body(Vec::new()).unwrap();
    let answer = tokio::time::timeout(PATIENCE, client.request_text(request)).await.unwrap();
    answer.map_err(|error| error.to_string())
}

// contract: L-31a, L-31b, L-31c, L-31d, L-31e, L-31f, L-31g, L-31h
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_those_of_kubectl() {
    let fixture = Fixture::new().await;
    let path = fixture.folder.path().join("config");
    let mut expected = TABLE.lines();
    let mut differences = Vec::new();
    let cases = cases(&fixture.material);
    for case in &cases {
        std::fs::write(&path, &case.kubeconfig).unwrap();
        let before = fixture.requests();
        let result = send(&path).await;
        let sent = fixture.sent(before).filter(|_| result.is_ok()).unwrap_or_else(|| "refused".to_owned());
        let row: Vec<_> = expected.next().unwrap_or_default().split(" | ").collect();
        let (name, wanted) = (row[0], row.last().copied().unwrap_or_default());
        if name != case.name || wanted != sent {
            differences.push(format!("{}: {sent} ({result:?}), expected {name}: {wanted}", case.name));
        }
    }
    assert_eq!(expected.next(), None);
    assert!(differences.is_empty(), "{} of {}:\n{}", differences.len(), cases.len(), differences.join("\n"));
}
