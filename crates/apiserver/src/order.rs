//! Sorts and maps with little code.
//!
//! The sort of the standard library is compiled again for each type and each comparison, about 14 kB in the test binary of
//! a user, and [`FromIterator`] of a `BTreeMap` has one for each iterator. These have one sort for all.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Sorts items. Equal ones keep their order. O(n log n) comparisons.
pub(crate) fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    sort_indexes(&mut order, &|one, other| match (items.get(one), items.get(other)) {
        (Some(one), Some(other)) => compare(one, other),
        _ => Ordering::Equal,
    });
    arrange(&order, &mut |one, other| items.swap(one, other));
}

/// Sorts items by their keys, as [`sort_by`] does.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

fn sort_indexes(order: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    order.sort_by(|one, other| compare(*one, *other));
}

/// Brings items into an order by swaps. `order` has the index of the item for each place.
fn arrange(order: &[usize], swap: &mut dyn FnMut(usize, usize)) {
    for (place, from) in order.iter().enumerate() {
        let mut from = *from;
        // An item that was at an earlier place has been swapped to where the item for that place was.
        while from < place {
            from = order.get(from).copied().unwrap_or(place);
        }
        if from != place {
            swap(place, from);
        }
    }
}

/// Returns the map with these entries. The last one of a key is kept.
pub(crate) fn map<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in entries {
        map.insert(key, value);
    }
    map
}

/// Returns the object with these members. The last one of a name is kept.
pub(crate) fn object(members: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    let mut object = Map::new();
    for (name, value) in members {
        object.insert(name, value);
    }
    object
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_are_sorted_as_by_the_standard_library(mut items: Vec<(u8, u32)>) {
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by_key(&mut items, |(key, _)| *key);
            prop_assert_eq!(items, expected);
        }
    }
}
