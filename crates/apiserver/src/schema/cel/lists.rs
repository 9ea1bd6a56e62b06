//! Equality and sums of lists. Sets and lists with keys have no order.
//!
//! Follows Kubernetes 1.37 (`cel/common.unstructuredSetList`, `cel/common.unstructuredMapList`).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::objects::Key;

use super::super::structural::ListKind;
use super::eval::Evaluation;
use super::fault::{Budget, Found, error};
use super::names::escape;
use super::value::{Val, copied, text};

/// What is the same for equal scalars.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    /// Null, or a key that is missing.
    Absent,
    Key(Key),
    /// The bits of a number.
    Number(u64),
    Bytes(Vec<u8>),
    /// Seconds and nanoseconds.
    Timestamp(i64, u32),
    Duration(Option<i64>),
}

impl Identity {
    fn of(value: &Val<'_>) -> Found<Self> {
        if let Some(key) = value.as_key() {
            return Ok(Self::Key(key));
        }
        match value {
            Val::Plain(Plain::Null) => Ok(Self::Absent),
            Val::Plain(Plain::Float(number)) => Ok(Self::Number(number.to_bits())),
            Val::Plain(Plain::Bytes(bytes)) => Ok(Self::Bytes(bytes.to_vec())),
            Val::Plain(Plain::Timestamp(time)) => {
                Ok(Self::Timestamp(time.timestamp(), time.timestamp_subsec_nanos()))
            }
            Val::Plain(Plain::Duration(length)) => Ok(Self::Duration(length.num_nanoseconds())),
            _ => error("listSet operations are only supported on lists of scalar values"),
        }
    }

    /// Returns what identifies an item of a list that has keys, or is a set.
    fn of_item(item: &Val<'_>, kind: &ListKind) -> Found<Vec<Self>> {
        let ListKind::Map(keys) = kind else { return Ok(vec![Self::of(item)?]) };
        let value = |key: &str| item.find(&text(&escape(key).unwrap_or_default()));
        keys.iter().map(|key| value(key)?.map_or(Ok(Self::Absent), |value| Self::of(&value))).collect()
    }
}

impl Val<'_> {
    /// Compares two lists as the left one does.
    pub(super) fn are_equal(&self, other: &Self, budget: &mut Budget) -> Found<bool> {
        let length = self.length().unwrap_or_default();
        if length != other.length().unwrap_or_default() {
            return Ok(false);
        }
        budget.spend(length / 10 + 1)?;
        let kind = match self {
            Self::Array(_, schema) => &schema.list,
            Self::Keyed(_, kind) => kind,
            _ => &ListKind::Atomic,
        };
        match kind {
            ListKind::Atomic => {
                for index in 0..length {
                    let (Some(one), Some(other)) = (self.item(index), other.item(index)) else { continue };
                    budget.spend(copied(one.as_ref().map(Some)) + copied(other.as_ref().map(Some)))?;
                    if !one?.is_equal(&other?, budget)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListKind::Set => {
                budget.spend(length)?;
                let mut identities = |list: &Self| -> Found<BTreeSet<Identity>> {
                    list.items(budget)?.iter().map(Identity::of).collect()
                };
                Ok(identities(self)? == identities(other)?)
            }
            ListKind::Map(_) => {
                budget.spend(length)?;
                let mut known = BTreeMap::new();
                for item in self.items(budget)? {
                    known.insert(Identity::of_item(&item, kind)?, item);
                }
                let mut seen = BTreeSet::new();
                for other in other.items(budget)? {
                    let identity = Identity::of_item(&other, kind)?;
                    match known.get(&identity) {
                        Some(one) if one.is_equal(&other, budget)? => seen.insert(identity),
                        _ => return Ok(false),
                    };
                }
                Ok(seen.len() == known.len())
            }
        }
    }
}

impl<'a> Evaluation<'_, 'a> {
    /// Appends a list. Items that a list with keys has already are replaced, and those of a set are left out.
    pub(super) fn concat(&mut self, left: Val<'a>, right: &Val<'a>) -> Found<Val<'a>> {
        let kind = match &left {
            Val::Array(_, schema) => &schema.list,
            Val::Keyed(_, kind) => kind,
            _ => &ListKind::Atomic,
        };
        let mut items = match left {
            Val::List(items) | Val::Keyed(items, _) => items,
            other => {
                self.budget.spend(other.length().unwrap_or_default())?;
                Rc::new(other.items(self.budget)?)
            }
        };
        let right_length = right.length().unwrap_or_default();
        self.budget.spend(right_length)?;
        // a shared list is copied
        self.budget.spend(if Rc::strong_count(&items) > 1 { items.len() / 10 } else { 0 })?;
        let list = Rc::make_mut(&mut items);
        let mut places = BTreeMap::new();
        if *kind != ListKind::Atomic {
            for (index, item) in list.iter().enumerate() {
                places.insert(Identity::of_item(item, kind)?, index);
            }
        }
        for index in 0..right_length {
            let Some(item) = right.item(index).transpose()? else { continue };
            if *kind == ListKind::Atomic {
                list.push(item);
                continue;
            }
            let identity = Identity::of_item(&item, kind)?;
            match places.get(&identity).and_then(|place| list.get_mut(*place)) {
                Some(known) if *kind != ListKind::Set => *known = item,
                Some(_) => {}
                None => {
                    places.insert(identity, list.len());
                    list.push(item);
                }
            }
        }
        Ok(if *kind == ListKind::Atomic { Val::List(items) } else { Val::Keyed(items, kind) })
    }
}
