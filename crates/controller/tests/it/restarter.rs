//! The example `restarter`, a port of the restart controllers of Stackable's commons-operator.

#[expect(dead_code, reason = "its main program")]
#[path = "../../examples/restarter/main.rs"]
mod program;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kinformer_apiserver::{Fault, LoggedRequests, TestCluster, Verb};
use kinformer_controller::events::EventRecorder;
use kinformer_controller::{CancellationToken, Error};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use program::stateful_set::MANAGER;

const OBJECTS: &str = "
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: blue}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: reloaded, labels: {restarter.stackable.tech/ignore: 'true'}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: password}, stringData: {password: a}}
---
{apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {token: a}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: database
  labels: {restarter.stackable.tech/enabled: 'true'}
  annotations: {restarter.stackable.tech/ignore-secret.0: token}
spec:
  serviceName: database
  selector: {matchLabels: {app: database}}
  template:
    metadata: {labels: {app: database}, annotations: {own: value}}
    spec:
      volumes:
      - {name: settings, configMap: {name: settings}}
      - {name: token, secret: {secretName: token}}
      containers:
      - name: database
        image: database:1
        envFrom: [{configMapRef: {name: reloaded}}]
        env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: password, key: password}}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: other, labels: {restarter.stackable.tech/enabled: 'true'}}
spec:
  serviceName: other
  selector: {matchLabels: {app: other}}
  template:
    metadata: {labels: {app: other}}
    spec: {containers: [{name: other, image: other:1}]}
";

struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    /// The wall clock follows the paused clock of the test.
    fn start(cluster: &TestCluster) -> Self {
        let (client, shutdown) = (cluster.client(), CancellationToken::new());
        let factory = program::factory(&client, Some("default".to_owned()));
        let events = EventRecorder::new(client.clone(), program::NAME, "test");
        let (began, start) = (Instant::now(), Timestamp::now());
        let manager = program::manager(&factory, &client, &events, move || start + began.elapsed()).unwrap();
        Self { task: tokio::spawn(manager.run(shutdown.clone())), shutdown }
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn applied(cluster: &TestCluster) -> LoggedRequests {
    cluster.requests().by(MANAGER).on(Verb::Patch)
}

/// The annotations of the pod template.
async fn annotations_are(cluster: &TestCluster, expected: &[(&str, &str)]) {
    let expected: BTreeMap<_, _> =
        expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let check = || {
        let set = cluster.get::<StatefulSet>("database").map_err(|error| error.to_string())?;
        let annotations = set.spec.template.metadata.unwrap().annotations.unwrap_or_default();
        if annotations == expected { Ok(()) } else { Err(format!("{annotations:?}")) }
    };
    cluster.eventually(check).await.unwrap();
}

/// The template has the versions of what it uses. A StatefulSet that does not use an object, and a restart of the program, write
/// nothing.
#[tokio::test(start_paused = true)]
async fn changed_configurations_restart_their_stateful_sets() {
    let cluster = TestCluster::builder().yaml(OBJECTS).start().await.unwrap();
    let running = Running::start(&cluster);
    let settings = || {
        let metadata = cluster.get::<ConfigMap>("settings").unwrap().metadata;
        format!("{}/{}", metadata.uid.unwrap(), metadata.resource_version.unwrap())
    };
    let metadata = cluster.get::<Secret>("password").unwrap().metadata;
    let password = format!("{}/{}", metadata.uid.unwrap(), metadata.resource_version.unwrap());
    let annotations_with = async |settings: &str| {
        let expected = [
            ("own", "value"),
            ("configmap.restarter.stackable.tech/settings", settings),
            ("configmap.restarter.stackable.tech/reloaded", "changes-ignored"),
            ("secret.restarter.stackable.tech/password", &password),
            ("secret.restarter.stackable.tech/token", "changes-ignored"),
        ];
        annotations_are(&cluster, &expected).await;
    };
    annotations_with(&settings()).await;
    assert_eq!(applied(&cluster).len(), 1);
    let lists = cluster.requests().filter(|request| matches!(request.verb, Verb::List | Verb::Watch));
    assert_eq!(lists.len(), 4, "one watch-list of each kind: {lists}");
    for color in ["red", "green"] {
        let data = Some([("color".to_owned(), color.to_owned())].into());
        cluster.modify::<ConfigMap>("settings", |settings| settings.data = data.clone()).unwrap();
    }
    annotations_with(&settings()).await;
    assert_eq!(applied(&cluster).len(), 2, "one restart for both changes");
    running.end().await;

    let running = Running::start(&cluster);
    cluster.delete::<ConfigMap>("settings").unwrap();
    annotations_with("changes-ignored").await;
    assert_eq!(applied(&cluster).len(), 3, "{}", applied(&cluster));
    running.end().await;
}

fn pod(name: &str, expires_at: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {{restarter.stackable.tech/expires-at.tls: '{expires_at}'}}}}, \
         spec: {{containers: [{{name: a, image: a}}]}}}}"
    )
}

/// A pod is evicted when it has expired, as soon as its disruption budget allows it.
#[tokio::test(start_paused = true)]
async fn expired_pods_are_evicted() {
    let in_an_hour = (Timestamp::now() + Duration::from_secs(3_600)).to_string();
    let cluster =
        TestCluster::builder().yaml(pod("a", &in_an_hour)).yaml(pod("b", "2100-01-01T00:00:00+01:00"));
    let cluster = cluster.start().await.unwrap();
    let refusal = Fault::too_many_requests(10).on(Verb::Create).resource("pods").subresource("eviction");
    cluster.faults().inject(refusal.times(3));
    let (began, running) = (Instant::now(), Running::start(&cluster));
    let is_evicted = || match cluster.get_opt::<Pod>("a") {
        Ok(None) => Ok(()),
        found => Err(format!("{found:?}")),
    };
    cluster.within(Duration::from_secs(7_200)).eventually(is_evicted).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(3_600));
    let evictions = cluster.requests().subresource("eviction");
    assert_eq!(evictions.len(), 4, "{evictions}");
    assert!(cluster.get_opt::<Pod>("b").unwrap().is_some());
    running.end().await;
}

/// A time that cannot be parsed is an event of the pod, and is not tried again.
#[tokio::test(start_paused = true)]
async fn invalid_times_are_reported() {
    let cluster = TestCluster::builder().yaml(pod("a", "tomorrow")).start().await.unwrap();
    let running = Running::start(&cluster);
    let reported = || cluster.list::<Event>().unwrap().pop().ok_or("no event");
    let event = cluster.eventually(reported).await.unwrap();
    assert_eq!(
        (event.reason.as_deref(), event.regarding.unwrap().name.as_deref()),
        (Some("ReconcileFailed"), Some("a"))
    );
    assert!(event.note.unwrap().contains("expires-at.tls"));
    running.end().await;
}
