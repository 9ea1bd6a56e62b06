//! Conversion webhooks whose answers are not accepted.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{answer, convert, converted, reply, serving, thing, things};
use crate::admission::Reply;
use crate::common::names;

type Respond = Box<dyn Fn(&Value) -> Reply + Send + Sync>;

/// What a webhook answers, and the message of a read.
// contract: E-29c, E-29d
#[tokio::test]
async fn answers_are_checked_as_by_kubernetes() {
    let current: Arc<Mutex<Respond>> = Arc::new(Mutex::new(Box::new(convert)));
    let asked = current.clone();
    let (_server, client, _webhooks) = serving(move |request| (asked.lock())(request)).await;
    let stored = client.post(&things("v1"), &thing("v1", "a", &json!({"size": "1"}))).await.ok();
    let revision = stored["metadata"]["resourceVersion"].as_str().unwrap();
    let corrupt = |root: &str, why: &str| {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {root}/example.com/things/default/a, ResourceVersion: 0, \
             AdditionalErrorMsg: {why}"
        )
    };
    let changed = |pointer: &'static str, value: Value| -> Respond {
        Box::new(move |request: &Value| {
            let mut object = converted(&request["objects"][0], "example.com/v2");
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value.clone();
            answer(request, &json!([object]))
        })
    };
    let review = |api_version: &'static str, kind: &'static str| -> Respond {
        Box::new(move |_| {
            Reply::Raw(200, "application/json", json!({"apiVersion": api_version, "kind": kind}).to_string())
        })
    };
    let about = "conversion webhook for example.com/v1, Kind=Thing";
    let rows: Vec<(Respond, &str)> = vec![
        (Box::new(|request| answer(request, &json!([]))), " returned 0 objects, expected 1"),
        (
            Box::new(|request| {
                reply(
                    &json!({"uid": request["uid"], "result": {"status": "Failure", "message": "not today"}}),
                )
            }),
            " failed: not today",
        ),
        (
            Box::new(|request| reply(&json!({"uid": request["uid"], "result": {"status": "Failure"}}))),
            " failed: response.result.status was 'Failure', not 'Success'",
        ),
        (Box::new(|_| reply(&Value::Null)), " failed: no response provided"),
        (
            review("apiextensions.k8s.io/v1beta1", "ConversionReview"),
            " failed: converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        ),
        (
            review("apiextensions.k8s.io/v1", "Review"),
            " failed: no kind \"Review\" is registered for version \"apiextensions.k8s.io/v1\" in scheme \
             \"pkg/runtime/scheme.go:111\"",
        ),
        (
            Box::new(|_| Reply::Raw(200, "application/json", String::new())),
            " failed: 0-length response with status code: 200 and content type: application/json",
        ),
        (
            changed("/apiVersion", "example.com/v3".into()),
            " returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
        ),
        (
            changed("/kind", "Other".into()),
            " returned invalid object at index 0: invalid kind (expected Thing, received Other)",
        ),
        (changed("/metadata/name", "b".into()), " returned invalid object: must have the same name: a != b"),
        (
            changed("/metadata/labels", json!({"a": 1})),
            " returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (
            Box::new(|_| Reply::Raw(500, "text/plain", "broken".into())),
            " failed: an error on the server (\"broken\") has prevented the request from succeeding",
        ),
    ];
    for (reply, message) in rows {
        *current.lock() = reply;
        let expected = format!("{about}{message}");
        let undecodable = format!("object not decodable revision={revision}: {expected}");
        let alone = format!("Internal error occurred: {}", corrupt("", &undecodable));
        assert_eq!(client.get(&format!("{}/a", things("v2"))).await.status(500, "InternalError"), alone);
        let list = client.get(&things("v2")).await;
        assert_eq!(list.body["details"]["causes"][0]["field"], "/registry/example.com/things/default/a");
        assert_eq!(
            list.status(500, "StorageReadError"),
            format!(
                "failed to read one or more things.example.com from the storage: {}",
                corrupt("/registry", &undecodable)
            )
        );
        assert_eq!(client.delete(&format!("{}/a", things("v2"))).await.status(500, "InternalError"), alone);
        let change = json!({"count": 5});
        let patched = client.patch(&format!("{}/a", things("v2")), "merge-patch", &change).await;
        assert_eq!(patched.status(500, ""), undecodable);
        let tried = client.patch(&format!("{}/a?dryRun=All", things("v2")), "merge-patch", &change).await;
        assert_eq!(tried.status(500, "InternalError"), alone);
        let mut watch = client.watch(&format!("{}?watch=1", things("v2"))).await;
        let event = watch.next().await.unwrap();
        let message = format!("Internal error occurred: {expected}");
        assert_eq!((&event["type"], &event["object"]["message"]), (&json!("ERROR"), &json!(message)));
        assert!(watch.next().await.is_err());
    }
    for (object, message) in [
        (json!("a"), "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        (Value::Null, "unexpected end of JSON input"),
    ] {
        *current.lock() = Box::new(move |request| answer(request, &json!([object])));
        let read = client.get(&format!("{}/a", things("v2"))).await.status(500, "InternalError");
        assert!(read.ends_with(&format!("revision={revision}: {message}")), "{read}");
    }
    // other metadata than labels and annotations is that of the stored object
    *current.lock() = changed("/metadata/generation", 7.into());
    let read = client.get(&format!("{}/a", things("v2"))).await.ok();
    assert_eq!((&read["count"], &read["metadata"]["generation"]), (&json!(1), &json!(1)));
    *current.lock() = changed("/metadata/labels", json!({"a": "b"}));
    let read = client.get(&format!("{}/a", things("v2"))).await.ok();
    assert_eq!(read["metadata"]["labels"], json!({"a": "b"}));
}

/// A webhook that fails ends an open watch, and changes nothing of a write.
// contract: E-29c, E-29d
#[tokio::test]
async fn failures_end_watches_and_refuse_writes() {
    let fails = Arc::new(Mutex::new(false));
    let asked = fails.clone();
    let (_server, client, _webhooks) = serving(move |request| match *asked.lock() {
        true => reply(&json!({"uid": request["uid"], "result": {"message": "no"}})),
        false => convert(request),
    })
    .await;
    let mut watch = client.watch(&format!("{}?watch=1", things("v2"))).await;
    client.post(&things("v2"), &thing("v2", "a", &json!({"count": 1}))).await.ok();
    assert_eq!(watch.next().await.unwrap()["object"]["count"], 1);
    *fails.lock() = true;
    let made = client.post(&things("v2"), &thing("v2", "b", &json!({"count": 1}))).await;
    let message = made.status(500, "");
    assert_eq!(message, "conversion webhook for example.com/v2, Kind=Thing failed: no");
    client.get(&format!("{}/b", things("v1"))).await.status(404, "NotFound");
    client.post(&things("v1"), &thing("v1", "b", &json!({"size": "1"}))).await.ok();
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(500)));
    assert!(watch.next().await.is_err());
}

/// Objects that a request does not read may be unreadable. Webhooks see no versions, as in stored objects.
// contract: E-29e
#[tokio::test]
async fn only_objects_that_are_read_are_converted() {
    let (_server, client, _webhooks) = serving(|request| {
        let metadata = &request["objects"][0]["metadata"];
        assert_eq!(metadata["resourceVersion"], Value::Null);
        if metadata["name"] == "b" { answer(request, &json!([])) } else { convert(request) }
    })
    .await;
    for name in ["a", "b"] {
        client.post(&things("v1"), &thing("v1", name, &json!({"size": "1"}))).await.ok();
    }
    let (all, a) = (things("v2"), "fieldSelector=metadata.name%3Da");
    client.get(&all).await.status(500, "StorageReadError");
    assert_eq!(names(&client.get(&format!("{all}?limit=1")).await.ok()), ["a"]);
    assert_eq!(names(&client.get(&format!("{all}?{a}")).await.ok()), ["a"]);
    let mut watch = client.watch(&format!("{all}?watch=1&{a}")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    for name in ["b", "a"] {
        let path = format!("{}/{name}", things("v1"));
        client.patch(&path, "merge-patch", &json!({"size": "2"})).await.ok();
    }
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["count"]), (&json!("MODIFIED"), &json!(2)));
}

/// A watch has the events before the object that cannot be converted. A list reports a hundred such objects.
// contract: E-29f
#[tokio::test]
async fn failures_keep_what_is_before_and_are_limited() {
    let (server, client, _webhooks) = serving(|request| match request["objects"][0]["size"] == "bad" {
        true => reply(&json!({"uid": request["uid"], "result": {"message": "no"}})),
        false => convert(request),
    })
    .await;
    let object = |name: &str, size: &str| {
        let mut object = thing("v1", name, &json!({"size": size}));
        object["metadata"]["namespace"] = "default".into();
        object
    };
    for (name, size) in [("a", "1"), ("b", "bad"), ("c", "1")] {
        server.create(object(name, size)).unwrap();
    }
    let initial = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = client.watch(&format!("{}?{initial}", things("v2"))).await;
    let types = [watch.next().await.unwrap(), watch.next().await.unwrap()].map(|event| event["type"].clone());
    assert_eq!(types, ["ADDED", "ERROR"]);
    assert!(watch.next().await.is_err());

    let list = client.get(&things("v2")).await;
    assert_eq!(list.body["details"]["causes"].as_array().unwrap().len(), 1);
    for number in 0..120 {
        server.create(object(&format!("n-{number}"), "bad")).unwrap();
    }
    let list = client.get(&things("v2")).await;
    assert!(list.status(500, "StorageReadError").ends_with(" (and 99 more)"));
    let causes = list.body["details"]["causes"].as_array().unwrap();
    let last = json!({"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"});
    assert_eq!((causes.len(), &causes[100]), (101, &last));
}
