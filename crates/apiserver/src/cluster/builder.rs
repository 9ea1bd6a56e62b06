//! Configuration of a test cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::{ApiServer, Builder, Error, Snapshot};

use super::TestCluster;
use super::manifests::{self, Manifest};
use super::transport;

/// How many requests are logged.
const LOG: usize = 1_000;
/// The time limit of waits.
const LIMIT: Duration = Duration::from_secs(30);

/// Configuration of a [`TestCluster`]. Every setting has a default.
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
    pub fn crd(self, definition: impl Serialize) -> Self {
        self.object(definition)
    }

    /// Adds an object, which is stored as it is, including its status.
    pub fn object(mut self, object: impl Serialize) -> Self {
        self.sources.push(Source::Object(serde_json::to_value(object)));
        self
    }

    /// Adds the objects of a text with any number of YAML documents.
    pub fn yaml(mut self, text: impl Into<String>) -> Self {
        self.sources.push(Source::Text(text.into()));
        self
    }

    /// Adds the objects of a YAML file, or of the files `*.yaml`, `*.yml` and `*.json` of a folder. Other files and
    /// subfolders are ignored. A relative path is relative to the current directory, which `cargo test` sets to the folder
    /// of the package.
    pub fn manifests(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(Source::Path(path.into()));
        self
    }

    /// Changes settings of the server: `.server(|server| server.fault(fault).history(100))`.
    pub fn server(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.server = change(self.server);
        self
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
        let client = transport::client(&server, "")?;
        let explanations = Arc::new(Mutex::new(Vec::new()));
        Ok(TestCluster { server, client, limit: self.limit, explanations })
    }
}
