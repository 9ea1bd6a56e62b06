//! The number of connections of informers.

use e2e::{ControlPlane, Options, Proxy};
use kinformer::SharedInformerFactory;
use kube_client::{Client, Config};
use kube_core::discovery::{ApiResource, Scope, verbs};

use crate::mode::{dynamic, factory};
use crate::planes;

/// The number of informers.
const INFORMERS: usize = 60;

/// Returns the administrator's configuration for connections through a proxy.
pub(crate) async fn through(control_plane: &ControlPlane, proxy: &Proxy) -> Config {
    let mut config = control_plane.config().await.unwrap();
    config.cluster_url = format!("https://127.0.0.1:{}", proxy.port()).parse().unwrap();
    config
}

/// Returns the resources that can be watched.
async fn watchable(client: &Client) -> Vec<(ApiResource, Scope)> {
    let found = kube_client::Discovery::new(client.clone()).run().await.unwrap();
    let resources = found.groups().flat_map(|group| group.recommended_resources());
    let watchable = resources.filter(|(_, it)| it.supports_operation(verbs::WATCH));
    watchable.map(|(resource, it)| (resource, it.scope)).collect()
}

/// Starts [`INFORMERS`] informers at the same time, in one factory for objects and one for metadata, and waits until
/// all are synced.
async fn synced(client: Client, resources: &[(ApiResource, Scope)]) -> [SharedInformerFactory; 2] {
    let factories = [factory(client.clone()).build(), factory(client).build()];
    let [whole, metadata] = &factories;
    for (resource, scope) in resources.iter().take(INFORMERS / 2) {
        drop(dynamic(&whole.dynamic(resource.clone(), scope.clone())));
        drop(metadata.dynamic_metadata(resource.clone(), scope.clone()));
    }
    factories.iter().for_each(|factory| factory.start().unwrap());
    let mut informers = 0;
    for factory in &factories {
        let waited = factory.wait_for_cache_sync().await;
        informers += waited.iter().count();
        waited.into_result().unwrap();
    }
    assert_eq!(informers, INFORMERS);
    factories
}

async fn shut_down(factories: [SharedInformerFactory; 2]) {
    for factory in factories {
        factory.shutdown().await.unwrap();
    }
}

// contract: L-12a, L-12c
#[tokio::test(flavor = "multi_thread")]
async fn sixty_informers_share_one_connection() {
    let control_plane = planes::take(Options::new()).await;
    let resources = watchable(&control_plane.client().await.unwrap()).await;

    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let client = kinformer::client(through(&control_plane, &proxy).await).unwrap();
    let factories = synced(client, &resources).await;
    // They start at the same time without a connection, and open only one.
    assert_eq!((proxy.connections(), proxy.open()), (1, 1));
    shut_down(factories).await;

    // kube-client's own client uses HTTP/1.1: one connection for each informer.
    let proxy = Proxy::start(control_plane.port()).await.unwrap();
    let client = Client::try_from(through(&control_plane, &proxy).await).unwrap();
    let factories = synced(client, &resources).await;
    assert!(proxy.open() >= INFORMERS, "{}", proxy.open());
    shut_down(factories).await;
    planes::keep(control_plane).await;
}
