//! An operator of kube-runtime, unchanged: a config map for each team, by server-side apply.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{Fault, TestCluster, Verb};
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::{Api, Client, Error, ResourceExt as _};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::watcher;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Team, TeamStatus, cluster};

const RETRY: Duration = Duration::from_secs(5);

async fn reconcile(team: Arc<Team>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = team.namespace().unwrap_or_default();
    let maps: Api<ConfigMap> = Api::namespaced(Client::clone(&client), &namespace);
    let name = format!("{}-members", team.name_any());
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [kube_client::core::Resource::controller_owner_ref(&*team, &())]},
        "data": {"members": team.spec.members.join(",")},
    });
    maps.patch(&name, &PatchParams::apply("teams").force(), &Patch::Apply(map)).await?;
    let generation = team.metadata.generation.unwrap_or_default();
    if team.status.as_ref().is_none_or(|status| status.observed_generation != generation) {
        let mut changed = Team::clone(&team);
        changed.status = Some(TeamStatus { observed_generation: generation });
        let changed = serde_json::to_value(changed).map_err(Error::SerdeError)?;
        let mut body = json!({"apiVersion": "example.com/v1", "kind": "Team"});
        body.as_object_mut().unwrap().extend(changed.as_object().cloned().unwrap());
        let teams: Api<kube_client::core::DynamicObject> =
            Api::namespaced_with(Client::clone(&client), &namespace, &kind());
        let body = serde_json::from_value(body).map_err(Error::SerdeError)?;
        teams.replace_status(&team.name_any(), &PostParams::default(), &body).await?;
    }
    Ok(Action::await_change())
}

fn kind() -> kube_client::core::ApiResource {
    kube_client::core::ApiResource::erase::<Team>(&())
}

fn run(client: Client) -> JoinHandle<()> {
    let teams: Api<Team> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let controller =
        Controller::new(teams, watcher::Config::default()).owns(maps, watcher::Config::default());
    let running = controller.run(reconcile, |_, _, _| Action::requeue(RETRY), Arc::new(client));
    tokio::spawn(running.for_each(|_| std::future::ready(())))
}

/// The members in the config map of a team.
fn members(cluster: &TestCluster, team: &str) -> Result<String, String> {
    let map = cluster.get::<ConfigMap>(&format!("{team}-members")).map_err(|error| error.to_string())?;
    map.data.and_then(|data| data.get("members").cloned()).ok_or_else(|| "no members".to_owned())
}

async fn operator_follows_its_teams(cluster: &TestCluster) {
    let conflict = Fault::conflict().on(Verb::Update).resource("teams").subresource("status");
    cluster.faults().inject(conflict);
    let operator = run(cluster.client_of("teams-operator/1.0").unwrap());
    cluster.create(&Team::new("storage", &["ann", "bob"])).unwrap();
    let status = cluster
        .eventually(|| {
            let team = cluster.get::<Team>("storage").map_err(|error| error.to_string())?;
            team.status.ok_or_else(|| "no status".to_owned())
        })
        .await
        .unwrap();
    assert_eq!((status.observed_generation, members(cluster, "storage").unwrap()), (1, "ann,bob".to_owned()));
    // With several threads, the state is visible before the request is answered, and a reconciliation with the team of
    // the cache, which has no status yet, may follow with a conflict.
    let codes = || {
        let writes = cluster.requests().by("teams-operator").on(Verb::Update).subresource("status");
        let codes: Vec<_> = writes.iter().map(|request| request.code).collect();
        if codes.starts_with(&[Some(409), Some(200)]) { Ok(()) } else { Err(writes) }
    };
    cluster.eventually(codes).await.unwrap();

    cluster.modify::<Team>("storage", |team| team.spec.members.push("cid".into())).unwrap();
    let is_wanted = |members: String| if members == "ann,bob,cid" { Ok(()) } else { Err(members) };
    cluster.eventually(|| members(cluster, "storage").and_then(is_wanted)).await.unwrap();
    // A reconciliation in flight may write the config map once more: its owner is gone, so it is deleted again.
    cluster.delete::<Team>("storage").unwrap();
    let is_gone = || members(cluster, "storage").map_or_else(|_| Ok(()), Err);
    cluster.eventually(is_gone).await.unwrap();
    operator.abort();
}

/// The clock does not advance while requests are in flight: a test without waits takes no time at all.
// contract: E-16a, E-16e, E-20b, E-06k
#[tokio::test(start_paused = true)]
async fn operator_works_in_paused_time() {
    let (cluster, began) = (cluster().await, Instant::now());
    operator_follows_its_teams(&cluster).await;
    // The write of the config map leads to the retry, before its 5 s.
    assert_eq!(began.elapsed(), Duration::ZERO);
    cluster.shutdown().await;
}

// contract: E-16a, E-16e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_works_in_real_time() {
    let cluster = cluster().await;
    operator_follows_its_teams(&cluster).await;
    cluster.shutdown().await;
}

/// An operator that cannot write: the failure has the last error, the time, an explanation and the refused requests.
// contract: E-16f
#[tokio::test(start_paused = true)]
async fn failed_wait_says_why() {
    let (cluster, began) = (cluster().await, Instant::now());
    cluster.explain("the operator has no rights");
    cluster.faults().inject(Fault::forbidden().on(Verb::Patch).resource("configmaps").always());
    let operator = run(cluster.client_of("teams-operator/1.0").unwrap());
    cluster.create(&Team::new("storage", &["ann"])).unwrap();
    let failure = cluster.eventually(|| members(&cluster, "storage")).await.unwrap_err();
    assert_eq!(failure.reason(), "configmaps \"storage-members\" not found");
    assert_eq!((failure.waited(), began.elapsed()), (Duration::from_secs(30), Duration::from_secs(30)));
    let attempts = failure.requests().on(Verb::Patch).len();
    assert_eq!(attempts, 6, "one every 5 s: {failure}");
    let text = format!("{failure:?}");
    for part in [
        "not reached in 30.000s, after ",
        "configmaps \"storage-members\" not found",
        "the operator has no rights",
        "s PATCH /api/v1/namespaces/default/configmaps/storage-members?",
        "by teams-operator/1.0: 403 after 0.000s",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    operator.abort();
    cluster.shutdown().await;
}
