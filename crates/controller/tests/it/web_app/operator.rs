//! An operator as one is written with kubebuilder: web applications with a Deployment and a Service by server-side apply, a
//! config map that they name, a finalizer, conditions and events.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kinformer_controller::condition::{self, Status};
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::kinformer::{Informer, Lister, ObjectKey, ResourceVersion, SharedInformerFactory};
use kinformer_controller::{
    Action, Controller, ReconcileError, Request, apply, finalizer, set_controller_reference,
};
use kube_client::{Api, Client};
use kube_core::Resource;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The field manager of the operator.
pub(crate) const MANAGER: &str = "web-apps";

/// The condition of a web application.
pub(crate) const READY: &str = "Ready";

const FINALIZER: &str = "example.com/dns";

/// As a derived type, it has its `apiVersion` and `kind` when it is serialized.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebApp {
    api_version: String,
    kind: String,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: WebAppSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<WebAppStatus>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebAppSpec {
    pub(crate) image: String,
    /// The config map whose data the application reads.
    pub(crate) config: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebAppStatus {
    pub(crate) observed_generation: i64,
    pub(crate) conditions: Vec<Condition>,
}

impl Resource for WebApp {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "WebApp".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "webapps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl WebApp {
    pub(crate) fn new(name: &str, spec: WebAppSpec) -> Self {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        Self { api_version: "example.com/v1".into(), kind: "WebApp".into(), metadata, spec, status: None }
    }
}

/// As `WebApp::crd()` of a derived type.
pub(crate) fn definition() -> CustomResourceDefinition {
    let text = json!({"type": "string"});
    let condition = json!({"type": "object", "required": ["type"], "properties": {
        "type": text, "status": text, "reason": text, "message": text,
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64"},
    }});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"image": text, "config": text, "tier": text}},
        "status": {"type": "object", "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            "conditions": {"type": "array", "items": condition,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        }},
    }});
    serde_json::from_value(json!({
        "metadata": {"name": "webapps.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "webapps", "kind": "WebApp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}],
        },
    }))
    .unwrap()
}

/// What is outside of the cluster: the names that have an address.
pub(crate) type Dns = Arc<Mutex<Vec<String>>>;

struct Operator {
    web_apps: Informer<WebApp>,
    deployments: Lister<Deployment>,
    config_maps: Lister<ConfigMap>,
    client: Client,
    events: EventRecorder,
    dns: Dns,
}

/// Returns the controller. `client` writes, and ends its writes with a leadership.
pub(crate) fn controller(
    factory: &SharedInformerFactory,
    client: Client,
    events: EventRecorder,
    dns: Dns,
) -> Controller {
    let web_apps = factory.informer::<WebApp>();
    web_apps.index_by_field("spec.config", &["spec", "config"]).unwrap();
    let operator = Arc::new(Operator {
        web_apps,
        deployments: factory.informer().lister(),
        config_maps: factory.informer().lister(),
        client,
        events,
        dns,
    });
    let of_config_map = operator.clone();
    let builder = Controller::of(factory).reconciles::<WebApp>().owns::<Deployment>().owns::<Service>();
    let builder = builder.watches::<ConfigMap>(move |config_map, keys| {
        for web_app in of_config_map.web_apps.lister().by_index("spec.config", config_map.name())? {
            keys.push(web_app.key().try_into()?);
        }
        Ok(())
    });
    builder.build(move |request| {
        let operator = operator.clone();
        async move { operator.reconcile(request).await }
    })
}

impl Operator {
    async fn reconcile(&self, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Ok(web_app) = self.web_apps.lister().get(&request.key) else { return Ok(Action::none()) };
        let api = Api::namespaced(self.client.clone(), request.namespace().unwrap_or_default());
        let name = request.name().to_owned();
        let run = |web_app| self.run(web_app);
        let remove = async |_| -> Result<(), ReconcileError> {
            self.dns.lock().retain(|address| *address != name);
            Ok(())
        };
        finalizer::finalize(&api, web_app.decode_arc()?, FINALIZER, run, remove).await
    }

    async fn run(&self, web_app: Arc<WebApp>) -> Result<Action, ReconcileError> {
        let name = web_app.metadata.name.as_deref().unwrap_or_default();
        let namespace = web_app.metadata.namespace.as_deref().unwrap_or_default();
        if !self.dns.lock().iter().any(|address| address == name) {
            self.dns.lock().push(name.to_owned());
        }
        let ready = match self.config_maps.get((namespace, &*web_app.spec.config)) {
            Err(_) => condition::new(READY, Status::False, "ConfigMissing", "the config map does not exist"),
            Ok(config) => {
                let config = config.resource_version().to_string();
                let deployments = Api::namespaced(self.client.clone(), namespace);
                apply::object(&deployments, &deployment(&web_app, &config)?, MANAGER).await?;
                let services = Api::namespaced(self.client.clone(), namespace);
                apply::object(&services, &service(&web_app)?, MANAGER).await?;
                let stored = self.deployments.get((namespace, name)).ok();
                let stored = stored.map(|stored| stored.decode_arc()).transpose()?;
                let status = stored.as_ref().and_then(|stored| stored.status.as_ref());
                match status.and_then(|status| status.available_replicas).unwrap_or_default() {
                    0 => condition::new(READY, Status::False, "Starting", "no replica is available"),
                    _ => condition::new(READY, Status::True, "Available", "a replica is available"),
                }
            }
        };
        self.report(&web_app, ready).await
    }

    /// Writes the condition, and records an event, if it is another one.
    async fn report(&self, web_app: &WebApp, mut ready: Condition) -> Result<Action, ReconcileError> {
        let mut changed = web_app.clone();
        let generation = web_app.metadata.generation.unwrap_or_default();
        let status = changed.status.get_or_insert_default();
        ready.observed_generation = Some(generation);
        let (reason, message) = (ready.reason.clone(), ready.message.clone());
        let before = condition::find(&status.conditions, READY).map(|before| before.reason.clone());
        if condition::set(&mut status.conditions, ready) || status.observed_generation != generation {
            status.observed_generation = generation;
            let namespace = web_app.metadata.namespace.as_deref().unwrap_or_default();
            let name = web_app.metadata.name.as_deref().unwrap_or_default();
            let web_apps: Api<WebApp> = Api::namespaced(self.client.clone(), namespace);
            let written = apply::status(&web_apps, &changed, MANAGER).await?;
            // The next reconciliation reads this status. An older one would give the condition another time.
            let version = ResourceVersion::from(written.metadata.resource_version.unwrap_or_default());
            self.web_apps.wait_for((namespace, name), &version).await?;
        }
        if before.as_ref() != Some(&reason) {
            self.events.event(&web_app.object_ref(&()), EventType::Normal, &reason, "Reconcile", &message);
        }
        Ok(Action::none())
    }
}

/// Only the fields of the operator: neither the replicas, which a scaler owns, nor a status.
fn deployment(web_app: &WebApp, config: &str) -> Result<Deployment, ReconcileError> {
    let name = web_app.metadata.name.as_deref().unwrap_or_default();
    let mut labels = json!({"app": name});
    if let Some(tier) = &web_app.spec.tier {
        labels["tier"] = json!(tier);
    }
    let mut deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"example.com/config": config}},
                "spec": {"containers": [{"name": "web", "image": web_app.spec.image}]},
            },
        },
    }))?;
    deployment.metadata.namespace.clone_from(&web_app.metadata.namespace);
    set_controller_reference(web_app, &mut deployment)?;
    Ok(deployment)
}

fn service(web_app: &WebApp) -> Result<Service, ReconcileError> {
    let name = web_app.metadata.name.as_deref().unwrap_or_default();
    let mut service: Service = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"name": "http", "port": 80}]},
    }))?;
    service.metadata.namespace.clone_from(&web_app.metadata.namespace);
    set_controller_reference(web_app, &mut service)?;
    Ok(service)
}
