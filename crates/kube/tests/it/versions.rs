//! Through real HTTP on loopback: servers whose versions begin again, and servers that end every watch at once.

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

/// A server where one was before: the port may be in use for a moment.
async fn again(address: SocketAddr, builder: Builder) -> ApiServer {
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

/// The second server has fewer objects, others, and either fewer or more writes than the first one.
async fn restarted(before: Builder, after: Builder, writes: u32, went_back: u64) {
    for mode in MODES {
        let server = before.clone().start().await.unwrap();
        let address = server.address();
        for name in ["a", "b", "c", "d", "e", "f"] {
            server.create(config_map(name, "1")).unwrap();
        }
        // The watch does not end by itself: that would not lead to the question.
        let options = options(mode).min_watch_timeout_unbounded(PATIENCE);
        let follower = follow(KubeListerWatcher::<ConfigMap>::new(kube(&server)), options);
        follower.caught_up(&server).await;
        // A watch that is asked for later would begin at the second server, and nothing would break.
        let watching = tokio::time::timeout(PATIENCE, async {
            while server.metrics().open_watches != 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        watching.await.unwrap();
        server.shutdown().await;

        let server = again(address, after.clone()).await;
        for write in 0..writes {
            let write = config_map("x", &write.to_string());
            server.create(write.clone()).or_else(|_| server.update(write)).unwrap();
        }
        server.create(config_map("f", "of another life")).unwrap();
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

// contract: E-05d, R-05, I-03
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_restarted_on_its_port_is_listed_again_however_far_it_is() {
    for writes in [0, 100] {
        restarted(builder(), builder(), writes, 0).await;
    }
}

// contract: E-08, R-18, I-03
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_versions_begin_again_and_that_says_nothing_of_it_is_listed_again() {
    // It is found by the question after the break, and not by the many tries that end in a list.
    let silent = builder().first_version(1).fault(Fault::future_versions().always());
    restarted(builder().first_version(1000), silent, 3, 1).await;
}

// contract: R-18
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_version_costs_one_object_of_metadata_and_no_tweak_makes_it_an_old_one() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        server.create(config_map(name, "1")).unwrap();
    }
    let newest = Some(ResourceVersion::number(server.version()));
    let source = KubeListerWatcher::<ConfigMap>::new(kube(&server));
    let seen = source.clone().namespace("default").tweak(|params| params.set("limit", 500));
    assert_eq!(seen.newest_version().await.unwrap(), newest);
    assert_eq!(source.clone().encoding(Encoding::Json).newest_version().await.unwrap(), newest);
    // Where there is no object as well.
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
