//! Who owns which fields after an update or an apply.
//!
//! Follows structured-merge-diff 6.4 (`merge.Updater`).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::compare::{Comparison, Nulls, compare};
use super::fields::FieldSet;
use super::filter::Filter;
use super::managers::{ManagerId, Managers, VersionedSet};
use super::merge::merge;
use super::path::PathElement;
use super::reconcile::reconcile;
use super::remove::remove;
use super::schema::{Schema, TypeRef};
use super::to_set::to_set;
use super::value;
use crate::order;

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conflict {
    pub(super) manager: ManagerId,
    pub(super) path: Vec<PathElement>,
}

/// Why fields were not changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum UpdateError {
    Conflicts(Vec<Conflict>),
    Failed(String),
}

/// The types of an object's versions, and the conversion between them.
pub(crate) trait Versions {
    /// The schema of the resource.
    fn schema(&self) -> &Schema;

    /// Converts an object to another version; `None` for a version that does not exist.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;
}

/// An object in one version.
struct Typed<'a> {
    value: Cow<'a, Value>,
    api_version: Cow<'a, str>,
    of: TypeRef,
}

impl Typed<'_> {
    fn borrowed(&self) -> Typed<'_> {
        let (value, api_version) =
            (Cow::Borrowed(self.value.as_ref()), Cow::Borrowed(self.api_version.as_ref()));
        Typed { value, api_version, of: self.of }
    }

    fn into_owned(self) -> Typed<'static> {
        let (value, api_version) = (self.value.into_owned(), self.api_version.into_owned());
        Typed { value: Cow::Owned(value), api_version: Cow::Owned(api_version), of: self.of }
    }

    /// The same object with another state.
    fn with(&self, value: Value) -> Typed<'static> {
        let api_version = Cow::Owned(self.api_version.clone().into_owned());
        Typed { value: Cow::Owned(value), api_version, of: self.of }
    }
}

pub(super) struct Updater<'a> {
    pub(super) versions: &'a dyn Versions,
    pub(super) kind: &'a str,
    pub(super) api_version: &'a str,
    /// The fields that the request can change.
    pub(super) filter: &'a Filter,
}

impl Updater<'_> {
    fn schema(&self) -> &Schema {
        self.versions.schema()
    }

    /// An object in the version of the request.
    fn requested<'v>(&'v self, value: &'v Value) -> Result<Typed<'v>, UpdateError> {
        let missing = || {
            UpdateError::Failed(format!("no corresponding type for {}, Kind={}", self.api_version, self.kind))
        };
        let of = self.schema().of_kind(self.api_version, self.kind).ok_or_else(missing)?;
        Ok(Typed { value: Cow::Borrowed(value), api_version: Cow::Borrowed(self.api_version), of })
    }

    fn convert<'v>(&self, object: &'v Typed<'_>, api_version: &str) -> Option<Typed<'v>> {
        if object.api_version == api_version {
            return Some(object.borrowed());
        }
        let value = self.versions.convert(&object.value, api_version)?;
        let of = self.schema().of_kind(api_version, self.kind)?;
        Some(Typed { value: Cow::Owned(value), api_version: Cow::Owned(api_version.to_owned()), of })
    }

    fn set(&self, object: &Typed<'_>) -> FieldSet {
        to_set(self.schema(), object.of, &object.value)
    }

    fn named(&self, object: &Typed<'_>, set: &FieldSet) -> FieldSet {
        set.with_named_fields(self.schema(), Some(object.of))
    }

    fn without(&self, object: &Typed<'_>, gone: &FieldSet) -> Typed<'static> {
        object.with(remove(self.schema(), object.of, &object.value, gone))
    }

    fn compare(
        &self,
        before: &Typed<'_>,
        after: &Typed<'_>,
        nulls: Nulls,
    ) -> Result<Comparison, UpdateError> {
        compare(self.schema(), before.of, &before.value, &after.value, nulls)
            .map_err(|problems| UpdateError::Failed(format!("failed to compare objects: {problems}")))
    }

    /// The difference that the request makes, in its version.
    pub(super) fn difference(&self, before: &Value, after: &Value) -> Result<Comparison, UpdateError> {
        let compared = self.compare(&self.requested(before)?, &self.requested(after)?, Nulls::Missing)?;
        Ok(self.filter.of_comparison(compared))
    }

    /// Records an update: `manager` owns what it has changed, the others no longer do.
    pub(super) fn update(
        &self,
        before: &Value,
        after: &Value,
        compared: Comparison,
        managers: Managers,
        manager: &ManagerId,
    ) -> Result<Managers, UpdateError> {
        let (before, after) = (self.requested(before)?, self.requested(after)?);
        let managers = self.reconciled(managers);
        let mut managers = self.disown(&before, &after, &compared, managers, manager, Conflicts::Forced)?;
        let present = managers.remove(manager).map(|versioned| versioned.set).unwrap_or_default();
        let set = present.difference(&compared.removed).union(&compared.modified).union(&compared.added);
        let set = self.filter.of_set(set);
        if !set.is_empty() {
            let api_version = self.api_version.to_owned();
            managers.insert(manager.clone(), VersionedSet { set, api_version, is_applied: false });
        }
        Ok(managers)
    }

    /// Merges an applied object. Returns nothing instead of the object if nothing has changed.
    pub(super) fn apply(
        &self,
        live: &Value,
        applied: &Value,
        managers: Managers,
        manager: &ManagerId,
        conflicts: Conflicts,
    ) -> Result<(Option<Value>, Managers), UpdateError> {
        let (live, applied) = (self.requested(live)?, self.requested(applied)?);
        let mut managers = self.reconciled(managers);
        let merged = merge(self.schema(), live.of, &live.value, &applied.value)
            .map_err(|problems| UpdateError::Failed(format!("failed to merge config: {problems}")))?;
        let merged = live.with(merged);
        let set = self.filter.of_set(self.set(&applied));
        let owned = VersionedSet { set, api_version: self.api_version.to_owned(), is_applied: true };
        let last = managers.insert(manager.clone(), owned);
        let pruned = match &last {
            Some(last) if self.may_prune(last, managers.get(manager)) => {
                self.prune(merged, &managers, last)?
            }
            _ => merged,
        };
        let compared = self.filter.of_comparison(self.compare(&live, &pruned, Nulls::Present)?);
        let managers = self.disown(&live, &pruned, &compared, managers, manager, conflicts)?;
        let is_changed = !value::equal(&live.value, &pruned.value);
        Ok((is_changed.then(|| pruned.value.into_owned()), managers))
    }

    /// Takes the changed fields from all managers but one.
    ///
    /// # Errors
    /// The fields that other managers own, unless they are taken by force.
    fn disown(
        &self,
        before: &Typed<'_>,
        after: &Typed<'_>,
        compared: &Comparison,
        managers: Managers,
        manager: &ManagerId,
        conflicts: Conflicts,
    ) -> Result<Managers, UpdateError> {
        let mut others: HashMap<String, Option<Comparison>> = HashMap::new();
        let mut left = Managers::new();
        let mut found = Vec::new();
        for (id, versioned) in managers {
            if id == *manager {
                left.insert(id, versioned);
                continue;
            }
            let compared = if versioned.api_version == self.api_version {
                Some(compared)
            } else {
                if !others.contains_key(&versioned.api_version) {
                    let other = self.compared_in(before, after, &versioned.api_version)?;
                    others.insert(versioned.api_version.clone(), other);
                }
                others.get(&versioned.api_version).and_then(Option::as_ref)
            };
            // managers of a version that no longer exists are forgotten
            let Some(compared) = compared else { continue };
            let modified = versioned.set.intersection(&compared.modified);
            let conflict = modified.union(&versioned.set.intersection(&compared.added));
            if conflicts == Conflicts::Refused {
                found.extend(conflict.paths().into_iter().map(|path| Conflict { manager: id.clone(), path }));
            }
            let mut set = versioned.set;
            for gone in [&conflict, &compared.removed].into_iter().filter(|gone| !gone.is_empty()) {
                set = set.difference(gone);
            }
            left.insert(id, VersionedSet { set, ..versioned });
        }
        left.retain(|_, versioned| !versioned.set.is_empty());
        if found.is_empty() { Ok(left) } else { Err(UpdateError::Conflicts(found)) }
    }

    fn compared_in(
        &self,
        before: &Typed<'_>,
        after: &Typed<'_>,
        api_version: &str,
    ) -> Result<Option<Comparison>, UpdateError> {
        let before = self.convert(before, api_version);
        let Some((before, after)) = before.zip(self.convert(after, api_version)) else { return Ok(None) };
        Ok(Some(self.filter.of_comparison(self.compare(&before, &after, Nulls::Missing)?)))
    }

    /// Whether the manager applied fields last time that it does not apply now.
    fn may_prune(&self, last: &VersionedSet, now: Option<&VersionedSet>) -> bool {
        last.api_version != self.api_version
            || now.is_none_or(|now| !last.set.difference(&now.set).is_empty())
    }

    /// Removes what the manager applied last time, does not apply now, and no other manager owns.
    fn prune(
        &self,
        merged: Typed<'static>,
        managers: &Managers,
        last: &VersionedSet,
    ) -> Result<Typed<'static>, UpdateError> {
        let Some(converted) = self.convert(&merged, &last.api_version) else { return Ok(merged) };
        let pruned = self.without(&converted, &self.named(&converted, &last.set));
        let pruned = self.with_owned(&converted, pruned, &last.api_version, managers);
        let pruned = self.with_dangling(&converted, &pruned, last);
        let requested = self.convert(&pruned, self.api_version).map(Typed::into_owned);
        requested.ok_or_else(|| {
            UpdateError::Failed(format!("failed to prune fields: {} does not exist", self.api_version))
        })
    }

    /// Adds back what some manager owns.
    fn with_owned(
        &self,
        merged: &Typed<'_>,
        mut pruned: Typed<'static>,
        version: &str,
        managers: &Managers,
    ) -> Typed<'static> {
        let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for versioned in managers.values() {
            let set = owned.remove(versioned.api_version.as_str()).unwrap_or_default();
            owned.insert(&versioned.api_version, set.union(&versioned.set));
        }
        let first = owned.remove_entry(version);
        let mut merged = merged.borrowed();
        for (version, managed) in first.into_iter().chain(owned) {
            let converted = self.convert(&merged, version).zip(self.convert(&pruned, version));
            let Some((all, kept)) = converted else { continue };
            let kept_set = self.named(&all, &self.set(&kept)).union(&self.named(&all, &managed));
            let gone = self.named(&all, &self.set(&all)).difference(&kept_set);
            let next = self.without(&all, &gone);
            if all.api_version != merged.api_version {
                merged = all.into_owned();
            }
            pruned = next;
        }
        pruned
    }

    /// Adds back what the manager did not apply last time.
    fn with_dangling(&self, merged: &Typed<'_>, pruned: &Typed<'_>, last: &VersionedSet) -> Typed<'static> {
        let whole = || merged.with(merged.value.clone().into_owned());
        let Some(pruned) = self.convert(pruned, &last.api_version) else { return whole() };
        let kept = self.named(merged, &self.set(&pruned));
        let all = self.named(merged, &self.set(merged));
        let gone = all.difference(&kept).intersection(&self.named(merged, &last.set));
        self.without(merged, &gone)
    }

    /// The managers with sets that follow the schema of today.
    fn reconciled(&self, managers: Managers) -> Managers {
        let schema = self.schema();
        let known = managers.into_iter().filter_map(|(id, versioned)| {
            let of = schema.of_kind(&versioned.api_version, self.kind)?;
            let set = reconcile(schema, of, versioned.set);
            Some((id, VersionedSet { set, ..versioned }))
        });
        order::map(known)
    }
}

/// What happens to the fields of other managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflicts {
    /// The request fails.
    Refused,
    /// The request takes them.
    Forced,
}
