//! Merging an applied object into the current one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::form::{Form, Forms, as_list, as_map, element_of};
use super::path::PathElement;
use super::problem::Problems;
use super::schema::{ListKind, ListType, MapType, Schema, TypeRef};

/// Returns the current object with the fields of the applied one. No field is removed; lists that the applied object
/// changes are in its order.
///
/// # Errors
/// An item of a list without the fields that identify it. Follows structured-merge-diff 6.4 (`Merge`).
pub(super) fn merge(
    schema: &Schema,
    of: TypeRef,
    current: &Value,
    applied: &Value,
) -> Result<Value, Problems> {
    let merged = Merge { schema }.values(Some(current), Some(applied), of)?;
    Ok(merged.unwrap_or(Value::Null))
}

struct Merge<'a> {
    schema: &'a Schema,
}

impl Merge<'_> {
    /// Returns nothing if a container has become empty.
    fn values(
        &self,
        current: Option<&Value>,
        applied: Option<&Value>,
        of: TypeRef,
    ) -> Result<Option<Value>, Problems> {
        let Some(atom) = self.schema.atom(of) else { return Ok(applied.or(current).cloned()) };
        let given = Forms::of(atom, if applied.is_some() { applied } else { current });
        match given.form(atom) {
            Some(Form::Map(map)) if !map.is_atomic => {
                let (old, new) = (as_map(current), as_map(applied));
                if old.is_some_and(|old| !old.is_empty()) || new.is_some_and(|new| !new.is_empty()) {
                    return self.fields(map, old, new).map(Some);
                }
            }
            Some(Form::List(list)) if list.kind != ListKind::Atomic => {
                let (old, new) = (as_list(current), as_list(applied));
                if old.is_some_and(|old| !old.is_empty()) || new.is_some_and(|new| !new.is_empty()) {
                    let merged = self.items(list, slice(old), slice(new))?;
                    return Ok((!merged.is_empty()).then_some(Value::Array(merged)));
                }
            }
            _ => {}
        }
        Ok(applied.or(current).cloned())
    }

    fn fields(
        &self,
        map: &MapType,
        current: Option<&Map<String, Value>>,
        applied: Option<&Map<String, Value>>,
    ) -> Result<Value, Problems> {
        let mut out = Map::new();
        let old = current.into_iter().flat_map(Map::keys);
        let new = applied.into_iter().flat_map(Map::keys);
        let new = new.filter(|name| !current.is_some_and(|current| current.contains_key(*name)));
        for name in old.chain(new) {
            let old = current.and_then(|current| current.get(name));
            let new = applied.and_then(|applied| applied.get(name));
            let merged = match map.type_of(name) {
                Some(of) => self
                    .values(old, new, of)
                    .map_err(|problems| problems.below(&PathElement::Field(name.as_str().into())))?,
                None => new.or(old).cloned(),
            };
            if let Some(merged) = merged {
                out.insert(name.clone(), merged);
            }
        }
        Ok(Value::Object(out))
    }

    fn items(&self, list: &ListType, current: &[Value], applied: &[Value]) -> Result<Vec<Value>, Problems> {
        let mut problems = Problems::default();
        let new = Items::of(self.schema, list, applied, Duplicates::Refused, &mut problems);
        let old = Items::of(self.schema, list, current, Duplicates::Allowed, &mut problems);
        problems.into_result()?;
        let mut merging =
            Merging { merge: self, list, old: &old, new: &new, merged: BTreeSet::new(), out: Vec::new() };
        merging.run(current)?;
        Ok(merging.out)
    }
}

fn slice(list: Option<&Vec<Value>>) -> &[Value] {
    list.map_or(&[], Vec::as_slice)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Duplicates {
    Refused,
    Allowed,
}

/// The items of a list by their path elements. Items that share one are null.
struct Items<'a> {
    order: Vec<PathElement>,
    by_element: BTreeMap<PathElement, &'a Value>,
}

impl<'a> Items<'a> {
    fn of(
        schema: &Schema,
        list: &ListType,
        items: &'a [Value],
        duplicates: Duplicates,
        problems: &mut Problems,
    ) -> Self {
        let mut found = Self { order: Vec::new(), by_element: BTreeMap::new() };
        for (index, item) in items.iter().enumerate() {
            let element = match element_of(schema, list, item) {
                Ok(element) => element,
                Err(error) => {
                    problems.extend(Problems::of(format!("element {index}: {error}")));
                    continue;
                }
            };
            if found.by_element.contains_key(&element) {
                if duplicates == Duplicates::Refused {
                    problems.extend(Problems::of(format!("duplicate entries for key {element}")));
                    continue;
                }
                found.by_element.insert(element.clone(), &Value::Null);
            } else {
                found.by_element.insert(element.clone(), item);
            }
            found.order.push(element);
        }
        found
    }
}

/// The state of a merge of two lists. Follows structured-merge-diff 6.4 (`mergingWalker.visitListItems`).
struct Merging<'a> {
    merge: &'a Merge<'a>,
    list: &'a ListType,
    old: &'a Items<'a>,
    new: &'a Items<'a>,
    merged: BTreeSet<&'a PathElement>,
    out: Vec<Value>,
}

impl<'a> Merging<'a> {
    fn run(&mut self, current: &[Value]) -> Result<(), Problems> {
        let (old, new) = (self.old, self.new);
        // the items of both lists, in the order of the applied list
        let mut shared = new.order.iter().filter(|element| old.by_element.contains_key(*element));
        let mut next_shared = shared.next();
        let (mut left, mut right) = (0, 0);
        loop {
            let (from_old, from_new) = (old.order.get(left), new.order.get(right));
            if from_old.is_none() && from_new.is_none() {
                return Ok(());
            }
            if let (Some(a), Some(b)) = (from_old, from_new) {
                if a == b {
                    self.push_applied(b)?;
                    (left, right) = (left + 1, right + 1);
                    next_shared = shared.next();
                    continue;
                }
                if new.by_element.contains_key(a) && next_shared.is_some_and(|next| next != a) {
                    // shared, but a later one of the applied list
                    left += 1;
                    continue;
                }
            }
            if let Some(a) = from_old {
                if !new.by_element.contains_key(a) {
                    self.push(a, current.get(left), None)?;
                    left += 1;
                    continue;
                }
                if self.merged.contains(a) {
                    left += 1;
                }
            }
            if let Some(b) = from_new {
                self.push_applied(b)?;
                right += 1;
                if next_shared == Some(b) {
                    next_shared = shared.next();
                }
            }
        }
    }

    /// Adds an item of the applied list, merged with that of the current list.
    fn push_applied(&mut self, element: &'a PathElement) -> Result<(), Problems> {
        self.merged.insert(element);
        let old = self.old.by_element.get(element).copied();
        let new = self.new.by_element.get(element).copied();
        self.push(element, old, new)
    }

    fn push(
        &mut self,
        element: &PathElement,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), Problems> {
        let Some(of) = self.list.element else { return Ok(()) };
        let merged = self.merge.values(old, new, of).map_err(|problems| problems.below(element))?;
        self.out.extend(merged);
        Ok(())
    }
}
