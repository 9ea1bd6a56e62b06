//! Keeps a config map `NAME-greeting` for each config map with the key `greet` in its data.

use std::sync::Arc;

use kinformer_controller::kinformer::k8s_openapi::api::core::v1::ConfigMap;
use kinformer_controller::kinformer::kube_client::{Api, Client};
use kinformer_controller::kinformer::{Lister, ObjectKey, SharedInformerFactory};
use kinformer_controller::{
    Action, Controller, ReconcileError, Request, apply, set_controller_reference,
};
use serde_json::json;

/// Returns the controller. It owns what it creates: a greeting that is changed or deleted is written again, and Kubernetes
/// deletes the greetings of a config map with it.
pub fn controller(factory: &SharedInformerFactory) -> Controller {
    let reconciler = Arc::new(Reconciler {
        config_maps: factory.informer::<ConfigMap>().lister(),
        client: factory.client().clone(),
    });
    Controller::of(factory).reconciles::<ConfigMap>().owns::<ConfigMap>().workers(4).build(move |request| {
        let reconciler = reconciler.clone();
        async move { reconciler.reconcile(request).await }
    })
}

struct Reconciler {
    /// Reads the store of the informer; no request is sent.
    config_maps: Lister<ConfigMap>,
    client: Client,
}

impl Reconciler {
    /// Makes the cluster as the config map asks for. An error is retried with backoff.
    async fn reconcile(&self, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Ok(config_map) = self.config_maps.get(&request.key) else { return Ok(Action::none()) };
        let config_map = config_map.decode()?;
        let Some(name) = config_map.data.as_ref().and_then(|data| data.get("greet")) else {
            return Ok(Action::none());
        };
        if name.is_empty() {
            return Err(ReconcileError::permanent("data.greet is empty"));
        }
        let namespace = request.key.namespace().unwrap_or_default();
        let greeting_name = format!("{}-greeting", request.key.name());
        let mut greeting: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": greeting_name, "namespace": namespace},
            "data": {"text": format!("Hello, {name}!")},
        }))?;
        set_controller_reference(&*config_map, &mut greeting)?;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        // No request is sent if the store has it already.
        let stored = self.config_maps.get((namespace, &*greeting_name)).ok();
        let stored = stored.map(|stored| stored.decode_arc()).transpose()?;
        if stored.is_none_or(|stored| stored.data != greeting.data) {
            apply::object(&api, &greeting, "{{project-name}}").await?;
        }
        Ok(Action::none())
    }
}
