//! Requests: paths, redirects, encodings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{PATIENCE, empty_list};
use futures::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_core::Object;
use kinformer_kube::{Error, KubeListerWatcher, ManagedFields, client, client_http1};
use kinformer_reflector::{ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions};
use kinformer_testing::scripted_http::{Answer, ScriptedServer};
use kinformer_testing::spans::{RecordedSpan, SpanRecorder};
use kube_client::client::{Body, ConfigExt};
use kube_client::{Client, Config};
use kube_core::discovery::ApiResource;
use kube_core::{DynamicObject, GroupVersionKind};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tower::Layer;
use tower_http::decompression::DecompressionLayer;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

const JSON: &str = "application/json";

async fn list<T: Object>(source: &impl ListerWatcher<T>) -> Result<(), SourceError> {
    let listed = tokio::time::timeout(PATIENCE, source.list(ListOptions::at_version(""))).await;
    listed.unwrap().map(|_| ())
}

/// The source of the error, which is this crate's error.
fn own_error(result: Result<(), SourceError>) -> String {
    match result {
        Err(SourceError::Other { source }) if source.is::<Error>() => source.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The values of a field; empty where a span has none.
fn field(spans: &[RecordedSpan], name: &str) -> Vec<String> {
    spans.iter().map(|span| span.fields.get(name).cloned().unwrap_or_default()).collect()
}

fn maps(client: Client) -> KubeListerWatcher<ConfigMap> {
    KubeListerWatcher::new(client)
}

/// Names that cannot be a segment of a path are refused without a request.
// contract: L-22a, L-22b
#[tokio::test]
async fn invalid_path_segments_are_refused_locally() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    let client = client(server.config()).unwrap();
    for bad in ["kube-system/secrets?x=", "..", ".", "a/../b", "kube-system%2Fsecrets", "a\nb", "/"] {
        let error = own_error(list(&maps(client.clone()).namespace(bad)).await);
        assert!(error.contains("namespace") && error.contains(&format!("{bad:?}")), "{error}");
        let watch = maps(client.clone()).namespace(bad).watch(WatchOptions::from("5", PATIENCE)).await;
        assert!(watch.is_err());

        let good = ApiResource::from_gvk(&GroupVersionKind::gvk("g.example", "v1", "K"));
        for what in ["group", "version", "resource"] {
            let mut resource = good.clone();
            *match what {
                "group" => &mut resource.group,
                "version" => &mut resource.version,
                _ => &mut resource.plural,
            } = bad.to_owned();
            let source = KubeListerWatcher::<DynamicObject>::dynamic(client.clone(), resource);
            let error = own_error(list(&source).await);
            assert!(error.contains(what), "{error}");
        }
        for kind in [GroupVersionKind::gvk(bad, "v1", "K"), GroupVersionKind::gvk("g.example", bad, "K")] {
            let found = KubeListerWatcher::<DynamicObject>::discover(client.clone(), &kind).await;
            assert!(matches!(found, Err(Error::PathSegment { .. })), "{found:?}");
        }
    }
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

/// A dropped list, watch or discovery ends its request: the connection is closed.
// contract: L-36
#[tokio::test]
async fn dropped_requests_are_ended() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let kind = GroupVersionKind::gvk("g.example", "v1", "K");
    for what in ["list", "watch", "newest version", "discovery"] {
        let client = client(Config::new(url.parse().unwrap())).unwrap();
        let maps = maps(client.clone());
        let kind = kind.clone();
        let request = async move {
            match what {
                "list" => drop(maps.list(ListOptions::at_version("")).await),
                "watch" => drop(maps.watch(WatchOptions::from("5", PATIENCE)).await),
                "discovery" => drop(KubeListerWatcher::<DynamicObject>::discover(client, &kind).await),
                _ => drop(maps.newest_version().await),
            }
        };
        let mut request = Box::pin(request);
        let mut received = [0; 4096];
        let accepted = async {
            let (mut connection, _) = silent.accept().await.unwrap();
            assert!(connection.read(&mut received).await.unwrap() > 0);
            connection
        };
        let mut connection = tokio::select! {
            () = &mut request => panic!("{what}: there is no answer"),
            connection = tokio::time::timeout(PATIENCE, accepted) => connection.unwrap(),
        };
        drop(request);
        let end = async { while connection.read(&mut received).await.is_ok_and(|length| length > 0) {} };
        tokio::time::timeout(PATIENCE, end).await.unwrap_or_else(|_| panic!("{what}: still open"));
    }
}

/// An empty version or resource is refused without a request. The empty group is the core group.
// contract: L-22c
#[tokio::test]
async fn empty_names_are_refused_locally() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    let client = client(server.config()).unwrap();
    let source = |group: &str, version: &str, plural: &str| {
        let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "K"));
        resource.plural = plural.to_owned();
        KubeListerWatcher::<DynamicObject>::dynamic(client.clone(), resource)
    };
    for (what, source) in [("version", source("g.example", "", "ks")), ("resource", source("", "v1", ""))] {
        let error = own_error(list(&source).await);
        assert!(error.contains(what) && error.contains("is empty"), "{error}");
        assert!(source.watch(WatchOptions::from("5", PATIENCE)).await.is_err());
    }
    let kind = GroupVersionKind::gvk("g.example", "", "K");
    let found = KubeListerWatcher::<DynamicObject>::discover(client.clone(), &kind).await;
    assert!(matches!(found, Err(Error::PathSegment { what: "version", .. })), "{found:?}");
    assert!(server.requests().is_empty(), "{:?}", server.requests());
    // The answer is not a list of this kind; the request was sent.
    let _ = list(&source("", "v1", "ks")).await;
    assert_eq!(server.requests().len(), 1);
}

/// Names, selectors and parameters are percent-encoded, so none of them changes another part of the URL.
// contract: L-22d
#[tokio::test]
async fn names_and_selectors_are_percent_encoded() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    let client = client(server.config()).unwrap();
    let source = maps(client.clone()).namespace("a?watch=1#\u{e9} b");
    list(&source.labels("a=b&watch=1#x").tweak(|params| params.set("x&y", "1&z=2"))).await.unwrap();
    list(&maps(client).namespace("")).await.unwrap();
    let targets: Vec<_> = server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(
        targets,
        [
            "/api/v1/namespaces/a%3Fwatch%3D1%23%C3%A9%20b/configmaps?\
             labelSelector=a%3Db%26watch%3D1%23x&x%26y=1%26z%3D2",
            "/api/v1/configmaps?",
        ]
    );
}

/// A plain HTTP server that redirects the first request.
async fn redirecting(location: impl Fn(&str) -> String + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::http(move |request| {
        if request.target.starts_with("/to") || request.target.starts_with("/base/to") {
            return empty_list();
        }
        let location = location(request.header("host").unwrap());
        Answer::new(301, "text/plain", "").header("location", location)
    })
    .await
}

/// A redirect of a GET within one server is followed, with the same credentials.
// contract: L-23a
#[tokio::test]
async fn redirect_within_server_keeps_credentials() {
    type Location = fn(&str) -> String;
    let targets: [(Location, &str); 4] = [
        (|_| "/to/here?x=1".into(), "/to/here?x=1"),
        (|host| format!("http://{host}/to/here"), "/to/here"),
        (|host| format!("HTTP://{}/to/here", host.to_uppercase()), "/to/here"),
        (|host| format!("//{host}/to/here#part"), "/to/here"),
    ];
    for (location, expected) in targets {
        for make in [client, client_http1] {
            let server = redirecting(location).await;
            let mut config = server.config();
            config.auth_info.token = Some("t0ken".to_owned().into());
            list(&maps(make(config).unwrap())).await.unwrap();
            let requests = server.requests();
            assert_eq!(
                (requests.len(), requests[1].target.as_str(), requests[1].token()),
                (2, expected, Some("t0ken"))
            );
        }
    }
    // The URL of the server has a path; the target is an absolute or a relative path.
    for location in ["/base/to", "../../to"] {
        let server = redirecting(move |_| location.into()).await;
        let mut config = server.config();
        config.cluster_url = format!("{}base", config.cluster_url).parse().unwrap();
        let result = list(&maps(client(config).unwrap())).await;
        let second = server.requests()[1].target.clone();
        match location {
            "/base/to" => assert!(result.is_ok() && second == "/base/to", "{result:?} {second}"),
            _ => assert!(second.starts_with("/base/api/v1/../../to"), "{second}"),
        }
    }
}

/// Any other redirect is an error that names its target.
// contract: L-23b
#[tokio::test]
async fn other_redirects_are_errors_with_target() {
    let other = ScriptedServer::http(|_| empty_list()).await;
    let port = other.address().port();
    let elsewhere = [
        (format!("http://127.0.0.1:{port}/to"), "another scheme, host or port"),
        (format!("http://localhost:{port}/to"), "another scheme, host or port"),
        ("https://HOST/to".to_owned(), "another scheme, host or port"),
        ("http://HOST@elsewhere.example/to".to_owned(), "another scheme, host or port"),
        ("/again".to_owned(), "eleventh"),
        ("http://[/".to_owned(), "not a URL"),
    ];
    for (location, reason) in elsewhere {
        let shown = location.clone();
        let server = redirecting(move |host| location.replace("HOST", host)).await;
        let target = shown.replace("HOST", &server.address().to_string());
        let mut config = server.config();
        config.auth_info.token = Some("t0ken".to_owned().into());
        let error = own_error(list(&maps(client(config.clone()).unwrap())).await);
        assert!(error.contains(reason) && error.contains(&target), "{error}");
        assert_eq!(server.requests().len(), if reason == "eleventh" { 11 } else { 1 });
        // A client that follows no redirect.
        let error = own_error(list(&maps(Client::try_from(config).unwrap())).await);
        assert!(error.contains("301") && error.contains(&target), "{error}");
    }
    assert!(other.requests().is_empty());

    let server = redirecting(|_| "/to".into()).await;
    let post = http::Request::post("/api/v1/configmaps").body(Vec::new()).unwrap();
    let error = client(server.config()).unwrap().request_text(post).await.unwrap_err();
    assert!(kinformer_core::internal::with_causes(&error).contains("only a GET is redirected"), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

/// A complete member of a gzip stream, with a stored block.
fn gzip(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    let length = u16::try_from(bytes.len()).unwrap();
    let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    member.extend(length.to_le_bytes());
    member.extend((!length).to_le_bytes());
    member.extend(bytes);
    member.extend((!crc).to_le_bytes());
    member.extend(u32::from(length).to_le_bytes());
    member
}

fn added(name: &str) -> String {
    format!(
        "{{\"type\":\"ADDED\",\"object\":{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":\
         {{\"name\":\"{name}\",\"namespace\":\"d\",\"resourceVersion\":\"6\"}}}}}}\n"
    )
}

/// Like kube-apiserver 1.37, which starts a new gzip member with each event.
async fn compressing() -> ScriptedServer {
    ScriptedServer::http(|request| {
        let compressed = request.header("accept-encoding").is_some_and(|accepted| accepted.contains("gzip"));
        let write = |text: &str| if compressed { gzip(text) } else { text.as_bytes().to_vec() };
        let body = if request.is_watch() {
            [added("a"), added("b")].iter().flat_map(|event| write(event)).collect()
        } else {
            write(r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"5"},"items":[]}"#)
        };
        let answer = Answer::new(200, JSON, body);
        if compressed { answer.header("content-encoding", "gzip") } else { answer }
    })
    .await
}

/// A client that decompresses, like the one of kube-client's feature `gzip`.
fn decompressing(config: &Config) -> Client {
    let carrier = client(config.clone()).unwrap();
    let carry = tower::service_fn(move |request: http::Request<Body>| {
        let carrier = carrier.clone();
        async move { carrier.send(request).await.map_err(tower::BoxError::from) }
    });
    let service = config.base_uri_layer().layer(DecompressionLayer::new().layer(carry));
    let service = tower::util::MapResponse::new(service, |answer: http::Response<_>| {
        answer.map(|body: tower_http::decompression::DecompressionBody<Body>| {
            body.map_err(tower::BoxError::from)
        })
    });
    Client::new(service, "default")
}

// contract: L-04d
#[tokio::test]
async fn watch_list_is_requested_by_parameters() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    let source = maps(client(server.config()).unwrap());
    drop(source.watch(WatchOptions::from("", PATIENCE).with_initial_events()).await);
    let requests = server.requests();
    for (name, value) in
        [("watch", "1"), ("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
    {
        assert_eq!(requests[0].param(name), Some(value), "{name}");
    }
}

/// A client that decompresses responses requests its watches uncompressed and its lists compressed.
// contract: L-24a
#[tokio::test]
async fn watches_are_requested_uncompressed() {
    let server = compressing().await;
    let source = maps(decompressing(&server.config()));
    list(&source).await.unwrap();
    let watch = source.watch(WatchOptions::from("5", PATIENCE)).await.unwrap();
    let events: Vec<_> = tokio::time::timeout(PATIENCE, watch.collect()).await.unwrap();
    assert!(matches!(&events[..], [Ok(WatchEvent::Added(_)), Ok(WatchEvent::Added(_))]), "{events:?}");
    let requests = server.requests();
    // Lists are requested compressed.
    assert!(requests[0].header("accept-encoding").unwrap().contains("gzip"));
    assert_eq!(requests[1].header("accept-encoding"), Some("identity"));
}

/// A compressed response that was not requested is an error that names the encoding.
// contract: L-24a, L-24b
#[tokio::test]
async fn unrequested_content_encoding_is_an_error() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = seen.clone();
    let server = ScriptedServer::http(move |request| {
        all.lock().push(request.header("accept-encoding").map(str::to_owned));
        let status = if all.lock().len() > 2 { 410 } else { 200 };
        Answer::new(status, JSON, "\u{1f}").header("content-encoding", "gzip")
    })
    .await;
    let source = maps(client(server.config()).unwrap());
    let error = own_error(list(&source).await);
    assert!(error.contains("\"gzip\""), "{error}");
    let error = own_error(source.watch(WatchOptions::from("5", PATIENCE)).await.map(|_| ()));
    assert!(error.contains("\"gzip\""), "{error}");
    // A failure keeps its code.
    let error = list(&source).await.unwrap_err();
    assert!(error.is_expired(), "{error}");
    assert!(seen.lock().iter().flatten().all(|accepted| accepted == "identity"), "{seen:?}");
}

/// Each request is a span with the fields of OpenTelemetry's conventions for HTTP.
// contract: L-37a, L-37b
#[tokio::test]
async fn request_is_a_span() {
    let recorder = SpanRecorder::default();
    let _default =
        kinformer_testing::logs::set_default(tracing_subscriber::registry().with(recorder.clone()));
    let ok = AtomicBool::new(true);
    let server = ScriptedServer::http(move |_| match ok.swap(false, Ordering::Relaxed) {
        true => empty_list(),
        false => Answer::new(403, JSON, "{}"),
    })
    .await;
    let config = server.config();
    let source = maps(client(config).unwrap()).namespace("kitchen").labels("app=x");
    list(&source).await.unwrap();
    list(&source).await.unwrap_err();
    drop(server);
    list(&source).await.unwrap_err();

    let page = include_str!("../../../../docs/observability.md");
    let spans: Vec<_> = recorder.spans().into_iter().filter(|span| span.name == "request").collect();
    assert!(spans.iter().all(|span| span.is_closed && page.contains(&span.row())), "{spans:#?}");
    assert_eq!(field(&spans, "http.request.method"), ["GET"; 3]);
    assert_eq!(field(&spans, "url.path"), ["/api/v1/namespaces/kitchen/configmaps"; 3]);
    assert_eq!(field(&spans, "url.query")[0], "labelSelector=app%3Dx");
    assert_eq!(field(&spans, "k8s.namespace.name"), ["kitchen"; 3]);
    assert_eq!(field(&spans, "http.response.status_code"), ["200", "403", ""]);
    assert_eq!(field(&spans, "error.type")[..2], ["", "403"]);
    assert!(["connection_refused", "transport"].contains(&&*field(&spans, "error.type")[2]), "{spans:#?}");
}

/// A request of a client is one span in the caller's span. One of a lister-watcher has no second span.
// contract: L-37a, L-37b, L-37c
#[tokio::test]
async fn requests_of_clients_are_spans_of_their_callers() {
    let recorder = SpanRecorder::default();
    let _default =
        kinformer_testing::logs::set_default(tracing_subscriber::registry().with(recorder.clone()));
    let server = ScriptedServer::http(|request| match request.target.as_str() {
        "/api/v1/nodes/moved" => Answer::new(307, JSON, "").header("location", "/api/v1/nodes/a"),
        "/api/v1/nodes/gone" => Answer::failure(404, "NotFound"),
        _ => empty_list(),
    })
    .await;
    let client = client(server.config()).unwrap();
    let send = async |method: &str, path: &str| {
        let request = http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let caller = tracing::info_span!(target: "kinformer", "caller", path);
        client.send(request).instrument(caller).await.map(|answer| answer.status().as_u16())
    };
    assert_eq!(send("GET", "/api/v1/nodes/moved").await.unwrap(), 200);
    assert_eq!(send("PUT", "/api/v1/namespaces/kitchen/pods/a?dryRun=All").await.unwrap(), 200);
    assert_eq!(send("GET", "/api/v1/namespaces/kitchen").await.unwrap(), 200);
    assert_eq!(send("DELETE", "/api/v1/nodes/gone").await.unwrap(), 404);
    send("PATCH", "/api/v1/nodes/moved").await.unwrap_err(); // only a GET is redirected
    list(&maps(client.clone())).await.unwrap();
    drop(server);
    send("GET", "/api/v1/nodes").await.unwrap_err();

    let spans: Vec<_> = recorder.spans().into_iter().filter(|span| span.name == "request").collect();
    assert_eq!(field(&spans, "http.request.method"), ["GET", "PUT", "GET", "DELETE", "PATCH", "GET", "GET"]);
    assert_eq!(field(&spans, "url.path")[..2], ["/api/v1/nodes/moved", "/api/v1/namespaces/kitchen/pods/a"]);
    assert_eq!(field(&spans, "url.query")[..2], ["", "dryRun=All"]);
    assert_eq!(field(&spans, "k8s.namespace.name"), ["", "kitchen", "kitchen", "", "", "", ""]);
    assert_eq!(field(&spans, "http.response.status_code"), ["200", "200", "200", "404", "", "200", ""]);
    let errors = field(&spans, "error.type");
    assert_eq!(errors[..6], ["", "", "", "404", "other", ""]);
    assert!(["connection_refused", "transport"].contains(&&*errors[6]), "{errors:?}");
    assert_eq!(field(&spans, "otel.status_code"), ["", "", "", "ERROR", "ERROR", "", "ERROR"]);
    let page = include_str!("../../../../docs/observability.md");
    for (index, span) in spans.iter().enumerate() {
        assert!(span.is_closed && page.contains(&span.row()), "{span:#?}");
        let parents: &[&str] = if index == 5 { &[] } else { &["caller"] };
        assert_eq!(span.parents, parents, "{span:#?}");
    }
}

/// A server may not know the parameter, or refuse what it does not know.
// contract: L-11f
#[tokio::test]
async fn managed_fields_are_requested_only_if_they_are_kept() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    let server = &server;
    let accepted = |source: KubeListerWatcher<ConfigMap>| async move {
        list(&source).await.unwrap();
        let _ = source.watch(WatchOptions::from("5", PATIENCE)).await;
        let requests = server.requests();
        let last_two = requests.iter().rev().take(2);
        last_two.map(|request| request.header("accept").unwrap().to_owned()).collect::<Vec<_>>()
    };
    let client = client(server.config()).unwrap();
    let drop = ";drop=metadata.managedFields";
    let expected = format!("application/vnd.kubernetes.protobuf{drop},{JSON}{drop},{JSON}");
    assert_eq!(accepted(maps(client.clone())).await, [expected.clone(), expected]);
    let kept = accepted(maps(client).managed_fields(ManagedFields::Keep)).await;
    assert_eq!(kept, ["application/vnd.kubernetes.protobuf,application/json"; 2]);
}

// contract: L-44
#[tokio::test]
async fn warnings_are_logged_once() {
    let (_guard, lines) = kinformer_testing::logs::of_this_thread();
    let server = kinformer_apiserver::ApiServer::builder().start().await.unwrap();
    let client = client(server.config().unwrap()).unwrap();
    let quotas: kube_client::Api<k8s_openapi::api::core::v1::ResourceQuota> =
        kube_client::Api::default_namespaced(client);
    for name in ["a", "b"] {
        let mut quota = k8s_openapi::api::core::v1::ResourceQuota::default();
        quota.metadata.name = Some(name.to_owned());
        quotas.create(&kube_client::api::PostParams::default(), &quota).await.unwrap();
    }
    let logged = lines.having(&["WARN", "warning of the API server", "/resourcequotas", "POST"]);
    assert_eq!(logged.len(), 1, "{logged:?}");
    server.shutdown().await;
}
