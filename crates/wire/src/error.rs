//! What can be wrong with the bytes.

/// Why an answer of the server could not be taken apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The answer ended in the middle: the connection was cut, or the server gave up.
    #[error("the answer ended after {bytes} bytes, in the middle of {place}")]
    Truncated {
        /// How many bytes there were.
        bytes: u64,
        /// What was being read.
        place: &'static str,
    },
    /// The answer is not JSON, or not of the shape of a Kubernetes list or watch event.
    #[error("{what} is not what the Kubernetes API sends: {problem}; it starts with {start:?}")]
    Malformed {
        /// What was being read.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
        /// Its first characters.
        start: String,
    },
    /// One object is larger than the limit.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// What was being read.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
}

impl Error {
    pub(crate) fn malformed(what: &'static str, problem: impl ToString, bytes: &[u8]) -> Self {
        let shown = bytes.get(..80).unwrap_or(bytes);
        Self::Malformed {
            what,
            problem: problem.to_string(),
            start: String::from_utf8_lossy(shown).into_owned(),
        }
    }
}
