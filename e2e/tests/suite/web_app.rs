//! The life of the operator of the example `web_app`: two replicas as processes, on the real kube-apiserver.

#[path = "../../../crates/controller/tests/it/web_app/scenario.rs"]
mod scenario;
#[path = "../../../crates/controller/examples/web_app/types.rs"]
mod types;

use std::path::Path;
use std::sync::Arc;

use e2e::{ControlPlane, Options, free_ports, programs};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer_controller::crd;
use kinformer_controller::kinformer::{self, SharedInformerFactory};
use kube::CustomResourceExt as _;
use kube_client::api::{DeleteParams, ListParams};
use kube_client::{Api, Client, Config};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::process::Child;

use crate::examples::end;
use crate::planes;
use crate::recorder::{BOUND, check, eventually, until};
use scenario::Life;

/// The Lease of the operator, which is its name in the metrics too.
const LEASE: &str = "web-app-operator";
const ADMIN: Option<&str> = Some("admin-token");

/// The managers of a Deployment are those on the embedded server.
// contract: K-13a, K-13b, K-02i, K-24a, H-34b, N-05a, K-22a, K-22b
#[tokio::test(flavor = "multi_thread")]
async fn operator_with_two_replicas() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    crd::install(&client, [types::WebApp::crd()], "e2e", BOUND).await.unwrap();
    let leases = SharedInformerFactory::new(client.clone());
    let holders = holders(&leases);
    let namespace = planes::namespace(&client, "web-apps").await;
    let life = Life::begin(client.clone(), &namespace).await;

    let first = Replica::start(&control_plane);
    first.leads().await;
    let mut second = Replica::start(&control_plane);
    second.is_ready().await;
    life.waits_for_its_config_map().await;
    life.changes().await;
    assert_eq!(life.is_written_by_others().await, scenario::managers_of_the_deployment());
    for replica in [&first, &second] {
        replica.answers().await;
    }
    second.rotates_its_certificate().await;

    // The next leader reconciles all, and writes nothing.
    let before = deployments(&client, &namespace).await;
    first.kill().await;
    second.leads().await;
    second.has_reconciled(2).await;
    assert_eq!(deployments(&client, &namespace).await, before);
    life.goes_on("shop:3").await;

    let third = Replica::start(&control_plane);
    third.is_ready().await;
    second.stop().await;
    third.leads().await;
    life.goes_on("shop:4").await;
    life.ends().await;
    third.stop().await;
    life.has_events().await;

    // One was killed, two have released the Lease.
    until("the last release", || {
        let holders = holders.lock().clone();
        check(holders.len() == 5, holders)
    })
    .await;
    let holders = holders.lock().clone();
    let [first, second, released, third, last] = &*holders else { panic!("{holders:?}") };
    assert!(first != second && second != third && first != third, "{holders:?}");
    assert_eq!([released, last], ["", ""]);
    leases.shutdown().await.unwrap();
    let applied: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    applied.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    definitions.delete(types::WebApp::crd_name(), &DeleteParams::default()).await.unwrap();
    planes::keep(control_plane).await;
}

/// The holders of the Lease, one after another.
fn holders(factory: &SharedInformerFactory) -> Arc<Mutex<Vec<String>>> {
    let holders = Arc::<Mutex<Vec<String>>>::default();
    let seen = holders.clone();
    let informer = factory.informer::<Lease>();
    let recorded = informer.for_each(move |event| {
        let Some(lease) = event.object().filter(|lease| lease.name() == LEASE) else { return };
        let holder = lease.decode().unwrap().spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        let (holder, mut seen) = (holder.unwrap_or_default(), seen.lock());
        if seen.last() != Some(&holder) {
            seen.push(holder);
        }
    });
    recorded.unwrap();
    factory.start().unwrap();
    holders
}

/// The Deployments with their versions.
async fn deployments(client: &Client, namespace: &str) -> Vec<(Option<String>, Option<String>)> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let listed = deployments.list(&ListParams::default()).await.unwrap().items.into_iter();
    listed.map(|deployment| (deployment.metadata.name, deployment.metadata.resource_version)).collect()
}

/// A process, with a certificate and a port of its own.
struct Replica {
    process: Child,
    port: u16,
    folder: TempDir,
    /// The certificate that is trusted, in DER.
    certificate: Vec<u8>,
}

impl Replica {
    fn start(control_plane: &ControlPlane) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificate = write(folder.path(), &self_signed());
        let [port] = free_ports().unwrap();
        let mut program = programs::web_app(&control_plane.kubeconfig(), port, folder.path()).unwrap();
        let process = program.kill_on_drop(true).spawn().unwrap();
        Self { process, port, folder, certificate }
    }

    /// Sends a GET over a new connection, which trusts nothing but the certificate. The error has the code of a refusal.
    async fn get(&self, path: &str, token: Option<&str>) -> Result<String, String> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse().unwrap());
        config.root_cert = Some(vec![self.certificate.clone()]);
        config.auth_info.token = token.map(|token| token.to_owned().into());
        let client = kinformer::client(config).unwrap();
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client.request_text(request).await.map_err(|error| match error {
            kube_client::Error::Api(status) => status.code.to_string(),
            error => error.to_string(),
        })
    }

    /// Waits for a line of its metrics.
    async fn has(&self, line: &str) {
        eventually(line, async || {
            let metrics = self.get("/metrics", ADMIN).await?;
            check(metrics.lines().any(|found| found == line), metrics)
        })
        .await;
    }

    async fn leads(&self) {
        self.has(&format!("leader_election_master_status{{name=\"{LEASE}\"}} 1")).await;
    }

    /// Waits until it has reconciled this often, and has nothing to do.
    async fn has_reconciled(&self, times: u32) {
        eventually("the reconciliations", async || {
            let metrics = self.get("/metrics", ADMIN).await?;
            let value = |name: &str| -> u32 {
                let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
                lines.map(|(_, value)| value.parse::<u32>().unwrap()).sum()
            };
            let done = value("controller_runtime_reconcile_total{controller=\"webapp\",result=\"success\"");
            let is_idle = [value("workqueue_depth{"), value("controller_runtime_active_workers{")] == [0, 0];
            check(done >= times && is_idle, metrics)
        })
        .await;
    }

    async fn is_ready(&self) {
        eventually("it is ready", async || self.get("/readyz", None).await).await;
    }

    /// Probes need no token, and metrics the token of a user who may read them.
    async fn answers(&self) {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(self.get(path, None).await.unwrap(), "ok\n", "{path}");
        }
        let metrics = self.get("/metrics", ADMIN).await.unwrap();
        for name in ["workqueue_depth{", "controller_runtime_reconcile_total{", "rest_client_requests_total{"]
        {
            assert!(metrics.contains(name), "{name} is not in {metrics}");
        }
        assert_eq!(self.get("/metrics", None).await.unwrap_err(), "401");
        assert_eq!(self.get("/metrics", Some("guest-token")).await.unwrap_err(), "403");
    }

    /// New connections have a new certificate. While its file is half written, they have the old one.
    async fn rotates_its_certificate(&mut self) {
        let old = std::mem::replace(&mut self.certificate, write(self.folder.path(), &self_signed()));
        self.is_ready().await;
        let new = std::mem::replace(&mut self.certificate, old);
        self.get("/readyz", None).await.unwrap_err();
        self.certificate = new;
        let next = self_signed();
        let text = next.cert.pem();
        std::fs::write(self.folder.path().join("tls.crt"), &text[..text.len() / 2]).unwrap();
        eventually("a failed read", async || {
            let metrics = self.get("/metrics", ADMIN).await?;
            let none = "certwatcher_read_certificate_errors_total 0";
            check(!metrics.lines().any(|line| line == none), metrics)
        })
        .await;
        self.get("/readyz", None).await.unwrap();
        self.certificate = write(self.folder.path(), &next);
        self.is_ready().await;
    }

    async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }

    async fn stop(mut self) {
        end(&mut self.process, Signal::SIGTERM).await;
    }
}

fn self_signed() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap()
}

/// Writes a certificate and its key. Returns the certificate in DER.
fn write(folder: &Path, made: &CertifiedKey<KeyPair>) -> Vec<u8> {
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().to_vec()
}
