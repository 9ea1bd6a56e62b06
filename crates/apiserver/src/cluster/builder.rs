//! Configuration of a test cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::{Access, ApiServer, Builder, Error, Snapshot};

use super::manifests::{self, Manifest};
use super::test_cluster::TestCluster;
use super::transport;

/// How many requests are logged.
const LOG: usize = 1_000;
/// The time limit of waits.
const LIMIT: Duration = Duration::from_secs(30);

/// Configuration of a [`TestCluster`]. Every setting has a default.
#[doc(alias = "ClientBuilder")]
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct TestClusterBuilder {
    server: Builder,
    sources: Vec<Source>,
    limit: Duration,
}

#[derive(Debug)]
enum Source {
    Object(Result<Value, serde_json::Error>),
    Text(String),
    Path(PathBuf),
}

impl Default for TestClusterBuilder {
    fn default() -> Self {
        Self { server: ApiServer::builder().request_log(LOG), sources: Vec::new(), limit: LIMIT }
    }
}

impl TestClusterBuilder {
    /// Adds a CustomResourceDefinition: of a Rust type, `Widget::crd()`.
    #[doc(alias("CRDs", "InstallCRDs", "WithStatusSubresource"))]
    pub fn crd(self, definition: impl Serialize) -> Self {
        self.object(definition)
    }

    /// Adds an object, which is stored as it is, including its status.
    #[doc(alias = "WithObjects")]
    pub fn object(mut self, object: impl Serialize) -> Self {
        self.sources.push(Source::Object(serde_json::to_value(object)));
        self
    }

    /// Adds the objects of a text with any number of YAML documents.
    #[doc(alias = "WithObjects")]
    pub fn yaml(mut self, text: impl Into<String>) -> Self {
        self.sources.push(Source::Text(text.into()));
        self
    }

    /// Adds the objects of a YAML file, or of the files `*.yaml`, `*.yml` and `*.json` of a folder. Other files and
    /// subfolders are ignored. A relative path is relative to the current directory, which `cargo test` sets to the folder
    /// of the package.
    #[doc(alias(
        "CRDDirectoryPaths",
        "CRDInstallOptions",
        "ReadCRDFiles",
        "WebhookInstallOptions",
        "WithObjects"
    ))]
    pub fn manifests(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(Source::Path(path.into()));
        self
    }

    /// Changes settings of the server: `.server(|server| server.fault(fault).history(100))`.
    pub fn server(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.server = change(self.server);
        self
    }

    /// Allows requests by roles and bindings. The client of the cluster may do everything, and [`TestCluster::client_as`] is
    /// that of another user. See [`Builder::access`].
    pub fn access(self, access: Access) -> Self {
        self.server(|server| server.access(access))
    }

    /// Sets where the webhooks of a service are. See [`Builder::service`].
    pub fn service(
        self,
        namespace: impl Into<String>,
        name: impl Into<String>,
        port: u16,
        address: SocketAddr,
    ) -> Self {
        self.server(|server| server.service(namespace, name, port, address))
    }

    /// Starts with the state of a snapshot, to which the objects of this builder are added. See [`Builder::snapshot`].
    pub fn snapshot(self, snapshot: &Snapshot) -> Self {
        self.server(|server| server.snapshot(snapshot))
    }

    /// Sets the time limit of [`TestCluster::eventually`]. Default: 30 s of tokio's clock.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts the cluster. All objects of the builder are stored: definitions first, then namespaces, then the others, each
    /// in their order.
    ///
    /// # Cancel safety
    /// The future never waits: its first poll starts the cluster and completes. It reads files meanwhile.
    ///
    /// # Errors
    /// The errors of [`Builder::start`]; [`Error::Read`]; [`Error::Manifest`], which names the file, the document and the
    /// object.
    pub async fn start(self) -> Result<TestCluster, Error> {
        let mut manifests = Vec::new();
        for (index, source) in self.sources.into_iter().enumerate() {
            match source {
                Source::Object(object) => {
                    let manifest = |object| Manifest::of_value(index + 1, object);
                    let object = object.map_err(|error| manifest(Value::Null).error(&error))?;
                    manifests.push(manifest(object));
                }
                Source::Text(text) => manifests.extend(manifests::parse("YAML", &text)?),
                Source::Path(path) => manifests.extend(manifests::read(&path)?),
            }
        }
        manifests.sort_by_key(Manifest::rank);
        let server = self.server.start().await?;
        for manifest in manifests {
            server.create(manifest.object.clone()).map_err(|error| manifest.error(&error))?;
        }
        let client = transport::client(&server, "", None)?;
        let explanations = Arc::new(Mutex::new(Vec::new()));
        Ok(TestCluster { server, client, limit: self.limit, explanations })
    }
}

impl TestCluster {
    /// Starts an empty cluster: the built-in kinds and namespaces, garbage collection, and a log of the newest 1,000
    /// requests.
    ///
    /// # Cancel safety
    /// The future never waits: its first poll starts the cluster and completes.
    ///
    /// # Errors
    /// [`Error::Listen`] if the system has no free port.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts a cluster with the state of a snapshot, in a time that does not depend on the sizes of its objects: many tests
    /// start from one state that was made once. The clusters share the objects, and do not affect each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # use kinformer_apiserver::TestCluster;
    /// let template = TestCluster::builder().yaml("{apiVersion: v1, kind: Namespace, metadata: {name: a}}").start().await?;
    /// let state = template.snapshot();
    /// for _ in 0..10 {
    ///     let cluster = TestCluster::from_snapshot(&state).await?;
    ///     cluster.delete::<Namespace>("a")?;
    /// }
    /// assert!(template.get::<Namespace>("a").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As [`Self::start`].
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn from_snapshot(snapshot: &Snapshot) -> Result<Self, Error> {
        Self::builder().snapshot(snapshot).start().await
    }

    /// Returns a builder with the default settings.
    #[doc(alias = "NewClientBuilder")]
    pub fn builder() -> TestClusterBuilder {
        TestClusterBuilder::default()
    }
}
