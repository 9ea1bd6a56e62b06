//! The life of a website on a cluster in this process. The operator has the rights of its manifests.

use std::time::Duration;

use {{crate_name}}::controller::controller;
use {{crate_name}}::website::{Website, WebsiteSpec};
use {{crate_name}}::{NAME, manifests};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kinformer_apiserver::{Access, TestCluster};
use kinformer_controller::events::EventRecorder;
use kinformer_controller::kinformer::SharedInformerFactory;
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::{CancellationToken, Manager, condition};
use kube::CustomResourceExt;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Waits for the reason of the condition. A failure has the last requests, and the errors of the reconciliations.
async fn reason(cluster: &TestCluster, wanted: &str) -> Result<Website> {
    let website = || {
        let website = cluster.get::<Website>("shop").map_err(|error| error.to_string())?;
        let status = website.status.clone().unwrap_or_default();
        let ready = condition::find(&status.conditions, "Ready");
        match ready.is_some_and(|ready| ready.reason == wanted) {
            true => Ok(website),
            false => Err(format!("{status:?}")),
        }
    };
    Ok(cluster.eventually(website).await?)
}

#[tokio::test(start_paused = true)]
async fn life_of_a_website() -> Result {
    let builder = TestCluster::builder().access(Access::rbac()).crd(Website::crd()).object(manifests::namespace());
    let cluster = manifests::roles().into_iter().fold(builder, |builder, role| builder.object(role)).start().await?;
    let user = format!("system:serviceaccount:{}:{NAME}", manifests::NAMESPACE);
    let client = cluster.client_as(&user)?;
    let factory = SharedInformerFactory::new(client.clone());
    let elector = LeaderElector::builder(client.clone(), manifests::NAMESPACE, NAME).build()?;
    let events = EventRecorder::new(client.clone(), NAME, elector.identity());
    let controller = controller(&factory, elector.client(&client), events.clone());
    cluster.explain(controller.monitor());
    let shutdown = CancellationToken::new();
    let manager = Manager::new().factory(&factory).leader_election(&elector);
    let manager = manager.events(&events, Duration::from_secs(5)).add(controller)?;
    let running = tokio::spawn(manager.run(shutdown.clone()));

    cluster.create(&Website::new("shop", WebsiteSpec { image: "shop:1".into(), replicas: 2 }))?;
    let website = reason(&cluster, "Progressing").await?;
    assert_eq!(website.metadata.finalizers.unwrap_or_default(), ["example.com/cleanup"]);
    let deployment = cluster.get::<Deployment>("shop")?;
    assert_eq!(deployment.spec.replicas, Some(2));
    cluster.get::<Service>("shop")?;

    // The controller of Deployments does not run here.
    cluster.modify::<Deployment>("shop", |deployment| {
        let status = deployment.status.get_or_insert_default();
        (status.replicas, status.available_replicas) = (Some(2), Some(2));
    })?;
    reason(&cluster, "Available").await?;

    cluster.delete::<Website>("shop")?;
    let is_gone = || match cluster.get::<Website>("shop") {
        Ok(website) => Err(format!("{:?}", website.metadata.finalizers)),
        Err(_) => Ok(()),
    };
    cluster.eventually(is_gone).await?;

    shutdown.cancel();
    running.await??;
    let refused = cluster.requests().user(&user).filter(|request| request.code == Some(403));
    assert!(refused.is_empty(), "{refused}");
    cluster.shutdown().await;
    Ok(())
}
