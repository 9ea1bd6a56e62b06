//! The controller on a cluster in this process.

use kinformer_apiserver::{TestCluster, Verb};
use kinformer_controller::kinformer::SharedInformerFactory;
use kinformer_controller::kinformer::k8s_openapi::api::core::v1::ConfigMap;
use kinformer_controller::{CancellationToken, Manager};

fn map(greet: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("map".to_owned());
    map.data = Some([("greet".to_owned(), greet.to_owned())].into());
    map
}

/// Waits for the text of the greeting. A failure has the last requests, and the errors of the reconciliations.
async fn greeting(cluster: &TestCluster, text: &str) -> Result<ConfigMap, Box<dyn std::error::Error>> {
    let greeting = || {
        let greeting = cluster.get::<ConfigMap>("map-greeting").map_err(|error| error.to_string())?;
        let is_wanted = greeting.data.as_ref().is_some_and(|data| data["text"] == text);
        if is_wanted { Ok(greeting) } else { Err(format!("{:?}", greeting.data)) }
    };
    Ok(cluster.eventually(greeting).await?)
}

#[tokio::test(start_paused = true)]
async fn greetings_are_kept() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = TestCluster::start().await?;
    let factory = SharedInformerFactory::new(cluster.client());
    let (controller, shutdown) = ({{crate_name}}::controller(&factory), CancellationToken::new());
    cluster.explain(controller.monitor());
    let running = tokio::spawn(Manager::new().add(controller)?.run(shutdown.clone()));

    cluster.create(&map("World"))?;
    let before = greeting(&cluster, "Hello, World!").await?;
    cluster.modify::<ConfigMap>("map", |stored| stored.data = map("Rust").data)?;
    greeting(&cluster, "Hello, Rust!").await?;
    cluster.delete::<ConfigMap>("map-greeting")?;
    let again = greeting(&cluster, "Hello, Rust!").await?;
    assert_ne!(again.metadata.uid, before.metadata.uid, "it was created again");
    assert_eq!(cluster.requests().on(Verb::Patch).len(), 3, "each change is one write");

    shutdown.cancel();
    running.await??;
    factory.shutdown().await?;
    cluster.shutdown().await;
    Ok(())
}
