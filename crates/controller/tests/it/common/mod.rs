//! An API server, a factory, and reconcile functions that report their calls.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kinformer::{ObjectKey, SharedInformerFactory};
use kinformer_apiserver::ApiServer;
use kinformer_controller::{Action, CancellationToken, Controller, Error, Key, ReconcileError, Request};
use kinformer_workqueue::ItemExponential;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Ends a wait that would last forever.
pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.unwrap()
}

pub async fn until(wanted: impl Fn() -> bool) {
    within(async {
        while !wanted() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

pub struct Cluster {
    pub server: ApiServer,
    pub factory: SharedInformerFactory,
}

impl Cluster {
    pub async fn start() -> Self {
        let server = ApiServer::builder().start().await.unwrap();
        let factory = SharedInformerFactory::new(kinformer::client(server.config().unwrap()).unwrap());
        Self { server, factory }
    }

    pub fn create(&self, object: Value) -> Value {
        self.server.create(object).unwrap()
    }

    /// Sets the data of a config map.
    pub fn change(&self, name: &str, value: &str) {
        self.server.update(config_map(name, value)).unwrap();
    }

    pub async fn end(self) {
        self.factory.shutdown().await.unwrap();
        self.server.shutdown().await;
    }
}

pub fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"value": value}})
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name).unwrap()
}

/// Short delays of retries.
pub fn short<K: Key>() -> ItemExponential<K> {
    ItemExponential::new(Duration::from_millis(1), Duration::from_millis(5))
}

/// Calls of a reconcile function, in order.
pub struct Calls<K>(mpsc::Receiver<Request<K>>);

impl<K: Debug> Calls<K> {
    pub async fn next(&mut self) -> Request<K> {
        within(self.0.recv()).await.unwrap()
    }

    /// Returns the calls that have happened and were not read.
    pub fn rest(&mut self) -> Vec<Request<K>> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// Returns the calls and a function for `build`.
#[expect(clippy::type_complexity, reason = "an impl type cannot be named")]
pub fn recorded<K: Key>(
    result: impl Fn(&Request<K>) -> Result<Action, ReconcileError> + Send + Sync + 'static,
) -> (
    Calls<K>,
    impl Fn(Request<K>) -> std::future::Ready<Result<Action, ReconcileError>> + Send + Sync + 'static,
) {
    let (sender, calls) = mpsc::channel(10_000);
    let reconcile = move |request: Request<K>| {
        _ = sender.try_send(request.clone());
        std::future::ready(result(&request))
    };
    (Calls(calls), reconcile)
}

/// A reconcile function that waits for a permit after it has reported its call.
#[expect(clippy::type_complexity, reason = "an impl type cannot be named")]
pub fn gated<K: Key>() -> (
    Calls<K>,
    Arc<Semaphore>,
    impl Fn(Request<K>) -> futures::future::BoxFuture<'static, Result<Action, ReconcileError>>
    + Send
    + Sync
    + 'static,
) {
    let (sender, calls) = mpsc::channel(10_000);
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let reconcile = move |request: Request<K>| {
        let (sender, wait) = (sender.clone(), wait.clone());
        Box::pin(async move {
            _ = sender.try_send(request);
            wait.acquire().await?.forget();
            Ok(Action::none())
        }) as futures::future::BoxFuture<'static, _>
    };
    (Calls(calls), gate, reconcile)
}

/// A controller that runs.
pub struct Running {
    pub shutdown: CancellationToken,
    pub task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub fn of<K: Key>(controller: Controller<K>) -> Self {
        let shutdown = CancellationToken::new();
        Self { task: tokio::spawn(controller.run(shutdown.clone())), shutdown }
    }

    pub async fn end(self) -> Result<(), Error> {
        self.shutdown.cancel();
        within(self.task).await.unwrap()
    }
}
