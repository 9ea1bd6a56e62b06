//! The errors of a validation, and how well a value matched.

use std::collections::HashSet;

use crate::causes;
use crate::status::Cause;

/// The result of validating a value against a node.
///
/// Follows Kubernetes 1.37 (`validate.Result`): an error is kept once, by its text.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) errors: Vec<Error>,
    /// The texts of the errors, if there are some.
    texts: HashSet<String>,
    /// How many checks a value has passed. Selects whose errors are reported if no alternative is valid.
    pub(super) matches: usize,
}

#[derive(Debug)]
pub(super) struct Error {
    /// The path of the value; `None` for an error that is reported at the root.
    path: Option<String>,
    text: String,
    kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// With the value as text.
    Invalid(String),
    TypeInvalid(String),
    Required,
    NotSupported {
        value: String,
        allowed: Vec<String>,
    },
    TooLong(i64),
    TooMany {
        actual: usize,
        max: i64,
    },
}

impl Error {
    pub(super) fn new(path: impl Into<String>, text: String, kind: Kind) -> Self {
        Self { path: Some(path.into()), text, kind }
    }

    /// An error that is reported at the root.
    pub(super) fn plain(text: String) -> Self {
        Self { path: None, text, kind: Kind::Invalid("\"\"".into()) }
    }

    /// Returns the cause, for a value at a path.
    pub(super) fn into_cause(self, root: &str) -> Cause {
        let path = match self.path.as_deref().map(|path| path.strip_prefix('.').unwrap_or(path)) {
            None | Some("") => root.to_owned(),
            Some(path) if root.is_empty() => path.to_owned(),
            Some(path) => format!("{root}.{path}"),
        };
        match self.kind {
            Kind::Invalid(value) => causes::invalid_text(&path, &value, &self.text),
            Kind::TypeInvalid(value) => causes::type_invalid(&path, &value, &self.text),
            Kind::Required => causes::required(&path, ""),
            Kind::NotSupported { value, allowed } => {
                causes::not_supported_text(&path, &value, allowed.iter().map(String::as_str))
            }
            Kind::TooLong(max) => causes::too_long(&path, max),
            Kind::TooMany { actual, max } => causes::too_many(&path, actual, max),
        }
    }
}

impl Outcome {
    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn add(&mut self, error: Error) {
        if self.texts.insert(error.text.clone()) {
            self.errors.push(error);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.matches = self.matches.saturating_add(other.matches);
        if self.errors.is_empty() {
            (self.errors, self.texts) = (other.errors, other.texts);
        } else {
            other.errors.into_iter().for_each(|error| self.add(error));
        }
    }

    pub(super) fn count(&mut self) {
        self.matches = self.matches.saturating_add(1);
    }
}
