//! `anyOf`, `oneOf`, `allOf` and `not`.

use serde_json::Value;

use super::super::structural::{Rules, Structural};
use super::Validator;
use super::outcome::{Error, Outcome};
use crate::apply::quoted;

impl Validator {
    /// Follows Kubernetes 1.37 (`schemaPropsValidator`): the parts that a write does not change are validated as well.
    pub(super) fn alternatives(&mut self, rules: Option<&Rules>, value: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(rules) = rules {
            self.any_of(&rules.any_of, value, &mut outcome);
            self.one_of(&rules.one_of, value, &mut outcome);
            self.all_of(&rules.all_of, value, &mut outcome);
            if let Some(not) = &rules.not
                && self.node(not, value, None).is_valid()
            {
                outcome.add(self.composite("must not validate the schema (not)"));
            }
        }
        outcome.count();
        outcome
    }

    fn any_of(&mut self, nodes: &[Structural], value: &Value, outcome: &mut Outcome) {
        if nodes.is_empty() {
            return;
        }
        let mut best: Option<Outcome> = None;
        for node in nodes {
            let result = self.node(node, value, None);
            if result.is_valid() {
                return outcome.merge(result);
            }
            if best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        outcome.add(self.composite("must validate at least one schema (anyOf)"));
        outcome.merge(best.unwrap_or_default());
    }

    fn one_of(&mut self, nodes: &[Structural], value: &Value, outcome: &mut Outcome) {
        if nodes.is_empty() {
            return;
        }
        let (mut best, mut first): (Option<Outcome>, Option<Outcome>) = (None, None);
        let mut valid = 0;
        for node in nodes {
            let result = self.node(node, value, None);
            if result.is_valid() {
                valid += 1;
                best = None;
                first.get_or_insert(result);
            } else if valid == 0 && best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        match (valid, first) {
            (1, Some(first)) => outcome.merge(first),
            _ => {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    _ => format!("Found {valid} valid alternatives"),
                };
                outcome
                    .add(self.composite(&format!("must validate one and only one schema (oneOf). {found}")));
                outcome.merge(best.unwrap_or_default());
            }
        }
    }

    fn all_of(&mut self, nodes: &[Structural], value: &Value, outcome: &mut Outcome) {
        let mut valid = 0;
        for node in nodes {
            let result = self.node(node, value, None);
            valid += usize::from(result.is_valid());
            outcome.merge(result);
        }
        if valid < nodes.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.add(self.composite(&format!("must validate all the schemas (allOf){none}")));
        }
    }

    fn composite(&self, rule: &str) -> Error {
        Error::plain(format!("{} {rule}", quoted(self.path.text())))
    }
}
