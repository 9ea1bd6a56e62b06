//! The log of requests, and faults of subresources.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{Fault, TestCluster, Verb};
use kube_client::Api;
use kube_client::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{Team, cluster, config_map};

// contract: E-20a, E-20b
#[tokio::test(start_paused = true)]
async fn requests_are_logged_and_selected() {
    let cluster = cluster().await;
    let client = cluster.client_of("tester/2.0").unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    cluster.faults().inject(Fault::delay(Duration::from_secs(5)).on(Verb::Patch));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    maps.patch(
        "a",
        &PatchParams { field_manager: Some("me".into()), ..PatchParams::default() },
        &Patch::Merge(label),
    )
    .await
    .unwrap();
    maps.get("b").await.unwrap_err();
    cluster.faults().inject(Fault::refuse().on(Verb::List));
    Api::<Team>::all(cluster.client()).list(&ListParams::default()).await.unwrap_err();

    let requests = cluster.requests();
    let lines: Vec<String> = requests.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "+0.000s POST /api/v1/namespaces/default/configmaps? by tester/2.0: 201 after 0.000s",
            "+0.000s PATCH /api/v1/namespaces/default/configmaps/a?&fieldManager=me by tester/2.0: 200 after 5.000s",
            "+5.000s GET /api/v1/namespaces/default/configmaps/b by tester/2.0: 404 after 0.000s: configmaps \"b\" not found",
            "+5.000s GET /apis/example.com/v1/teams?: connection closed",
        ]
    );
    let patch = requests.iter().nth(1).unwrap();
    assert_eq!(
        (patch.resource.as_str(), patch.namespace.as_str(), patch.name.as_str(), patch.subresource.as_str()),
        ("configmaps", "default", "a", "")
    );
    assert_eq!(patch.duration, Some(Duration::from_secs(5)));
    assert_eq!(requests.clone().by("tester").len(), 3);
    assert_eq!(requests.clone().by("me").len(), 1);
    assert_eq!(requests.clone().by("").len(), 3, "without a field manager");
    assert_eq!(requests.clone().namespace("default").name("b").len(), 1);
    assert_eq!(requests.clone().writes().len(), 2);
    assert_eq!(requests.clone().on(Verb::List).resource("teams").len(), 1);
    assert_eq!(requests.last(1).iter().next().unwrap().code, None);
    cluster.server().clear_requests();
    assert!(cluster.requests().is_empty());
}

/// The newest requests are kept; one that left the log before its answer is not logged again. Without a size there is no log.
// contract: E-20a
#[tokio::test]
async fn log_is_bounded() {
    let cluster = TestCluster::builder().server(|server| server.request_log(3)).start().await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    cluster.faults().inject(Fault::stall().on(Verb::List));
    let (list, params) = (maps.clone(), ListParams::default());
    let stalled = tokio::spawn(async move { list.list(&params).await });
    let is_logged = || if cluster.requests().is_empty() { Err("not logged") } else { Ok(()) };
    cluster.eventually(is_logged).await.unwrap();
    assert!(cluster.requests().to_string().ends_with(": no response yet"));
    for name in ["a", "b", "c", "d"] {
        maps.get(name).await.unwrap_err();
    }
    let name = "x".repeat(5_000);
    maps.get(&name).await.unwrap_err();
    cluster.shutdown().await;
    assert!(stalled.await.unwrap().is_err());

    let cluster = TestCluster::builder().server(|server| server.request_log(3)).start().await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    for name in ["a", "b", "c", "d", &name] {
        maps.get(name).await.unwrap_err();
    }
    let requests = cluster.requests();
    let names: Vec<_> = requests.iter().map(|request| request.name.clone()).collect();
    assert_eq!(names, ["c", "d", &name]);
    assert_eq!(requests.iter().next_back().unwrap().path.len(), 2_048);
    let server = kinformer_apiserver::ApiServer::builder().start().await.unwrap();
    crate::common::Client::new(&server).get("/api/v1/pods").await.ok();
    assert!(server.requests().is_empty());
}

/// A fault of a subresource leaves requests for the object alone, and the reverse. Only updates and patches conflict.
// contract: E-06j, E-06k
#[tokio::test]
async fn faults_of_subresources() {
    let cluster = cluster().await;
    let teams = Api::<Team>::default_namespaced(cluster.client());
    cluster.create(&Team::new("a", &[])).unwrap();
    let merge = |body| async {
        let answer =
            teams.patch("a", &PatchParams::default(), &Patch::Merge::<serde_json::Value>(body)).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    let status = |body| async {
        let answer =
            teams.patch_status("a", &PatchParams::default(), &Patch::Merge::<serde_json::Value>(body)).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    let (spec, seen) = (json!({"spec": {"members": ["b"]}}), json!({"status": {"observedGeneration": 1}}));
    let fault = cluster.faults().inject(Fault::conflict().resource("teams").subresource("status").always());
    merge(spec.clone()).await.unwrap();
    teams.get("a").await.unwrap();
    teams.get_status("a").await.unwrap();
    let conflict = status(seen.clone()).await.unwrap_err();
    let text = "Operation cannot be fulfilled on teams.example.com \"a\": the object has been modified";
    assert!(conflict.contains(text), "{conflict}");
    cluster.faults().remove(fault);
    cluster.faults().inject(Fault::internal_error().on(Verb::Patch).subresource("").always());
    status(seen).await.unwrap();
    assert!(merge(spec).await.unwrap_err().contains("injected fault"));
}

/// The failure of a wait has the messages of refused requests, and the faults that nothing has met.
// contract: E-20c, E-06l
#[tokio::test(start_paused = true)]
async fn failed_waits_explain_refusals_and_faults() {
    let cluster = cluster().await;
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    maps.create(&PostParams::default(), &config_map("Not_A_Name")).await.unwrap_err();
    cluster.faults().inject(Fault::conflict().on(Verb::Create).resource("configmaps"));
    cluster.faults().inject(Fault::internal_error().on(Verb::Get).resource("configmap").always());
    cluster.faults().inject(Fault::internal_error().on(Verb::List).resource("configmaps"));
    maps.list(&ListParams::default()).await.unwrap_err();
    let failure = cluster.eventually(|| Err::<(), _>("never")).await.unwrap_err();
    let text = failure.to_string();
    for part in [
        "configmaps?: 422 after 0.000s: ConfigMap \"Not_A_Name\" is invalid: metadata.name: ",
        "faults that have not fired:\n  conflict on create of configmaps; it cannot fire: a conflict answers updates and \
         patches only\n  internal-error on get of configmap; it cannot fire: no kind with the plural \"configmap\" is served\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(cluster.faults().unfired().len(), 2);
    cluster.shutdown().await;
}

/// Faults are restricted as the log is selected.
// contract: E-06l
#[tokio::test]
async fn faults_of_a_namespace_an_object_and_a_client() {
    let cluster = cluster().await;
    let api = |agent: &str, namespace: &str| {
        Api::<ConfigMap>::namespaced(cluster.client_of(agent).unwrap(), namespace)
    };
    for name in ["a", "b"] {
        cluster.create(&config_map(name)).unwrap();
    }
    let fault = || Fault::internal_error().always();
    for (fault, agent, namespace, name, is_met) in [
        (fault().namespace("default"), "x/1", "default", "a", true),
        (fault().namespace("other"), "x/1", "default", "a", false),
        (fault().name("a"), "x/1", "default", "a", true),
        (fault().name("a"), "x/1", "default", "b", false),
        (fault().by("x"), "x/1", "default", "a", true),
        (fault().by("x"), "y/1", "default", "a", false),
    ] {
        let text = fault.to_string();
        let id = cluster.faults().inject(fault);
        assert_eq!(api(agent, namespace).get(name).await.is_err(), is_met, "{text}");
        assert_eq!(cluster.faults().unfired().is_empty(), is_met, "{text}");
        cluster.faults().remove(id);
    }
    cluster.shutdown().await;
}
