//! A `tower::Service` that stores leases and config maps as the API server does: one version for all objects, and an
//! update with another version than the stored one fails.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response as HttpResponse, StatusCode};
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::Service;

/// What happens to a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response {
    /// The time before the request has its effect.
    pub before: Duration,
    /// The time before the response arrives.
    pub after: Duration,
    /// Whether the request has no effect, and fails with status 500.
    pub fails: bool,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    requests: Vec<(Method, String)>,
    writers: Vec<String>,
    responses: VecDeque<Response>,
    always: Response,
}

#[derive(Clone, Default)]
pub struct Server {
    state: Arc<Mutex<State>>,
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/test";

impl Server {
    pub fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// The next requests are answered in these ways, each one once.
    pub fn answer(&self, responses: impl IntoIterator<Item = Response>) {
        self.state.lock().responses.extend(responses);
    }

    /// All other requests are answered in this way.
    pub fn always(&self, response: Response) {
        self.state.lock().always = response;
    }

    pub fn lease(&self) -> Option<Value> {
        self.state.lock().objects.get(LEASE).cloned()
    }

    /// The specification of the lease.
    pub fn spec(&self) -> Value {
        self.lease().unwrap()["spec"].clone()
    }

    /// Changes the lease, as another client does.
    pub fn edit_lease(&self, edit: impl FnOnce(&mut Value)) {
        let mut state = self.state.lock();
        let version = state.next_version();
        let lease = state.objects.get_mut(LEASE).unwrap();
        edit(lease);
        lease["metadata"]["resourceVersion"] = version.into();
    }

    pub fn delete_lease(&self) {
        self.state.lock().objects.remove(LEASE).unwrap();
    }

    /// The methods and paths of all requests.
    pub fn requests(&self) -> Vec<(Method, String)> {
        self.state.lock().requests.clone()
    }

    /// The writers of the config maps, in the order in which they were applied.
    pub fn writers(&self) -> Vec<String> {
        self.state.lock().writers.clone()
    }
}

impl State {
    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn apply(&mut self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, Value) {
        let found = self.objects.get(path);
        match *method {
            Method::GET => match found {
                Some(object) => (StatusCode::OK, object.clone()),
                None => status(StatusCode::NOT_FOUND),
            },
            Method::POST => {
                let object: Value = serde_json::from_slice(body).unwrap();
                if !path.contains("/namespaces/default/") {
                    return status(StatusCode::NOT_FOUND);
                }
                let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
                match self.objects.contains_key(&path) {
                    true => status(StatusCode::CONFLICT),
                    false => (StatusCode::CREATED, self.store(&path, object)),
                }
            }
            Method::PUT => {
                let object: Value = serde_json::from_slice(body).unwrap();
                let is_same = |field: &str, found: &Value| {
                    let asked = &object["metadata"][field];
                    asked.is_null() || *asked == found["metadata"][field]
                };
                match found {
                    None => status(StatusCode::NOT_FOUND),
                    Some(found) if !is_same("resourceVersion", found) || !is_same("uid", found) => {
                        status(StatusCode::CONFLICT)
                    }
                    Some(_) => (StatusCode::OK, self.store(path, object)),
                }
            }
            _ => status(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        let version = self.next_version();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{version}").into();
        }
        object["metadata"]["resourceVersion"] = version.into();
        self.objects.insert(path.to_owned(), object.clone());
        if let Some(writer) = object["data"]["writer"].as_str() {
            self.writers.push(writer.to_owned());
        }
        object
    }
}

fn status(code: StatusCode) -> (StatusCode, Value) {
    let reason = code.canonical_reason().unwrap();
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason.replace(' ', ""), "code": code.as_u16()});
    (code, body)
}

/// The query parameter `timeout`, in milliseconds.
fn time_limit(query: &str) -> Option<Duration> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("timeout="))?;
    Some(Duration::from_millis(value.strip_suffix("ms").unwrap().parse().unwrap()))
}

impl Service<Request<Body>> for Server {
    type Response = HttpResponse<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let state = self.state.clone();
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let limit = time_limit(request.uri().query().unwrap_or_default());
        let response = {
            let mut state = state.lock();
            state.requests.push((method.clone(), path.clone()));
            let always = state.always;
            state.responses.pop_front().unwrap_or(always)
        };
        // A client that gives up does not end the request on the server.
        let task = tokio::spawn(async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let delay = timeout(limit.unwrap_or(Duration::MAX), sleep(response.before));
            let (code, body) = match (delay.await, response.fails) {
                (Err(_), _) => status(StatusCode::GATEWAY_TIMEOUT),
                (Ok(()), true) => status(StatusCode::INTERNAL_SERVER_ERROR),
                (Ok(()), false) => state.lock().apply(&method, &path, &body),
            };
            sleep(response.after).await;
            HttpResponse::builder().status(code).body(Body::from(serde_json::to_vec(&body).unwrap())).unwrap()
        });
        Box::pin(async move { Ok(task.await.unwrap()) })
    }
}
