//! Encoded changes, which all streams and histories share.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore};

use crate::change::Encoded;
use crate::reply::Failure;

/// The most bytes of the encoded changes that are kept.
const BYTES: usize = 16 << 20;
/// The most encoded changes that are kept.
const CHANGES: usize = 4096;

type Cell = Arc<OnceCell<Encoded>>;

/// The newest encoded changes.
///
/// A change is encoded by the first reader that needs it, one at a time and not on the workers of the runtime, since both
/// states of an update are decoded for it. Other readers of the change wait for that.
#[derive(Debug)]
pub(crate) struct Encodings {
    turn: Arc<Semaphore>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// By the identifiers of the changes.
    cells: BTreeMap<u64, Cell>,
    bytes: usize,
}

impl Encodings {
    pub(crate) fn new() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), kept: Mutex::default() }
    }

    /// Returns the encoded form of a change, if it is kept.
    pub(crate) fn kept(&self, id: u64) -> Option<Encoded> {
        self.kept.lock().cells.get(&id)?.get().cloned()
    }

    /// Returns the encoded form of a change. `encode` may block.
    ///
    /// # Errors
    /// 500 if `encode` panics.
    ///
    /// # Cancel safety
    /// If the future is dropped, another reader encodes the change.
    pub(crate) async fn get(
        &self,
        id: u64,
        encode: impl FnOnce() -> Encoded + Send + 'static,
    ) -> Result<Encoded, Failure> {
        let cell = self.kept.lock().cells.entry(id).or_default().clone();
        let encoded = cell.get_or_try_init(|| async {
            let permit = self.turn.clone().acquire_owned().await;
            let encoding = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                encode()
            });
            let encoded = encoding.await.map_err(|error| Failure::internal(error.to_string()))?;
            self.kept.lock().note(id, &cell, encoded.len());
            Ok(encoded)
        });
        encoded.await.cloned()
    }
}

impl Kept {
    /// Counts an encoded change, and drops the oldest ones beyond the bounds.
    fn note(&mut self, id: u64, cell: &Cell, bytes: usize) {
        // It may have been dropped meanwhile.
        if !self.cells.get(&id).is_some_and(|kept| Arc::ptr_eq(kept, cell)) {
            return;
        }
        self.bytes += bytes;
        while self.bytes > BYTES || self.cells.len() > CHANGES {
            let Some((oldest, dropped)) = self.cells.pop_first() else { break };
            // The one that is noted is not set yet.
            let length = if oldest == id { bytes } else { dropped.get().map_or(0, Encoded::len) };
            self.bytes = self.bytes.saturating_sub(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn encoded(length: usize) -> Encoded {
        Encoded::raw(vec![b'x'; length])
    }

    // contract: H-10f
    #[tokio::test]
    async fn encodings_are_bounded_and_the_newest_are_kept() {
        let encodings = Encodings::new();
        for id in 0..20 {
            encodings.get(id, || encoded(1 << 20)).await.unwrap();
        }
        let kept: Vec<u64> = encodings.kept.lock().cells.keys().copied().collect();
        assert_eq!((kept.as_slice(), encodings.kept.lock().bytes), (&Vec::from_iter(4..20)[..], BYTES));
        encodings.get(19, || unreachable!()).await.unwrap();
        encodings.get(0, || encoded(7)).await.unwrap();
        assert_eq!(encodings.kept.lock().bytes, BYTES, "an old change does not displace newer ones");
        for id in 100..100 + 2 * CHANGES as u64 {
            encodings.get(id, || encoded(1)).await.unwrap();
        }
        let kept = encodings.kept.lock();
        assert_eq!((kept.cells.len(), kept.bytes), (CHANGES, CHANGES));
    }

    /// A reader that was dropped, and an encoder that panics.
    #[tokio::test]
    async fn next_reader_encodes_what_an_earlier_one_did_not() {
        let encodings = Encodings::new();
        assert!(encodings.get(1, || encoded(3)).now_or_never().is_none());
        encodings.get(2, || panic!("of the encoder")).await.unwrap_err();
        for id in [1, 2] {
            assert_eq!(encodings.get(id, || encoded(5)).await.unwrap().len(), 5);
        }
        assert_eq!(encodings.kept.lock().bytes, 10);
    }
}
