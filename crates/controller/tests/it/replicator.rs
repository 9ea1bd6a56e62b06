//! The example `replicator`, a port of kubernetes-replicator.

#[expect(dead_code, reason = "its main program")]
#[path = "../../examples/replicator/main.rs"]
mod program;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kinformer::SharedInformerFactory;
use kinformer_apiserver::{Fault, LoggedRequests, TestCluster, Verb};
use kinformer_controller::{CancellationToken, Error};
use tokio::task::JoinHandle;

use program::{NAME, Options, manager};

const NAMESPACES: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: app-1}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: app-2}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}
";
/// A certificate, which is pushed by names and by labels.
const CERTIFICATE: &str = "
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: certificate
  labels: {issuer: test}
  annotations:
    replicator.v1.mittwald.de/replicate-to: app-[0-9]
    replicator.v1.mittwald.de/replicate-to-matching: team
data: {tls.crt: Y3J0, tls.key: a2V5}
";
const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  annotations:
    replicator.v1.mittwald.de/replication-allowed: 'true'
    replicator.v1.mittwald.de/replication-allowed-namespaces: app-[0-9]
data: {color: blue, size: large}
---
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: app-1
  name: mine
  annotations: {replicator.v1.mittwald.de/replicate-from: default/settings}
data: {own: value}
";

struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    fn start(cluster: &TestCluster, options: Options) -> Self {
        let (client, shutdown) = (cluster.client(), CancellationToken::new());
        let factory = SharedInformerFactory::new(client.clone());
        let task = tokio::spawn(manager(&factory, &client, options).unwrap().run(shutdown.clone()));
        Self { shutdown, task }
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn applied(cluster: &TestCluster) -> LoggedRequests {
    cluster.requests().by(NAME).on(Verb::Patch)
}

/// The namespaces that have a copy of the certificate.
fn copies(cluster: &TestCluster) -> Vec<String> {
    let secrets = cluster.list::<Secret>().unwrap().into_iter();
    let copies = secrets.filter(|secret| secret.metadata.namespace.as_deref() != Some("default"));
    copies.filter_map(|secret| secret.metadata.namespace).collect()
}

async fn copies_are(cluster: &TestCluster, expected: &[&str]) {
    let check = || {
        let copies = copies(cluster);
        if copies == expected { Ok(()) } else { Err(format!("{copies:?}")) }
    };
    cluster.eventually(check).await.unwrap();
}

async fn data_is(cluster: &TestCluster, key: &str, expected: &[(&str, &str)]) {
    let check = || {
        let data = cluster.get::<ConfigMap>(key).map_err(|error| error.to_string())?.data.unwrap_or_default();
        let is_expected = data.iter().map(|(key, value)| (&**key, &**value)).eq(expected.iter().copied());
        if is_expected { Ok(()) } else { Err(format!("{data:?}")) }
    };
    cluster.eventually(check).await.unwrap();
}

/// Copies follow the source, the labels of namespaces, and new namespaces. They end with the source. A restart writes nothing.
#[tokio::test(start_paused = true)]
async fn sources_are_pushed() {
    let cluster = TestCluster::builder().yaml(NAMESPACES).yaml(CERTIFICATE).start().await.unwrap();
    let running = Running::start(&cluster, Options::default());
    copies_are(&cluster, &["app-1", "app-2", "shop"]).await;
    let copy = cluster.get::<Secret>("shop/certificate").unwrap();
    assert_eq!(copy.type_.as_deref(), Some("kubernetes.io/tls"));
    assert_eq!(copy.metadata.labels.unwrap()["issuer"], "test");
    let lists = cluster.requests().filter(|request| matches!(request.verb, Verb::List | Verb::Watch));
    assert_eq!(lists.len(), 3, "one watch-list of each kind: {lists}");
    assert_eq!(applied(&cluster).len(), 3);

    cluster.create_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: app-3}}").unwrap();
    copies_are(&cluster, &["app-1", "app-2", "app-3", "shop"]).await;
    cluster.modify::<Namespace>("shop", |shop| shop.metadata.labels = None).unwrap();
    copies_are(&cluster, &["app-1", "app-2", "app-3"]).await;
    running.end().await;

    let before = applied(&cluster).len();
    let running = Running::start(&cluster, Options::default());
    cluster.create_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: app-4}}").unwrap();
    copies_are(&cluster, &["app-1", "app-2", "app-3", "app-4"]).await;
    assert_eq!(applied(&cluster).len(), before + 1, "the other copies are as they should be");
    running.end().await;

    // While it does not run, the source is deleted.
    cluster.delete::<Secret>("certificate").unwrap();
    let running = Running::start(&cluster, Options::default());
    copies_are(&cluster, &[]).await;
    running.end().await;
}

/// A target has the keys of its source and its own ones, also after a key of the source, and the source, are deleted.
#[tokio::test(start_paused = true)]
async fn sources_are_pulled() {
    let cluster = TestCluster::builder().yaml(NAMESPACES).yaml(SETTINGS).start().await.unwrap();
    let running = Running::start(&cluster, Options::default());
    let mine = "app-1/mine";
    data_is(&cluster, mine, &[("color", "blue"), ("own", "value"), ("size", "large")]).await;
    let change = |settings: &mut ConfigMap| drop(settings.data.as_mut().unwrap().remove("size"));
    cluster.modify::<ConfigMap>("settings", change).unwrap();
    data_is(&cluster, mine, &[("color", "blue"), ("own", "value")]).await;
    assert_eq!(applied(&cluster).len(), 2);
    cluster.delete::<ConfigMap>("settings").unwrap();
    data_is(&cluster, mine, &[("own", "value")]).await;
    running.end().await;
}

/// A source that does not allow it is not copied, until it does.
#[tokio::test(start_paused = true)]
async fn permissions_are_checked() {
    let cluster = TestCluster::builder().yaml(NAMESPACES).yaml(SETTINGS).start().await.unwrap();
    let allowed = |settings: &mut ConfigMap, namespaces: &str| {
        let annotation = "replicator.v1.mittwald.de/replication-allowed-namespaces".to_owned();
        settings.metadata.annotations.get_or_insert_default().insert(annotation, namespaces.to_owned());
    };
    // A pattern is one of a whole name, so this allows neither.
    cluster.modify::<ConfigMap>("settings", |settings| allowed(settings, "app|1")).unwrap();
    let client = cluster.client();
    let factory = SharedInformerFactory::new(client.clone());
    let controller =
        program::replicator::controller::<ConfigMap>(&factory, &client, &Options::default().into()).unwrap();
    let (monitor, shutdown) = (controller.monitor(), CancellationToken::new());
    let task = tokio::spawn(controller.run(shutdown.clone()));
    let failed = || monitor.failures().first().map(|failure| failure.to_string()).ok_or("no failure");
    let failure = cluster.eventually(failed).await.unwrap();
    assert!(failure.contains("default/settings does not allow copies in the namespace app-1"), "{failure}");
    assert!(monitor.metrics().permanent > 0 && applied(&cluster).is_empty());
    cluster.modify::<ConfigMap>("settings", |settings| allowed(settings, "app-1")).unwrap();
    data_is(&cluster, "app-1/mine", &[("color", "blue"), ("own", "value"), ("size", "large")]).await;
    Running { shutdown, task }.end().await;
}

/// A write that the API server refuses is retried, and delays no other copy.
#[tokio::test(start_paused = true)]
async fn refused_writes_are_retried() {
    let cluster = TestCluster::builder().yaml(NAMESPACES).yaml(CERTIFICATE).start().await.unwrap();
    let refusal = Fault::internal_error().on(Verb::Patch).resource("secrets").namespace("app-1");
    let refusal = cluster.faults().inject(refusal.always());
    let running = Running::start(&cluster, Options::default());
    copies_are(&cluster, &["app-2", "shop"]).await;
    cluster.faults().remove(refusal);
    copies_are(&cluster, &["app-1", "app-2", "shop"]).await;
    running.end().await;
}

/// Nothing is pushed into excluded namespaces. Of an object that has other data, only the copied keys are removed.
#[tokio::test(start_paused = true)]
async fn other_data_stays() {
    let pushed = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {replicator.v1.mittwald.de/replicate-to: '.*'}}
data: {color: blue}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: app-1}, data: {own: value}}
";
    let cluster = TestCluster::builder().yaml(NAMESPACES).yaml(pushed).start().await.unwrap();
    let excluded = ["^kube-", "^app-2$"].map(|pattern| regex::Regex::new(pattern).unwrap());
    let options = Options { excluded: excluded.into(), ..Options::default() };
    let running = Running::start(&cluster, options);
    data_is(&cluster, "shop/settings", &[("color", "blue")]).await;
    data_is(&cluster, "app-1/settings", &[("color", "blue"), ("own", "value")]).await;
    cluster.delete::<ConfigMap>("settings").unwrap();
    data_is(&cluster, "app-1/settings", &[("own", "value")]).await;
    let left = || match cluster.get_opt::<ConfigMap>("shop/settings") {
        Ok(None) => Ok(()),
        found => Err(format!("{found:?}")),
    };
    cluster.eventually(left).await.unwrap();
    assert!(cluster.get_opt::<ConfigMap>("app-2/settings").unwrap().is_none());
    running.end().await;
}
