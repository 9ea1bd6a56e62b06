//! Random writes around a snapshot: a restored server has the state of the snapshot, and goes on as it would have.

use std::collections::BTreeMap;

use http::Method;
use kinformer_apiserver::{ApiServer, TestCluster};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Team;
use crate::common::{Client, widget_definition};

#[derive(Clone, Debug)]
enum Write {
    /// Creates an object, whose owner is another one.
    Create {
        custom: bool,
        name: u8,
        owner: u8,
        blocks: bool,
    },
    Update {
        custom: bool,
        name: u8,
    },
    Delete {
        custom: bool,
        name: u8,
        foreground: bool,
    },
    Namespace {
        exists: bool,
    },
    Definition {
        exists: bool,
    },
    Compact,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = prop_oneof![
        8 => (any::<bool>(), 0..4_u8, 0..4_u8, any::<bool>())
            .prop_map(|(custom, name, owner, blocks)| Write::Create { custom, name, owner, blocks }),
        4 => (any::<bool>(), 0..4_u8).prop_map(|(custom, name)| Write::Update { custom, name }),
        4 => (any::<bool>(), 0..4_u8, any::<bool>())
            .prop_map(|(custom, name, foreground)| Write::Delete { custom, name, foreground }),
        1 => any::<bool>().prop_map(|exists| Write::Namespace { exists }),
        1 => any::<bool>().prop_map(|exists| Write::Definition { exists }),
        1 => Just(Write::Compact),
    ];
    proptest::collection::vec(write, 0..16)
}

fn collection(custom: bool) -> &'static str {
    if custom {
        "/apis/example.com/v1/namespaces/default/teams"
    } else {
        "/api/v1/namespaces/default/configmaps"
    }
}

/// The name of an object, which no object of the other kind has.
fn name(custom: bool, name: u8) -> String {
    format!("{}{name}", if custom { "team" } else { "map" })
}

/// Sends a write. Many are refused, by all servers alike.
async fn apply(client: &Client, server: &ApiServer, write: &Write) {
    let uid = |custom: bool, number: u8| {
        let (version, kind) = if custom { ("example.com/v1", "Team") } else { ("v1", "ConfigMap") };
        let found = server.get(version, kind, "default", &name(custom, number)).ok().flatten();
        found.map(|found| {
            json!({"apiVersion": version, "kind": kind, "name": name(custom, number),
            "uid": found["metadata"]["uid"]})
        })
    };
    match *write {
        Write::Create { custom, name: number, owner, blocks } => {
            let owner = uid(!custom, owner).map(|mut owner| {
                owner["blockOwnerDeletion"] = blocks.into();
                owner
            });
            let owners: Vec<Value> = owner.into_iter().collect();
            let metadata = json!({"name": name(custom, number), "ownerReferences": owners});
            client.post(collection(custom), &json!({"metadata": metadata, "spec": {"members": []}})).await;
        }
        Write::Update { custom, name: number } => {
            let path = format!("{}/{}", collection(custom), name(custom, number));
            let label = json!({"metadata": {"labels": {"version": server.version().to_string()}}});
            client.patch(&path, "merge-patch", &label).await;
        }
        Write::Delete { custom, name: number, foreground } => {
            let path = format!("{}/{}", collection(custom), name(custom, number));
            let policy = if foreground { "Foreground" } else { "Background" };
            let options = json!({"propagationPolicy": policy}).to_string();
            client.send(Method::DELETE, &path, &[], options).await;
        }
        Write::Namespace { exists: true } => {
            client.post("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await;
        }
        Write::Namespace { exists: false } => drop(client.delete("/api/v1/namespaces/other").await),
        Write::Definition { exists: true } => {
            client
                .post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widget_definition())
                .await;
        }
        Write::Definition { exists: false } => {
            client
                .delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")
                .await;
        }
        Write::Compact => server.compact(),
    }
}

/// The lists of all resources and the discovery, byte for byte, without the versions of the lists.
async fn state(client: &Client) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for group in ["/api/v1", "/apis/example.com/v1", "/apis/apiextensions.k8s.io/v1"] {
        let discovery = client.get(group).await;
        for resource in discovery.body["resources"].as_array().into_iter().flatten() {
            let plural = resource["name"].as_str().unwrap();
            if !plural.contains('/') {
                let path = format!("{group}/{plural}");
                let mut list = client.get(&path).await.body;
                list["metadata"]["resourceVersion"] = Value::Null;
                state.insert(path, list.to_string());
            }
        }
        state.insert(group.to_owned(), discovery.body.to_string());
    }
    state
}

/// The names and versions of all objects, the versions after a restore counted from its version. UIDs are random.
async fn versions(client: &Client, server: &ApiServer, restored: u64) -> Vec<String> {
    let counted = |version: u64| match version.checked_sub(restored) {
        Some(later @ 1..) => format!("+{later}"),
        _ => version.to_string(),
    };
    let mut versions = vec![(server.version() - restored).to_string()];
    for (path, text) in state(client).await {
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        for item in list["items"].as_array().into_iter().flatten() {
            let version = item["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            versions.push(format!("{path} {} {}", item["metadata"]["name"], counted(version)));
        }
    }
    versions
}

async fn check(before: Vec<Write>, between: Vec<Write>, after: Vec<Write>) {
    let cluster = TestCluster::builder().crd(Team::crd()).start().await.unwrap();
    let (server, client) = (cluster.server(), Client::new(cluster.server()));
    for write in &before {
        apply(&client, server, write).await;
    }
    let (snapshot, expected) = (server.snapshot(), state(&client).await);
    for write in &between {
        apply(&client, server, write).await;
    }
    let issued = server.version();
    cluster.restore(&snapshot);
    let restored = server.version();
    assert_eq!(state(&client).await, expected);
    assert!(restored > issued);

    let other = TestCluster::from_snapshot(&snapshot).await.unwrap();
    let other_client = Client::new(other.server());
    assert_eq!(state(&other_client).await, expected);
    assert_eq!(other.server().version(), snapshot.version());
    for write in &after {
        apply(&client, server, write).await;
        apply(&other_client, other.server(), write).await;
    }
    assert_eq!(
        versions(&client, server, restored).await,
        versions(&other_client, other.server(), snapshot.version()).await
    );
    // The snapshot itself is unchanged.
    cluster.restore(&snapshot);
    assert_eq!(state(&client).await, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    // contract: E-21a, E-21b
    #[test]
    fn restored_states_are_equal(before in writes(), between in writes(), after in writes()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(before, between, after));
    }
}
