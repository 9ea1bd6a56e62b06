//! Pods that change: so many in a second, each in its turn.

use std::collections::HashMap;
use std::time::Duration;

use e2e::{Etcd, Stored};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::pods;

/// Where kube-apiserver has its pods.
const PREFIX: &str = "/registry/pods/";
/// How many are being written at a time.
const AT_A_TIME: usize = 32;

/// Writes pods as kube-apiserver has stored them, but for the identifier of their container, as if that had been started
/// again. To the kube-apiserver these are writes of another one, which share its etcd.
///
/// By itself it takes no 2,000 of them in a second on two processors.
pub(crate) struct Updates {
    etcd: Etcd,
    pods: Vec<Stored>,
    /// How many were written.
    count: usize,
}

/// What was written.
pub(crate) struct Written {
    pub(crate) seconds: f64,
    /// When each version was begun to be written.
    pub(crate) begun: HashMap<u64, Instant>,
    /// The object of the last version, and that.
    pub(crate) last_key: String,
    pub(crate) last_version: u64,
}

impl Updates {
    /// Of the pods that there are.
    pub(crate) async fn of(etcd: Etcd) -> Result<Self, Failure> {
        let pods = etcd.all(PREFIX).await?;
        Ok(Self { etcd, pods, count: 0 })
    }

    /// Writes for so long, at this rate or as fast as it goes: what cannot be begun in time is left out.
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

/// A stored pod with another container. Its length stays, which is part of protobuf.
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
    fn a_container_that_is_started_again_has_another_identifier_and_nothing_else() {
        let pod = |digest: &str| format!("before containerd://{digest} behind").into_bytes();
        let restarted = |number| restarted(&pod(&pods::digest(1)), number).unwrap();
        assert_eq!(restarted(0), pod(&pods::digest(3)));
        assert_ne!(restarted(0), restarted(1));
        assert!(super::restarted(b"no container", 0).is_none());
        assert!(super::restarted(b"containerd://too short", 0).is_none());
    }
}
