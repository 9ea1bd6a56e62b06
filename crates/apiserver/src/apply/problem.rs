//! What is wrong with the fields of an object.

use std::fmt;

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq)]
struct Problem {
    path: String,
    message: String,
}

/// What is wrong with the fields of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn of(message: impl Into<String>) -> Self {
        Self(vec![Problem { path: String::new(), message: message.into() }])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The same problems below a field.
    pub(super) fn below(mut self, prefix: &impl fmt::Display) -> Self {
        let prefix = if self.0.is_empty() { String::new() } else { prefix.to_string() };
        for problem in &mut self.0 {
            problem.path.insert_str(0, &prefix);
        }
        self
    }

    pub(super) fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, message } = self;
        if path.is_empty() { f.write_str(message) } else { write!(f, "{path}: {message}") }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = self.0.as_slice() {
            return problem.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}
