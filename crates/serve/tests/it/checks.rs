//! Named checks, the listener of the probes, metrics of the program, and a server without a page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, StatusCode};
use kinformer_serve::{Error, Server, ServerBuilder};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::registry::Registry;

use crate::common::{Client, PODS, World};

fn listen() -> ServerBuilder {
    Server::builder().listen("127.0.0.1:0".parse().unwrap())
}

/// A check that passes while a flag is set.
fn flag() -> (Arc<AtomicBool>, impl Fn() -> Result<(), String> + Send + Sync) {
    let flag = Arc::new(AtomicBool::new(true));
    let read = flag.clone();
    let check = move || match read.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err("no disk\nin [+]rack 2".to_owned()),
    };
    (flag, check)
}

// contract: H-21, H-28a
#[tokio::test]
async fn named_checks() {
    let (flag, disk) = flag();
    let (_, again) = self::flag();
    let server = |server: ServerBuilder| {
        server.health_check("disk", disk).health_check("a/b c", again).ready_check("other", || Ok(()))
    };
    let world = World::with(1, |factory| factory, server).await;
    let get = async |path: &str| {
        let reply = world.client.get(path).await;
        (reply.status.as_u16(), reply.text())
    };
    let ok = (200, "ok\n".to_owned());
    for path in ["/healthz", "/healthz/disk", "/healthz/a/b%20c", "/readyz/other", "/readyz/informer/pods"] {
        assert_eq!(get(path).await, ok, "{path}");
    }
    let expected = "[+]disk ok\n[+]a/b c ok\nhealthz check passed\n";
    assert_eq!(get("/healthz?verbose").await, (200, expected.to_owned()));
    let expected = "[+]other ok\n[+]informer/pods ok\n[+]informer/nodes ok\nreadyz check passed\n";
    assert_eq!(get("/readyz?verbose").await, (200, expected.to_owned()));
    flag.store(false, Ordering::SeqCst);
    let line = "[-]disk failed: no disk in [+]rack 2\n";
    let failed = format!("{line}[+]a/b c ok\nhealthz check failed\n");
    assert_eq!(get("/healthz").await, (503, failed), "always verbose");
    assert_eq!(get("/healthz/disk").await, (503, line.to_owned()));
    assert_eq!(get("/readyz").await, ok, "another path");
    assert_eq!(get("/healthz?exclude=disk").await, ok);
    let expected = "[+]disk excluded: ok\n[+]a/b c excluded: ok\n\
                    warn: some health checks cannot be excluded: no matches for \"x\",\"y\\\"\"\n\
                    healthz check passed\n";
    let excluding = "/healthz?verbose&exclude=disk&exclude=y%22&exclude=a/b%20c&exclude=x&exclude=disk";
    assert_eq!(get(excluding).await, (200, expected.to_owned()));
    let message = world.client.get("/healthz/other").await.fails(404, "NotFound");
    assert!(message.ends_with("disk, a/b c"), "{message}");
    world.client.request(Method::POST, "/healthz/disk", &[]).await.fails(405, "MethodNotAllowed");
    world.end().await;
}

// contract: H-28b
#[tokio::test]
async fn check_that_panics_has_failed() {
    let server = listen().ready_check("a", || panic!("no luck")).ready_check("b", || Ok(()));
    let server = server.bind().await.unwrap().spawn();
    let client = Client { address: server.local_addr() };
    let reply = client.get("/readyz").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    let text = reply.text();
    assert!(text.starts_with("[-]a failed: ") && text.contains("no luck"), "{text}");
    assert!(text.ends_with("[+]b ok\nreadyz check failed\n"), "{text}");
    assert_eq!(client.get("/healthz?verbose").await.text(), "[+]ping ok\nhealthz check passed\n");
    server.shutdown().await;
}

// contract: H-28c
#[tokio::test]
async fn names_of_checks() {
    let passes = || Ok(());
    for name in ["", "a\nb", "informer/pods", "a//b", "/a"] {
        let error = listen().ready_check(name, passes).bind().await.unwrap_err();
        assert!(matches!(&error, Error::InvalidCheck { name: invalid, .. } if invalid == name), "{error}");
    }
    let error = listen().health_check("a", passes).health_check("a", passes).bind().await.unwrap_err();
    assert!(error.to_string().contains("there are two"), "{error}");
    listen().health_check("a", passes).ready_check("a", passes).bind().await.unwrap();
}

/// The kubelet sends the address of the pod as the host, and no token.
// contract: H-29a, H-17a
#[tokio::test]
async fn probes_have_an_address_of_their_own() {
    let (flag, disk) = flag();
    let server = listen().token("s3cret").probes_on("0.0.0.0:0".parse().unwrap());
    let server = server.health_check("disk", disk).ready_check("b", || Ok(())).bind().await.unwrap();
    let address = server.probes_addr().unwrap();
    let server = server.spawn();
    assert_eq!(server.probes_addr(), Some(address));
    let probes = Client { address: ([127, 0, 0, 1], address.port()).into() };
    for path in ["/healthz", "/readyz", "/healthz/disk", "/readyz/b", "/readyz?verbose"] {
        let reply = probes.request(Method::GET, path, &[("host", "192.0.2.7:8081")]).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
    }
    flag.store(false, Ordering::SeqCst);
    assert_eq!(probes.get("/healthz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    for path in ["/", "/page.js", "/metrics", "/api/v1/informers", "/openapi.json", "/readyzz"] {
        let message = probes.get(path).await.fails(404, "NotFound");
        assert!(message.contains("/readyz only"), "{message}");
    }
    probes.get(&format!("/healthz?{}", "x".repeat(9_000))).await.fails(414, "URITooLong");
    let main = Client { address: server.local_addr() };
    main.get("/readyz").await.fails(401, "Unauthorized");
    let reply = main.request(Method::GET, "/readyz", &[("authorization", "Bearer s3cret")]).await;
    assert_eq!(reply.status, StatusCode::OK);
    server.shutdown().await;
    assert!(tokio::net::TcpStream::connect(probes.address).await.is_err());
}

// contract: H-29b
#[tokio::test]
async fn taken_port_of_the_probes() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = listen().or_any_port().probes_on(address).bind().await.unwrap_err();
    let Error::Listen { address: failed, source } = &error else { panic!("{error}") };
    assert_eq!((*failed, source.kind()), (address, std::io::ErrorKind::AddrInUse));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

fn registry(name: &str) -> Registry {
    let mut registry = Registry::default();
    registry.register(name, "Counted", Counter::<u64>::default());
    registry
}

// contract: H-22, H-30a
#[tokio::test]
async fn metrics_of_the_program() {
    let shared = Arc::new(registry("shared_things"));
    let server = |server: ServerBuilder| server.metrics(registry("own_things")).metrics(shared);
    let world = World::with(1, |factory| factory, server).await;
    let text = world.client.get("/metrics").await.text();
    for part in ["own_things_total 0\n", "shared_things_total 0\n", "informer_objects{name=\"pods\""] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert_eq!(text.matches("# EOF").count(), 1);
    assert!(text.ends_with("# EOF\n"), "{text}");
    world.end().await;
}

/// A collector of a program.
#[derive(Debug)]
struct Collector(fn() -> Option<&'static str>);

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Some(name) = (self.0)() else { return Err(std::fmt::Error) };
        let counter = ConstCounter::new(1_u64);
        counter.encode(encoder.encode_descriptor(name, "Collected", None, counter.metric_type())?)
    }
}

// contract: H-30b, H-30c
#[tokio::test]
async fn metrics_that_cannot_be_written() {
    let shared = Arc::new(registry("things"));
    let collecting = |names| {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Collector(names)));
        registry
    };
    let duplicates = [
        ("things", listen().metrics(registry("things")).metrics(registry("things"))),
        ("things", listen().metrics(shared.clone()).metrics(shared)),
        ("things", listen().metrics(registry("things")).metrics(collecting(|| Some("things")))),
        ("kinformer_serve_views", listen().metrics(registry("kinformer_serve_views"))),
    ];
    for (family, server) in duplicates {
        let error = server.bind().await.unwrap_err();
        assert!(matches!(&error, Error::DuplicateMetric { name } if name == family), "{error}");
    }
    let error = listen().metrics(collecting(|| panic!("no luck"))).bind().await.unwrap_err();
    assert!(error.to_string().contains("no luck"), "{error}");
    let error = listen().metrics(collecting(|| None)).bind().await.unwrap_err();
    assert!(matches!(error, Error::Metrics { .. }), "{error}");
    static PANICS: AtomicBool = AtomicBool::new(false);
    let later = collecting(|| {
        assert!(!PANICS.load(Ordering::SeqCst), "no luck");
        Some("later")
    });
    let server = listen().metrics(later).bind().await.unwrap().spawn();
    let client = Client { address: server.local_addr() };
    assert!(client.get("/metrics").await.text().contains("later_total 1"));
    PANICS.store(true, Ordering::SeqCst);
    let message = client.get("/metrics").await.fails(500, "InternalError");
    assert!(message.contains("no luck"), "{message}");
    server.shutdown().await;
}

// contract: H-32
#[tokio::test]
async fn server_without_a_page() {
    let world =
        World::with(1, |factory| factory, |server| server.metrics_only().ready_check("a", || Ok(()))).await;
    assert_eq!(world.client.get("/healthz").await.text(), "ok\n");
    let text = world.client.get("/readyz?verbose").await.text();
    assert_eq!(text, "[+]a ok\n[+]informer/pods ok\n[+]informer/nodes ok\nreadyz check passed\n");
    let text = world.client.get("/metrics").await.text();
    assert!(text.contains("informer_objects{name=\"pods\",resource=\"pods\"} 1"), "{text}");
    assert!(!text.contains("handler=\"serve\""), "{text}");
    for path in ["/", "/page.js", PODS, "/api/v1/events", "/api/v1/controllers", "/openapi.json"] {
        let message = world.client.get(path).await.fails(404, "NotFound");
        let paths = "the paths are: /metrics, /healthz, /healthz/{check}, /readyz, /readyz/{check}";
        assert!(message.ends_with(paths), "{message}");
    }
    world.end().await;
}

// contract: H-32
#[tokio::test]
async fn metrics_for_other_machines() {
    let builder = || Server::builder().listen("0.0.0.0:0".parse().unwrap());
    let error = builder().bind().await.unwrap_err();
    assert!(matches!(error, Error::TokenRequired { .. }), "{error}");
    let server = builder().metrics_only().bind().await.unwrap().spawn();
    let client = Client { address: ([127, 0, 0, 1], server.local_addr().port()).into() };
    let reply = client.request(Method::GET, "/metrics", &[("host", "operator.operators.svc")]).await;
    assert_eq!(reply.status, 200);
    server.shutdown().await;
}
