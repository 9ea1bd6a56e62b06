//! A running server and its in-process API.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::api::{Api, Clients, DeleteOptions, Deleted, Object, Write};
use crate::faults::Faults;
use crate::http::{Context, TlsAcceptor};
use crate::metrics::ServerMetrics;
use crate::registry::Resource;
use crate::requests::LoggedRequests;
use crate::selectors::Selection;
use crate::snapshot::Snapshot;

/// The certificate of an HTTPS server.
#[derive(Clone)]
pub(crate) struct Tls {
    certificate_pem: String,
    acceptor: TlsAcceptor,
}

impl Tls {
    #[cfg(feature = "tls")]
    pub(crate) fn make(address: SocketAddr) -> Result<Self, Error> {
        use tokio_rustls::rustls;
        let tls = |error: &dyn std::fmt::Display| Error::Tls { reason: error.to_string() };
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), address.ip().to_string()];
        let made = rcgen::generate_simple_self_signed(names).map_err(|error| tls(&error))?;
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der())
            .map_err(|error| tls(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .map_err(|error| tls(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { certificate_pem: made.cert.pem(), acceptor: Arc::new(config).into() })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }
}

/// A Kubernetes API server in this process.
///
/// Dropping it shuts it down without waiting; [`ApiServer::shutdown`] waits.
#[doc(alias("ControlPlane", "envtest"))]
pub struct ApiServer {
    pub(crate) context: Arc<Context>,
    address: SocketAddr,
    tls: Option<Tls>,
    pub(crate) tasks: TaskTracker,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl ApiServer {
    pub(crate) fn new(
        context: Arc<Context>,
        address: SocketAddr,
        tls: Option<Tls>,
        tasks: TaskTracker,
    ) -> Self {
        Self { context, address, tls, tasks }
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL: `http://127.0.0.1:PORT`, or `https` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the certificate that clients must trust, in PEM; `None` for plain HTTP.
    pub fn certificate_pem(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.certificate_pem.as_str())
    }

    /// Returns a kubeconfig for the server, in YAML. It contains the token, if one is set.
    pub fn kubeconfig(&self) -> String {
        use base64::Engine;
        let certificate = self.certificate_pem().map_or_else(String::new, |pem| {
            let data = base64::engine::general_purpose::STANDARD.encode(pem);
            format!("    certificate-authority-data: {data}\n")
        });
        let user = self.context.access.administrator().map_or_else(
            || "{}".to_owned(),
            // A JSON string is a YAML string.
            |token| format!("{{token: {}}}", Value::from(token.secret())),
        );
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: kinformer\nclusters:\n- name: kinformer\n  cluster:\n    \
             server: {}\n{certificate}contexts:\n- name: kinformer\n  context: {{cluster: kinformer, user: \
             kinformer}}\nusers:\n- name: kinformer\n  user: {user}\n",
            self.url()
        )
    }

    /// Returns a configuration for a `kube_client::Client`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = kinformer_apiserver::valid_pod("web-0");
    /// use kube_client::{Api, Client};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// server.create(pod)?;
    /// let pods = Api::<Pod>::all(Client::try_from(server.config()?)?);
    /// assert_eq!(pods.list(&Default::default()).await?.items.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] if the URL or the certificate is invalid.
    #[cfg(feature = "client")]
    pub fn config(&self) -> Result<kube_client::Config, Error> {
        let failed = |reason: String| Error::Client { url: self.url(), reason };
        let url = self.url().parse().map_err(|error: ::http::uri::InvalidUri| failed(error.to_string()))?;
        let mut config = kube_client::Config::new(url);
        if let Some(token) = self.context.access.administrator() {
            config.auth_info.token = Some(token.secret().to_owned().into());
        }
        if let Some(tls) = &self.tls {
            let block: String =
                tls.certificate_pem.lines().filter(|line| !line.starts_with("-----")).collect();
            use base64::Engine;
            let der = base64::engine::general_purpose::STANDARD
                .decode(block)
                .map_err(|error| failed(error.to_string()))?;
            config.root_cert = Some(vec![der]);
        }
        Ok(config)
    }

    /// Returns the handle for injecting faults.
    pub fn faults(&self) -> Faults {
        self.context.faults.clone()
    }

    /// Returns the current metrics.
    pub fn metrics(&self) -> ServerMetrics {
        self.context.counters.read(self.version())
    }

    /// Returns the newest resource version.
    pub fn version(&self) -> u64 {
        self.context.api.registry().versions.current()
    }

    /// Whether a kind with this plural is served.
    #[cfg(feature = "test-cluster")]
    pub(crate) fn serves(&self, plural: &str) -> bool {
        self.api().registry().iter().any(|resource| resource.kind.plural == plural)
    }

    /// Returns the newest requests, oldest first: as many as [`Builder::request_log`](crate::Builder::request_log) says.
    ///
    /// A request is logged when it arrives. On a runtime with several threads, its effect can be read before its status
    /// code is in the log: a test waits for codes.
    pub fn requests(&self) -> LoggedRequests {
        self.context.log.read()
    }

    /// Forgets the requests that are logged.
    pub fn clear_requests(&self) {
        self.context.log.clear();
    }

    /// Returns the present state, for [`ApiServer::restore`] and [`Builder::snapshot`](crate::Builder::snapshot): all
    /// objects, the served resources, the owners of garbage collection, and the resource version.
    ///
    /// It has the effects of the writes that have begun, and of their garbage collection. It has no history, no faults, no
    /// log and no settings but whether there is garbage collection. It shares the objects with the server: it
    /// takes O(resources + objects with owners), whatever their size.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = kinformer_apiserver::valid_pod("web-0");
    /// let empty = server.snapshot();
    /// server.create(pod)?;
    /// server.restore(&empty);
    /// assert_eq!(server.count("v1", "Pod")?, 0);
    /// assert!(server.version() > empty.version());
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.api().save())
    }

    /// Replaces the state by that of a snapshot, of this server or of another one. Faults, settings, the log and the
    /// metrics stay.
    ///
    /// It is a cluster that was restored from a backup with `etcdutl snapshot restore --bump-revision --mark-compacted`,
    /// as Kubernetes recommends: versions go on above all that this server has issued, and the history begins there. Open
    /// watches end, without events, and a client that continues from an earlier version gets 410 `Expired` and
    /// relists. The objects have the versions of the snapshot. A new server from a snapshot has no such clients, and goes on
    /// from the snapshot's version.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.api().load(snapshot.state(), Clients::Any);
        if self.context.access.has_roles() {
            self.api().writes(|| self.api().create_bootstrap_roles());
        }
    }

    /// Drops the history: lists and watches from older versions fail with 410 `Expired`. Open watches that are up to
    /// date continue.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = kinformer_apiserver::valid_pod("web-0");
    /// let before = server.version();
    /// server.create(pod)?;
    /// server.compact(); // a watch from `before` now gets the status 410
    /// assert!(server.version() > before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(&self) {
        self.context.api.compact();
    }

    /// Ends all open watches cleanly, as a restarting server does.
    pub fn drop_watches(&self) {
        self.context.drop_watches();
    }

    /// Breaks all open connections immediately, as a network failure does. New connections are accepted;
    /// [`Faults::refuse_connections`] prevents that.
    pub fn drop_connections(&self) {
        self.context.drop_connections();
    }

    /// Stores a new object, including its status. `apiVersion` and `kind` select the resource. Watches receive an
    /// `ADDED` event. Objects of built-in kinds get defaults and are validated, except with
    /// [`Validation::Off`](crate::Validation::Off).
    ///
    /// A missing uid, creationTimestamp and resourceVersion are set. Returns the stored object.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = kinformer_apiserver::valid_pod("web-0");
    /// let created = server.create(pod)?;
    /// assert!(created["metadata"]["uid"].is_string() && created["metadata"]["resourceVersion"].is_string());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownKind`], [`Error::NotAnObject`], and [`Error::Status`] with the response that a client would
    /// receive.
    pub fn create(&self, object: Value) -> Result<Value, Error> {
        self.api().writes(|| {
            let (resource, namespace, object) = self.place(object)?;
            let stored = self.api().create(&resource, &namespace, object, Write::by_owner())?;
            Ok(Value::Object(Api::served(&resource, &stored)))
        })
    }

    /// Replaces an object as it is, including its status. If it has a `resourceVersion`, this must be the current
    /// one.
    ///
    /// Objects of built-in kinds are validated as an update of a client, except with
    /// [`Validation::Off`](crate::Validation::Off): fields that cannot change are refused. A pod can be assigned to a
    /// node by its `spec.nodeName`, as a scheduler does by a binding.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use serde_json::json;
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = kinformer_apiserver::valid_pod("web-0");
    /// let mut changed = server.create(pod)?;
    /// changed["metadata"]["labels"] = json!({"app": "web"});
    /// server.update(changed.clone())?;
    /// assert!(server.update(changed).is_err()); // the resource version is no longer the newest one
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as [`ApiServer::create`].
    pub fn update(&self, object: Value) -> Result<Value, Error> {
        self.api().writes(|| {
            let (resource, namespace, object) = self.place(object)?;
            let name = name_of(&object);
            let stored =
                self.api().update(&resource, &namespace, &name, object, Write::by_owner())?.into_stored();
            Ok(Value::Object(Api::served(&resource, &stored)))
        })
    }

    /// Returns an object; `None` if it does not exist. `namespace` is empty for cluster-scoped kinds.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = kinformer_apiserver::valid_pod("web-0");
    /// server.create(pod)?;
    /// assert!(server.get("v1", "Pod", "default", "web-0")?.is_some());
    /// assert!(server.get("v1", "Pod", "default", "web-1")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownKind`].
    pub fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        let resource = self.resource(api_version, kind)?;
        let stored = self.api().get(&resource, namespace, name).ok();
        Ok(stored.map(|stored| Value::Object(Api::served(&resource, &stored))))
    }

    /// Returns all objects of a kind, ordered by namespace and name; an empty `namespace` selects all namespaces.
    /// Parses every object.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = kinformer_apiserver::valid_pod("web-0");
    /// server.create(pod)?;
    /// assert_eq!(server.list("v1", "Pod", "default")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownKind`].
    pub fn list(&self, api_version: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, Error> {
        let resource = self.resource(api_version, kind)?;
        let selection = Selection { namespace: namespace.to_owned(), ..Selection::default() };
        let objects = resource.store.snapshot().objects;
        let selected = objects.values().filter(|stored| crate::api::selects(&selection, &resource, stored));
        Ok(selected.map(|stored| Value::Object(Api::served(&resource, stored))).collect())
    }

    /// Returns the number of objects of a kind. O(1).
    ///
    /// # Errors
    /// [`Error::UnknownKind`].
    pub fn count(&self, api_version: &str, kind: &str) -> Result<usize, Error> {
        Ok(self.resource(api_version, kind)?.store.len())
    }

    /// Deletes an object as a client would: an object with finalizers remains until they are removed. Returns its
    /// last state.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = kinformer_apiserver::valid_pod("web-0");
    /// server.create(pod)?;
    /// let deleted = server.delete("v1", "Pod", "default", "web-0")?;
    /// assert_eq!((deleted["metadata"]["name"].as_str(), server.count("v1", "Pod")?), (Some("web-0"), 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownKind`], and [`Error::Status`] with the response that a client would receive.
    pub fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, Error> {
        self.api().writes(|| {
            let resource = self.resource(api_version, kind)?;
            let deleted = self.api().delete(&resource, namespace, name, &DeleteOptions::default())?;
            let (Deleted::Gone(stored) | Deleted::Terminating(stored)) = deleted;
            Ok(Value::Object(Api::served(&resource, &stored)))
        })
    }

    /// Closes all connections and waits until all tasks have ended: at once for idle connections, after at most half
    /// a second for others.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the wait, also before its first poll: the tasks still end.
    pub async fn shutdown(self) {
        self.context.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(crate) fn api(&self) -> &Api {
        &self.context.api
    }

    pub(crate) fn resource(&self, api_version: &str, kind: &str) -> Result<Arc<Resource>, Error> {
        self.api()
            .registry()
            .of_kind(api_version, kind)
            .cloned()
            .ok_or_else(|| Error::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })
    }

    /// Finds the resource and namespace of an object from its own fields.
    pub(crate) fn place(&self, object: Value) -> Result<(Arc<Resource>, String, Object), Error> {
        let Value::Object(object) = object else { return Err(Error::NotAnObject) };
        let text = |member: &str| object.get(member).and_then(Value::as_str).unwrap_or("");
        let resource = self.resource(text("apiVersion"), text("kind"))?;
        let given =
            object.get("metadata").and_then(|metadata| metadata.get("namespace")).and_then(Value::as_str);
        let namespace = if resource.kind.namespaced { given.unwrap_or("default") } else { "" };
        Ok((resource, namespace.to_owned(), object))
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.context.shutdown.cancel();
    }
}

pub(crate) fn name_of(object: &Object) -> String {
    object.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str).unwrap_or("").to_owned()
}
