//! The options of an elector.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kinformer_leader_election::{BootClock, Clock, Error, LeaderElector, LeaderElectorBuilder, LeaseHolder};

use crate::common::{Server, candidate};

const S: Duration = Duration::from_secs(1);

fn error(options: LeaderElectorBuilder) -> String {
    match options.build() {
        Err(Error::InvalidOption(message)) => message,
        other => panic!("{other:?}"),
    }
}

/// Options that would allow two leaders, or none, are refused.
// contract: N-08a
#[tokio::test]
async fn invalid_options() {
    let client = Server::default().client();
    let test = || candidate(&client, "a");
    let longer = "the lease duration must be longer than the renew deadline";
    assert_eq!(error(test().renew_deadline(15 * S)), longer);
    assert_eq!(error(test().lease_duration(10 * S)), longer);
    let retries = "the renew deadline must be longer than 1.2 retry periods, which must not be zero";
    assert_eq!(error(test().retry_period(9 * S)), retries);
    assert_eq!(error(test().retry_period(Duration::ZERO)), retries);
    assert_eq!(error(test().retry_period(Duration::MAX)), retries);
    test().retry_period(8 * S).build().unwrap();
    let duration = "the lease duration must be at least 1 s and at most 2^30 s";
    assert_eq!(error(test().lease_duration(S / 2).renew_deadline(S / 4).retry_period(S / 10)), duration);
    assert_eq!(error(test().lease_duration(S * (1 << 30) + S)), duration);
    assert_eq!(error(test().identity("")), "the identity must not be empty");
    let names = "the namespace and the name of the lease must not be empty";
    assert_eq!(error(LeaderElector::builder(client.clone(), "", "test")), names);
    assert_eq!(error(LeaderElector::builder(client.clone(), "default", "")), names);
    let holder = |identity: &str, duration| {
        LeaseHolder::new(client.clone(), "default", "test", identity, duration, Arc::new(BootClock))
    };
    assert_eq!(
        holder("", 15 * S).unwrap_err().to_string(),
        "leader election: the identity must not be empty"
    );
    assert_eq!(holder("a", S / 2).unwrap_err().to_string(), format!("leader election: {duration}"));
}

/// The default identity has the host name and is unique.
// contract: N-08b
#[tokio::test]
async fn default_identity_is_unique() {
    let client = Server::default().client();
    let identity =
        || LeaderElector::builder(client.clone(), "default", "test").build().unwrap().identity().to_owned();
    let identities: BTreeSet<String> = (0..10).map(|_| identity()).collect();
    assert_eq!(identities.len(), 10);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    if let Ok(host) = host {
        assert!(identities.iter().all(|identity| identity.starts_with(host.trim())), "{identities:?}");
    }
}

/// The clock of the system advances and does not go back.
#[test]
fn boot_clock_advances() {
    let times: Vec<_> = (0..1000).map(|_| BootClock.now()).collect();
    assert!(times.is_sorted() && times[999] < Duration::MAX);
}
