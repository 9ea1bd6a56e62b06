//! The contents of the informers' stores as two tables.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::{Error, PackedRef, Snapshot};

use super::narration;
use crate::table::Table;
use crate::text::Line;

/// The index of pods by node name.
pub(crate) const NODE_INDEX: &str = "node";
/// The index of pods by the label `app`.
pub(crate) const APP_INDEX: &str = "app";

/// Formats nodes and deployments with the number of their pods, found through indexes: beside each other if the width
/// allows.
///
/// # Errors
/// The pods have no index by node, or none by label.
pub(crate) fn tables(
    pods: &Snapshot<Pod>,
    nodes: &Snapshot<Node>,
    deployments: &Snapshot<Deployment>,
    width: usize,
) -> Result<Vec<Line>, Error> {
    let mut by_node = Table::new(["NODE", "READY", "PODS", "RUNNING"]).numbers();
    for node in nodes.ordered() {
        let name = node.name();
        let running = pods.by_index(NODE_INDEX, name)?.into_iter().filter(|pod| is_running(*pod)).count();
        let is_ready = node.decode().is_ok_and(|node| narration::is_ready(&node));
        let there = pods.index_len(NODE_INDEX, name)?;
        let ready = if is_ready { "yes" } else { "NO" };
        by_node.row([name.to_owned(), ready.to_owned(), there.to_string(), running.to_string()]);
    }
    let mut by_deployment = Table::new(["DEPLOYMENT", "IMAGE", "READY", "PODS"]).numbers();
    for deployment in deployments.ordered() {
        let (name, namespace) = (deployment.name(), deployment.namespace());
        let of_it = pods.by_index(APP_INDEX, name)?.into_iter().filter(|pod| pod.namespace() == namespace);
        let decoded = deployment.decode().ok();
        by_deployment.row([
            deployment.key().to_string(),
            decoded.as_deref().map_or("?", narration::tag).to_owned(),
            decoded.as_deref().map_or_else(|| "?".to_owned(), narration::ready),
            of_it.count().to_string(),
        ]);
    }
    let (by_node, by_deployment) = (by_node.lines(), by_deployment.lines());
    let lines = beside(&by_node, &by_deployment);
    if lines.iter().all(|line| line.as_str().chars().count() <= width) {
        return Ok(lines);
    }
    Ok(by_node.into_iter().chain([Line::default()]).chain(by_deployment).collect())
}

fn is_running(pod: PackedRef<'_, Pod>) -> bool {
    pod.decode().is_ok_and(|pod| narration::condition(&pod) == "Running")
}

/// Joins two blocks of lines side by side.
fn beside(left: &[Line], right: &[Line]) -> Vec<Line> {
    let width = left.iter().map(|line| line.as_str().chars().count()).max().unwrap_or(0);
    let empty = Line::default();
    (0..left.len().max(right.len()))
        .map(|row| {
            let (left, right) = (left.get(row).unwrap_or(&empty), right.get(row).unwrap_or(&empty));
            Line::new(format_args!("{left:<width$}   {right}")).trimmed()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kinformer::SharedInformerFactory;
    use kinformer_apiserver::ApiServer;

    use super::*;
    use crate::demo::churn::Churn;
    use crate::demo::informers::add_indexes;

    #[tokio::test]
    async fn nodes_and_deployments_have_their_pods() {
        let server = Arc::new(ApiServer::builder().start().await.expect("starts"));
        let _churn = Churn::begin(server.clone(), 1).expect("the server is empty");
        let client = kinformer::client(server.config().expect("a URL")).expect("a client");
        let factory = SharedInformerFactory::new(client.clone());
        let pods = factory.core().v1().pods();
        let nodes = factory.core().v1().nodes();
        let deployments = factory.apps().v1().deployments();
        add_indexes(&pods).expect("the names differ");
        nodes.decode_on_arrival();
        deployments.decode_on_arrival();
        factory.start().expect("a runtime");
        factory.wait_for_cache_sync().await.into_result().expect("served");
        let (nodes, deployments) =
            (nodes.snapshot().expect("started"), deployments.snapshot().expect("started"));
        let read = |width: usize| {
            tables(&pods.snapshot().expect("started"), &nodes, &deployments, width).expect("indexed")
        };
        for width in [40, 60] {
            assert_eq!(read(width).len(), 14, "{width}");
            assert!(read(60).iter().all(|line| line.as_str().len() <= 60), "{:?}", read(60));
        }
        let lines = read(80);
        assert!(lines.iter().all(|line| line.as_str().len() <= 80), "{lines:?}");
        let text = lines.iter().map(Line::as_str).collect::<Vec<_>>().join("\n");
        assert_eq!(text.lines().count(), 7, "{text}");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.iter().any(|row| row.ends_with(&["shop/web", "1.1.0", "16/16", "16"])), "{text}");
        let on_nodes: usize = (1..=5).map(|row| rows[row][2].parse::<usize>().expect("a number")).sum();
        assert_eq!(on_nodes, 60, "{text}");

        let without_indexes = SharedInformerFactory::new(client);
        let pods = without_indexes.core().v1().pods();
        without_indexes.start().expect("a runtime");
        assert!(tables(&pods.snapshot().expect("started"), &nodes, &deployments, 80).is_err());
        without_indexes.shutdown().await.expect("in time");
        factory.shutdown().await.expect("in time");
    }
}
