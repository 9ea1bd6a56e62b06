//! The requirements of a selector.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operator {
    /// Sorted, without duplicates, not empty.
    In(Vec<String>),
    /// Sorted, without duplicates, not empty.
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl Operator {
    pub(super) fn holds(&self, value: Option<&str>) -> bool {
        let one_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => one_of(values),
            Self::NotIn(values) => !one_of(values),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            Operator::In(values) => match values.as_slice() {
                [value] => write!(f, "{key}={value}"),
                values => write!(f, "{key} in ({})", values.join(",")),
            },
            Operator::NotIn(values) => match values.as_slice() {
                [value] => write!(f, "{key}!={value}"),
                values => write!(f, "{key} notin ({})", values.join(",")),
            },
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Operator::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}
