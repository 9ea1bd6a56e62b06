//! An operator of web applications, as it runs in a cluster: `web_app ADDRESS FOLDER` serves HTTPS on the address, with the
//! certificate of the folder, until it receives SIGTERM or Ctrl-C. Of several replicas, one leads.

pub(crate) mod types;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kinformer_controller::condition::{self, Status};
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::kinformer::{self, Lister, ObjectKey, SharedInformerFactory};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::kinformer_serve::Server;
use kinformer_controller::{
    Action, Controller, Manager, ReconcileError, Reporter, Request, apply, finalizer,
};
use kube::{Resource as _, ResourceExt as _};
use kube_client::{Api, Client};
use serde_json::json;
use types::WebApp;

/// The name of the operator: of its Lease, and as the one who writes fields and events.
pub(crate) const NAME: &str = "web-app-operator";

struct Operator {
    web_apps: Lister<WebApp>,
    config_maps: Lister<ConfigMap>,
    client: Client,
    events: EventRecorder,
    reporter: Reporter<WebApp>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, certificate] = &*arguments else { return Err("usage: web_app ADDRESS FOLDER".into()) };
    let client = kinformer::client(kinformer::config()?)?;
    let factory = SharedInformerFactory::new(client.clone());
    let elector = LeaderElector::builder(client.clone(), client.default_namespace(), NAME).build()?;
    let events = EventRecorder::new(client.clone(), NAME, elector.identity());
    let server = Server::builder().metrics_only().listen(address.parse()?).tls(certificate);
    Ok(Manager::new()
        .factory(&factory)
        .leader_election(&elector)
        .events(&events, Duration::from_secs(5))
        .add(operator(&factory, elector.client(&client), events))?
        .serve(server.delegate_access(client))
        .await?
        .run_until_signal()
        .await?)
}

/// Returns the controller of web applications. The writes of `client` end with the leadership.
pub(crate) fn operator(factory: &SharedInformerFactory, client: Client, events: EventRecorder) -> Controller {
    let (web_apps, config_maps) = (factory.informer::<WebApp>(), factory.informer().lister());
    let reporter =
        Reporter::new(&web_apps, client.clone(), events.clone(), NAME, |status| &mut status.conditions);
    let web_apps = web_apps.lister();
    let operator = Arc::new(Operator { web_apps, config_maps, client, events, reporter });
    Controller::of(factory)
        .reconciles::<WebApp>()
        .owns::<Deployment>()
        .owns::<Service>()
        .refers_to::<ConfigMap>(&["spec", "configMap"])
        .build(move |request| operator.clone().reconcile(request))
}

impl Operator {
    async fn reconcile(self: Arc<Self>, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Some(web_app) = self.web_apps.get_opt(&request.key)? else { return Ok(Action::none()) };
        let api = Api::namespaced(self.client.clone(), request.namespace().unwrap_or_default());
        let (run, cleanup) = (|web_app| self.run(web_app), |web_app| self.cleanup(web_app));
        finalizer::finalize(&api, web_app.decode_arc()?, "example.com/cleanup", run, cleanup).await
    }

    async fn run(&self, web_app: Arc<WebApp>) -> Result<Action, ReconcileError> {
        let namespace = web_app.namespace().unwrap_or_default();
        let config_map = self.config_maps.get_opt((&*namespace, &*web_app.spec.config_map))?;
        let (event_type, status, reason, message) = if let Some(config_map) = config_map {
            let (deployment, service) = objects(&web_app, &config_map.resource_version().to_string())?;
            apply::object(&Api::namespaced(self.client.clone(), &namespace), &service, NAME).await?;
            let deployments = Api::namespaced(self.client.clone(), &namespace);
            let deployment: Deployment = apply::object(&deployments, &deployment, NAME).await?;
            match deployment.status.and_then(|status| status.available_replicas).unwrap_or_default() {
                0 => (EventType::Normal, Status::False, "Starting", "no replica is available"),
                _ => (EventType::Normal, Status::True, "Available", "a replica is available"),
            }
        } else {
            (EventType::Warning, Status::False, "ConfigMapMissing", "there is no such config map")
        };
        self.reporter.report(&web_app, event_type, condition::new("Ready", status, reason, message)).await?;
        Ok(Action::none())
    }

    /// Removes what Kubernetes does not collect, such as a name in a DNS.
    async fn cleanup(&self, web_app: Arc<WebApp>) -> Result<(), ReconcileError> {
        self.events.event(&web_app.object_ref(&()), EventType::Normal, "CleanedUp", "Cleanup", "");
        Ok(())
    }
}

/// What a web application consists of. Only the fields are set that the operator decides about.
fn objects(web_app: &WebApp, config: &str) -> Result<(Deployment, Service), serde_json::Error> {
    let (name, labels) = (web_app.name_any(), json!({"app": web_app.name_any()}));
    let owner = web_app.controller_owner_ref(&());
    let metadata = json!({"name": name, "namespace": web_app.namespace(), "ownerReferences": [owner]});
    let pod = json!({"containers": [{"name": "web", "image": web_app.spec.image}]});
    let deployment = json!({"metadata": metadata, "spec": {
        "replicas": web_app.spec.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, "annotations": {"example.com/config": config}}, "spec": pod},
    }});
    let service = json!({"metadata": metadata, "spec": {"selector": labels, "ports": [{"port": 80}]}});
    Ok((serde_json::from_value(deployment)?, serde_json::from_value(service)?))
}
