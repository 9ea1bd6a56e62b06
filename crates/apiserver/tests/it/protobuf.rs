//! Responses in protobuf: negotiation and framing. The test of client-go's informer reads their content.

use crate::common::{Client, config_map, pod};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kinformer_apiserver::{ApiServer, Fault, ProtobufAnswers, Verb};
use serde_json::json;

const PODS: &str = "/api/v1/namespaces/default/pods";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const BOTH: &str = "application/vnd.kubernetes.protobuf,application/json";

async fn server_with_protobuf() -> (ApiServer, Client) {
    let server = ApiServer::builder().protobuf(ProtobufAnswers::Offered).start().await.unwrap();
    let client = Client::new(&server);
    (server, client)
}

/// The first bytes of a watch.
async fn start(client: &Client, path: &str, accept: &str) -> Vec<u8> {
    let response = client.raw(Method::GET, path, &[("accept", accept)], "").await.unwrap();
    response.into_body().frame().await.unwrap().unwrap().into_data().unwrap().to_vec()
}

async fn fetch(client: &Client, path: &str, accept: &str) -> (String, Vec<u8>) {
    let response = client.raw(Method::GET, path, &[("accept", accept)], "").await.unwrap();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    (content_type, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Protobuf is sent for built-in kinds only, and only to clients that prefer it.
#[tokio::test]
async fn protobuf_is_negotiated_for_built_in_kinds() {
    let (server, client) = server_with_protobuf().await;
    server.create(pod("a")).unwrap();
    let (content_type, body) = fetch(&client, PODS, BOTH).await;
    assert_eq!(content_type, PROTOBUF);
    assert!(body.starts_with(b"k8s\0") && contains(&body, "PodList"));
    let (content_type, body) = fetch(&client, &format!("{PODS}/a"), BOTH).await;
    assert_eq!(content_type, PROTOBUF);
    assert!(body.starts_with(b"k8s\0") && !contains(&body, "PodList"));
    for accept in ["application/json", "*/*", "application/json,application/vnd.kubernetes.protobuf"] {
        assert_eq!(fetch(&client, PODS, accept).await.0, "application/json", "{accept}");
    }
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let (content_type, body) = fetch(&client, PODS, &metadata).await;
    assert_eq!(content_type, PROTOBUF);
    assert!(contains(&body, "PartialObjectMetadataList") && !contains(&body, "image"));
    let table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1");
    client.get_as(PODS, &table).await.status(406, "NotAcceptable");

    server.create(crate::common::widget_definition()).unwrap();
    let widgets = "/apis/example.com/v1/widgets";
    assert_eq!(fetch(&client, widgets, BOTH).await.0, "application/json");
    client.get_as(widgets, PROTOBUF).await.status(406, "NotAcceptable");
    let plain = ApiServer::builder().start().await.unwrap();
    Client::new(&plain).get_as(PODS, PROTOBUF).await.status(406, "NotAcceptable");
}

/// Objects alone, in lists, in watches and in the answers of writes, in each encoding and form.
// contract: E-02f
#[tokio::test]
async fn managed_fields_are_dropped_for_clients_that_ask_for_it() {
    const WATCH: &str = "?watch=1&resourceVersion=1&sendInitialEvents=true\
        &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for (minor, drops) in [(38, true), (37, false)] {
        let builder = ApiServer::builder().protobuf(ProtobufAnswers::Offered).kubernetes(minor);
        let server = builder.start().await.unwrap();
        let client = Client::new(&server);
        for (number, encoding) in ["application/json", PROTOBUF].into_iter().enumerate() {
            let other = format!("other-{number}");
            let a = client.post(PODS, &pod("a")).await.body;
            let uid = a["metadata"]["uid"].as_str().unwrap().to_owned();
            for form in ["", ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"] {
                let sent = format!("{encoding}{form}");
                let dropped = format!("{sent};drop=spec.other+metadata.managedFields,application/json");
                for path in [PODS.to_owned(), format!("{PODS}/a"), format!("{PODS}{WATCH}")] {
                    let (with, without) = if path.contains("watch") {
                        (start(&client, &path, &sent).await, start(&client, &path, &dropped).await)
                    } else {
                        (fetch(&client, &path, &sent).await.1, fetch(&client, &path, &dropped).await.1)
                    };
                    assert!(contains(&with, "FieldsV1"), "{path} {sent}");
                    assert_eq!(!contains(&without, "FieldsV1"), drops, "{path} {dropped}");
                    assert!(contains(&without, &uid));
                }
            }
            let accept = format!("{encoding};drop=metadata.managedFields");
            let path = format!("{PODS}?fieldManager=b");
            let headers = [("accept", accept.as_str())];
            let created = client.raw(Method::POST, &path, &headers, pod(&other).to_string()).await.unwrap();
            let created = created.into_body().collect().await.unwrap().to_bytes();
            assert!(contains(&created, &other) && contains(&created, "FieldsV1") != drops);
            let deleted = client.raw(Method::DELETE, PODS, &headers, "").await.unwrap();
            let deleted = deleted.into_body().collect().await.unwrap().to_bytes();
            assert!(contains(&deleted, &other) && contains(&deleted, "FieldsV1") != drops);
        }
    }
}

/// The next frame of a watch: four bytes of length, then the event.
async fn frame(body: &mut Incoming, buffer: &mut Vec<u8>) -> Vec<u8> {
    loop {
        if let Some(head) = buffer.first_chunk::<4>() {
            let length = usize::try_from(u32::from_be_bytes(*head)).unwrap();
            if buffer.len() >= 4 + length {
                return buffer.drain(..4 + length).skip(4).collect();
            }
        }
        let more =
            tokio::time::timeout(crate::common::PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
        buffer.extend_from_slice(&more.into_data().unwrap());
    }
}

// contract: E-04d
#[tokio::test]
async fn watches_are_framed_by_length() {
    let (server, client) = server_with_protobuf().await;
    server.create(pod("a")).unwrap();
    let path = format!(
        "{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let response = client.raw(Method::GET, &path, &[("accept", BOTH)], "").await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let (mut body, mut buffer) = (response.into_body(), Vec::new());
    let added = frame(&mut body, &mut buffer).await;
    assert!(added.starts_with(b"\x0a\x05ADDED\x12") && contains(&added, "k8s\0"));
    let bookmark = frame(&mut body, &mut buffer).await;
    assert!(bookmark.starts_with(b"\x0a\x08BOOKMARK") && contains(&bookmark, "k8s.io/initial-events-end"));
    server
        .update({
            let mut pod = pod("a");
            pod["metadata"]["labels"] = json!({"changed": "yes"});
            pod
        })
        .unwrap();
    let modified = frame(&mut body, &mut buffer).await;
    assert!(modified.starts_with(b"\x0a\x08MODIFIED") && contains(&modified, "changed"));
    server.faults().inject(Fault::malformed().on(Verb::Watch));
    server.create(pod("b")).unwrap();
    let malformed = frame(&mut body, &mut buffer).await;
    assert!(contains(&malformed, "\x01b") && !contains(&malformed, "image"));
    server.faults().inject(Fault::expired_event());
    let error = frame(&mut body, &mut buffer).await;
    assert!(error.starts_with(b"\x0a\x05ERROR") && contains(&error, "too old resource version"));
}

#[tokio::test]
async fn protobuf_pages_have_continue_tokens() {
    let (server, client) = server_with_protobuf().await;
    for name in ["a", "b", "c"] {
        server.create(config_map(name, "1")).unwrap();
    }
    let json = client.get("/api/v1/configmaps?limit=2").await.ok();
    let (_, body) = fetch(&client, "/api/v1/configmaps?limit=2", BOTH).await;
    assert!(contains(&body, json["metadata"]["continue"].as_str().unwrap()));
    assert!(contains(&body, &server.version().to_string()));
}
