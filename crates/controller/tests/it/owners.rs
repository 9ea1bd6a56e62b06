//! Owners of objects.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kinformer::ObjectKey;
use kinformer_controller::{Action, Controller, Error, Owner, OwnerError, Trigger, set_controller_reference};
use kube_core::discovery::ApiResource;
use kube_core::{DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::common::{Calls, Cluster, Running, key, recorded};

fn reference(api_version: &str, kind: &str, name: &str, controller: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": controller})
}

fn pod(name: &str, owners: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// The controlling owner of the reconciled kind is enqueued, in any version of its group, and no other owner. An update that
/// changes the owner enqueues both.
// contract: K-02a, K-02b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owns_enqueues_the_controlling_owner() {
    let cluster = Cluster::start().await;
    let (calls, reconcile) = recorded(|_| Ok(Action::none()));
    let builder = Controller::of(&cluster.factory).reconciles::<Deployment>().owns::<Pod>();
    enqueues_the_controlling_owner(cluster, calls, Running::of(builder.build(reconcile))).await;
}

/// The same for objects that are cached as metadata only.
// contract: K-02a, K-02b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owns_on_enqueues_the_controlling_owner() {
    let cluster = Cluster::start().await;
    let (calls, reconcile) = recorded(|_| Ok(Action::none()));
    let pods = Trigger::on(&cluster.factory.metadata::<Pod>());
    let builder = Controller::of(&cluster.factory).reconciles::<Deployment>().owns_on(pods);
    enqueues_the_controlling_owner(cluster, calls, Running::of(builder.build(reconcile))).await;
}

async fn enqueues_the_controlling_owner(cluster: Cluster, mut calls: Calls<ObjectKey>, running: Running) {
    cluster.create(pod(
        "other",
        json!([
            reference("apps/v1", "Deployment", "no-controller", json!(false)),
            reference("apps/v1", "Deployment", "no-controller", json!(null)),
            reference("apps/v1", "ReplicaSet", "other-kind", json!(true)),
            reference("v1", "Deployment", "other-group", json!(true)),
        ]),
    ));
    cluster.create(pod("none", json!([])));
    cluster.create(pod("a", json!([reference("apps/v1beta1", "Deployment", "one", json!(true))])));
    assert_eq!(calls.next().await.key, key("one"));
    cluster.server.update(pod("a", json!([reference("apps/v1", "Deployment", "two", json!(true))]))).unwrap();
    let both: BTreeSet<_> = [calls.next().await.key, calls.next().await.key].into();
    assert_eq!(both, [key("one"), key("two")].into());
    cluster.server.delete("v1", "Pod", "default", "a").unwrap();
    assert_eq!(calls.next().await.key, key("two"));
    running.end().await.unwrap();
    cluster.end().await;
}

/// The key of a cluster-scoped owner has no namespace; all owners can be enqueued.
// contract: K-02c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_scoped_owners() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let (nodes, pods) = (cluster.factory.informer::<Node>(), cluster.factory.informer::<Pod>());
    let all = Trigger::on(&pods).all_owners_of(&nodes);
    let running = Running::of(Controller::of(&cluster.factory).keyed("nodes").trigger(all).build(reconcile));
    cluster.create(pod(
        "a",
        json!([reference("v1", "Node", "one", json!(null)), reference("v1", "Node", "two", json!(true)),]),
    ));
    let named = |name: &str| ObjectKey::named(name).unwrap();
    let both: BTreeSet<_> = [calls.next().await.key, calls.next().await.key].into();
    assert_eq!(both, [named("one"), named("two")].into());
    running.end().await.unwrap();

    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let by_type = Trigger::on(&pods).owner::<Node>();
    let by_informer = Trigger::on(&pods).owner_of(&nodes);
    let builder = Controller::of(&cluster.factory).keyed("nodes").trigger(by_type).trigger(by_informer);
    let running = Running::of(builder.build(reconcile));
    assert_eq!(calls.next().await.key, named("two"));
    running.end().await.unwrap();
    assert!(calls.rest().is_empty());
    cluster.end().await;
}

/// `owns` without a reconciled kind is an error, not a trigger that does nothing.
#[tokio::test]
async fn owns_needs_a_reconciled_kind() {
    let cluster = Cluster::start().await;
    let (_, reconcile) = recorded(|_| Ok(Action::none()));
    let controller = Controller::of(&cluster.factory).keyed("keys").owns::<Pod>().build(reconcile);
    let error = Running::of(controller).task.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::NoReconciledKind { .. }), "{error}");
    cluster.end().await;
}

fn owner(name: &str) -> ConfigMap {
    serde_json::from_value(
        json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}}),
    )
    .unwrap()
}

/// A controller reference is set once; objects of other owners and other namespaces are refused and not changed.
// contract: K-10a, K-10b
#[test]
fn controller_references() {
    let mut object = Deployment::default();
    object.metadata.name = Some("web".to_owned());
    object.metadata.namespace = Some("default".to_owned());
    let one = owner("one");
    set_controller_reference(&one, &mut object).unwrap();
    set_controller_reference(&one, &mut object).unwrap();
    let references = object.metadata.owner_references.clone().unwrap();
    assert_eq!(references.len(), 1);
    assert_eq!((references[0].controller, references[0].block_owner_deletion), (Some(true), Some(true)));
    assert_eq!((&*references[0].kind, &*references[0].uid), ("ConfigMap", "uid-one"));

    let other = set_controller_reference(&owner("two"), &mut object).unwrap_err();
    assert_eq!(other.to_string(), r#""web" is controlled by ConfigMap "one" with the UID "uid-one""#);
    let no_uid = ConfigMap { metadata: Default::default(), ..owner("one") };
    assert!(matches!(set_controller_reference(&no_uid, &mut object), Err(OwnerError::NoUid { .. })));
    object.metadata.namespace = Some("other".to_owned());
    let namespace = set_controller_reference(&one, &mut object).unwrap_err();
    assert_eq!(namespace.to_string(), r#""web" is not in the namespace "default" of its owner"#);
    assert_eq!(object.metadata.owner_references, Some(references));
}

/// An owner that was deleted and made again replaces its own reference, of any version of its group. Another kind of the name is
/// another owner.
// contract: K-10c
#[test]
fn owner_that_was_made_again() {
    let mut object = Deployment::default();
    object.metadata.namespace = Some("default".to_owned());
    let old = owner("one");
    set_controller_reference(&old, &mut object).unwrap();
    let mut new = owner("one");
    new.metadata.uid = Some("uid-new".to_owned());
    set_controller_reference(&new, &mut object).unwrap();
    let references = object.metadata.owner_references.clone().unwrap();
    assert_eq!((references.len(), &*references[0].uid), (1, "uid-new"));
    let owner = Owner::new(&old).unwrap();
    assert!(owner.is_controller_of(&object) && owner.is_owner_of(&object), "the name counts");
    object.metadata.owner_references.as_mut().unwrap()[0].api_version = "other/v1".to_owned();
    assert!(!owner.is_controller_of(&object) && !owner.is_owner_of(&object));
    assert!(
        matches!(owner.control(&mut object), Err(OwnerError::AlreadyOwned { uid, .. }) if uid == "uid-new")
    );
}

/// Plain references beside that of the controller, references without `blockOwnerDeletion`, their removal, and owners without a
/// type.
// contract: K-10d
#[test]
fn owner_references() {
    let mut object = Deployment::default();
    object.metadata.namespace = Some("default".to_owned());
    let [one, two] = ["one", "two"].map(|name| Owner::new(&owner(name)).unwrap());
    let flags = |object: &Deployment| -> Vec<_> {
        let references = object.metadata.owner_references.iter().flatten();
        references.map(|one| (one.name.clone(), one.controller, one.block_owner_deletion)).collect()
    };
    one.clone().without_block_owner_deletion().control(&mut object).unwrap();
    two.own(&mut object).unwrap();
    two.own(&mut object).unwrap();
    assert_eq!(flags(&object), [("one".to_owned(), Some(true), None), ("two".to_owned(), None, None)]);
    assert!(two.is_owner_of(&object) && !two.is_controller_of(&object));
    assert!(matches!(two.control(&mut object), Err(OwnerError::AlreadyOwned { name, .. }) if name == "one"));
    assert!(one.remove_from(&mut object) && !one.remove_from(&mut object));
    two.control(&mut object).unwrap();
    assert_eq!(flags(&object), [("two".to_owned(), Some(true), Some(true))]);
    object.metadata.namespace = Some("other".to_owned());
    assert!(matches!(one.own(&mut object), Err(OwnerError::OtherNamespace { .. })));

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "WebApp"));
    let mut dynamic = DynamicObject::new("web", &kind);
    assert!(matches!(Owner::dynamic(&dynamic, &kind), Err(OwnerError::NoUid { name }) if name == "web"));
    dynamic.metadata.uid = Some("1".to_owned());
    let mut object = Deployment::default();
    Owner::dynamic(&dynamic, &kind).unwrap().own(&mut object).unwrap();
    let reference = &object.metadata.owner_references.unwrap()[0];
    assert_eq!(
        [&reference.api_version, &reference.kind, &reference.name],
        ["example.com/v1", "WebApp", "web"]
    );
}
