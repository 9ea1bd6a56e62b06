//! The error of decoding.

use std::fmt;

use serde::de;

use crate::ProtobufProblem;
use crate::limits::Exceeded;

/// The error of decoding an object. One machine word, because every result of decoding has room for it.
#[derive(Debug)]
pub(crate) struct Fault(Box<Cause>);

#[derive(Debug)]
pub(crate) enum Cause {
    Bytes(ProtobufProblem),
    /// The value does not match the type, or the bytes are not JSON.
    Type(String),
}

impl Fault {
    #[cold]
    pub(crate) fn new(problem: &str) -> Self {
        Self(Box::new(Cause::Type(problem.to_owned())))
    }

    pub(crate) fn into_cause(self) -> Cause {
        *self.0
    }
}

impl From<&'static ProtobufProblem> for Fault {
    #[cold]
    fn from(problem: &'static ProtobufProblem) -> Self {
        Self(Box::new(Cause::Bytes(*problem)))
    }
}

/// The final error is created from the exceeded limit, which is recorded in the limits.
impl From<Exceeded> for Fault {
    #[cold]
    fn from(exceeded: Exceeded) -> Self {
        Self::new(exceeded.text())
    }
}

impl From<serde_json::Error> for Fault {
    #[cold]
    fn from(error: serde_json::Error) -> Self {
        de::Error::custom(error)
    }
}

impl de::Error for Fault {
    #[cold]
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self(Box::new(Cause::Type(problem.to_string())))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Bytes(problem) => problem.fmt(f),
            Cause::Type(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for Fault {}
