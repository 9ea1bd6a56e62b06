//! The checks: every event and every state of the store must be explained by the history of the server.

mod handler;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub(crate) use handler::{HandlerView, Received, Rules};
pub(crate) use store::StoreView;

/// The objects of one resource by key.
pub(crate) type Objects = BTreeMap<String, Value>;

/// A change in the history of a server.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The version of the change. Higher than those of all earlier changes.
    pub version: u64,
    /// The key of the object.
    pub key: String,
    /// The new state of the object; `None` if it was deleted.
    pub state: Option<Value>,
    /// The final state of a deleted object.
    pub last: Option<Value>,
}

/// Returns the objects at a version.
pub(crate) fn objects_at(history: &[Change], version: u64) -> Objects {
    let mut objects = BTreeMap::new();
    for change in history.iter().take_while(|change| change.version <= version) {
        match &change.state {
            Some(state) => _ = objects.insert(&change.key, state),
            None => _ = objects.remove(&change.key),
        }
    }
    objects.into_iter().map(|(key, state)| (key.clone(), state.clone())).collect()
}

/// Returns the version of an object.
pub(crate) fn version_of(object: &Value) -> u64 {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Returns whether a state does not decode: its labels are damaged. Its key and version are readable.
pub(crate) fn is_undecodable(state: &Value) -> bool {
    state.pointer("/metadata/labels").is_some_and(Value::is_number)
}

/// The filter of handlers: whether the value of an object is even.
pub(crate) fn passes(state: &Value) -> bool {
    let value = state.pointer("/data/value").and_then(Value::as_str).unwrap_or_default();
    value.ends_with(['0', '2', '4', '6', '8'])
}

/// Replaces the undecodable objects of a server by those of a store, which keeps an older state or has none (L-08).
pub(crate) fn as_stored(history: &[Change], server: Objects, stored: &Objects) -> Objects {
    let replaced = server.into_iter().filter_map(|(key, state)| {
        if !is_undecodable(&state) {
            return Some((key, state));
        }
        let kept = stored.get(&key)?;
        let mut earlier = history.iter().take_while(|change| change.version < version_of(&state));
        let is_kept = earlier.any(|change| change.key == key && change.state.as_ref() == Some(kept));
        let state = if is_kept { kept.clone() } else { state };
        Some((key, state))
    });
    replaced.collect()
}

/// Checks the final state that a deletion carries.
///
/// # Errors
/// The object never had this content.
pub(crate) fn check_final(history: &[Change], key: &str, last: &Value) -> Result<(), String> {
    // The version of an observed deletion is its own.
    let content = |object: &Value| {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        (uid, object.get("data").cloned())
    };
    let of_key = history.iter().filter(|change| change.key == key);
    let mut states = of_key.flat_map(|change| [&change.state, &change.last]).flatten();
    match states.any(|state| content(state) == content(last)) {
        true => Ok(()),
        false => Err(format!("{key} was deleted with the state {last}, which it never had")),
    }
}

/// Checks the state of an object in a store that has reached a version.
///
/// # Errors
/// The state is older than that version.
pub(crate) fn check_reached(
    history: &[Change],
    key: &str,
    version: u64,
    stored: Option<&Value>,
) -> Result<(), String> {
    let mut changes = history.iter().filter(|change| change.key == key);
    let at = changes.clone().take_while(|change| change.version <= version).last();
    let at = at.and_then(|change| change.state.as_ref());
    let reached = match (at, stored) {
        // The store keeps an older state, or has none (S-18).
        (Some(at), None) if is_undecodable(at) => true,
        (Some(at), Some(stored)) if is_undecodable(at) => {
            let mut states = history.iter().filter(|change| change.key == key);
            states.any(|change| change.state.as_ref() == Some(stored))
        }
        (_, Some(stored)) => {
            // It is kept if a later state does not decode.
            let is_kept = |change: &Change| {
                change.version > version && change.state.as_ref().is_some_and(is_undecodable)
            };
            at.is_some_and(|at| at == stored) || version_of(stored) > version || changes.any(is_kept)
        }
        (None, None) => true,
        (Some(_), None) => changes.any(|change| {
            // Deleted later, or replaced before the first list by a state that does not decode.
            change.version > version && change.state.as_ref().is_none_or(is_undecodable)
        }),
    };
    if reached { Ok(()) } else { Err(format!("version {version} is reached, but {key} is {stored:?}")) }
}

/// Compares two sets of objects.
///
/// # Errors
/// They differ: names the keys.
pub(crate) fn difference(one: &str, ones: &Objects, other: &str, others: &Objects) -> Result<(), String> {
    let keys: BTreeSet<_> = ones.keys().chain(others.keys()).collect();
    let differ: Vec<_> = keys.into_iter().filter(|key| ones.get(*key) != others.get(*key)).collect();
    if differ.is_empty() { Ok(()) } else { Err(format!("{one} and {other} differ in {differ:?}")) }
}
