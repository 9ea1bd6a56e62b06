//! The faults of an election: of requests, of processes, of clocks, and of the Lease.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use super::judge::{Judge, LEASE};
use crate::random::pick;
use crate::server::{Cluster, Fault, Key, Server, Stop as Broken};

/// Plans a fault of the next request. Returns its description.
pub(crate) fn of_request(rng: &mut Rng, server: &Server) -> String {
    let faults = [
        Fault::Status { code: pick(rng, [409, 429, 500, 503, 504]), retry_after: None },
        Fault::Busy { code: pick(rng, [429, 503]), seconds: rng.u32(1..20) },
        Fault::Stop { bytes: 0, stop: pick(rng, [Broken::Broken, Broken::Silent]) },
        Fault::Delay(Duration::from_millis(rng.u64(..10_000))),
        Fault::Delay(Duration::from_millis(rng.u64(..1_000))),
        Fault::Refused,
        Fault::NoAnswer,
    ];
    let fault = pick(rng, faults);
    let requests = pick(rng, [1, 1, 3, 20]);
    for _ in 0..requests {
        server.plan(None, fault);
    }
    format!("the next {requests} requests: {fault:?}")
}

/// Changes the Lease as others do. Returns a description.
pub(crate) fn of_lease(rng: &mut Rng, cluster: &Cluster, judge: &Judge, identities: &[String]) -> String {
    let key = Key::new("leases", "default", LEASE);
    let Some(lease) = cluster.read(|history| history.object(&key).cloned()) else { return "no Lease".into() };
    let mut lease = lease.as_ref().clone();
    let mut set = |name: &str, value: Value| {
        if let Some(spec) = lease.pointer_mut("/spec").and_then(Value::as_object_mut) {
            spec.insert(name.to_owned(), value);
        }
    };
    let time = |rng: &mut Rng| json!(format!("2020-01-01T00:00:00.{:06}Z", rng.u32(..1_000_000)));
    match rng.u8(..7) {
        0 => {
            let version = cluster.delete(key);
            judge.disturbed(version);
            "deletes the Lease".into()
        }
        1 => restore(rng, cluster, judge),
        2 => {
            set("holderIdentity", json!("stranger"));
            set("renewTime", time(rng));
            judge.disturbed(Some(cluster.put(key, lease)));
            "another process takes the Lease".into()
        }
        3 => {
            let identity = identities.get(rng.usize(..identities.len())).cloned().unwrap_or_default();
            set("holderIdentity", json!(identity));
            set("renewTime", time(rng));
            judge.disturbed(Some(cluster.put(key, lease)));
            format!("another process takes the Lease with the identity {identity}")
        }
        4 => {
            set("holderIdentity", json!(""));
            judge.disturbed(Some(cluster.put(key, lease)));
            "another process releases the Lease".into()
        }
        _ => {
            let labels = json!({"color": rng.u32(..).to_string()});
            if let Some(metadata) = lease.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                metadata.insert("labels".into(), labels);
            }
            judge.decorated(cluster.put(key, lease));
            "labels the Lease".into()
        }
    }
}

/// Restores a backup, whose state of the Lease is foreign.
fn restore(rng: &mut Rng, cluster: &Cluster, judge: &Judge) -> String {
    let newest = cluster.read(crate::server::History::newest);
    let version = newest.saturating_sub(rng.u64(..60)).max(2);
    judge.disturbed(None);
    match rng.bool() {
        true => {
            cluster.restore(version);
            judge.versions_repeat();
        }
        false => cluster.restore_ahead(version, 1_000),
    }
    judge.disturbed(Some(cluster.read(crate::server::History::newest)));
    format!("restores a backup of {version}")
}
