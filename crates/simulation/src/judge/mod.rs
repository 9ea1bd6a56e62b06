//! The checks: every event and every state of the store must be explained by the history of the server.

mod handler;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::record::{Objects, Record};
use crate::state::{PANICS, State, field, text_of};

pub(crate) use handler::{HandlerView, Received, Rules};
pub(crate) use store::StoreView;

/// Returns the version of an object.
pub(crate) fn version_of(object: &Value) -> u64 {
    let version = text_of(object, ["metadata", "resourceVersion"]);
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Returns whether a state does not decode because its labels are damaged, or its transform panics. Its key and version are
/// readable.
pub(crate) fn is_undecodable(state: &State) -> bool {
    field(state, ["metadata", "labels"]).is_some_and(Value::is_number)
        || text_of(state, ["data", "value"]) == Some(PANICS)
}

/// The filter of handlers: whether the value of an object is even.
pub(crate) fn passes(state: &Value) -> bool {
    let value = text_of(state, ["data", "value"]).unwrap_or_default();
    value.ends_with(['0', '2', '4', '6', '8'])
}

/// Replaces the undecodable objects of a server by those of a store, which keeps an older state or has none (L-08).
pub(crate) fn as_stored(history: Record<'_>, server: Objects, stored: &Objects) -> Objects {
    let replaced = server.into_iter().filter_map(|(key, state)| {
        if !is_undecodable(&state) {
            return Some((key, state));
        }
        let kept = stored.get(&key)?;
        let is_kept = history.had_before(&key, kept, &state);
        let state = if is_kept { kept.clone() } else { state };
        Some((key, state))
    });
    replaced.collect()
}

/// Checks the final state that a deletion carries.
///
/// # Errors
/// The object never had this content.
pub(crate) fn check_final(history: Record<'_>, key: &str, last: &Value) -> Result<(), String> {
    // The version of an observed deletion is its own.
    let content = |object: &Value| {
        (text_of(object, ["metadata", "uid"]).map(str::to_owned), object.get("data").cloned())
    };
    // The state before a deletion may be one that the object did not have before.
    let mut states = history.of(key).flat_map(|change| [&change.after, &change.before]).flatten();
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
    history: Record<'_>,
    key: &str,
    version: u64,
    stored: Option<&State>,
) -> Result<(), String> {
    // The store keeps an older state if a newer one does not decode, or has none if there was no older one (S-18).
    let is_newer = history.of(key).filter(|change| change.version > version).any(|change| {
        let after = change.after.as_ref();
        after == stored || after.is_some_and(is_undecodable)
    });
    // The version may be reached before or after a restored backup.
    let at = |restores, version| {
        let at = history.object_at(restores, version, key);
        let is_kept = || stored.is_none_or(|stored| history.states_of(key).any(|state| state == stored));
        at == stored || at.is_some_and(is_undecodable) && is_kept()
    };
    let (now, newest) = (history.restores(), history.newest_version());
    // A list of a restored backup may have set the store back since the wait for the version ended.
    let is_set_back = now > 0 && version > newest && at(now, newest);
    let reached = is_newer
        || (0..now).any(|restores| at(restores, version))
        || (version <= newest && at(now, version))
        || is_set_back;
    if reached { Ok(()) } else { Err(format!("version {version} is reached, but {key} is {stored:?}")) }
}

/// Checks all objects of a namespace in a store that has reached a version of it (S-17).
///
/// # Errors
/// The state of an object is older than that version.
pub(crate) fn check_namespace_reached(
    history: Record<'_>,
    namespace: &str,
    version: u64,
    stored: &Objects,
) -> Result<(), String> {
    let changes = history.changes().filter(|change| change.key.namespace == namespace);
    let keys: BTreeSet<String> = changes.map(|change| change.key.path()).collect();
    keys.iter().try_for_each(|key| check_reached(history, key, version, stored.get(key)))
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
