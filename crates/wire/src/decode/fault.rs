//! Why a value does not decode.

use std::fmt;

use serde::de;

use crate::ProtobufProblem;
use crate::limits::Exceeded;

/// Why an object does not decode. One word, because every result of decoding holds one.
#[derive(Debug)]
pub(crate) struct Fault(Box<Why>);

#[derive(Debug)]
pub(crate) enum Why {
    Bytes(ProtobufProblem),
    /// The type does not take what is in the bytes, or they are no JSON.
    Type(String),
}

impl Fault {
    #[cold]
    pub(crate) fn new(problem: &str) -> Self {
        Self(Box::new(Why::Type(problem.to_owned())))
    }

    pub(crate) fn into_why(self) -> Why {
        *self.0
    }
}

impl From<&'static ProtobufProblem> for Fault {
    #[cold]
    fn from(problem: &'static ProtobufProblem) -> Self {
        Self(Box::new(Why::Bytes(*problem)))
    }
}

/// What was exceeded is in the limits, from where it gets into the error.
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
        Self(Box::new(Why::Type(problem.to_string())))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Why::Bytes(problem) => problem.fmt(f),
            Why::Type(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for Fault {}
