//! The errors of label selectors.

use std::fmt;

/// The error for an invalid label selector: the problem and its position.
#[derive(Clone, PartialEq, Eq)]
pub struct SelectorError {
    /// The parsed string and a byte position in it.
    input: Option<(Box<str>, usize)>,
    problem: SelectorProblem,
}

/// The problem of an invalid label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorProblem {
    /// The string does not follow the grammar.
    #[error("expected {expected}, found {}", shown(found))]
    Syntax {
        /// The symbols that the grammar allows here.
        expected: &'static str,
        /// The string found here; empty at the end of the input.
        found: String,
    },
    /// The string is not a valid label key.
    #[error("{key:?} is not a valid label key: {rule}")]
    Key {
        /// The invalid key.
        key: String,
        /// The rule that the string violates.
        rule: &'static str,
    },
    /// The string is not a valid label value.
    #[error("{value:?} is not a valid label value ({key}): {rule}")]
    Value {
        /// The key of the label.
        key: String,
        /// The invalid value.
        value: String,
        /// The rule that the string violates.
        rule: &'static str,
    },
    /// The value after `<` or `>` is not an integer.
    #[error("{key} is compared with {value:?}, which is not a 64-bit integer")]
    NotAnInteger {
        /// The key of the label.
        key: String,
        /// The value.
        value: String,
    },
    /// The operator of a match expression is unknown.
    #[error(
        "unknown operator {operator:?} in a match expression ({key}); valid are In, NotIn, Exists and DoesNotExist"
    )]
    Operator {
        /// The key of the label.
        key: String,
        /// The operator.
        operator: String,
    },
    /// The operator does not allow this number of values: `In` and `NotIn` need at least one, `Exists` and
    /// `DoesNotExist` none.
    #[error("the operator {operator} ({key}) cannot have {count} values")]
    Values {
        /// The key of the label.
        key: String,
        /// The operator.
        operator: String,
        /// The number of values.
        count: usize,
    },
    /// A requirement cannot be expressed as a match expression.
    #[error("{0} cannot be expressed as a match expression")]
    NotExpressible(String),
}

fn shown(found: &str) -> String {
    if found.is_empty() { "end of input".to_owned() } else { format!("{found:?}") }
}

impl SelectorError {
    pub(super) fn new(selector: &str, position: usize, problem: SelectorProblem) -> Self {
        Self { input: Some((selector.into(), position)), problem }
    }

    /// The parsed string; `None` if the selector was not parsed from a string.
    pub fn selector(&self) -> Option<&str> {
        self.input.as_ref().map(|(selector, _)| &**selector)
    }

    /// The byte position in the parsed string; `None` if the selector was not parsed from a string.
    pub fn position(&self) -> Option<usize> {
        self.input.as_ref().map(|(_, position)| *position)
    }

    /// The problem.
    pub fn problem(&self) -> &SelectorProblem {
        &self.problem
    }
}

impl From<SelectorProblem> for SelectorError {
    fn from(problem: SelectorProblem) -> Self {
        Self { input: None, problem }
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.input {
            Some((selector, position)) => {
                write!(f, "label selector {selector:?}, at {position}: {}", self.problem)
            }
            None => write!(f, "label selector: {}", self.problem),
        }
    }
}

impl std::error::Error for SelectorError {}

kinformer_core::debug_as_message!(SelectorError);
