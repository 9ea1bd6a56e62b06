//! The life of web applications, step by step, on any API server: only through a client, and without managers of Deployments.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::events::v1::Event;
use kinformer_controller::condition;
use kinformer_controller::kinformer::{Informer, Packed, SharedInformerFactory};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::types::{WebApp, WebAppSpec};

/// Two applications with one config map, and what a test sees of them: by informers of its own.
pub(crate) struct Life {
    client: Client,
    namespace: String,
    factory: SharedInformerFactory,
    web_apps: Informer<WebApp>,
    deployments: Informer<Deployment>,
    services: Informer<Service>,
}

/// The time limit of each wait.
const BOUND: Duration = Duration::from_secs(120);

impl Life {
    /// Begins in a namespace where the kind is defined.
    pub(crate) async fn begin(client: Client, namespace: &str) -> Self {
        let factory = SharedInformerFactory::new(client.clone());
        let (web_apps, deployments, services) = (factory.informer(), factory.informer(), factory.informer());
        factory.start().unwrap();
        Self { client, namespace: namespace.to_owned(), factory, web_apps, deployments, services }
    }

    fn web_apps(&self) -> Api<WebApp> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits for a state of an object.
    async fn wait<K>(&self, informer: &Informer<K>, name: &str, what: &str, holds: impl Fn(&K) -> bool) -> K
    where
        K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let mut last = None;
        let wait = informer.wait_for_condition((&*self.namespace, name), |object: Option<&Packed<K>>| {
            last = object.map(|object| K::clone(&object.decode_arc().unwrap()));
            last.as_ref().is_some_and(&holds)
        });
        let found = tokio::time::timeout(BOUND, wait).await;
        assert!(matches!(found, Ok(Ok(_))), "{name}: {what} is not seen: {last:?}");
        last.unwrap()
    }

    /// Waits for the condition with this reason, of this generation of the web application.
    async fn reason(&self, name: &str, reason: &str, generation: i64) -> WebApp {
        let what = format!("{reason} of generation {generation}");
        self.wait(&self.web_apps, name, &what, |web_app| {
            let conditions = web_app.status.clone().unwrap_or_default().conditions;
            condition::find(&conditions, "Ready")
                .is_some_and(|ready| ready.reason == reason && ready.observed_generation == Some(generation))
        })
        .await
    }

    async fn image(&self, image: &str) -> Deployment {
        self.wait(&self.deployments, "shop", image, |deployment| image_of(deployment) == Some(image)).await
    }

    /// Waits until both Deployments have the version of a config map.
    async fn has_config(&self, config_map: &ConfigMap) {
        let version = config_map.metadata.resource_version.as_ref();
        for name in ["shop", "blog"] {
            let what = format!("the config map {version:?}");
            self.wait(&self.deployments, name, &what, |deployment| config_of(deployment) == version).await;
        }
    }

    async fn patch(&self, spec: Value) {
        let spec = Patch::Merge(json!({"spec": spec}));
        self.web_apps().patch("shop", &PatchParams::default(), &spec).await.unwrap();
    }

    /// Without their config map, the applications are not ready, and nothing is created. The config map triggers both.
    pub(crate) async fn waits_for_its_config_map(&self) {
        let mut created = Vec::new();
        for name in ["shop", "blog"] {
            let spec =
                WebAppSpec { image: format!("{name}:1"), config_map: "settings".into(), replicas: Some(2) };
            created.push(self.web_apps().create(&user(), &WebApp::new(name, spec)).await.unwrap());
            let missing = self.reason(name, "ConfigMapMissing", 1).await;
            assert_eq!(missing.metadata.finalizers.unwrap(), ["example.com/cleanup"]);
            assert!(self.deployments().get_opt(name).await.unwrap().is_none());
        }
        let mut config_map = ConfigMap::default();
        config_map.metadata.name = Some("settings".into());
        config_map.data = Some([("greeting".to_owned(), "hello".to_owned())].into());
        let config_map = self.config_maps().create(&user(), &config_map).await.unwrap();
        self.has_config(&config_map).await;
        self.reason("blog", "Starting", 1).await;
        self.reason("shop", "Starting", 1).await;
        let deployment = self.image("shop:1").await;
        assert_eq!(deployment.spec.replicas, Some(2));
        assert_eq!(
            &deployment.metadata.owner_references.unwrap()[0].uid,
            created[0].metadata.uid.as_ref().unwrap()
        );
        self.wait(&self.services, "shop", "the service", |_| true).await;
    }

    /// A changed config map, the status of a Deployment, another image, and a deleted Service.
    pub(crate) async fn changes(&self) {
        let data = Patch::Merge(json!({"data": {"greeting": "good morning"}}));
        let config_map = self.config_maps().patch("settings", &PatchParams::default(), &data).await.unwrap();
        self.has_config(&config_map).await;
        let status = json!({"status": {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1}});
        self.deployments().patch_status("shop", &merge(), &Patch::Merge(&status)).await.unwrap();
        let ready = self.reason("shop", "Available", 1).await.status.unwrap().conditions;

        // Without a number of replicas, it is not applied any more. The condition stays, with its time.
        self.patch(json!({"image": "shop:2", "replicas": null})).await;
        let what = "the image without the replicas";
        let is_applied = |new: &Deployment| image_of(new) == Some("shop:2") && new.spec.replicas == Some(1);
        self.wait(&self.deployments, "shop", what, is_applied).await;
        let conditions = self.reason("shop", "Available", 2).await.status.unwrap().conditions;
        assert_eq!(conditions[0].last_transition_time, ready[0].last_transition_time);

        let service = self.wait(&self.services, "shop", "the service", |_| true).await;
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        services.delete("shop", &DeleteParams::default()).await.unwrap();
        let is_new = |new: &Service| new.metadata.uid != service.metadata.uid;
        self.wait(&self.services, "shop", "a new service", is_new).await;
    }

    /// A scaler owns the replicas. What a user changes by an update is applied again, and the replicas stay. Returns the managers
    /// of the Deployment without times, which are the same on each server.
    pub(crate) async fn is_written_by_others(&self) -> Value {
        let deployments = self.deployments();
        let mut scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": {"replicas": 5}});
        deployments.patch("shop", &PatchParams::apply("scaler"), &Patch::Apply(&scaled)).await.unwrap();
        let mut edited = deployments.get("shop").await.unwrap();
        edited.spec.template.spec.as_mut().unwrap().containers[0].image = Some("shop:edited".into());
        edited.metadata.labels.get_or_insert_default().insert("edited".into(), "yes".into());
        deployments.replace("shop", &user(), &edited).await.unwrap();
        let is_edited = |deployment: &Deployment| {
            deployment.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("edited"))
        };
        let is_applied_again = |new: &Deployment| is_edited(new) && image_of(new) == Some("shop:2");
        let what = "the image of the operator";
        let deployment = self.wait(&self.deployments, "shop", what, is_applied_again).await;
        assert_eq!(deployment.spec.replicas, Some(5));
        // The scaler's field is a conflict for who does not force it.
        scaled["spec"] = json!({"replicas": 6});
        let conflict = deployments.patch("shop", &PatchParams::apply("other"), &Patch::Apply(&scaled)).await;
        let kube_client::Error::Api(conflict) = conflict.unwrap_err() else { panic!("no answer") };
        assert_eq!((conflict.code, &*conflict.reason), (409, "Conflict"));
        let text = "conflict with \"scaler\": .spec.replicas";
        assert!(conflict.message.contains(text), "{}", conflict.message);
        // The same fields, applied once more, are no write.
        scaled["spec"] = json!({"replicas": 5});
        let again = deployments.patch("shop", &PatchParams::apply("scaler"), &Patch::Apply(&scaled)).await;
        let again = again.unwrap();
        assert_eq!(again.metadata.resource_version, deployment.metadata.resource_version);
        managers(&again)
    }

    /// Another replica leads: a new image is applied, and nothing else was.
    pub(crate) async fn goes_on(&self, image: &str) {
        let generation = |deployment: &Deployment| deployment.metadata.generation.unwrap();
        let before = self.wait(&self.deployments, "shop", "the deployment", |_| true).await;
        let web_app = self.wait(&self.web_apps, "shop", "the application", |_| true).await;
        self.patch(json!({"image": image})).await;
        let after = self.image(image).await;
        assert_eq!(generation(&after), generation(&before) + 1);
        self.reason("shop", "Available", web_app.metadata.generation.unwrap() + 1).await;
    }

    /// The finalizer runs before the applications are gone.
    pub(crate) async fn ends(&self) {
        for name in ["shop", "blog"] {
            self.web_apps().delete(name, &DeleteParams::background()).await.unwrap();
            let gone =
                self.web_apps.wait_for_condition((&*self.namespace, name), |web_app| web_app.is_none());
            tokio::time::timeout(BOUND, gone).await.unwrap().unwrap();
        }
        self.factory.shutdown().await.unwrap();
    }

    /// Each event was recorded once. The recorders have written them when their replicas have ended.
    pub(crate) async fn has_events(&self) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let events = events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let own = events.filter(|event| event.reporting_controller.as_deref() == Some("web-app-operator"));
        let mut seen: Vec<_> = own
            .map(|event| {
                let count = event.series.map_or(1, |series| series.count);
                let name = event.regarding.and_then(|object| object.name).unwrap_or_default();
                format!("{name} {} {count}", event.reason.unwrap_or_default())
            })
            .collect();
        seen.sort();
        let of_blog = ["blog CleanedUp 1", "blog ConfigMapMissing 1", "blog Starting 1"];
        let of_shop = ["shop Available 1", "shop CleanedUp 1", "shop ConfigMapMissing 1", "shop Starting 1"];
        assert_eq!(seen, [&of_blog[..], &of_shop[..]].concat());
    }
}

fn user() -> PostParams {
    PostParams { field_manager: Some("user".into()), ..PostParams::default() }
}

fn merge() -> PatchParams {
    PatchParams { field_manager: Some("user".into()), ..PatchParams::default() }
}

fn image_of(deployment: &Deployment) -> Option<&str> {
    deployment.spec.template.spec.as_ref()?.containers.first()?.image.as_deref()
}

fn config_of(deployment: &Deployment) -> Option<&String> {
    let annotations = deployment.spec.template.metadata.as_ref()?.annotations.as_ref()?;
    annotations.get("example.com/config")
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

/// What [`Life::is_written_by_others`] returns.
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
        "f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"UID\"}": {}}},
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
        of("user", "Update", json!({"f:metadata": {"f:labels": {".": {}, "f:edited": {}}}})),
        of("web-app-operator", "Apply", applied),
    ])
}
