//! Server-side apply, on a scripted server that records its requests.

use std::sync::Arc;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use kinformer_controller::{WriteError, apply};
use kube_client::client::Body;
use kube_client::core::DynamicObject;
use kube_client::discovery::ApiResource;
use kube_client::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};

#[derive(Debug)]
struct Sent {
    method: Method,
    uri: String,
    content_type: String,
    body: Value,
}

/// A client whose requests are recorded, and answered with this status and body.
fn recorded(status: u16, answer: Value) -> (Client, Arc<Mutex<Vec<Sent>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let record = requests.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (record, answer) = (record.clone(), answer.to_string());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            record.lock().push(Sent {
                method: parts.method,
                uri: parts.uri.to_string(),
                content_type: parts.headers["content-type"].to_str().unwrap().to_owned(),
                body: serde_json::from_slice(&body).unwrap(),
            });
            let response = Response::builder().status(status).body(Body::from(answer.into_bytes()));
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response.unwrap())
        }
    });
    (Client::new(service, "default"), requests)
}

fn stored() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"}})
}

/// A deployment with fields that are not applied.
fn deployment() -> Deployment {
    let mut deployment = Deployment::default();
    deployment.metadata.name = Some("web".into());
    deployment.metadata.labels = Some([("app".into(), "web".into())].into());
    deployment.metadata.managed_fields = Some(vec![Default::default()]);
    deployment.status = Some(DeploymentStatus { replicas: Some(3), ..Default::default() });
    deployment
}

/// An object is applied without its status and its managed fields, for one field manager that takes over conflicts.
// contract: K-13a
#[tokio::test]
async fn object_is_applied() {
    let (client, requests) = recorded(200, stored());
    let api: Api<Deployment> = Api::namespaced(client, "default");
    let applied = apply::object(&api, &deployment(), "my-controller").await.unwrap();
    assert_eq!(applied.metadata.resource_version.as_deref(), Some("7"));

    let requests = requests.lock();
    let [sent] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((&sent.method, sent.content_type.as_str()), (&Method::PATCH, "application/apply-patch+yaml"));
    let (path, query) = sent.uri.split_once('?').unwrap();
    assert!(path.ends_with("/apis/apps/v1/namespaces/default/deployments/web"), "{path}");
    let mut query: Vec<_> = query.split('&').filter(|part| !part.is_empty()).collect();
    query.sort_unstable();
    assert_eq!(query, ["fieldManager=my-controller", "force=true"]);
    let expected = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": deployment().spec});
    assert_eq!(sent.body, expected);
}

/// Of a status, only the name of the object and the status itself are sent, to the subresource.
// contract: K-13b
#[tokio::test]
async fn status_is_applied() {
    let (client, requests) = recorded(200, stored());
    let api: Api<Deployment> = Api::namespaced(client, "default");
    let mut deployment = deployment();
    deployment.metadata.resource_version = Some("5".into());
    apply::status(&api, &deployment, "my-controller").await.unwrap();

    let requests = requests.lock();
    let [sent] = &requests[..] else { panic!("{requests:?}") };
    let (path, _) = sent.uri.split_once('?').unwrap();
    assert!(path.ends_with("/deployments/web/status"), "{path}");
    let expected = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "status": {"replicas": 3}});
    assert_eq!(sent.body, expected);
}

/// An object without a name or a type is refused before a request. A refusal of the server names the object.
// contract: K-13c
#[tokio::test]
async fn refusals_are_typed() {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 409,
        "reason": "Conflict", "message": "another version"});
    let (client, requests) = recorded(409, status);
    let api: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let error = apply::object(&api, &Deployment::default(), "m").await.unwrap_err();
    assert!(matches!(error, WriteError::NoName), "{error}");

    let resource = ApiResource::erase::<Deployment>(&());
    let objects: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    let mut untyped = DynamicObject::new("web", &resource);
    untyped.types = None;
    let error = apply::object(&objects, &untyped, "m").await.unwrap_err();
    assert!(matches!(error, WriteError::NoType { .. }), "{error}");
    assert!(requests.lock().is_empty());

    let error = apply::object(&api, &deployment(), "m").await.unwrap_err();
    assert!(matches!(&error, WriteError::Request { name, .. } if name == "web"), "{error}");
    let text = error.to_string();
    assert!(text.contains("\"web\" was not written") && text.contains("another version"), "{text}");
    assert_eq!(requests.lock().len(), 1);
}
