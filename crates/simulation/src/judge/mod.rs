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
    let now = history.restores();
    let reached = is_newer
        || (0..now).any(|restores| at(restores, version))
        || (version <= history.newest_version() && at(now, version));
    if reached { Ok(()) } else { Err(format!("version {version} is reached, but {key} is {stored:?}")) }
}

/// Checks all objects of a namespace in a store that has reached a version of it (S-17). `reached` has the prefix and the
/// version of each part of the store.
///
/// # Errors
/// The state of an object is older than that version.
pub(crate) fn check_namespace_reached(
    history: Record<'_>,
    namespace: &str,
    version: u64,
    (reached, stored): &(Vec<(String, Option<u64>)>, Objects),
) -> Result<(), String> {
    // The wait for the version ended in the life before a restored backup, whose changes were still queued when the backup
    // was listed. That list has set the store back since, or is doing so: a list that is split into objects sets the
    // version with its last one.
    let of_namespace = |prefix: &str| prefix.is_empty() || prefix.strip_suffix('/') == Some(namespace);
    let listed = version..=history.newest_version();
    let is_set_back = |reached: &Option<u64>| reached.is_none_or(|reached| !listed.contains(&reached));
    let mut parts = reached.iter().filter(|(prefix, _)| of_namespace(prefix));
    if history.restores() > 0 && parts.any(|(_, reached)| is_set_back(reached)) {
        return Ok(());
    }
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
