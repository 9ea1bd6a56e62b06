//! The scopes of an informer, as they were requested and took effect.

use std::fmt;
use std::sync::Arc;

use kinformer::Scope;
use parking_lot::Mutex;

use crate::judge::Received;
use crate::record::Objects;

/// The namespaces with objects.
pub(crate) const NAMESPACES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The scopes of an informer. Without a request it holds all objects. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ScopeLog(Arc<Mutex<Vec<Request>>>);

/// A scope of the simulation: some namespaces or all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scoped {
    /// Without the kind of watch.
    namespaces: Scope,
    /// Whether the namespaces have one watch.
    is_one_watch: bool,
}

impl From<Scope> for Scoped {
    fn from(namespaces: Scope) -> Self {
        Self { namespaces, is_one_watch: false }
    }
}

impl Scoped {
    /// One watch for all namespaces.
    pub(crate) fn one_watch(self) -> Self {
        Self { is_one_watch: true, ..self }
    }

    /// The scope of the informer.
    pub(crate) fn scope(&self) -> Scope {
        let scope = self.namespaces.clone();
        if self.is_one_watch { scope.one_watch() } else { scope }
    }

    fn contains(&self, key: &str) -> bool {
        self.namespaces.contains(key.split_once('/').unwrap_or_default().0)
    }

    /// Whether the part of a namespace goes on when another scope becomes this one: it has a watch of its own in both.
    fn keeps_part(&self, before: &Self, namespace: &str) -> bool {
        let has_part = |scoped: &Self| !scoped.is_one_watch && scoped.namespaces.names().is_some();
        has_part(self) && has_part(before) && self.namespaces.contains(namespace)
    }
}

impl fmt::Display for Scoped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespaces, is_one_watch } = self;
        match namespaces.names() {
            Some(names) => f.write_str(&names.collect::<Vec<_>>().join(","))?,
            None => f.write_str("all")?,
        }
        if *is_one_watch { f.write_str(" by one watch") } else { Ok(()) }
    }
}

/// A requested scope.
struct Request {
    scope: Scoped,
    /// The revision of the store when it was requested.
    requested: u64,
    /// A revision of the store after it, or a later scope, took effect.
    applied: Option<u64>,
}

impl ScopeLog {
    /// The informer starts with a scope.
    pub(crate) fn start(&self, scope: &Scoped) {
        self.applied(self.request(scope, 0), 0);
    }

    /// Whether another scope was requested than that of the start.
    pub(crate) fn has_changed(&self) -> bool {
        self.len() > 1
    }

    /// A scope is requested at a revision of the store. Returns the number of the request.
    pub(crate) fn request(&self, scope: &Scoped, requested: u64) -> usize {
        let mut requests = self.0.lock();
        requests.push(Request { scope: scope.clone(), requested, applied: None });
        requests.len() - 1
    }

    /// A request has taken effect until a revision of the store.
    pub(crate) fn applied(&self, number: usize, revision: u64) {
        if let Some(request) = self.0.lock().get_mut(number) {
            request.applied = Some(revision);
        }
    }

    /// The number of requests.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether the scope that was requested last has taken effect.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.lock().last().is_none_or(|request| request.applied.is_some())
    }

    /// Whether the scope that was requested last has an object with this key.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.lock().last().is_none_or(|request| request.scope.contains(key))
    }

    /// Whether the part of a namespace goes on if this scope is requested.
    pub(crate) fn keeps_part(&self, scope: &Scoped, namespace: &str) -> bool {
        self.0.lock().last().is_some_and(|before| scope.keeps_part(&before.scope, namespace))
    }

    /// Whether a scope without a key was requested at any time.
    pub(crate) fn has_excluded(&self, key: &str) -> bool {
        self.0.lock().iter().any(|request| !request.scope.contains(key))
    }

    /// Returns those of these objects that the scope has.
    pub(crate) fn kept(&self, mut objects: Objects) -> Objects {
        objects.retain(|key, _| self.contains(key));
        objects
    }

    /// Checks an event with this revision against the scopes that may have been in effect.
    ///
    /// # Errors
    /// An object left although it was in each of these scopes, or is out of scope and was delivered all the same.
    pub(crate) fn check(
        &self,
        key: &str,
        event: &Received,
        revision: u64,
        in_order: bool,
    ) -> Result<(), String> {
        let requests = self.0.lock();
        // A buffer that coalesces delivers that an object left with the revision of what followed.
        let settled = |request: &Request| request.applied.is_some_and(|applied| applied < revision);
        let first = requests.iter().rposition(settled).filter(|_| in_order);
        let requested = requests.iter().take_while(|request| request.requested < revision).count();
        let of_request = requests.get(first.unwrap_or_default()..requested).unwrap_or_default();
        let mut has = of_request.iter().map(|request| request.scope.contains(key));
        // Before the first request, all namespaces are in scope.
        let is_initial = first.is_none();
        match event {
            Received::Left if has.any(|has| !has) => Ok(()),
            Received::Left => Err(format!("left {key} at revision {revision}, but it is in scope")),
            _ if is_initial || has.any(|has| has) => Ok(()),
            _ => Err(format!("received {key} at revision {revision}, but it is out of scope")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::state::State;

    fn log() -> ScopeLog {
        let log = ScopeLog::default();
        log.applied(log.request(&Scope::namespaces(["a"]).into(), 5), 8);
        log.request(&Scope::namespaces(["b"]).into(), 20);
        log
    }

    fn check(key: &str, event: &Received, revision: u64) -> bool {
        log().check(key, event, revision, true).is_ok()
    }

    /// An object leaves only between the request and the end of a change that excludes it.
    #[test]
    fn objects_leave_with_a_change() {
        let left = |key, revision| check(key, &Received::Left, revision);
        assert_eq!(
            [left("b/p", 5), left("b/p", 6), left("a/p", 6), left("a/p", 21)],
            [false, true, false, true]
        );
        assert!(ScopeLog::default().check("b/p", &Received::Left, 9, true).is_err());
    }

    /// An object out of scope is delivered only while a change is in progress.
    #[test]
    fn objects_out_of_scope_are_not_delivered() {
        let added = Received::Added(State::new(Value::Null));
        let added = |key, revision| check(key, &added, revision);
        assert_eq!([added("b/p", 8), added("b/p", 9), added("b/p", 21)], [true, false, true]);
        assert!(added("a/p", 9) && added("a/p", 30));
        assert!(log().check("b/p", &Received::Left, 9, false).is_ok());
    }
}
