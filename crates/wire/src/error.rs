//! What can be wrong with the bytes.

use crate::ProtobufProblem;

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
    /// The answer says that it is protobuf, and is not what the Kubernetes API sends in it.
    #[error("{} is not what the Kubernetes API sends: {problem}", place(.what, .path))]
    Protobuf {
        /// What was being read: an object's kind, or what is around objects.
        what: String,
        /// Where in an object, as `spec.containers[2].image`.
        path: String,
        /// What is wrong with the bytes.
        problem: ProtobufProblem,
    },
    /// The bytes are as they should be, and the type does not take what is in them.
    #[error("{} cannot be decoded: {problem}", place(.what, .path))]
    Undecodable {
        /// The object's kind.
        what: String,
        /// Where in it.
        path: String,
        /// What the type says.
        problem: String,
    },
    /// An object in protobuf of a kind that is not built into Kubernetes, or not into the version whose types are
    /// known here. It can be had as JSON.
    #[error("nothing is known of the protobuf of {api_version} {kind}")]
    UnknownKind {
        /// Its group and version.
        api_version: String,
        /// Its kind.
        kind: String,
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

fn place(what: &str, path: &str) -> String {
    if path.is_empty() { what.to_owned() } else { format!("{what}, in {path},") }
}

impl Error {
    #[cold]
    pub(crate) fn protobuf(what: &str, path: String, problem: ProtobufProblem) -> Self {
        Self::Protobuf { what: what.to_owned(), path, problem }
    }

    pub(crate) fn unknown_kind(api_version: &str, kind: &str) -> Self {
        Self::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }
    }

    pub(crate) fn malformed(what: &'static str, problem: impl ToString, bytes: &[u8]) -> Self {
        let shown = bytes.get(..80).unwrap_or(bytes);
        Self::Malformed {
            what,
            problem: problem.to_string(),
            start: String::from_utf8_lossy(shown).into_owned(),
        }
    }
}
