//! Waits for a condition of an object.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinformer::{Error, Informer, InformerError, Packed, conditions};
use kinformer_apiserver::ApiServer;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{builder, config_map, server, soon, synced, until};

fn value(map: Option<&Packed<ConfigMap>>) -> Option<String> {
    map?.decode().unwrap().data.as_ref()?.get("k").cloned()
}

fn with_value(name: &str, value: &str) -> Value {
    let mut map = config_map("default", name, "");
    map["data"] = json!({"k": value});
    map
}

/// Waits until the informer has a handler, so that a wait has begun.
async fn begun(informer: &Informer<ConfigMap>) {
    until(|| !informer.status().metrics().handlers.is_empty()).await.unwrap();
}

// contract: F-25a, F-25b, F-25c
#[tokio::test]
async fn wait_sees_the_stored_state_and_each_later_one() {
    let server = server().await;
    server.create(with_value("other", "3")).unwrap();
    server.create(with_value("map", "1")).unwrap();
    let factory = builder(&server).build();
    let maps = factory.core().v1().config_maps();
    synced(&factory).await;
    let stored = maps.wait_for_condition("default/map", |map| value(map).is_some()).await.unwrap();
    assert_eq!(value(stored.as_ref()).as_deref(), Some("1"));
    let none = maps.wait_for_condition("default/none", |map| map.is_none()).await.unwrap();
    assert!(none.is_none());

    let seen = Mutex::new(Vec::new());
    let wait = maps
        .wait_for_condition(("default", "map"), |map| {
            seen.lock().push(value(map).unwrap_or_else(|| "none".to_owned()));
            value(map).as_deref() == Some("3")
        })
        .until(soon());
    let write = async {
        begun(&maps).await;
        server.update(with_value("map", "2")).unwrap();
        server.delete("v1", "ConfigMap", "default", "map").unwrap();
        server.create(with_value("map", "3")).unwrap();
    };
    let (found, ()) = tokio::join!(wait, write);
    assert_eq!(value(found.unwrap().as_ref()).as_deref(), Some("3"));
    assert_eq!(*seen.lock(), ["1", "2", "none", "3"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-25d, F-25f
#[tokio::test]
async fn wait_ends_with_the_deadline_the_informer_or_its_future() {
    let server = server().await;
    let factory = builder(&server).build();
    let maps = factory.core().v1().config_maps();
    let early = maps.wait_for_condition("default/map", |_| true).until(Instant::now()).await;
    assert!(matches!(early, Err(Error::Informer(InformerError::NotSynced(_)))), "{early:?}");
    assert!(matches!(maps.wait_for_condition("a/b/c", |_| true).await, Err(Error::Key(_))));
    synced(&factory).await;
    let late = maps.wait_for_condition("default/map", |map| map.is_some()).until(Instant::now()).await;
    let error = late.unwrap_err().to_string();
    assert_eq!(error, r#"configmaps "default/map" had not fulfilled the condition when the deadline passed"#);
    until(|| maps.status().metrics().handlers.is_empty()).await.unwrap();

    let mut dropped = Box::pin(maps.wait_for_condition("default/map", |map| map.is_some()));
    assert!(futures::poll!(&mut dropped).is_pending());
    begun(&maps).await;
    assert_eq!(&*maps.status().metrics().handlers[0].name, "wait");
    drop(dropped);
    until(|| maps.status().metrics().handlers.is_empty()).await.unwrap();

    let stop = async {
        begun(&maps).await;
        factory.shutdown().await.unwrap();
    };
    let (stopped, ()) = tokio::join!(maps.wait_for_condition("default/map", |map| map.is_some()), stop);
    assert!(matches!(stopped, Err(Error::ConditionNotMet { is_stopped: true, .. })), "{stopped:?}");
    assert!(!maps.changed(u64::MAX).await);
    server.shutdown().await;
}

/// An object of a kind with these fields, by any view.
async fn packed(server: &ApiServer, status: Value, spec: Value) -> Packed<Pod> {
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}});
    (pod["status"], pod["spec"]) = (status, spec);
    // The conditions read fields by their paths, whatever the kind is.
    pod["apiVersion"] = "example.com/v1".into();
    pod["kind"] = "Thing".into();
    server.create(pod).unwrap();
    let factory = builder(server).build();
    let kind = kinformer::kube_core::gvk::GroupVersionKind::gvk("example.com", "v1", "Thing");
    let things = factory.for_kind(&kind).await.unwrap().cast::<Pod>();
    factory.start().unwrap();
    let thing = things.wait_for_condition("default/p", |thing| thing.is_some()).await.unwrap().unwrap();
    factory.shutdown().await.unwrap();
    server.delete("example.com/v1", "Thing", "default", "p").unwrap();
    thing
}

// contract: F-25e
#[tokio::test]
async fn conditions_read_fields_in_place() {
    let server = server().await;
    server
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        }))
        .unwrap();
    let condition = |name: &str, status: &str, reason: &str| {
        json!({"conditions": [{"type": "Other", "status": "True"},
            {"type": name, "status": status, "reason": reason}]})
    };
    let address = |ingress: Value| json!({"loadBalancer": {"ingress": ingress}});
    type Check = fn(&Packed<Pod>) -> bool;
    let cases: [(&str, Check, Value, Value, bool); 14] = [
        ("running", conditions::is_pod_running, json!({"phase": "Running"}), json!({}), true),
        ("pending", conditions::is_pod_running, json!({"phase": "Pending"}), json!({}), false),
        ("without a phase", conditions::is_pod_running, json!({}), json!({}), false),
        ("complete", conditions::is_job_completed, condition("Complete", "True", ""), json!({}), true),
        ("not complete", conditions::is_job_completed, condition("Complete", "False", ""), json!({}), false),
        ("failed", conditions::is_job_completed, condition("Failed", "True", ""), json!({}), false),
        (
            "established",
            conditions::is_crd_established,
            condition("Established", "True", ""),
            json!({}),
            true,
        ),
        (
            "rolled out",
            conditions::is_deployment_completed,
            condition("Progressing", "True", "NewReplicaSetAvailable"),
            json!({}),
            true,
        ),
        (
            "rolling out",
            conditions::is_deployment_completed,
            condition("Progressing", "True", "ReplicaSetUpdated"),
            json!({}),
            false,
        ),
        (
            "with an address",
            conditions::is_service_loadbalancer_provisioned,
            address(json!([{"ip": "192.0.2.1"}])),
            json!({"type": "LoadBalancer"}),
            true,
        ),
        (
            "without an address",
            conditions::is_service_loadbalancer_provisioned,
            address(json!([])),
            json!({"type": "LoadBalancer"}),
            false,
        ),
        (
            "of another type",
            conditions::is_service_loadbalancer_provisioned,
            json!({}),
            json!({"type": "ClusterIP"}),
            true,
        ),
        (
            "a host name",
            conditions::is_ingress_provisioned,
            address(json!([{"hostname": "a"}])),
            json!({}),
            true,
        ),
        (
            "one without",
            conditions::is_ingress_provisioned,
            address(json!([{"ip": "::1"}, {}])),
            json!({}),
            false,
        ),
    ];
    for (case, check, status, spec, expected) in cases {
        assert_eq!(check(&packed(&server, status, spec).await), expected, "{case}");
    }
    let object = packed(&server, json!({}), json!({})).await;
    let uid = object.uid().unwrap();
    assert!(!conditions::is_deleted(Some(&object), uid));
    assert!(conditions::is_deleted(Some(&object), "another"));
    assert!(conditions::is_deleted::<Pod>(None, uid));
    server.shutdown().await;
}
