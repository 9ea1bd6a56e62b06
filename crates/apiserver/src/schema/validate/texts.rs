//! The rules of strings.

use super::super::structural::Rules;
use super::Validator;
use super::outcome::{Error, Kind};
use crate::apply::quoted;

impl Validator {
    /// Returns the first rule that a string breaks.
    pub(super) fn text(&self, rules: &Rules, value: &str) -> Option<Error> {
        let path = self.path.text();
        let length = || i64::try_from(value.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = rules.max_length.filter(|max| length() > *max) {
            let text = format!("{path} in body should be at most {max} chars long");
            return Some(Error::new(path, text, Kind::TooLong(max)));
        }
        let invalid = |text: String| Some(Error::new(path, text, Kind::Invalid(quoted(value))));
        if let Some(min) = rules.min_length.filter(|min| length() < *min) {
            return invalid(format!("{path} in body should be at least {min} chars long"));
        }
        let pattern = rules.pattern.as_ref()?;
        match pattern.is_match(value) {
            Ok(true) => None,
            Ok(false) => invalid(format!("{path} in body should match '{}'", pattern.text)),
            Err(why) => invalid(format!(
                "{path} in body should match '{}, but pattern is invalid: {why}'",
                pattern.text
            )),
        }
    }
}
