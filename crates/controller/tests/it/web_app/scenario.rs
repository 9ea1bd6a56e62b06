//! What the operator does, step by step, on any API server: only through a client, and without managers of Deployments.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::events::v1::Event;
use kinformer_controller::events::EventRecorder;
use kinformer_controller::kinformer::{Informer, Packed, SharedInformerFactory};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::{CancellationToken, Error, Manager, condition};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::operator::{self, Dns, READY, WebApp, WebAppSpec};

/// A replica of the operator.
struct Replica {
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Replica {
    fn start(client: &Client, namespace: &str, identity: &'static str, dns: &Dns) -> Self {
        let factory = SharedInformerFactory::new(client.clone());
        let elector = LeaderElector::builder(client.clone(), namespace, "web-apps").identity(identity);
        let elector = elector.retry_period(Duration::from_millis(500)).build().unwrap();
        let events = EventRecorder::new(client.clone(), "example.com/web-apps", identity);
        let writer = elector.client(client);
        let controller = operator::controller(&factory, writer, events.clone(), dns.clone());
        let manager = Manager::new().add(controller).unwrap().events(&events, Duration::from_secs(10));
        let shutdown = CancellationToken::new();
        let ending = shutdown.clone();
        let running = tokio::spawn(async move { manager.leader_election(&elector).run(ending).await });
        Self { shutdown, running }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

/// What the test sees: informers of its own.
struct Seen {
    web_apps: Informer<WebApp>,
    deployments: Informer<Deployment>,
    services: Informer<Service>,
    key: String,
}

impl Seen {
    /// Waits for a state of the object with the name of the web application.
    async fn wait<K>(&self, informer: &Informer<K>, what: &str, holds: impl Fn(&K) -> bool) -> K
    where
        K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let mut last = None;
        let wait = informer.wait_for_condition(self.key.as_str(), |object: Option<&Packed<K>>| {
            last = object.map(|object| K::clone(&object.decode_arc().unwrap()));
            last.as_ref().is_some_and(&holds)
        });
        let found = tokio::time::timeout(Duration::from_secs(60), wait).await;
        assert!(matches!(found, Ok(Ok(_))), "{what} is not seen: {last:?}");
        last.unwrap()
    }

    /// Waits for the condition with this reason, of this generation of the web application.
    async fn reason(&self, reason: &str, generation: i64) -> WebApp {
        let what = format!("{reason} of generation {generation}");
        self.wait(&self.web_apps, &what, |web_app| {
            let status = web_app.status.clone().unwrap_or_default();
            let ready = condition::find(&status.conditions, READY);
            status.observed_generation == generation
                && ready.is_some_and(|ready| {
                    ready.reason == reason && ready.observed_generation == Some(generation)
                })
        })
        .await
    }

    async fn image(&self, image: &str) -> Deployment {
        self.wait(&self.deployments, image, |deployment| image_of(deployment) == Some(image)).await
    }
}

fn image_of(deployment: &Deployment) -> Option<&str> {
    deployment.spec.template.spec.as_ref()?.containers.first()?.image.as_deref()
}

fn config_of(deployment: &Deployment) -> Option<&String> {
    let annotations = deployment.spec.template.metadata.as_ref()?.annotations.as_ref()?;
    annotations.get("example.com/config")
}

/// Runs the scenario in a namespace where the kind is defined. Returns the managers of the Deployment before its deletion,
/// without times, which are the same on each server.
pub(crate) async fn run(client: Client, namespace: &str) -> Value {
    let dns = Dns::default();
    let first = Replica::start(&client, namespace, "replica-0", &dns);
    let factory = SharedInformerFactory::new(client.clone());
    let seen = Seen {
        web_apps: factory.informer(),
        deployments: factory.informer(),
        services: factory.informer(),
        key: format!("{namespace}/shop"),
    };
    factory.start().unwrap();
    let web_apps: Api<WebApp> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let user = PostParams { field_manager: Some("user".into()), ..PostParams::default() };
    let merge = PatchParams { field_manager: Some("user".into()), ..PatchParams::default() };

    // Without its config map, the application is not ready, and nothing is created.
    let spec = WebAppSpec { image: "shop:1".into(), config: "shop".into(), tier: Some("front".into()) };
    let created = web_apps.create(&user, &WebApp::new("shop", spec)).await.unwrap();
    let missing = seen.reason("ConfigMissing", 1).await;
    assert_eq!(missing.metadata.finalizers.unwrap(), ["example.com/dns"]);
    assert_eq!(*dns.lock(), ["shop"]);
    assert!(deployments.get_opt("shop").await.unwrap().is_none());

    // The config map triggers the application that names it.
    let mut map = ConfigMap::default();
    map.metadata.name = Some("shop".into());
    map.data = Some([("greeting".to_owned(), "hello".to_owned())].into());
    let map = maps.create(&user, &map).await.unwrap();
    seen.reason("Starting", 1).await;
    let deployment = seen.image("shop:1").await;
    assert_eq!(config_of(&deployment), map.metadata.resource_version.as_ref());
    assert_eq!(deployment.metadata.owner_references.unwrap()[0].uid, created.metadata.uid.unwrap());
    let service = seen.wait(&seen.services, "the service", |_| true).await;

    // A changed config map, and the status of the Deployment.
    let data = Patch::Merge(json!({"data": {"greeting": "good morning"}}));
    let map = maps.patch("shop", &merge, &data).await.unwrap();
    let version = map.metadata.resource_version.as_ref();
    seen.wait(&seen.deployments, "the new config", |deployment| config_of(deployment) == version).await;
    let status = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}});
    deployments.patch_status("shop", &merge, &Patch::Merge(&status)).await.unwrap();
    let ready = seen.reason("Available", 1).await.status.unwrap().conditions;

    // Another image, and no tier: what the operator applies no longer is removed. The condition stays, with its time.
    let spec = Patch::Merge(json!({"spec": {"image": "shop:2", "tier": null}}));
    web_apps.patch("shop", &merge, &spec).await.unwrap();
    let deployment = seen.image("shop:2").await;
    assert_eq!(deployment.metadata.labels.unwrap(), [("app".to_owned(), "shop".to_owned())].into());
    let web_app = seen.reason("Available", 2).await;
    assert_eq!(web_app.status.unwrap().conditions[0].last_transition_time, ready[0].last_transition_time);

    // A scaler owns the replicas. What a user changes by an update is applied again, and the replicas stay.
    let mut scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": {"replicas": 5}});
    deployments.patch("shop", &PatchParams::apply("scaler"), &Patch::Apply(&scaled)).await.unwrap();
    let mut edited = deployments.get("shop").await.unwrap();
    edited.spec.template.spec.as_mut().unwrap().containers[0].image = Some("shop:edited".into());
    edited.metadata.labels.get_or_insert_default().insert("edited".into(), "yes".into());
    deployments.replace("shop", &user, &edited).await.unwrap();
    let is_edited = |deployment: &Deployment| {
        deployment.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("edited"))
    };
    let is_applied_again = |new: &Deployment| is_edited(new) && image_of(new) == Some("shop:2");
    let deployment = seen.wait(&seen.deployments, "the image of the operator", is_applied_again).await;
    assert_eq!(deployment.spec.replicas, Some(5));
    // The scaler's field is a conflict for who does not force it.
    scaled["spec"] = json!({"replicas": 6});
    let conflict = deployments.patch("shop", &PatchParams::apply("other"), &Patch::Apply(&scaled)).await;
    let kube_client::Error::Api(conflict) = conflict.unwrap_err() else { panic!("no answer") };
    assert_eq!((conflict.code, &*conflict.reason), (409, "Conflict"));
    assert!(conflict.message.contains("conflict with \"scaler\": .spec.replicas"), "{}", conflict.message);

    // A deleted Service is created again.
    services.delete("shop", &DeleteParams::default()).await.unwrap();
    seen.wait(&seen.services, "a new service", |new| new.metadata.uid != service.metadata.uid).await;

    // The other replica leads after the end of the first one.
    let second = Replica::start(&client, namespace, "replica-1", &dns);
    first.stop().await;
    let spec = Patch::Merge(json!({"spec": {"image": "shop:3"}}));
    web_apps.patch("shop", &merge, &spec).await.unwrap();
    seen.image("shop:3").await;
    seen.reason("Available", 3).await;
    // The same fields, applied once more, are no write.
    scaled["spec"] = json!({"replicas": 5});
    let stored = deployments.get("shop").await.unwrap();
    let again = deployments.patch("shop", &PatchParams::apply("scaler"), &Patch::Apply(&scaled)).await;
    assert_eq!(again.unwrap().metadata.resource_version, stored.metadata.resource_version);
    let managers = managers(&stored);

    // The finalizer runs before the application is gone.
    web_apps.delete("shop", &DeleteParams::background()).await.unwrap();
    let gone = seen.web_apps.wait_for_condition(seen.key.as_str(), |web_app| web_app.is_none());
    tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap().unwrap();
    assert!(dns.lock().is_empty());
    second.stop().await;
    factory.shutdown().await.unwrap();

    // The recorders have written their events when their replicas have ended.
    let events: Api<Event> = Api::namespaced(client, namespace);
    let events = events.list(&ListParams::default()).await.unwrap().items.into_iter();
    let own = events.filter(|event| event.reporting_controller.as_deref() == Some("example.com/web-apps"));
    let mut reasons: Vec<_> = own.filter_map(|event| event.reason).collect();
    reasons.sort();
    assert_eq!(reasons, ["Available", "ConfigMissing", "Starting"]);
    managers
}

/// The managers by their names, without times, and without the UID of the owner.
fn managers(deployment: &Deployment) -> Value {
    let owner = &deployment.metadata.owner_references.as_ref().unwrap()[0].uid;
    let text = serde_json::to_string(&deployment.metadata.managed_fields).unwrap();
    let mut managers: Vec<Value> = serde_json::from_str(&text.replace(owner.as_str(), "UID")).unwrap();
    for manager in &mut managers {
        manager.as_object_mut().unwrap().retain(|field, _| !matches!(field.as_str(), "time" | "fieldsType"));
    }
    managers.sort_by_key(|manager| manager["manager"].to_string() + &manager["subresource"].to_string());
    managers.into()
}

/// What [`run`] returns.
pub(crate) fn managers_of_the_deployment() -> Value {
    let of = |manager, operation, fields| json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields});
    let mut status = of(
        "user",
        "Update",
        json!({"f:status": {
            "f:availableReplicas": {}, "f:observedGeneration": {}, "f:readyReplicas": {}, "f:replicas": {},
        }}),
    );
    status["subresource"] = json!("status");
    let containers = json!({"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}}});
    let applied = json!({
        "f:metadata": {
            "f:labels": {"f:app": {}},
            "f:ownerReferences": {"k:{\"uid\":\"UID\"}": {}},
        },
        "f:spec": {
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:annotations": {"f:example.com/config": {}}, "f:labels": {"f:app": {}}},
                "f:spec": {"f:containers": containers},
            },
        },
    });
    json!([
        of("scaler", "Apply", json!({"f:spec": {"f:replicas": {}}})),
        status,
        of("user", "Update", json!({"f:metadata": {"f:labels": {"f:edited": {}}}})),
        of("web-apps", "Apply", applied),
    ])
}
