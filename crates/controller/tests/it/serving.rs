//! The HTTP server of a manager.

use std::time::Duration;

use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::BoxError;
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::kinformer_ring::Ring;
use kinformer_controller::kinformer_serve::{Error as ServeError, Server};
use kinformer_controller::{
    Action, CancellationToken, Controller, ControllerState, Error, Manager, ReconcileError, Sharding, Task,
};
use kube_client::Config;
use kube_client::client::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::common::{Cluster, config_map, gated, key, recorded, short, until, within};

/// Sends a GET. Returns the status code and the body.
async fn get(server: std::net::SocketAddr, path: &str) -> (u16, String) {
    let client =
        kube_client::Client::try_from(Config::new(format!("http://{server}").parse().unwrap())).unwrap();
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let response = within(client.send(request)).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// As [`get`], without a client, which would repeat a request that is answered by 503. Returns the response with its head.
async fn read(server: std::net::SocketAddr, path: &str) -> String {
    let mut stream = within(TcpStream::connect(server)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n");
    within(stream.write_all(request.as_bytes())).await.unwrap();
    let mut response = String::new();
    within(stream.read_to_string(&mut response)).await.unwrap();
    response
}

async fn wait_for(server: std::net::SocketAddr, path: &str, status: u16) -> String {
    within(async {
        loop {
            let (found, body) = get(server, path).await;
            if found == status {
                return body;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// A replica that waits for the leadership is ready, and says who leads. The metrics have the controllers, the informers, the
/// client and the election, and the page has the last reconciliations.
// contract: K-22a, K-22b, K-22c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_metrics_and_controllers() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let elector = |identity: &str| {
        LeaderElector::builder(cluster.factory.client().clone(), "default", "test")
            .identity(identity)
            .retry_period(Duration::from_millis(50))
            .build()
            .unwrap()
    };
    let other = within(elector("other").acquire()).await;
    let (mut calls, reconcile) = recorded(|request| match request.failures {
        0 => Err(ReconcileError::from("not yet")),
        _ => Ok(Action::none()),
    });
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>();
    let own = elector("own");
    let manager = Manager::new().factory(&cluster.factory).leader_election(&own);
    let handle = manager.handle();
    let server = Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = server.probes_on("127.0.0.1:0".parse().unwrap());
    let manager = manager.add(controller.rate_limiter(short()).build(reconcile)).unwrap();
    let server = manager.observed_by(server).unwrap().bind().await.unwrap();
    let (main, probes) = (server.local_addr(), server.probes_addr().unwrap());
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.add(server).unwrap().run(shutdown.clone()));

    wait_for(probes, "/readyz", 200).await;
    let ready = get(probes, "/readyz?verbose").await.1;
    assert!(ready.contains("[+]controllers ok") && ready.contains("configmaps"), "{ready}");
    assert_eq!(get(probes, "/healthz").await, (200, "ok\n".to_owned()));
    let (_, metrics) = get(main, "/metrics").await;
    assert!(metrics.contains("leader_election_master_status{name=\"test\"} 0"), "{metrics}");
    within(async {
        loop {
            let view: Value = serde_json::from_str(&get(main, "/api/v1/controllers").await.1).unwrap();
            if view["leadership"]["holder"] == "other" {
                return assert_eq!(view["leadership"]["isLeader"], false);
            }
            tokio::task::yield_now().await;
        }
    })
    .await;

    within(other.release()).await.unwrap();
    assert_eq!([calls.next().await.key, calls.next().await.key], [key("a"), key("a")]);
    // One that is added later is shown, too.
    let (mut late, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
    let numbers = Controller::of(&cluster.factory).keyed("numbers").build(reconcile);
    numbers.queue().add(7);
    handle.add(numbers).unwrap();
    assert_eq!(late.next().await.key, 7);
    let path = "/api/v1/controllers/configmap/reconciliations?key=default/a";
    let last = within(async {
        loop {
            let last: Value = serde_json::from_str(&get(main, path).await.1).unwrap();
            let results: Vec<_> = last["items"].as_array().into_iter().flatten().collect();
            if results.len() == 2 && results[0]["result"] == "success" {
                return last;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(last["items"][1]["error"], "not yet", "{last}");
    assert_eq!(last["items"][1]["reasons"][0], "listed", "{last}");
    let (_, metrics) = get(main, "/metrics").await;
    for line in [
        "leader_election_master_status{name=\"test\"} 1",
        "controller_runtime_reconcile_total{controller=\"configmap\",result=\"success\"} 1",
        "controller_runtime_max_concurrent_reconciles{controller=\"numbers\"} 1",
        "rest_client_requests_total{code=\"201\",host=\"127.0.0.1:",
        "process_open_fds ",
        "informer_objects{name=\"configmaps\",resource=\"configmaps\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    cluster.server.shutdown().await;
}

/// The error of a controller that has ended may name its objects. It is not in the public answers of `/readyz`, nor on the page
/// if these are secrets.
// contract: H-15a, K-22a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_controllers_are_not_public() {
    let cluster = Cluster::start().await;
    cluster.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password", "namespace": "default"}}));
    let (mut calls, _gate, reconcile) = gated();
    let secrets = Controller::of(&cluster.factory).reconciles::<Secret>().grace(Duration::from_millis(1));
    let secrets = secrets.build(reconcile);
    let monitor = secrets.monitor();
    let (may_end, ends) = tokio::sync::oneshot::channel::<()>();
    let mut ends = Some(ends);
    let slow = Task::new("slow", move |shutdown| {
        let ends = ends.take();
        async move {
            shutdown.cancelled().await;
            ends.unwrap().await.map_err(BoxError::from)
        }
    });
    let slow = slow.grace(Duration::from_secs(3600));
    let manager = Manager::new().add(secrets).unwrap().add(slow.need_leader_election(false)).unwrap();
    let server = Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = manager.observed_by(server).unwrap().bind().await.unwrap();
    let (address, shutdown) = (server.local_addr(), CancellationToken::new());
    let running = tokio::spawn(manager.add(server).unwrap().run(shutdown.clone()));
    calls.next().await;
    shutdown.cancel();
    until(|| matches!(monitor.state(), ControllerState::Stopped { .. })).await;
    assert!(monitor.state().to_string().contains("password"));
    let ready = read(address, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(ready.contains("[-]controllers failed: secret: stopped\n"), "{ready}");
    for path in ["/readyz", "/metrics", "/api/v1/controllers", "/api/v1/controllers/secret"] {
        let response = read(address, path).await;
        assert!(!response.contains("password"), "{response}");
    }
    may_end.send(()).unwrap();
    let error = within(running).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Stuck { .. }), "{error}");
    cluster.end().await;
}

/// A port in use is an error before anything begins, and names the address.
// contract: K-22d
#[tokio::test]
async fn port_in_use_is_an_error() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = Manager::new().serve(Server::builder().listen(address)).await.unwrap_err();
    assert!(matches!(error, Error::Serve(ServeError::Listen { .. })), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

/// The page shows the ring with its processes, and the shard that an informer holds.
// contract: K-22f
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ring_and_shards() {
    let cluster = Cluster::start().await;
    let ring = Ring::leases(cluster.factory.client().clone(), "default", "shop").identity("a").weight(3);
    let sharding = Sharding::new(ring.build().unwrap());
    let maps = Controller::of(&cluster.factory).reconciles::<ConfigMap>().sharded(&sharding);
    let maps = maps.build(|_| async { Ok(Action::none()) });
    let manager = Manager::new().factory(&cluster.factory).add(maps).unwrap().sharding(&sharding).unwrap();
    let server = Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = manager.observed_by(server).unwrap().bind().await.unwrap();
    let (address, shutdown) = (server.local_addr(), CancellationToken::new());
    let running = tokio::spawn(manager.add(server).unwrap().run(shutdown.clone()));
    let json = async |path: &str| -> Value { serde_json::from_str(&get(address, path).await.1).unwrap() };
    let all = json!([{"first": 0, "last": 1023}]);
    let ring = within(async {
        loop {
            let ring = json("/api/v1/ring").await["ring"].take();
            if ring["owned"] == all && ring["processes"][0]["slots"] == all && ring["unowned"] == json!([]) {
                return ring;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        (&ring["name"], &ring["identity"], &ring["problem"]),
        (&json!("shop"), &json!("a"), &json!(null))
    );
    assert_eq!(ring["moved"], json!({"begun": 1024, "released": 0, "stopped": 0}));
    let process = &ring["processes"][0];
    assert_eq!(
        (&process["identity"], &process["weight"], &process["state"]),
        (&json!("a"), &json!(3), &json!("joined"))
    );
    assert!(process["renewed"].is_string(), "{process}");
    let held = within(async {
        loop {
            let held = json("/api/v1/informers/configmaps").await["selection"]["shard"].take();
            if held["ranges"].as_array().is_some_and(|ranges| !ranges.is_empty()) {
                return held;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(held["ranges"], json!([{"from": "0x0000000000000000", "to": "0x10000000000000000"}]));
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    cluster.server.shutdown().await;
}
