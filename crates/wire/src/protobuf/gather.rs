//! Whole pieces out of chunks that end anywhere.

use crate::Error;

/// Holds what is not complete until it is. What is complete within one chunk is not copied.
#[derive(Debug)]
pub(super) struct Gather {
    pending: Vec<u8>,
    /// How many bytes have to be there before it is worth to look again.
    needs: usize,
    limit: usize,
    fed: u64,
}

/// What was found at the front of bytes.
pub(super) enum Step {
    /// A whole piece of so many bytes, all of which are there.
    Used(usize),
    /// So many bytes are needed at least, more than there are.
    Needs(usize),
}

impl Gather {
    pub(super) fn new(limit: usize) -> Self {
        Self { pending: Vec::new(), needs: 0, limit, fed: 0 }
    }

    /// How many bytes there were.
    pub(super) fn fed(&self) -> u64 {
        self.fed
    }

    /// Whether it has the beginning of something.
    pub(super) fn holds_some(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn held(&self) -> usize {
        self.pending.len()
    }

    /// Takes a chunk and shows its pieces. Memory grows by what has come, never by what a length says.
    pub(super) fn feed(
        &mut self,
        chunk: &[u8],
        mut look: impl FnMut(&[u8]) -> Result<Step, Error>,
    ) -> Result<(), Error> {
        const KEPT: usize = 256 * 1024;
        self.fed += chunk.len() as u64;
        let mut rest = chunk;
        while !rest.is_empty() {
            let step = if self.pending.is_empty() {
                look(rest)?
            } else {
                let missing = self.needs.saturating_sub(self.pending.len());
                let (more, after) = rest.split_at_checked(missing).unwrap_or((rest, &[]));
                self.pending.extend_from_slice(more);
                rest = after;
                if self.pending.len() < self.needs {
                    return Ok(());
                }
                look(&self.pending)?
            };
            match step {
                Step::Used(used) if self.pending.is_empty() => rest = rest.get(used..).unwrap_or_default(),
                // Never more was taken than is needed, so that nothing is left.
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
