//! What can be wrong with the bytes.

use kinformer_core::ObjectKey;

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
    /// A value cannot be written as JSON.
    #[error("{what} cannot be encoded: {problem}")]
    Unencodable {
        /// Its type.
        what: &'static str,
        /// What it says.
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
    /// One object takes more memory as its type than its bytes explain: 64 times their number and 1 MiB.
    #[error("{} takes more than {limit} bytes of memory when it is decoded", named(.what, .key))]
    DecodedTooLarge {
        /// The object's kind.
        what: String,
        /// Its key, where it has a valid one.
        key: Option<ObjectKey>,
        /// The limit in bytes.
        limit: usize,
    },
    /// One object has more levels than the stack of a thread is sure to have room for.
    #[error("{} is nested too deep", named(.what, .key))]
    TooDeep {
        /// The object's kind.
        what: String,
        /// Its key, where it has a valid one.
        key: Option<ObjectKey>,
    },
    /// A field that is part of what an object is identified by, or no field at all, was to be removed.
    #[error("the field {path:?} is one that every object keeps")]
    NotRemovable {
        /// The field's path.
        path: String,
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

fn named(what: &str, key: &Option<ObjectKey>) -> String {
    match key {
        Some(key) => format!("{what} {key}"),
        None => what.to_owned(),
    }
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
