//! The names of a definition: those that it requests, and those that it has.
//!
//! Follows Kubernetes 1.37 (`NamingConditionController`).

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// The names of a kind, in a `spec.names` or a `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) categories: Vec<String>,
}

/// Why a definition does not have the names that it requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Names {
    pub(super) fn of(names: &Value) -> Self {
        let text = |field: &str| names.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
        let words = |field: &str| -> Vec<String> {
            let values = names.get(field).and_then(Value::as_array);
            values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            plural: text("plural"),
            singular: text("singular"),
            short_names: words("shortNames"),
            kind: text("kind"),
            list_kind: text("listKind"),
            categories: words("categories"),
        }
    }

    /// Sets the names that a definition need not have.
    pub(super) fn complete(&mut self) {
        if self.singular.is_empty() {
            self.singular = self.kind.to_lowercase();
        }
        if self.list_kind.is_empty() && !self.kind.is_empty() {
            self.list_kind = format!("{}List", self.kind);
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut names = Map::new();
        names.insert("plural".into(), self.plural.as_str().into());
        names.insert("kind".into(), self.kind.as_str().into());
        for (field, name) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !name.is_empty() {
                names.insert(field.into(), name.as_str().into());
            }
        }
        for (field, list) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !list.is_empty() {
                names.insert(field.into(), json!(list));
            }
        }
        Value::Object(names)
    }

    /// Returns the names that a definition gets, if it has these and requests others. `used` are the names of all definitions
    /// of the group.
    pub(super) fn accept(&self, requested: &Self, used: &Used<'_>) -> (Self, Option<Conflict>) {
        let (mut names, mut conflict) = (self.clone(), None);
        let resources = &used.resources;
        take(&mut names.plural, &requested.plural, resources, "PluralConflict", &mut conflict);
        take(&mut names.singular, &requested.singular, resources, "SingularConflict", &mut conflict);
        let new = requested.short_names.iter().filter(|name| !self.short_names.contains(name));
        let taken: Vec<String> = new.filter_map(|name| why_taken(name, "", resources)).collect();
        match taken.as_slice() {
            [] => names.short_names.clone_from(&requested.short_names),
            [one] => conflict = Some(Conflict { reason: "ShortNamesConflict", message: one.clone() }),
            many => {
                let message = format!("[{}]", many.join(", "));
                conflict = Some(Conflict { reason: "ShortNamesConflict", message });
            }
        }
        take(&mut names.kind, &requested.kind, &used.kinds, "KindConflict", &mut conflict);
        take(&mut names.list_kind, &requested.list_kind, &used.kinds, "ListKindConflict", &mut conflict);
        names.categories.clone_from(&requested.categories);
        (names, conflict)
    }
}

fn take(
    name: &mut String,
    requested: &str,
    used: &HashSet<&str>,
    reason: &'static str,
    conflict: &mut Option<Conflict>,
) {
    match why_taken(requested, name, used) {
        Some(message) => *conflict = Some(Conflict { reason, message }),
        None => requested.clone_into(name),
    }
}

fn why_taken(requested: &str, accepted: &str, used: &HashSet<&str>) -> Option<String> {
    let is_taken = requested != accepted && used.contains(requested);
    is_taken.then(|| format!("{} is already in use", crate::apply::quoted(requested)))
}

/// The names of all definitions of a group.
#[derive(Default)]
pub(super) struct Used<'a> {
    resources: HashSet<&'a str>,
    kinds: HashSet<&'a str>,
}

impl<'a> Used<'a> {
    pub(super) fn by(names: impl Iterator<Item = &'a Names>) -> Self {
        let mut used = Self::default();
        for Names { plural, singular, short_names, kind, list_kind, .. } in names {
            used.resources.extend([plural, singular].into_iter().chain(short_names).map(String::as_str));
            used.kinds.extend([kind, list_kind].map(|name| name.as_str()));
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, short: &[&str], kind: &str) -> Names {
        let mut names = Names::of(&json!({"plural": plural, "shortNames": short, "kind": kind}));
        names.complete();
        names
    }

    // contract: E-23f
    #[test]
    fn used_names_are_not_accepted() {
        let taken = names("widgets", &["w", "wi"], "Widget");
        let used = Used::by(std::iter::once(&taken));
        let accept = |names: &Names, requested: &Names| {
            let (names, conflict) = names.accept(requested, &used);
            (names, conflict.map(|conflict| (conflict.reason, conflict.message)))
        };
        let none = Names::default();
        let other = names("others", &["o"], "Other");
        assert_eq!(accept(&none, &other), (other.clone(), None));
        assert_eq!(accept(&taken, &taken), (taken.clone(), None));
        let (got, conflict) = accept(&none, &names("others", &["w", "wi"], "Other"));
        assert_eq!((got.plural.as_str(), got.short_names.len(), got.kind.as_str()), ("others", 0, "Other"));
        let message = "[\"w\" is already in use, \"wi\" is already in use]".to_owned();
        assert_eq!(conflict, Some(("ShortNamesConflict", message)));
        let (got, conflict) = accept(&other, &names("others", &["o"], "Widget"));
        assert_eq!((got.kind.as_str(), got.list_kind.as_str()), ("Other", "OtherList"));
        assert_eq!(conflict, Some(("ListKindConflict", "\"WidgetList\" is already in use".to_owned())));
    }
}
