//! Reassembles pieces from chunks with arbitrary boundaries.

use crate::Error;

/// Buffers an incomplete piece until it is complete. A piece within one chunk is not copied.
#[derive(Debug)]
pub(super) struct Gather {
    pending: Vec<u8>,
    /// The number of pending bytes at which parsing is retried.
    needs: usize,
    limit: usize,
    fed: u64,
}

/// The result of parsing the front of the bytes.
pub(super) enum Step {
    /// A complete piece of this length.
    Used(usize),
    /// An incomplete piece, which needs at least this number of bytes.
    Needs(usize),
}

impl Gather {
    pub(super) fn new(limit: usize) -> Self {
        Self { pending: Vec::new(), needs: 0, limit, fed: 0 }
    }

    /// The number of bytes received.
    pub(super) fn fed(&self) -> u64 {
        self.fed
    }

    /// Whether there is an incomplete piece.
    pub(super) fn is_partial(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Reads a chunk and calls `parse` with its pieces. Memory grows with the received bytes only, never by an
    /// announced length.
    pub(super) fn feed(
        &mut self,
        chunk: &[u8],
        mut parse: impl FnMut(&[u8]) -> Result<Step, Error>,
    ) -> Result<(), Error> {
        const KEPT: usize = 256 * 1024;
        self.fed += chunk.len() as u64;
        let mut rest = chunk;
        while !rest.is_empty() {
            let step = if self.pending.is_empty() {
                parse(rest)?
            } else {
                let missing = self.needs.saturating_sub(self.pending.len());
                let (more, after) = rest.split_at_checked(missing).unwrap_or((rest, &[]));
                self.pending.extend_from_slice(more);
                rest = after;
                if self.pending.len() < self.needs {
                    return Ok(());
                }
                parse(&self.pending)?
            };
            match step {
                Step::Used(used) if self.pending.is_empty() => rest = rest.get(used..).unwrap_or_default(),
                // No more bytes than needed were buffered, so none are left.
                Step::Used(_) => {
                    self.pending.clear();
                    self.pending.shrink_to(KEPT);
                }
                Step::Needs(needs) if needs > self.limit => {
                    return Err(Error::TooLarge { what: "an object", limit: self.limit });
                }
                Step::Needs(needs) => {
                    self.needs = needs;
                    if self.pending.is_empty() {
                        self.pending.extend_from_slice(rest);
                        rest = &[];
                    }
                }
            }
        }
        Ok(())
    }
}
