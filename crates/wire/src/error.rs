//! The errors of this crate.

use kinformer_core::ObjectKey;

use crate::ProtobufProblem;

/// The error of decoding a response or an object.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The response is incomplete: the connection was closed, or the server ended the response.
    #[error("the response ended after {bytes} bytes, within {place}")]
    Truncated {
        /// The number of received bytes.
        bytes: u64,
        /// The part that was being read.
        place: &'static str,
    },
    /// The response is not JSON, or not a Kubernetes list or watch event.
    #[error("{what} is malformed: {problem}; it starts with {start:?}")]
    Malformed {
        /// The part that was being read.
        what: &'static str,
        /// The problem.
        problem: String,
        /// The first characters of the part.
        start: String,
    },
    /// The protobuf of a response is malformed, or is not in the form that a Kubernetes API server writes.
    #[error("{} is malformed: {problem}", place(.what, .path))]
    Protobuf {
        /// The part that was being read: the kind of an object, or the message around objects.
        what: String,
        /// The path within the object, such as `spec.containers[2].image`.
        path: String,
        /// The problem.
        problem: ProtobufProblem,
    },
    /// The bytes are valid, but do not match the type.
    #[error("{} cannot be decoded: {problem}", place(.what, .path))]
    Undecodable {
        /// The kind of the object.
        what: String,
        /// The path within the object.
        path: String,
        /// The error of the type.
        problem: String,
    },
    /// A value cannot be written as JSON.
    #[error("{what} cannot be encoded: {problem}")]
    Unencodable {
        /// The type of the value.
        what: &'static str,
        /// The error of the value.
        problem: String,
    },
    /// The object is protobuf of a kind that is not built into Kubernetes 1.37. Such kinds are available as JSON.
    #[error("the protobuf schema of {api_version} {kind} is unknown")]
    UnknownKind {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// Decoding the object would take more memory than 64 times its size plus 1 MiB.
    #[error("decoding {} takes more than {limit} bytes of memory", named(.what, .key))]
    DecodedTooLarge {
        /// The kind of the object.
        what: String,
        /// The key, if the object has a valid one.
        key: Option<ObjectKey>,
        /// The limit in bytes.
        limit: usize,
    },
    /// The object is nested too deep to be decoded within the stack limit.
    #[error("{} is nested too deeply", named(.what, .key))]
    TooDeep {
        /// The kind of the object.
        what: String,
        /// The key, if the object has a valid one.
        key: Option<ObjectKey>,
    },
    /// A field that identifies objects, or the whole object, cannot be removed.
    #[error("the field {path:?} identifies the object and cannot be removed")]
    NotRemovable {
        /// The path of the field.
        path: String,
    },
    /// An object or event is larger than the limit.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The part that was being read.
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

kinformer_core::debug_as_message!(Error);
