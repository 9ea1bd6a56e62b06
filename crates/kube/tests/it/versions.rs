//! Servers whose versions restart, over HTTP on loopback, and the newest version.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{PATIENCE, config_map, follow, kube, options, server, stored, truth};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer_apiserver::{ApiServer, Builder, Fault, ProtobufAnswers, Verb};
use kinformer_core::ResourceVersion;
use kinformer_kube::{Encoding, KubeListerWatcher};
use kinformer_reflector::{ListerWatcher, SourceError, WatchListMode};
const MODES: [WatchListMode; 2] = [WatchListMode::Off, WatchListMode::Auto];

fn builder() -> Builder {
    ApiServer::builder().protobuf(ProtobufAnswers::Offered).bookmark_interval(Duration::from_millis(200))
}

/// Starts a server on the address of a stopped one. The port may be in use for a moment.
async fn restart(address: SocketAddr, builder: Builder) -> ApiServer {
    let started = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Ok(server) = builder.clone().listen(address).start().await {
                return server;
            }
            tokio::task::yield_now().await;
        }
    });
    started.await.unwrap()
}

/// Replaces a server by one with fewer and other objects, and with fewer or more writes.
async fn restarted(before: Builder, after: Builder, writes: u32, went_back: u64) {
    for mode in MODES {
        let server = before.clone().start().await.unwrap();
        let address = server.address();
        for name in ["a", "b", "c", "d", "e", "f"] {
            server.create(config_map(name, "1")).unwrap();
        }
        // The watch must not time out: a timeout would not lead to the request for the newest version.
        let options = options(mode).min_watch_timeout_unbounded(PATIENCE);
        let follower = follow(KubeListerWatcher::<ConfigMap>::new(kube(&server)), options);
        follower.caught_up(&server).await;
        // A watch requested later would start at the second server and not break.
        let watching = tokio::time::timeout(PATIENCE, async {
            while server.metrics().open_watches != 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        watching.await.unwrap();
        server.shutdown().await;

        let server = restart(address, after.clone()).await;
        for write in 0..writes {
            let write = config_map("x", &write.to_string());
            server.create(write.clone()).or_else(|_| server.update(write)).unwrap();
        }
        server.create(config_map("f", "new")).unwrap();
        let equal = tokio::time::timeout(PATIENCE, async {
            while stored(&follower.store) != truth(&server) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let found = equal.await.is_ok();
        let statistics = follower.handle.metrics();
        assert!(found, "{mode:?}: {:?}, {statistics:?}", stored(&follower.store));
        assert_eq!(statistics.versions_went_back, went_back, "{mode:?}: {statistics:?}");
        follower.caught_up(&server).await;
        server.create(config_map("later", "1")).unwrap();
        follower.caught_up(&server).await;
        assert_eq!(stored(&follower.store), truth(&server), "{mode:?}");
        follower.stop().await;
        server.shutdown().await;
    }
}

/// A server that restarts on the same port is relisted, whether its version is lower or higher than before.
// contract: E-05d, R-05a, I-03
#[tokio::test(flavor = "multi_thread")]
async fn restarted_server_is_relisted() {
    for writes in [0, 100] {
        restarted(builder(), builder(), writes, 0).await;
    }
}

/// A server whose versions restart and that accepts future versions is relisted.
// contract: E-08, R-18a, R-18e, I-03
#[tokio::test(flavor = "multi_thread")]
async fn silent_version_reset_is_relisted() {
    // The reset is detected by the request for the newest version, not by failed retries.
    let silent = builder().first_version(1).fault(Fault::future_versions().always());
    restarted(builder().first_version(1000), silent, 3, 1).await;
}

/// The newest version is read from a list of one object's metadata. If a tweak sets a version, it is unknown.
// contract: R-18d
#[tokio::test(flavor = "multi_thread")]
async fn newest_version_lists_metadata_of_one_object() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        server.create(config_map(name, "1")).unwrap();
    }
    let newest = Some(ResourceVersion::number(server.version()));
    let source = KubeListerWatcher::<ConfigMap>::new(kube(&server));
    let seen = source.clone().namespace("default").tweak(|params| params.set("limit", 500));
    assert_eq!(seen.newest_version().await.unwrap(), newest);
    assert_eq!(source.clone().encoding(Encoding::Json).newest_version().await.unwrap(), newest);
    // Also without any object.
    let secrets = KubeListerWatcher::<Secret>::new(kube(&server));
    assert_eq!(secrets.newest_version().await.unwrap(), newest);

    let cached = source.clone().tweak(|params| params.set("resourceVersion", 0));
    assert_eq!(cached.newest_version().await.unwrap(), None);

    server.faults().inject(Fault::too_many_requests(1).on(Verb::List));
    let error = source.newest_version().await.unwrap_err();
    assert!(error.is_too_many_requests() && error.retry_after() == Some(Duration::from_secs(1)), "{error}");
    server.faults().inject(Fault::truncate().on(Verb::List));
    assert!(matches!(source.newest_version().await, Err(SourceError::Transport { .. })));
    server.shutdown().await;
}
