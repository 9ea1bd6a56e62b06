//! The options of deletions.

use http::Method;
use kinformer_apiserver::{ApiServer, Validation};
use serde_json::{Value, json};

use super::{MAPS, World, blocking, owner};
use crate::common::pod;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

// contract: E-14k
#[tokio::test]
async fn options_are_validated() {
    let world = World::new().await;
    world.map("a", &[]).await;
    let path = format!("{MAPS}/a");
    for (options, message) in [
        (
            json!({"propagationPolicy": "Never"}),
            "propagationPolicy: Unsupported value: \"Never\": supported values: \"Foreground\", \"Background\", \
             \"Orphan\", \"nil\"",
        ),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both \
             set",
        ),
        (json!({"dryRun": ["Some"]}), "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""),
    ] {
        let refused = world.delete(&path, options).await.status(422, "Invalid");
        assert_eq!(refused, format!("DeleteOptions.meta.k8s.io \"\" is invalid: {message}"));
    }
    for options in [
        json!({"gracePeriodSeconds": "1"}),
        json!({"orphanDependents": 1}),
        json!({"propagationPolicy": true}),
        json!({"preconditions": "u"}),
        json!({"preconditions": {"uid": 1}}),
        json!({"dryRun": "All"}),
        json!({"kind": "Pod"}),
        json!([]),
    ] {
        world.delete(&path, options).await.status(400, "BadRequest");
    }
    let refused = world.client.delete(&format!("{path}?propagationPolicy=Never")).await;
    refused.status(422, "Invalid");
    world.client.delete(&format!("{path}?gracePeriodSeconds=x")).await.status(400, "BadRequest");
    assert!(world.get("a").await.is_some());
}

/// Without a body, the options are in the query.
// contract: E-14k
#[tokio::test]
async fn options_in_the_query() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    world.map("leaf", &[owner(&root)]).await;
    world.client.delete(&format!("{MAPS}/root?dryRun=All")).await.ok();
    assert_eq!(world.names().await, ["leaf", "root"]);
    world.client.delete(&format!("{MAPS}/root?propagationPolicy=Orphan")).await.ok();
    assert_eq!(world.names().await, ["leaf"]);
    let root = world.map("root", &[]).await;
    world.map("next", &[owner(&root)]).await;
    world.client.delete(&format!("{MAPS}/root?orphanDependents=true")).await.ok();
    assert_eq!(world.names().await, ["leaf", "next"]);
}

/// `orphanDependents: false` is answered with 202 if the object stays.
// contract: E-14k
#[tokio::test]
async fn older_form_of_the_policy() {
    let world = World::new().await;
    world.held("held", &[]).await;
    let answer = world.delete(&format!("{MAPS}/held"), json!({"orphanDependents": false})).await;
    assert_eq!(answer.code, 202);
    let root = world.map("root", &[]).await;
    world.map("leaf", &[owner(&root)]).await;
    let answer = world.delete(&format!("{MAPS}/root"), json!({"orphanDependents": false})).await;
    assert_eq!((answer.code.as_u16(), &answer.body["kind"]), (200, &json!("Status")));
    assert_eq!(world.names().await, ["held"]);
}

// contract: E-14k
#[tokio::test]
async fn preconditions() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    world.map("leaf", &[blocking(&root)]).await;
    let path = format!("{MAPS}/root");
    let uid = root["metadata"]["uid"].as_str().unwrap();
    let wrong = json!({"preconditions": {"uid": "x"}, "propagationPolicy": "Foreground"});
    assert_eq!(
        world.delete(&path, wrong).await.status(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"root\": the UID in the precondition (x) does not match the UID \
             in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    let version = root["metadata"]["resourceVersion"].as_str().unwrap();
    let wrong = json!({"preconditions": {"uid": uid, "resourceVersion": "1"}});
    assert_eq!(
        world.delete(&path, wrong).await.status(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"root\": the ResourceVersion in the precondition (1) does not \
             match the ResourceVersion in record ({version}). The object might have been modified"
        )
    );
    assert_eq!(world.names().await, ["leaf", "root"]);
    let right = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    world.delete(&path, right).await.ok();
    assert!(world.names().await.is_empty());
}

/// A dry run is answered like the deletion, and deletes neither the object nor its dependents.
// contract: E-14k
#[tokio::test]
async fn dry_run() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    world.map("leaf", &[blocking(&root)]).await;
    let before = world.server.version();
    for (policy, kind) in [("Foreground", "ConfigMap"), ("Orphan", "ConfigMap"), ("Background", "Status")] {
        let options = json!({"dryRun": ["All"], "propagationPolicy": policy});
        let answer = world.delete(&format!("{MAPS}/root"), options).await.ok();
        assert_eq!(answer["kind"], kind, "{policy}");
    }
    assert_eq!(world.server.version(), before);
    assert_eq!(world.names().await, ["leaf", "root"]);
}

/// Jobs and replication controllers keep their pods by default. A request for a job that does not say so is warned.
// contract: E-14l
#[tokio::test]
async fn kinds_that_orphan_by_default() {
    let world = World::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let owned = async |path: &str, kind: Value| {
        let object = world.client.post(path, &kind).await.ok();
        let mut pod = pod("p");
        pod["metadata"]["ownerReferences"] = json!([owner(&object)]);
        world.client.post(pods, &pod).await.ok();
    };
    let job = crate::common::job("a");
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod("p")["spec"]});
    let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "a"},
        "spec": {"selector": {"app": "a"}, "template": template}});
    owned(JOBS, job.clone()).await;
    let answer = world.client.delete(&format!("{JOBS}/a")).await;
    let warning = answer.headers.get("warning").unwrap().to_str().unwrap();
    assert_eq!(
        warning,
        "299 - \"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
         them or set propagationPolicy=Orphan to suppress this warning\""
    );
    assert_eq!(answer.body["metadata"]["finalizers"], json!(["orphan"]));
    world.client.delete(&format!("{pods}/p")).await.ok();
    owned(controllers, controller).await;
    let answer = world.client.delete(&format!("{controllers}/a")).await;
    assert_eq!(answer.headers.get("warning"), None);
    world.client.delete(&format!("{pods}/p")).await.ok();
    owned(JOBS, job).await;
    let background = json!({"propagationPolicy": "Background"}).to_string();
    let answer = world.client.send(Method::DELETE, &format!("{JOBS}/a"), &[], background).await;
    assert_eq!(answer.headers.get("warning"), None);
    world.client.get(&format!("{pods}/p")).await.status(404, "NotFound");
}

/// These kinds are answered with the deleted object, others with a `Status`.
// contract: E-14k
#[tokio::test]
async fn deletions_of_some_kinds_return_the_object() {
    let world = World::of(ApiServer::builder().validation(Validation::Off)).await;
    let core = "/api/v1/namespaces/default";
    for (path, kind) in [
        (format!("{core}/pods"), "Pod"),
        (format!("{core}/services"), "Service"),
        (format!("{core}/serviceaccounts"), "ServiceAccount"),
        (format!("{core}/secrets"), "Status"),
        ("/api/v1/nodes".to_owned(), "Status"),
        ("/apis/storage.k8s.io/v1/storageclasses".to_owned(), "StorageClass"),
        ("/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities".to_owned(), "Status"),
        ("/apis/resource.k8s.io/v1/deviceclasses".to_owned(), "DeviceClass"),
    ] {
        world.client.post(&path, &json!({"metadata": {"name": "a"}})).await.ok();
        let answer = world.client.delete(&format!("{path}/a")).await.ok();
        assert_eq!(answer["kind"], kind, "{path}");
    }
}

/// An object whose name is taken by one that is being deleted.
// contract: E-14k
#[tokio::test]
async fn name_of_a_terminating_object_is_taken() {
    let world = World::new().await;
    world.held("a", &[]).await;
    let again = crate::common::config_map("a", "v");
    let taken = world.client.post(MAPS, &again).await.status(409, "AlreadyExists");
    assert_eq!(taken, "configmaps \"a\" already exists");
    world.client.delete(&format!("{MAPS}/a")).await.ok();
    let taken = world.client.post(MAPS, &again).await.status(409, "AlreadyExists");
    assert_eq!(taken, "object is being deleted: configmaps \"a\" already exists");
}

/// The event of an object that leaves with its last finalizer has that finalizer; the response has not.
// contract: E-14k
#[tokio::test]
async fn last_finalizer() {
    let world = World::new().await;
    world.held("a", &[]).await;
    let terminating = world.client.delete(&format!("{MAPS}/a")).await.ok();
    let before = world.server.version();
    let mut watch = world.client.watch(&format!("{MAPS}?watch=1&resourceVersion={before}")).await;
    let free = json!({"metadata": {"finalizers": null}});
    let answer = world.client.patch(&format!("{MAPS}/a"), "merge-patch", &free).await.ok();
    assert_eq!(answer["metadata"].get("finalizers"), None);
    assert_eq!(answer["metadata"]["resourceVersion"], terminating["metadata"]["resourceVersion"]);
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(event["object"]["metadata"]["resourceVersion"], (before + 1).to_string());
}
