//! Updates of pods at a fixed rate, round robin.

use std::collections::HashMap;
use std::time::Duration;

use e2e::{Etcd, Stored};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::pods;

/// The prefix of pods in etcd.
const PREFIX: &str = "/registry/pods/";
/// The number of concurrent writes.
const AT_A_TIME: usize = 32;

/// Writes pods to etcd as kube-apiserver has stored them, with another container identifier, as if the container had
/// been restarted. To kube-apiserver these are writes of another kube-apiserver with the same etcd.
///
/// kube-apiserver itself cannot write 2,000 pods per second on two processors.
pub(crate) struct Updates {
    etcd: Etcd,
    pods: Vec<Stored>,
    /// The number of writes so far.
    count: usize,
}

/// The result of a phase of updates.
pub(crate) struct Written {
    pub(crate) seconds: f64,
    /// The start of the write of each version.
    pub(crate) begun: HashMap<u64, Instant>,
    /// The key of the last written object, and its version.
    pub(crate) last_key: String,
    pub(crate) last_version: u64,
}

impl Updates {
    /// Reads the existing pods.
    pub(crate) async fn of(etcd: Etcd) -> Result<Self, Failure> {
        let pods = etcd.all(PREFIX).await?;
        Ok(Self { etcd, pods, count: 0 })
    }

    /// Writes at this rate for this duration, or as fast as possible: writes that cannot start in time are skipped.
    pub(crate) async fn write(&mut self, rate: usize, period: Duration) -> Result<Written, Failure> {
        let (began, first) = (Instant::now(), self.count);
        let (etcd, pods) = (&self.etcd, &self.pods);
        let one = |number: usize| async move {
            let due = began + Duration::from_secs_f64(number as f64 / rate as f64);
            tokio::time::sleep_until(due).await;
            let begun = Instant::now();
            if begun > began + period {
                return Ok(None);
            }
            let place = (first + number) % pods.len().max(1);
            let pod = pods.get(place).ok_or("there are no pods")?;
            let value = restarted(&pod.value, first + number).ok_or("a pod has no container")?;
            let version = etcd.put(&Stored { key: pod.key.clone(), value }).await?;
            Ok::<_, Failure>(Some((version, place, begun)))
        };
        let numbers = 0..(rate as f64 * period.as_secs_f64()) as usize;
        let mut writes = stream::iter(numbers).map(one).buffer_unordered(AT_A_TIME);
        let (mut all, mut last) = (HashMap::new(), None);
        while let Some(write) = writes.try_next().await? {
            if let Some((version, place, begun)) = write {
                all.insert(version, begun);
                last = last.max(Some((version, place)));
            }
        }
        drop(writes);
        let seconds = began.elapsed().as_secs_f64();
        self.count += all.len();
        let (last_version, place) = last.ok_or("nothing was written")?;
        let last_key = self.pods.get(place).and_then(|pod| pod.key.strip_prefix(PREFIX));
        let last_key = last_key.unwrap_or_default().to_owned();
        Ok(Written { seconds, begun: all, last_key, last_version })
    }
}

/// Returns a stored pod with another container identifier of the same length, since lengths are part of protobuf.
fn restarted(pod: &[u8], number: usize) -> Option<Vec<u8>> {
    let mut pod = pod.to_vec();
    let scheme = pods::CONTAINER_SCHEME.as_bytes();
    let at = pod.windows(scheme.len()).position(|part| part == scheme)? + scheme.len();
    let digest = pods::digest(number as u64 + 3);
    pod.get_mut(at..at + digest.len())?.copy_from_slice(digest.as_bytes());
    Some(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_changes_only_the_container_identifier() {
        let pod = |digest: &str| format!("before containerd://{digest} behind").into_bytes();
        let restarted = |number| restarted(&pod(&pods::digest(1)), number).unwrap();
        assert_eq!(restarted(0), pod(&pods::digest(3)));
        assert_ne!(restarted(0), restarted(1));
        assert!(super::restarted(b"no container", 0).is_none());
        assert!(super::restarted(b"containerd://too short", 0).is_none());
    }
}
