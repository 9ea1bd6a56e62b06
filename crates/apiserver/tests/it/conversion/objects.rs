//! Objects in versions that a webhook converts.

use serde_json::{Value, json};

use super::{convert, serving, thing, things};
use crate::common::names;

/// An object that is written in a version has the fields of each version, and is stored in the storage version.
// contract: E-29a, E-29b, E-29e
#[tokio::test]
async fn objects_are_converted_both_ways() {
    let (server, client, webhooks) = serving(convert).await;
    let one = |version: &str| format!("{}/a", things(version));
    let made = client.post(&things("v2"), &thing("v2", "a", &json!({"count": 1}))).await.ok();
    assert_eq!((&made["apiVersion"], &made["count"]), (&json!("example.com/v2"), &json!(1)));
    let requests = webhooks.take();
    let wanted: Vec<&Value> = requests.iter().map(|request| &request["desiredAPIVersion"]).collect();
    assert_eq!(wanted, [&json!("example.com/v1"), &json!("example.com/v2")]);
    assert_eq!(requests[0]["objects"][0]["metadata"]["managedFields"][0]["operation"], "Update");

    let stored = client.get(&one("v1")).await.ok();
    assert_eq!((&stored["size"], &stored["metadata"]), (&json!("1"), &made["metadata"]));
    // versions without a conversion call no webhook
    assert_eq!(webhooks.take(), [Value::Null; 0]);
    assert_eq!(client.get(&one("v2")).await.ok(), made);

    let mut changed = made.clone();
    changed["count"] = 2.into();
    let changed = client.put(&one("v2"), &changed).await.ok();
    assert_eq!((&changed["count"], &changed["metadata"]["generation"]), (&json!(2), &json!(2)));
    let patched = client.patch(&one("v2"), "merge-patch", &json!({"count": 3})).await.ok();
    assert_eq!(patched["count"], 3);
    let status = json!({"status": {"ready": true}});
    let patched = client.patch(&format!("{}/status", one("v2")), "merge-patch", &status).await.ok();
    assert_eq!((&patched["count"], &patched["status"]["ready"]), (&json!(3), &json!(true)));
    let applied = json!({"apiVersion": "example.com/v2", "kind": "Thing", "count": 4});
    let path = format!("{}?fieldManager=m&force=true", one("v2"));
    let headers = [("content-type", "application/apply-patch+yaml")];
    let applied = client.send(http::Method::PATCH, &path, &headers, applied.to_string()).await.ok();
    assert_eq!((&applied["count"], &applied["status"]["ready"]), (&json!(4), &json!(true)));
    assert_eq!(server.get("example.com/v1", "Thing", "default", "a").unwrap().unwrap()["size"], "4");
    client.delete(&one("v2")).await.ok();
    client.get(&one("v1")).await.status(404, "NotFound");
}

/// Lists and watches have converted objects, and select them by their fields.
// contract: E-29a
#[tokio::test]
async fn lists_and_watches_are_converted() {
    let (_server, client, _webhooks) = serving(convert).await;
    for (name, size) in [("a", "1"), ("b", "2")] {
        client.post(&things("v1"), &thing("v1", name, &json!({"size": size}))).await.ok();
    }
    let list = client.get(&things("v2")).await.ok();
    assert_eq!((names(&list), &list["items"][1]["count"]), (vec!["a".into(), "b".into()], &json!(2)));
    let selected = client.get(&format!("{}?fieldSelector=count%3D2", things("v2"))).await.ok();
    assert_eq!(names(&selected), ["b"]);
    let first = client.get(&format!("{}?limit=1", things("v2"))).await.ok();
    let next = first["metadata"]["continue"].as_str().unwrap();
    let second = client.get(&format!("{}?limit=1&continue={next}", things("v2"))).await.ok();
    assert_eq!((names(&second), &second["items"][0]["count"]), (vec!["b".into()], &json!(2)));
    let stored = client.get(&format!("{}?limit=1&continue={next}", things("v1"))).await.ok();
    assert_eq!(stored["items"][0]["size"], "2");

    let mut watch = client.watch(&format!("{}?watch=1&fieldSelector=count%3D2", things("v2"))).await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["count"]), (&json!("ADDED"), &json!(2)));
    client.patch(&format!("{}/a", things("v1")), "merge-patch", &json!({"size": "2"})).await.ok();
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    client.patch(&format!("{}/b", things("v1")), "merge-patch", &json!({"size": "3"})).await.ok();
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["count"]), (&json!("DELETED"), &json!(2)));
    let gone = client.delete(&things("v2")).await.ok();
    assert_eq!((names(&gone), &gone["items"][1]["count"]), (vec!["a".into(), "b".into()], &json!(3)));
}
