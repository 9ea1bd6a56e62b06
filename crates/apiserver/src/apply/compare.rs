//! The difference between two states of an object, as sets of fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{FieldSet, Node};
use super::form::{Form, Forms, as_list, as_map, element_of};
use super::path::PathElement;
use super::problem::Problems;
use super::schema::{FieldType, ListKind, ListType, MapType, Schema, TypeRef};
use super::value;

/// The fields in which two states differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }
}

/// The difference between the values of one field.
#[derive(Default)]
struct Difference {
    removed: Node,
    modified: Node,
    added: Node,
}

impl Difference {
    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    fn add(&mut self, element: &PathElement, below: Self) {
        self.removed.children.add(element.clone(), below.removed);
        self.modified.children.add(element.clone(), below.modified);
        self.added.children.add(element.clone(), below.added);
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (None, _) => self.added.is_member = true,
            (_, None) => self.removed.is_member = true,
            (Some(before), Some(after)) if value::equal(before, after) => {}
            _ => self.modified.is_member = true,
        }
    }
}

/// Compares two states. Fields that are not declared are skipped: kube-apiserver does not store them.
///
/// # Errors
/// An item of a list without the fields that identify it. Follows structured-merge-diff 6.4 (`Compare`).
pub(super) fn compare(
    schema: &Schema,
    of: TypeRef,
    before: &Value,
    after: &Value,
    nulls: Nulls,
) -> Result<Comparison, Problems> {
    let found = Compare { schema, nulls }.values(Some(before), Some(after), of)?;
    Ok(Comparison {
        removed: found.removed.children,
        modified: found.modified.children,
        added: found.added.children,
    })
}

/// Whether the state after has its null fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nulls {
    /// Not those of built-in kinds, as the Go structs that kube-apiserver compares.
    Missing,
    /// All, as the result of a merge: a map that has become empty is null, and still owned.
    Present,
}

struct Compare<'a> {
    schema: &'a Schema,
    nulls: Nulls,
}

impl Compare<'_> {
    fn values(
        &self,
        before: Option<&Value>,
        after: Option<&Value>,
        of: TypeRef,
    ) -> Result<Difference, Problems> {
        let mut found = Difference::default();
        let Some(atom) = self.schema.atom(of) else { return Ok(found) };
        let (old, new) = (Forms::of(atom, before), Forms::of(atom, after));
        let is_leaf = if after.is_none() {
            self.form(old.form(atom), before, after, &mut found)?
        } else {
            if before.is_some() && old != new {
                self.form(old.form(atom), before, after, &mut found)?;
            }
            self.form(new.form(atom), before, after, &mut found)?
        };
        if !is_leaf {
            found.added.is_member |= before.is_none();
            found.removed.is_member |= after.is_none();
        }
        Ok(found)
    }

    /// Returns whether the value is one field.
    fn form(
        &self,
        form: Option<Form<'_>>,
        before: Option<&Value>,
        after: Option<&Value>,
        found: &mut Difference,
    ) -> Result<bool, Problems> {
        match form {
            None => return Ok(true),
            Some(Form::Scalar(_)) => {}
            Some(Form::Map(map)) => {
                let (old, new) = (as_map(before), as_map(after));
                let is_empty = |side: Option<&Map<String, Value>>| {
                    side.is_none_or(|side| side.is_empty() && !map.has_zeros)
                };
                if !(map.is_atomic || is_empty(old) && is_empty(new)) {
                    self.fields(map, old, new, found)?;
                    return Ok(false);
                }
            }
            Some(Form::List(list)) => {
                let (old, new) = (as_list(before), as_list(after));
                let is_empty = |side: Option<&Vec<Value>>| side.is_none_or(Vec::is_empty);
                if list.kind != ListKind::Atomic && !(is_empty(old) && is_empty(new)) {
                    self.items(list, old, new, found)?;
                    return Ok(false);
                }
            }
        }
        found.leaf(before, after);
        Ok(true)
    }

    fn fields(
        &self,
        map: &MapType,
        before: Option<&Map<String, Value>>,
        after: Option<&Map<String, Value>>,
        found: &mut Difference,
    ) -> Result<(), Problems> {
        // in the order of the names, in which fields are added to a set at its end
        let mut old = before.into_iter().flat_map(Map::keys).peekable();
        let mut new = after.into_iter().flat_map(Map::keys).peekable();
        loop {
            let name = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(name), None) | (None, Some(name)) => *name,
                (Some(old), Some(new)) => (*old).min(*new),
            };
            old.next_if(|old| *old == name);
            new.next_if(|new| *new == name);
            self.field(map, name, before, after, found)?;
        }
        if map.has_zeros {
            let is_given = |name: &str| {
                before.is_some_and(|before| before.contains_key(name))
                    || after.is_some_and(|after| after.contains_key(name))
            };
            for field in map.fields().iter().filter(|field| field.is_zero && !is_given(&field.name)) {
                if before.is_some() != after.is_some() {
                    self.field(map, &field.name, before, after, found)?;
                }
            }
        }
        Ok(())
    }

    fn field(
        &self,
        map: &MapType,
        name: &str,
        before: Option<&Map<String, Value>>,
        after: Option<&Map<String, Value>>,
        found: &mut Difference,
    ) -> Result<(), Problems> {
        let field = map.field(name);
        let Some(of) = field.map(|field| field.of).or(map.element) else { return Ok(()) };
        let old = before.and_then(|before| self.given(before, name, field));
        let null = after.and_then(|after| after.get(name)).filter(|after| after.is_null());
        let null = null.filter(|_| self.nulls == Nulls::Present);
        let new = null.or_else(|| after.and_then(|after| self.given(after, name, field)));
        if old.is_none() && new.is_none() {
            return Ok(());
        }
        let element = || PathElement::Field(name.into());
        let below = self.values(old, new, of).map_err(|problems| problems.below(&element()))?;
        if !below.is_empty() {
            found.add(&element(), below);
        }
        Ok(())
    }

    /// The value of a field as Go writes it.
    fn given<'v>(
        &self,
        map: &'v Map<String, Value>,
        name: &str,
        field: Option<&'v FieldType>,
    ) -> Option<&'v Value> {
        let value = map.get(name).filter(|value| !value.is_null() || !self.schema.is_builtin());
        value.or_else(|| field.and_then(FieldType::zero))
    }

    fn items(
        &self,
        list: &ListType,
        before: Option<&Vec<Value>>,
        after: Option<&Vec<Value>>,
        found: &mut Difference,
    ) -> Result<(), Problems> {
        let Some(of) = list.element else { return Ok(()) };
        let mut problems = Problems::default();
        let mut items: BTreeMap<PathElement, [Vec<&Value>; 2]> = BTreeMap::new();
        for (index, item) in before.into_iter().flatten().enumerate() {
            match element_of(self.schema, list, item) {
                Ok(element) => items.entry(element).or_default()[0].push(item),
                Err(error) => problems.extend(Problems::of(format!("element {index}: {error}"))),
            }
        }
        for (index, item) in after.into_iter().flatten().enumerate() {
            match element_of(self.schema, list, item) {
                Ok(element) => items.entry(element).or_default()[1].push(item),
                Err(error) => problems.extend(Problems::of(format!("element {index}: {error}"))),
            }
        }
        problems.into_result()?;
        for (element, [old, new]) in &items {
            let below = self.item(old, new, of).map_err(|problems| problems.below(element))?;
            found.add(element, below);
        }
        Ok(())
    }

    /// Compares the items with the same path element. There may be several of them.
    fn item(&self, before: &[&Value], after: &[&Value], of: TypeRef) -> Result<Difference, Problems> {
        let only = |items: &[&'_ Value]| items.first().copied().cloned();
        match (before.len(), after.len()) {
            (0 | 1, 0 | 1) => self.values(before.first().copied(), after.first().copied(), of),
            (2.., 2..) => {
                let mut found = Difference::default();
                let is_same = before.len() == after.len()
                    && before.iter().zip(after).all(|(before, after)| value::equal(before, after));
                found.modified.is_member = !is_same;
                Ok(found)
            }
            (2.., _) => {
                let mut found = match only(after) {
                    Some(after) => self.values(None, Some(&after), of)?,
                    None => Difference::default(),
                };
                found.removed.is_member = true;
                Ok(found)
            }
            (_, _) => {
                let mut found = match only(before) {
                    Some(before) => self.values(Some(&before), None, of)?,
                    None => Difference::default(),
                };
                found.added.is_member = true;
                Ok(found)
            }
        }
    }
}
