//! The cluster as the informers' stores have it, in two tables.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::Object;
use kinformer::generic::Snapshot;
use kinformer_store::Error;

use super::story;
use crate::table::Table;
use crate::text::Line;

/// The index of pods by the node that they are on.
pub(crate) const NODE_INDEX: &str = "node";
/// The index of pods by the label `app`.
pub(crate) const APP_INDEX: &str = "app";

/// Nodes and deployments with their pods, which are found by their indexes.
///
/// # Errors
/// The pods are not indexed by node, or not by label.
pub(crate) fn tables(
    pods: &Snapshot<Pod>,
    nodes: &Snapshot<Node>,
    deployments: &Snapshot<Deployment>,
) -> Result<Vec<Line>, Error> {
    let mut by_node = Table::new(["NODE", "READY", "PODS", "RUNNING"]).numbers();
    for node in nodes.ordered() {
        let name = node.key().name().to_owned();
        let running = pods.by_index(NODE_INDEX, &name)?.filter(|pod| is_running(pod)).count();
        let ready = if story::is_ready(node) { "yes" } else { "NO" };
        let there = pods.index_len(NODE_INDEX, &name)?;
        by_node.row([name, ready.to_owned(), there.to_string(), running.to_string()]);
    }
    let mut by_deployment = Table::new(["DEPLOYMENT", "IMAGE", "READY", "PODS"]).numbers();
    for deployment in deployments.ordered() {
        let key = deployment.key();
        let of_it =
            pods.by_index(APP_INDEX, key.name())?.filter(|pod| pod.key().namespace() == key.namespace());
        by_deployment.row([
            key.to_string(),
            story::tag(deployment).to_owned(),
            story::ready(deployment),
            of_it.count().to_string(),
        ]);
    }
    Ok(beside(&by_node.lines(), &by_deployment.lines()))
}

fn is_running(pod: &Pod) -> bool {
    story::condition(pod) == "Running"
}

/// Two blocks of lines side by side.
fn beside(left: &[Line], right: &[Line]) -> Vec<Line> {
    let width = left.iter().map(|line| line.as_str().chars().count()).max().unwrap_or(0);
    let empty = Line::default();
    (0..left.len().max(right.len()))
        .map(|at| {
            let (left, right) = (left.get(at).unwrap_or(&empty), right.get(at).unwrap_or(&empty));
            Line::new(format_args!("{left:<width$}   {right}")).trimmed()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kinformer::IndexFunction;
    use kinformer_apiserver::ApiServer;
    use kinformer_store::Indexer;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::demo::churn::Churn;

    fn store<T: Object + DeserializeOwned>(
        server: &ApiServer,
        version: &str,
        kind: &str,
        indexes: &[(&'static str, IndexFunction<T>)],
    ) -> Indexer<T> {
        let builder = indexes
            .iter()
            .fold(Indexer::builder(), |builder, (name, function)| builder.index(*name, function.clone()));
        let store = builder.build().expect("the names differ");
        for object in server.list(version, kind, "").expect("served") {
            let object: T = serde_json::from_value(object).expect("of this type");
            store.add(object).expect("open").into_result().expect("good");
        }
        store
    }

    #[tokio::test]
    async fn nodes_and_deployments_have_their_pods() {
        let server = Arc::new(ApiServer::builder().start().await.expect("starts"));
        let _churn = Churn::begin(server.clone(), 1).expect("the server is empty");
        let node = IndexFunction::new(|pod: &Arc<Pod>, values| {
            values.push(pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or(""));
        });
        let indexes = [(NODE_INDEX, node), (APP_INDEX, IndexFunction::by_label("app"))];
        let pods = store(&server, "v1", "Pod", &indexes);
        let nodes = store(&server, "v1", "Node", &[]);
        let deployments = store(&server, "apps/v1", "Deployment", &[]);
        let lines = tables(&pods.snapshot(), &nodes.snapshot(), &deployments.snapshot()).expect("indexed");
        let text = lines.iter().map(Line::as_str).collect::<Vec<_>>().join("\n");
        assert_eq!(text.lines().count(), 7, "{text}");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.iter().any(|row| row.ends_with(&["shop/web", "1.1.0", "16/16", "16"])), "{text}");
        let on_nodes: usize = (1..=5).map(|row| rows[row][2].parse::<usize>().expect("a number")).sum();
        assert_eq!(on_nodes, 60, "{text}");

        let bare = Indexer::<Pod>::new();
        assert!(tables(&bare.snapshot(), &nodes.snapshot(), &deployments.snapshot()).is_err());
    }
}
