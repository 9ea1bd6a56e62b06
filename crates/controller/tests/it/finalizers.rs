//! Finalizers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::ApiServer;
use kinformer_controller::{WriteError, finalizer};
use kube_client::api::{DeleteParams, PostParams};
use kube_client::{Api, Client};
use parking_lot::Mutex;

const NAME: &str = "example.com/cleanup";
const OTHER: &str = "example.com/other";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

struct Cluster {
    server: ApiServer,
    api: Api<ConfigMap>,
    /// The calls of apply and cleanup, with the finalizers of the object that they received.
    calls: Mutex<Vec<(&'static str, Vec<String>)>>,
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::builder().start().await.unwrap();
        let client = Client::try_from(server.config().unwrap()).unwrap();
        Self { server, api: Api::namespaced(client, "default"), calls: Mutex::default() }
    }

    async fn create(&self, finalizers: &[&str]) -> Arc<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".into());
        object.metadata.finalizers = Some(finalizers.iter().map(|&name| name.into()).collect());
        Arc::new(self.api.create(&PostParams::default(), &object).await.unwrap())
    }

    async fn get(&self) -> Option<Arc<ConfigMap>> {
        self.api.get_opt("a").await.unwrap().map(Arc::new)
    }

    async fn finalizers(&self) -> Vec<String> {
        finalizers(&self.get().await.unwrap())
    }

    async fn delete(&self) {
        self.api.delete("a", &DeleteParams::default()).await.unwrap();
    }

    /// Changes the object in a way that leaves the finalizers as they are.
    async fn change(&self) {
        let mut object = ConfigMap::clone(&*self.get().await.unwrap());
        object.data = Some([("key".into(), "value".into())].into());
        self.api.replace("a", &PostParams::default(), &object).await.unwrap();
    }

    async fn set_finalizers(&self, names: &[&str]) {
        let mut object = ConfigMap::clone(&*self.get().await.unwrap());
        object.metadata.finalizers = Some(names.iter().map(|&name| name.into()).collect());
        self.api.replace("a", &PostParams::default(), &object).await.unwrap();
    }

    async fn finalize(&self, object: Arc<ConfigMap>) -> Result<u32, BoxError> {
        self.finalize_with(object, Ok(())).await
    }

    async fn finalize_with(
        &self,
        object: Arc<ConfigMap>,
        cleanup: Result<(), BoxError>,
    ) -> Result<u32, BoxError> {
        let call = |name, object: Arc<ConfigMap>| self.calls.lock().push((name, finalizers(&object)));
        let apply = async |object| {
            call("apply", object);
            Ok(42)
        };
        let cleanup = async |object| {
            call("cleanup", object);
            cleanup
        };
        finalizer::finalize(&self.api, object, NAME, apply, cleanup).await
    }

    fn calls(&self) -> Vec<(&'static str, Vec<String>)> {
        std::mem::take(&mut *self.calls.lock())
    }
}

fn finalizers(object: &ConfigMap) -> Vec<String> {
    object.metadata.finalizers.clone().unwrap_or_default()
}

fn is_refused(result: Result<u32, BoxError>) -> bool {
    let error = result.unwrap_err();
    let text = r#""a" was not written: it was changed since it was read"#;
    matches!(error.downcast_ref::<WriteError>(), Some(error) if error.is_conflict() && error.to_string() == text)
}

/// The finalizer is added before the first apply, which gets the stored state. It is not written again.
// contract: K-12a, K-12b
#[tokio::test]
async fn finalizer_is_added_before_apply() {
    for before in [&[][..], &[OTHER]] {
        let cluster = Cluster::start().await;
        let object = cluster.create(before).await;
        let with_own: Vec<String> = before.iter().copied().chain([NAME]).map(String::from).collect();
        assert_eq!(cluster.finalize(object).await.unwrap(), 42);
        assert_eq!(cluster.calls(), [("apply", with_own.clone())]);
        assert_eq!(cluster.finalizers().await, with_own);

        let stored = cluster.get().await.unwrap();
        assert_eq!(cluster.finalize(stored.clone()).await.unwrap(), 42);
        assert_eq!(cluster.calls(), [("apply", with_own)]);
        assert_eq!(cluster.get().await.unwrap(), stored);
        cluster.server.shutdown().await;
    }
}

/// The API server keeps an object until its cleanup has succeeded.
// contract: K-12c, K-12d
#[tokio::test]
async fn finalizer_is_removed_after_the_cleanup() {
    let cluster = Cluster::start().await;
    cluster.create(&[NAME, OTHER]).await;
    cluster.delete().await;
    let error = cluster.finalize_with(cluster.get().await.unwrap(), Err("in use".into())).await.unwrap_err();
    assert_eq!(error.to_string(), "in use");
    assert_eq!(cluster.finalizers().await, [NAME, OTHER]);

    assert_eq!(cluster.finalize(cluster.get().await.unwrap()).await.unwrap(), 0);
    assert_eq!(cluster.finalizers().await, [OTHER], "other finalizers are kept");
    let names: Vec<_> = cluster.calls().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["cleanup", "cleanup"]);

    // Another controller holds the object; there is nothing left to do here.
    assert_eq!(cluster.finalize(cluster.get().await.unwrap()).await.unwrap(), 0);
    assert_eq!(cluster.calls(), []);
    assert_eq!(cluster.finalizers().await, [OTHER]);
    cluster.server.shutdown().await;
}

/// The last finalizer ends the object. A store that has not seen this yet leads to another cleanup, and to no error.
// contract: K-12c, K-12f
#[tokio::test]
async fn deleted_object_is_no_error() {
    let cluster = Cluster::start().await;
    cluster.create(&[NAME]).await;
    cluster.delete().await;
    let object = cluster.get().await.unwrap();
    cluster.finalize(object.clone()).await.unwrap();
    assert_eq!(cluster.get().await, None);
    cluster.finalize(object).await.unwrap();
    assert_eq!(cluster.calls().len(), 2);
    cluster.server.shutdown().await;
}

/// A finalizer is not added to a state that is not the newest one, and apply does not run.
// contract: K-12e
#[tokio::test]
async fn stale_state_gets_no_finalizer() {
    let cluster = Cluster::start().await;
    let object = cluster.create(&[]).await;
    cluster.change().await;
    assert!(is_refused(cluster.finalize(object).await));
    assert_eq!(cluster.finalizers().await, [""; 0]);

    let object = cluster.get().await.unwrap();
    cluster.set_finalizers(&[OTHER]).await;
    assert!(is_refused(cluster.finalize(object).await));
    assert_eq!(cluster.finalizers().await, [OTHER]);

    let object = cluster.get().await.unwrap();
    cluster.set_finalizers(&[]).await;
    cluster.delete().await;
    cluster.create(&[OTHER]).await;
    assert!(is_refused(cluster.finalize(object).await), "another object of this name");
    assert_eq!(cluster.finalizers().await, [OTHER]);
    assert_eq!(cluster.calls(), []);
    cluster.server.shutdown().await;
}

/// A removal does not undo what others have done to the list, and other changes do not prevent it.
// contract: K-12e
#[tokio::test]
async fn removal_keeps_the_changes_of_others() {
    let cluster = Cluster::start().await;
    cluster.create(&[NAME, OTHER]).await;
    cluster.delete().await;
    let object = cluster.get().await.unwrap();
    cluster.set_finalizers(&[NAME]).await;
    assert!(is_refused(cluster.finalize(object).await));
    assert_eq!(cluster.finalizers().await, [NAME]);

    let object = cluster.get().await.unwrap();
    cluster.change().await;
    cluster.finalize(object).await.unwrap();
    assert_eq!(cluster.get().await, None);
    cluster.server.shutdown().await;
}

/// Objects that were not read from an API server are refused without a request.
// contract: K-12g
#[tokio::test]
async fn objects_without_a_version_are_refused() {
    let cluster = Cluster::start().await;
    let mut object = ConfigMap::default();
    let error = finalizer::add(&cluster.api, &object, NAME).await.unwrap_err();
    assert!(matches!(error, WriteError::NoName), "{error}");
    object.metadata.name = Some("a".into());
    let error = finalizer::add(&cluster.api, &object, NAME).await.unwrap_err();
    assert!(matches!(error, WriteError::NotStored { .. }), "{error}");
    cluster.server.shutdown().await;
}

/// The future can be spawned.
#[tokio::test]
async fn future_is_send() {
    let cluster = Cluster::start().await;
    let object = cluster.create(&[]).await;
    let api = cluster.api.clone();
    let apply = |_| async { Ok::<_, BoxError>(1) };
    let cleanup = |_| async { Ok(()) };
    let task = tokio::spawn(async move { finalizer::finalize(&api, object, NAME, apply, cleanup).await });
    assert_eq!(task.await.unwrap().unwrap(), 1);
    cluster.server.shutdown().await;
}
