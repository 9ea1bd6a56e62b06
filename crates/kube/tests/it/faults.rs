//! Each fault over HTTP on loopback: the store becomes equal to the server.

use std::time::Duration;

use crate::common::{config_map, follow, kube, options, server, stored, truth};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{Fault, Verb};
use kinformer_kube::KubeListerWatcher;
use kinformer_reflector::WatchListMode;

const MODES: [WatchListMode; 2] = [WatchListMode::Off, WatchListMode::Auto];

/// Injects the faults one after the other, before the first list and while watching, with writes in between.
async fn survives(faults: impl Fn() -> Vec<Fault>) {
    survives_in(&MODES, faults).await;
}

async fn survives_in(modes: &[WatchListMode], faults: impl Fn() -> Vec<Fault>) {
    for &mode in modes {
        let server = server().await;
        for name in ["a", "b", "c"] {
            server.create(config_map(name, "1")).unwrap();
        }
        for fault in faults() {
            server.faults().inject(fault);
        }
        let source = KubeListerWatcher::<ConfigMap>::new(kube(&server)).idle_timeout(Duration::from_secs(1));
        let follower = follow(source, options(mode));
        follower.caught_up(&server).await;
        assert_eq!(stored(&follower.store), truth(&server), "{mode:?}");
        for round in 0..3 {
            for fault in faults() {
                server.faults().inject(fault);
            }
            server.update(config_map("a", &format!("round {round}"))).unwrap();
            server.create(config_map(&format!("new-{round}"), "1")).unwrap();
            if round == 1 {
                server.drop_watches();
                server.delete("v1", "ConfigMap", "default", "b").unwrap();
                server.compact();
            }
            follower.caught_up(&server).await;
            assert_eq!(stored(&follower.store), truth(&server), "{mode:?}, round {round}");
        }
        assert!(server.faults().fired() > 0, "{mode:?}: no fault was injected");
        follower.stop().await;
        server.shutdown().await;
    }
}

// contract: I-03, R-03
#[tokio::test(flavor = "multi_thread")]
async fn refused_requests() {
    survives(|| vec![Fault::refuse().on(Verb::List), Fault::refuse().on(Verb::Watch).times(2)]).await;
}

// contract: I-03
#[tokio::test(flavor = "multi_thread")]
async fn delayed_responses() {
    survives(|| vec![Fault::delay(Duration::from_millis(50)).times(3)]).await;
}

// contract: I-03
#[tokio::test(flavor = "multi_thread")]
async fn truncated_responses() {
    survives(|| vec![Fault::truncate().on(Verb::List), Fault::truncate().on(Verb::Watch)]).await;
}

// contract: I-03, R-05a
#[tokio::test(flavor = "multi_thread")]
async fn expired_versions() {
    survives(|| vec![Fault::expired().on(Verb::Watch), Fault::expired_event()]).await;
}

// contract: I-03, R-03, L-05c
#[tokio::test(flavor = "multi_thread")]
async fn too_many_requests() {
    survives(|| {
        vec![Fault::too_many_requests(1).on(Verb::List), Fault::too_many_requests(1).on(Verb::Watch)]
    })
    .await;
}

// contract: I-03, R-04
#[tokio::test(flavor = "multi_thread")]
async fn internal_errors() {
    survives(|| vec![Fault::internal_error().on(Verb::List), Fault::internal_error().on(Verb::Watch)]).await;
}

// contract: I-03, L-06
#[tokio::test(flavor = "multi_thread")]
async fn missing_bookmarks() {
    // Only a watch-list has this bookmark.
    survives_in(&[WatchListMode::Auto], || vec![Fault::missing_bookmark()]).await;
}

// contract: I-03
#[tokio::test(flavor = "multi_thread")]
async fn duplicate_events() {
    survives(|| vec![Fault::duplicate_event()]).await;
}

// contract: I-03, L-09a
#[tokio::test(flavor = "multi_thread")]
async fn stalled_connections() {
    survives(|| vec![Fault::stall().on(Verb::Watch)]).await;
}

/// Objects that cannot be decoded are counted, and all others are stored.
// contract: L-08a, L-08b, L-10
#[tokio::test(flavor = "multi_thread")]
async fn undecodable_objects_are_counted() {
    for mode in MODES {
        let server = server().await;
        for name in ["a", "b"] {
            server.create(config_map(name, "1")).unwrap();
        }
        server.faults().inject(Fault::malformed());
        let source = KubeListerWatcher::<ConfigMap>::new(kube(&server));
        let follower = follow(source, options(mode));
        follower.caught_up(&server).await;
        server.create(config_map("c", "1")).unwrap();
        follower.caught_up(&server).await;
        assert!(stored(&follower.store).contains_key("c"), "{mode:?}");
        assert!(follower.handle.metrics().decode_errors > 0, "{mode:?}");
        follower.stop().await;
        server.shutdown().await;
    }
}
