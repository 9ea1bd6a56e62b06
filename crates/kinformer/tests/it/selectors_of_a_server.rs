//! Compares label selectors with those of an API server, which shares no code with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{LabelSelector, Lister, PackedObject};
use kinformer_apiserver::ApiServer;
use kinformer_kube::ObjectDecoder;
use kinformer_store::Indexer;
use kube_client::api::{Api, ListParams};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

const ROUNDS: usize = 300;

/// Every combination of a label that is missing, empty or one of some values, with another one.
fn config_maps() -> Vec<serde_json::Value> {
    let mut objects = Vec::new();
    for a in [None, Some(""), Some("x"), Some("y"), Some("5")] {
        for b in [None, Some("x"), Some("7"), Some("007")] {
            let labels: serde_json::Map<_, _> = [("a", a), ("x.io/b", b)]
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?.into())))
                .collect();
            let name = format!("object-{}", objects.len());
            objects.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "default", "name": name, "labels": labels},
            }));
        }
    }
    objects
}

/// Mostly valid requirements, and some invalid ones.
fn requirement() -> impl Strategy<Value = String> {
    let key =
        || prop_oneof![4 => Just("a"), 4 => Just("x.io/b"), 1 => Just("c"), 1 => Just("in"), 1 => Just("-")];
    let value = || prop_oneof![3 => "[xy]", 3 => "[0-9]", 2 => Just(String::new()), 1 => "[-(=>!,x ]{1,3}"];
    let operator = prop_oneof![4 => "=|==|!=", 2 => "<|>", 1 => "[=!<> ]{1,3}"];
    prop_oneof![
        4 => (key(), operator, value()).prop_map(|(key, operator, value)| format!("{key}{operator}{value}")),
        4 => (key(), " in | notin |  in\t", proptest::collection::vec(value(), 0..4))
            .prop_map(|(key, operator, values)| format!("{key}{operator}({})", values.join(","))),
        2 => (key(), "|!|! ").prop_map(|(key, not)| format!("{not}{key}")),
    ]
}

// contract: F-06b
#[tokio::test]
async fn lister_and_server_select_the_same_objects() {
    let server = ApiServer::builder().start().await.unwrap();
    config_maps().into_iter().for_each(|object| drop(server.create(object).unwrap()));
    let client = kube_client::Client::try_from(server.config().unwrap()).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, "default");

    let store = Arc::new(Indexer::new());
    for object in api.list(&ListParams::default()).await.unwrap() {
        let packed = PackedObject::encode(&object, &ObjectDecoder::json()).unwrap();
        store.add(packed).unwrap().into_result().unwrap();
    }
    assert_eq!(store.len(), config_maps().len());
    let lister = Lister::<ConfigMap>::new(store.reader());

    let names = |objects: &mut dyn Iterator<Item = &ConfigMap>| -> BTreeSet<String> {
        objects.map(|object| object.metadata.name.clone().unwrap()).collect()
    };
    let mut runner = TestRunner::deterministic();
    let (mut selecting, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        let requirements =
            proptest::collection::vec(requirement(), 1..4).new_tree(&mut runner).unwrap().current();
        let text = requirements.join(",");
        let theirs = api.list(&ListParams::default().labels(&text)).await;
        let ours = text.parse::<LabelSelector>();
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                let theirs = names(&mut theirs.iter());
                let listed: BTreeSet<String> =
                    lister.list(&ours).unwrap().iter().map(|object| object.name().to_owned()).collect();
                assert_eq!(listed, theirs, "{text:?}");
                // The server accepts the displayed selector, and selects the same objects.
                let shown = api.list(&ListParams::default().labels(&ours.to_string())).await.unwrap();
                assert_eq!(names(&mut shown.iter()), theirs, "{text:?} as {ours:?}");
                selecting += usize::from(!theirs.is_empty());
            }
            (Err(_), Err(kube_client::Error::Api(status))) => {
                assert_eq!(status.code, 400, "{text:?}: {status:?}");
                refused += 1;
            }
            (ours, theirs) => {
                panic!("{text:?}: {ours:?}, and the server: {:?}", theirs.map(|list| list.items.len()))
            }
        }
    }
    assert!(selecting > ROUNDS / 10 && refused > ROUNDS / 10, "{selecting} select, {refused} are refused");

    let nothing = LabelSelector::nothing();
    assert!(lister.list(&nothing).unwrap().is_empty());
    assert_eq!(api.list(&ListParams::default().labels(&nothing.to_string())).await.unwrap().items, []);
    server.shutdown().await;
}
