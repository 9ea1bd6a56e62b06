//! How many connections informers need.

use e2e::{ControlPlane, Options, Proxy};
use kinformer::SharedInformerFactory;
use kube_client::{Client, Config};
use kube_core::discovery::{ApiResource, Scope, verbs};

use crate::mode::{dynamic, factory};

/// How many informers there are.
const INFORMERS: usize = 60;

/// The administrator's configuration, by way of a proxy.
async fn through(control_plane: &ControlPlane, proxy: &Proxy) -> Config {
    let mut config = control_plane.config().await.unwrap();
    config.cluster_url = format!("https://127.0.0.1:{}", proxy.port()).parse().unwrap();
    config
}

/// What the server has to watch.
async fn watchable(client: &Client) -> Vec<(ApiResource, Scope)> {
    let found = kube_client::Discovery::new(client.clone()).run().await.unwrap();
    let resources = found.groups().flat_map(|group| group.recommended_resources());
    let watchable = resources.filter(|(_, it)| it.supports_operation(verbs::WATCH));
    watchable.map(|(resource, it)| (resource, it.scope)).collect()
}

/// A factory with so many informers, all begun at once and all synced: whole objects and their metadata.
async fn synced(client: Client, resources: &[(ApiResource, Scope)]) -> SharedInformerFactory {
    let factory = factory(client).build();
    let mut informers = 0;
    for (resource, scope) in resources {
        // In this order: metadata that are asked for behind the whole objects are a view of them.
        drop(factory.dynamic_metadata(resource.clone(), scope.clone()));
        drop(dynamic(&factory.dynamic(resource.clone(), scope.clone())));
        informers += 2;
        if informers == INFORMERS {
            break;
        }
    }
    factory.start().unwrap();
    let waited = factory.wait_for_cache_sync().await;
    assert_eq!(waited.iter().count(), INFORMERS);
    waited.into_result().unwrap();
    factory
}

// contract: L-12
#[tokio::test(flavor = "multi_thread")]
async fn sixty_informers_have_one_connection() {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let resources = watchable(&control_plane.client().await.unwrap()).await;

    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let client = kinformer::client(through(&control_plane, &proxy).await).unwrap();
    let factory = synced(client, &resources).await;
    // They begin together where there is no connection yet, and still no other was ever begun.
    assert_eq!((proxy.connections(), proxy.open()), (1, 1));
    factory.shutdown().await.unwrap();

    // With kube-client's own connections, which are of HTTP/1.1, each has one.
    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let client = Client::try_from(through(&control_plane, &proxy).await).unwrap();
    let factory = synced(client, &resources).await;
    assert!(proxy.open() >= INFORMERS, "{}", proxy.open());
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
}
