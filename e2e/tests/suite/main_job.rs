//! The main job: `kinformer watch` during writes.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{InformerProgram, Line, Options, RESOURCES, Writer, programs};
use kube_client::Client;
use serde_json::Value;

use crate::planes;
use crate::recorder::cached;

/// The paths of the resources, in the same order.
pub(crate) const PATHS: [&str; 3] = ["/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/nodes"];

const BOUND: Duration = Duration::from_secs(60);

/// Each line is explained by the writes, and the lines add up to the server's state.
#[tokio::test(flavor = "multi_thread")]
async fn lines_match_the_history_of_the_server() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let mut writer = Writer::begin(client.clone(), 0).await.unwrap();
    writer.write(60).await.unwrap();
    let listed = writer.history().clone();
    for path in PATHS {
        cached(&client, path).await;
    }

    let words = ["pods,nodes,deployments.apps", "-A", "-o", "json"];
    let program = programs::kinformer_watch(&control_plane.kubeconfig(), words).unwrap();
    let mut watch = InformerProgram::start("kinformer watch", program).unwrap();
    watch.until_synced(&RESOURCES, BOUND).await.unwrap();
    writer.write(300).await.unwrap();
    writer.end().await.unwrap();
    watch.until("the last objects", BOUND, |lines| has_last(lines, &RESOURCES)).await.unwrap();
    let lines = watch.stop().await.unwrap();

    let again = writer.history().explain(&lines).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(again, 0, "states delivered again");
    for (resource, path) in RESOURCES.into_iter().zip(PATHS) {
        assert_eq!(last_state(&lines, resource), on_the_server(&client, path).await, "{resource}");
        // There is no other writer and no disconnect, so each write is a line.
        let initial = lines.iter().filter(|line| {
            line.object_event().is_some_and(|event| event.resource == resource && event.initial)
        });
        assert_eq!(initial.count(), listed.count(resource), "{resource}: the initial list");
        let synced = lines.iter().find(|line| line.is_synced(resource)).unwrap();
        assert_eq!(*synced, Line::Synced { resource: resource.into(), count: listed.count(resource) as u64 });
        let stopped = lines.iter().find_map(|line| match line {
            Line::Stopped(stopped) if stopped.resource == resource => Some(stopped),
            _ => None,
        });
        let stopped = stopped.unwrap();
        assert_eq!(stopped.adds - stopped.deletes, writer.history().count(resource) as u64);
        assert_eq!(stopped.relists, 0, "{resource}");
    }
    writer.clean_up().await.unwrap();
    planes::keep(control_plane).await;
}

/// Returns the keys and versions of a resource that follow from the lines.
fn last_state(lines: &[Line], resource: &str) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for line in lines {
        let Some(event) = line.object_event().filter(|event| event.resource == resource) else { continue };
        match line {
            Line::Delete(_) => drop(state.remove(&event.key)),
            _ => drop(state.insert(event.key.clone(), event.resource_version.clone().unwrap())),
        }
    }
    state
}

/// Returns the keys and versions that the server lists.
async fn on_the_server(client: &Client, path: &str) -> BTreeMap<String, String> {
    let list: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let object = |item: &Value| {
        let name = text(&item["metadata"]["name"]).unwrap();
        let key = text(&item["metadata"]["namespace"]).map_or(name.clone(), |of| format!("{of}/{name}"));
        (key, text(&item["metadata"]["resourceVersion"]).unwrap())
    };
    list["items"].as_array().unwrap().iter().map(object).collect()
}

/// Whether the last object of each of these resources was delivered.
pub(crate) fn has_last(lines: &[Line], resources: &[&str]) -> bool {
    resources.iter().all(|resource| {
        let mut events = lines.iter().filter_map(Line::object_event);
        events.any(|event| event.resource == *resource && Writer::is_last(&event.key))
    })
}
