//! Outages: how long it takes until an informer has a change that was made during one, beside the reference reflector.

use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{KubeListerWatcher, SharedInformerFactory};
use kinformer_simulation::reference::Reference;
use kinformer_simulation::server::{Cluster, Fault, Key, Options, Server};
use kube_client::Client;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

/// The number of seeds for each kind of outage.
const SEEDS: u64 = 100;
/// How often it is looked whether the change was received.
const STEP: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outage {
    /// All requests are forbidden.
    Forbidden,
    /// Connections are not established, and those that are being established when it ends go on.
    BlackHole,
    Refused,
    /// All requests are answered by one of 500, 502, 503 and 504.
    Errors,
    /// Connections are refused, then versions have expired, a while after another outage.
    RestartAfterFailures,
}

impl Outage {
    fn fault(self, rng: &mut Rng) -> Fault {
        match self {
            Self::Forbidden => Fault::Status { code: 403, retry_after: None },
            Self::BlackHole => Fault::Unreachable,
            Self::Refused | Self::RestartAfterFailures => Fault::Refused,
            Self::Errors => {
                let code = rng.choice([500, 502, 503, 504]).unwrap();
                Fault::Status { code, retry_after: None }
            }
        }
    }

    /// Runs the outage, during which an object is created.
    async fn run(self, rng: &mut Rng, cluster: &Cluster, server: &Server) {
        let mut seconds = |range| Duration::from_secs(rng.u64(range));
        let (before, long, quiet, short) =
            (seconds(60..600), seconds(5..120), seconds(20..100), seconds(5..30));
        sleep(before).await;
        let length = if self == Self::RestartAfterFailures {
            server.set_outage(Some(Fault::Status { code: 403, retry_after: None }));
            sleep(long).await;
            server.set_outage(None);
            sleep(quiet).await;
            short
        } else {
            long
        };
        server.set_outage(Some(self.fault(rng)));
        sleep(length / 2).await;
        cluster.put(key("late"), json!({"data": {"value": "1"}}));
        sleep(length / 2).await;
        if self == Self::RestartAfterFailures {
            server.restart();
        }
        server.set_outage(None);
    }
}

fn key(name: &str) -> Key {
    Key::new("configmaps", "default", name)
}

/// Returns the times until the informer and the reference have the object, each on a server of its own.
fn times(outage: Outage, seed: u64) -> [Duration; 2] {
    [true, false].map(|is_ours| {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        fastrand::seed(seed);
        let mut rng = Rng::with_seed(seed);
        runtime.block_on(async {
            let cluster = Cluster::new();
            cluster.put(key("early"), json!({"data": {"value": "1"}}));
            let mut options = Options::default();
            options.watch_lists = rng.bool();
            let server = Server::new(&cluster, seed, options);
            let client = Client::new(server.clone(), "default");
            if is_ours {
                let factory = SharedInformerFactory::new(client);
                let informer = factory.informer::<ConfigMap>();
                factory.start().unwrap();
                outage.run(&mut rng, &cluster, &server).await;
                until(|| informer.snapshot().is_ok_and(|all| all.get(("default", "late")).is_some())).await
            } else {
                let source = KubeListerWatcher::packed::<ConfigMap>(client);
                let reference = Reference::new(source, true, Duration::from_secs(300));
                let stored = reference.stored();
                tokio::spawn(reference.run());
                outage.run(&mut rng, &cluster, &server).await;
                until(|| stored.lock().contains_key("default/late")).await
            }
        })
    })
}

async fn until(has_it: impl Fn() -> bool) -> Duration {
    let ended = Instant::now();
    while !has_it() {
        assert!(ended.elapsed() < Duration::from_secs(600), "not back after ten minutes");
        sleep(STEP).await;
    }
    ended.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// After an outage, the median informer is back no later than the median reference reflector.
// contract: R-01f
#[test]
fn informer_is_back_as_soon_as_the_reference() {
    let outages =
        [Outage::Forbidden, Outage::BlackHole, Outage::Refused, Outage::Errors, Outage::RestartAfterFailures];
    let mut later = Vec::new();
    for outage in outages {
        let (ours, reference): (Vec<_>, Vec<_>) = (0..SEEDS).map(|seed| times(outage, seed).into()).unzip();
        let (ours, reference) = (median(ours), median(reference));
        println!("{outage:?}: {ours:?}, reference {reference:?}");
        if ours > reference {
            later.push(outage);
        }
    }
    assert!(later.is_empty(), "later than the reference after {later:?}");
}
