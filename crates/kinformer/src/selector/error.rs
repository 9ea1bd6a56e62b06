//! Why something is no label selector.

use std::fmt;

/// Something is no label selector: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError {
    /// The text and a place in it, in bytes.
    place: Option<(Box<str>, usize)>,
    problem: SelectorProblem,
}

/// What is wrong with a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorProblem {
    /// The text does not go on as the grammar wants it.
    #[error("expected {expected}, found {}", shown(found))]
    Syntax {
        /// What may stand here.
        expected: &'static str,
        /// What stands here; empty at the end of the text.
        found: String,
    },
    /// No label can have this key.
    #[error("{key:?} is no key of a label: {rule}")]
    Key {
        /// Which key.
        key: String,
        /// What it breaks.
        rule: &'static str,
    },
    /// No label can have this value.
    #[error("{value:?} is no value of a label ({key}): {rule}")]
    Value {
        /// The key of the label.
        key: String,
        /// Which value.
        value: String,
        /// What it breaks.
        rule: &'static str,
    },
    /// `<` and `>` compare integers.
    #[error("{key} is compared with {value:?}, which is no integer of 64 bits")]
    NotAnInteger {
        /// The key of the label.
        key: String,
        /// What it is compared with.
        value: String,
    },
    /// The operator of a match expression is none.
    #[error(
        "{operator:?} is no operator of a match expression ({key}): it is In, NotIn, Exists or DoesNotExist"
    )]
    Operator {
        /// The key of the label.
        key: String,
        /// Which operator.
        operator: String,
    },
    /// `In` and `NotIn` have at least one value, `Exists` and `DoesNotExist` have none.
    #[error("the operator {operator} ({key}) cannot have {count} values")]
    Values {
        /// The key of the label.
        key: String,
        /// Which operator.
        operator: String,
        /// How many values there are.
        count: usize,
    },
    /// A match expression cannot say this requirement.
    #[error("{0} cannot be said as a match expression")]
    NotExpressible(String),
}

fn shown(found: &str) -> String {
    if found.is_empty() { "the end".to_owned() } else { format!("{found:?}") }
}

impl SelectorError {
    pub(super) fn at(selector: &str, position: usize, problem: SelectorProblem) -> Self {
        Self { place: Some((selector.into(), position)), problem }
    }

    /// The text that was read; `None` where no text was read.
    pub fn selector(&self) -> Option<&str> {
        self.place.as_ref().map(|(selector, _)| &**selector)
    }

    /// Where in the text, in bytes from its beginning; `None` where no text was read.
    pub fn position(&self) -> Option<usize> {
        self.place.as_ref().map(|(_, position)| *position)
    }

    /// What is wrong.
    pub fn problem(&self) -> &SelectorProblem {
        &self.problem
    }
}

impl From<SelectorProblem> for SelectorError {
    fn from(problem: SelectorProblem) -> Self {
        Self { place: None, problem }
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some((selector, position)) => {
                write!(f, "label selector {selector:?}, at {position}: {}", self.problem)
            }
            None => write!(f, "label selector: {}", self.problem),
        }
    }
}

impl std::error::Error for SelectorError {}
