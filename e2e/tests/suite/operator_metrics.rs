//! The metrics of an operator, beside those that an operator of controller-runtime exports.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use e2e::{Options, Proxy, free_ports, programs};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{ObjectKey, SharedInformerFactory};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::kinformer_serve::Server;
use kinformer_controller::{Action, CancellationToken, Controller, Manager, Request};
use kube_client::api::PostParams;
use kube_client::{Api, Client, Config};
use serde_json::json;

use crate::connections::through;
use crate::planes;
use crate::recorder::{check, eventually};

/// The families that are not promised: those of Go's runtime, and those of webhooks.
const EXCLUDED: [&str; 3] = ["go_", "controller_runtime_webhook_", "controller_runtime_conversion_webhook_"];
/// A family whose series depend on what else has happened; the pairs of code and method are compared.
const REQUESTS: &str = "rest_client_requests_total";
/// The Lease of both operators has this name, as the program of controller-runtime.
const LEASE: &str = "operator";

/// The labels of a series.
type Labels = BTreeMap<String, String>;

/// A family of a page.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    series: BTreeSet<Labels>,
}

/// A page of metrics, by the name of the family.
#[derive(Debug)]
struct Page {
    families: BTreeMap<String, Family>,
    /// The values, by the name of the sample and the labels.
    values: BTreeMap<(String, Labels), f64>,
}

impl Page {
    /// Reads a page in the text format of Prometheus or of OpenMetrics, whose counters are named without `_total`.
    fn of(text: &str) -> Self {
        let open = text.ends_with("# EOF\n");
        let mut page = Self { families: BTreeMap::new(), values: BTreeMap::new() };
        let mut current = String::new();
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let (name, kind) = family.split_once(' ').unwrap();
                let total = if open && kind == "counter" { "_total" } else { "" };
                current = format!("{name}{total}");
                let family = Family { kind: kind.to_owned(), ..Family::default() };
                assert!(page.families.insert(current.clone(), family).is_none(), "{current} is there twice");
            } else if !line.starts_with('#') {
                let (name, labels, value) = sample(line);
                assert!(name.starts_with(&current), "{line} is in {current}");
                page.families.get_mut(&current).unwrap().series.insert(labels.clone());
                page.values.insert((name.to_owned(), labels), value);
            }
        }
        page
    }

    async fn read(config: Config) -> Result<Self, String> {
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        Ok(Self::of(&client.request_text(request).await.map_err(|error| error.to_string())?))
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.values.get(&(name.to_owned(), labels)).copied().unwrap_or_default()
    }

    /// Whether the operator is the leader, and has reconciled with success and with an error.
    fn has_reconciled(&self) -> bool {
        let of = |result| {
            let labels = [("controller", "configmap"), ("result", result)];
            self.value("controller_runtime_reconcile_total", &labels) > 0.0
        };
        of("success") && of("error") && self.value("leader_election_master_status", &[("name", LEASE)]) > 0.0
    }
}

/// Reads a line: the name of the sample, its labels, and its value. Bounds of buckets are written in the same way.
fn sample(line: &str) -> (&str, Labels, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}').unwrap();
    let mut read = Labels::new();
    // No value has a comma or a quote here.
    for label in labels.split(',').filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once('=').unwrap();
        let value = value.trim_matches('"');
        let bound = (name == "le").then(|| format!("{:.6e}", value.parse::<f64>().unwrap()));
        read.insert(name.to_owned(), bound.unwrap_or_else(|| value.to_owned()));
    }
    (name, read, value.parse().unwrap())
}

/// Returns what a page lacks of another one.
fn lacks(page: &Page, peer: &Page) -> Vec<String> {
    let mut lacks = Vec::new();
    for (name, peer) in &peer.families {
        if EXCLUDED.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let Some(own) = page.families.get(name) else {
            lacks.push(format!("{name}, a {}", peer.kind));
            continue;
        };
        if own.kind != peer.kind {
            lacks.push(format!("{name} is a {}, not a {}", peer.kind, own.kind));
        }
        // Label names are part of the labels, and a series with a further label is another series.
        let missing: Vec<_> = peer.series.difference(&own.series).collect();
        if !missing.is_empty() {
            let own = &own.series;
            lacks.push(format!("{name}: {missing:?}, which are not in {own:?}"));
        }
    }
    lacks
}

/// The config map of this name makes a reconciliation fail or succeed.
async fn create(client: &Client, namespace: &str, name: &str, data: serde_json::Value) {
    let object = serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// The same operator as that of controller-runtime.
fn operator(factory: &SharedInformerFactory, elector: &LeaderElector) -> Manager {
    let config_maps = factory.informer::<ConfigMap>().lister();
    let reconcile = move |request: Request<ObjectKey>| {
        let config_maps = config_maps.clone();
        async move {
            let Ok(config_map) = config_maps.get(&request.key) else { return Ok(Action::none()) };
            let data = config_map.decode_arc()?.data.clone().unwrap_or_default();
            data.get("fail").map_or(Ok(Action::none()), |reason| Err(reason.clone().into()))
        }
    };
    let controller = Controller::of(factory).reconciles::<ConfigMap>().build(reconcile);
    Manager::new().factory(factory).leader_election(elector).add(controller).unwrap()
}

/// Each family that an operator of controller-runtime exports is exported by one of kinformer, with its type, its labels,
/// its buckets and its series. Both run on the same kube-apiserver.
// contract: K-22e
#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_controller_runtime() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let [namespace, of_peer] =
        [planes::namespace(&client, "operator").await, planes::namespace(&client, "operator").await];
    for namespace in [&namespace, &of_peer] {
        create(&client, namespace, "good", json!({})).await;
        create(&client, namespace, "bad", json!({"fail": "a reason"})).await;
    }
    // The requests of this process are counted by the address, and other tests have other ones.
    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let kubeconfig = control_plane.kubeconfig_through(proxy.port()).unwrap();
    let [port] = free_ports().unwrap();
    let mut peer = programs::controller_runtime_operator(&kubeconfig, &of_peer).unwrap();
    peer.args(["-metrics", &format!("127.0.0.1:{port}")]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut peer = peer.kill_on_drop(true).spawn().unwrap();

    let client = kinformer::client(through(&control_plane, &proxy).await).unwrap();
    let factory = SharedInformerFactory::builder(client.clone()).namespace(&*namespace).build();
    let elector = LeaderElector::builder(client, &*namespace, LEASE).build().unwrap();
    let manager = operator(&factory, &elector);
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let server = Server::builder().listen("127.0.0.1:0".parse().unwrap()).metrics_only().tls(folder.path());
    let server = manager.observed_by(server).unwrap().bind().await.unwrap();
    let mut own = Config::new(format!("https://localhost:{}", server.local_addr().port()).parse().unwrap());
    own.root_cert = Some(vec![made.cert.der().to_vec()]);
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.add(server).unwrap().run(shutdown.clone()));

    let peer_page = eventually("reconciliations of controller-runtime", async || {
        let config = Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
        let page = Page::read(config).await?;
        // It has renewed its Lease, and done each kind of request.
        let host = format!("127.0.0.1:{}", proxy.port());
        let renewed = page.value(REQUESTS, &[("code", "200"), ("method", "PUT"), ("host", &host)]) > 0.0;
        check(page.has_reconciled() && renewed, &page.values).map(|()| page)
    })
    .await;
    let promised =
        peer_page.families.keys().filter(|name| !EXCLUDED.iter().any(|prefix| name.starts_with(prefix)));
    assert!(promised.count() > 25, "{:?}", peer_page.families.keys());
    eventually("the metrics of controller-runtime", async || {
        let page = Page::read(own.clone()).await?;
        check(page.has_reconciled(), &page.values)?;
        let lacks = lacks(&page, &peer_page);
        check(lacks.is_empty(), lacks)
    })
    .await;

    shutdown.cancel();
    running.await.unwrap().unwrap();
    factory.shutdown().await.unwrap();
    drop(peer.stdin.take());
    assert!(peer.wait().await.unwrap().success());
    planes::keep(control_plane).await;
}
