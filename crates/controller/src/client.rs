//! Clients with a field manager, of dry runs, and with a limit of requests.
//!
//! ```
//! use std::num::NonZeroU32;
//!
//! use kinformer_controller::client;
//! use kube_client::Client;
//!
//! # fn example(client: &Client) {
//! let writes = client::with_field_owner(client, "my-controller");
//! let asks = client::dry_run(client);
//! let slow = client::limited(client, NonZeroU32::new(20).unwrap(), NonZeroU32::new(30).unwrap());
//! # _ = (writes, asks, slow);
//! # }
//! ```
//!
//! Each wraps another client, such as [that of an elector](kinformer_leader_election::LeaderElector::client), and can be wrapped again.
//! Writes are all requests but `GET`, `HEAD` and `OPTIONS`.
//!
//! Follows controller-runtime 0.25 (`client.WithFieldOwner`, `client.NewDryRunClient`) and client-go 0.37 (`rest.Config.QPS`).

use std::num::NonZeroU32;

use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri, header};
use kinformer_workqueue::{Bucket, RateLimiter as _};
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use tower::service_fn;

/// Returns a client whose writes have this field manager, unless a request names another one.
///
/// The API server refuses a name that is longer than 128 characters, or has characters that cannot be printed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = kinformer_apiserver::TestCluster::start().await?;
/// # let client = cluster.client();
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("settings".to_owned());
/// # map.data = Some([("key".to_owned(), "value".to_owned())].into());
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::client::with_field_owner;
/// use kube_client::Api;
///
/// let api: Api<ConfigMap> = Api::default_namespaced(with_field_owner(&client, "my-controller"));
/// let created = api.create(&Default::default(), &map).await?;
/// let managers = created.metadata.managed_fields.into_iter().flatten().filter_map(|fields| fields.manager);
/// assert_eq!(managers.collect::<Vec<_>>(), ["my-controller"]);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "FieldOwner")]
pub fn with_field_owner(client: &Client, owner: &str) -> Client {
    let owner: String = form_urlencoded::byte_serialize(owner.as_bytes()).collect();
    let parameter = format!("fieldManager={owner}");
    wrap(client, move |client, mut request| {
        add(&mut request, "fieldManager", &parameter);
        async move { client.send(request).await }
    })
}

/// Returns a client whose writes are dry runs: the API server answers as to a write, and stores nothing.
///
/// A `DELETE` with a body that is not a JSON object is an error, and is not sent.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = kinformer_apiserver::TestCluster::start().await?;
/// # let client = cluster.client();
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("settings".to_owned());
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::client::dry_run;
/// use kube_client::Api;
///
/// let api: Api<ConfigMap> = Api::default_namespaced(dry_run(&client));
/// let checked = api.create(&Default::default(), &map).await?; // with defaults, and by all admission checks
/// assert!(checked.metadata.uid.is_some());
/// assert!(api.get_opt("settings").await?.is_none());
/// # Ok(())
/// # }
/// ```
#[doc(alias("DryRunAll", "NewDryRunClient"))]
pub fn dry_run(client: &Client) -> Client {
    wrap(client, |client, mut request| {
        add(&mut request, "dryRun", "dryRun=All");
        async move { client.send(dry_delete(request).await?).await }
    })
}

/// Adds the option to the body of a `DELETE`: if there is a body, kube-apiserver ignores the options of the URL.
async fn dry_delete(request: Request<Body>) -> Result<Request<Body>, kube_client::Error> {
    if *request.method() != Method::DELETE {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    if body.is_empty() {
        return Ok(Request::from_parts(parts, Body::empty()));
    }
    let mut options: Map<String, Value> =
        serde_json::from_slice(&body).map_err(kube_client::Error::SerdeError)?;
    options.insert("dryRun".to_owned(), json!(["All"]));
    let body = serde_json::to_vec(&options).map_err(kube_client::Error::SerdeError)?;
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Request::from_parts(parts, body.into()))
}

/// Returns a client that sends at most this number of requests each second, and `burst` more after a pause. Further ones wait, in
/// their order; a watch is one request. Without it, a client has no limit: the API server's priority and fairness is one.
///
/// # Cancel safety
/// A request whose future is dropped while it waits counts as sent.
pub fn limited(client: &Client, per_second: NonZeroU32, burst: NonZeroU32) -> Client {
    let bucket = Bucket::per_second(per_second, burst);
    wrap(client, move |client, request| {
        let delay = bucket.when(&());
        async move {
            if !delay.is_zero() {
                sleep(delay).await;
            }
            client.send(request).await
        }
    })
}

/// Returns a client whose requests `send` sends with another one.
fn wrap<F>(client: &Client, send: impl Fn(Client, Request<Body>) -> F + Send + 'static) -> Client
where
    F: Future<Output = Result<Response<Body>, kube_client::Error>> + Send + 'static,
{
    let inner = client.clone();
    let service = service_fn(move |request| send(inner.clone(), request));
    Client::new(service, client.default_namespace().to_owned())
}

/// Adds a parameter to a write that does not have it.
fn add(request: &mut Request<Body>, name: &str, parameter: &str) {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return;
    }
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    if query.split('&').any(|pair| pair.split('=').next() == Some(name)) {
        return;
    }
    let and = if query.is_empty() { "" } else { "&" };
    let path = PathAndQuery::try_from(format!("{}?{query}{and}{parameter}", uri.path()));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = path.ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}
