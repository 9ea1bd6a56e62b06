//! The options of the informers of a cache: sync periods, namespaces, transforms, and their inheritance.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use kinformer::{Informer, SharedInformerFactory, SharedInformerFactoryBuilder};

use crate::common::{builder, server};

const HOUR: Duration = Duration::from_secs(3600);

/// The resync periods of the informers of some kinds.
fn periods(factory: &SharedInformerFactory) -> Vec<Duration> {
    fn period<K: 'static>(informer: &Informer<K>) -> Duration {
        let first = informer.for_each(|_| {}).unwrap().resync_period();
        let second = informer.for_each(|_| {}).unwrap().resync_period();
        assert_eq!(first, second, "drawn once for each informer");
        first.unwrap()
    }
    vec![
        period(&factory.informer::<Pod>()),
        period(&factory.informer::<ConfigMap>()),
        period(&factory.informer::<Secret>()),
        period(&factory.informer::<Service>()),
        period(&factory.informer::<Node>()),
    ]
}

// contract: C-06b
#[tokio::test]
async fn sync_period_has_jitter() {
    let server = server().await;
    let cache = builder(&server).build();
    let with_jitter = periods(cache.factory());
    assert!(with_jitter.iter().all(|period| *period >= 9 * HOUR && *period <= 11 * HOUR), "{with_jitter:?}");
    assert!(with_jitter.iter().any(|period| *period != with_jitter[0]), "{with_jitter:?}");

    let own = builder(&server).options(|options| options.resync_for::<Pod>(HOUR)).build();
    let own = periods(own.factory())[0];
    assert!(own >= HOUR * 9 / 10 && own <= HOUR * 11 / 10 && own != HOUR, "{own:?}");

    let exact = |options: SharedInformerFactoryBuilder| options.resync_jitter(0.0).resync_for::<Pod>(HOUR);
    let exact = periods(builder(&server).options(exact).build().factory());
    assert_eq!(exact[0], HOUR);
    assert!(exact[1..].iter().all(|period| *period == 10 * HOUR), "{exact:?}");
    server.shutdown().await;
}
