//! The served resources: a table of built-in ones, and those of CustomResourceDefinitions.

mod builtin;
mod convert;
mod crd;
mod definition_status;
mod derived;
mod kind;
mod names;
mod saved;

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use crate::order;
use crate::storage::{CommitObserver, ResourceStore, StoreId, Versions, Window};

pub(crate) use convert::Conversion;
pub(crate) use crd::{Definition, Revision, definition, set_defaults};
pub(crate) use definition_status::{Conditions, set_condition};
pub(crate) use derived::{Derived, Each, Stores};
pub(crate) use kind::{Column, FieldPath, Kind, ScalePaths, assign, lookup};
pub(crate) use names::Names;
pub(crate) use saved::SavedRegistry;

/// A resource in one served API version. All versions of a resource share their objects.
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    pub(crate) store: Arc<ResourceStore>,
    /// The conversion to the stored version; `None` if this is the stored version.
    pub(crate) conversion: Option<Conversion>,
    /// Whether objects may be stored in a former storage version.
    pub(crate) mixed: bool,
    /// Whether objects may be stored in the form of another schema, and are brought into that of this version.
    pub(crate) is_revised: bool,
    /// The version at which the stored form was changed last; 0 for never.
    pub(crate) changed_at: u64,
}

impl Resource {
    /// Whether objects may have to be converted by a webhook.
    pub(crate) fn is_converted(&self) -> bool {
        let has_webhook = self.kind.forms.as_ref().is_some_and(|forms| forms.webhook.is_some());
        has_webhook && (self.conversion.is_some() || self.mixed)
    }

    /// Returns the resource for objects that have been converted to its version.
    pub(crate) fn of_converted(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            store: self.store.clone(),
            conversion: None,
            mixed: false,
            is_revised: false,
            changed_at: self.changed_at,
        }
    }

    /// Whether the stored bytes can be served unchanged.
    pub(crate) fn serves_as_stored(&self) -> bool {
        self.conversion.is_none() && !self.mixed && !self.is_revised
    }
}

type Address = (String, String, String);

/// The names that a definition has.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) names: Names,
    /// Whether these are those that it requests.
    pub(crate) is_complete: bool,
}

/// The names of definitions, by group and requested plural.
type Claims = OrdMap<(String, String), Claim>;

/// Observes the changes of all objects but events.
pub(crate) type Observer = Arc<dyn CommitObserver>;

/// All served resources, by group, version and plural.
#[derive(Clone)]
pub(crate) struct Registry {
    /// The versions of all resources.
    pub(crate) versions: Arc<Versions>,
    /// `None` without garbage collection.
    pub(crate) observer: Option<Observer>,
    /// A clone shares its parts, so that a definition does not copy all others.
    resources: OrdMap<Address, Arc<Resource>>,
    claims: Claims,
}

impl Registry {
    fn empty(versions: Arc<Versions>, observer: Option<Observer>) -> Self {
        Self { versions, observer, resources: OrdMap::new(), claims: OrdMap::new() }
    }

    /// Changes of all objects but events are observed.
    pub(crate) fn builtin(versions: &Arc<Versions>, window: Window, observer: Option<Observer>) -> Self {
        let mut registry = Self::empty(versions.clone(), observer);
        for (id, row) in (0..).zip(builtin::KINDS) {
            let kind = Kind::from(row);
            let store = ResourceStore::new(versions.clone(), kind.fields.clone(), window);
            let store = Arc::new(match &registry.observer {
                Some(observer) if !kind.is("", "events") => store.observed_by(observer.clone(), id),
                _ => store,
            });
            registry.insert(Arc::new(Resource {
                kind,
                store,
                conversion: None,
                mixed: false,
                is_revised: false,
                changed_at: 0,
            }));
        }
        for (row, group, version, conversion) in builtin::OTHER_VERSIONS {
            let stored = registry.get(group, version, row.plural).map(|resource| resource.store.clone());
            if let Some(store) = stored {
                let kind = Kind::from(row);
                registry.insert(Arc::new(Resource {
                    kind,
                    store,
                    conversion: Some(*conversion),
                    mixed: false,
                    is_revised: false,
                    changed_at: 0,
                }));
            }
        }
        registry
    }

    pub(crate) fn insert(&mut self, resource: Arc<Resource>) {
        let kind = &resource.kind;
        self.resources.insert((kind.group.clone(), kind.version.clone(), kind.plural.clone()), resource);
    }

    /// Removes a custom resource in all its versions.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) -> Vec<Arc<Resource>> {
        let of_group = self.in_order_from(group, "").take_while(|((other, ..), _)| other == group);
        let gone = of_group.filter(|((.., other), resource)| other == plural && resource.kind.custom);
        let gone: Vec<Address> = gone.map(|(address, _)| address.clone()).collect();
        gone.iter().filter_map(|address| self.resources.remove(address)).collect()
    }

    /// Returns the names that the definitions of a group have.
    pub(crate) fn claims(&self, group: &str) -> impl Iterator<Item = (&str, &Claim)> {
        let all = self.claims.range((group.to_owned(), String::new())..);
        let of_group = all.take_while(move |((other, _), _)| other == group);
        of_group.map(|((_, plural), claim)| (plural.as_str(), claim))
    }

    pub(crate) fn claim(&mut self, group: &str, plural: &str, claim: Option<Claim>) {
        let address = (group.to_owned(), plural.to_owned());
        match claim {
            Some(claim) => drop(self.claims.insert(address, claim)),
            None => drop(self.claims.remove(&address)),
        }
    }

    fn in_order_from(&self, group: &str, version: &str) -> impl Iterator<Item = (&Address, &Arc<Resource>)> {
        self.resources.range((group.to_owned(), version.to_owned(), String::new())..)
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Whether an API version has built-in kinds. Custom kinds in it are not served, as in Kubernetes.
    pub(crate) fn is_builtin(&self, group: &str, version: &str) -> bool {
        self.of_version(group, version).iter().any(|resource| !resource.kind.custom)
    }

    /// Finds a resource by the `apiVersion` and `kind` of an object.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.of_version(group, version).into_iter().find(|resource| resource.kind.kind == kind)
    }

    /// Finds a resource by the id of its store.
    pub(crate) fn of_store(&self, id: StoreId) -> Option<&Arc<Resource>> {
        self.iter().find(|resource| resource.store.id() == Some(id))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Returns every resource once, in any one of its versions.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        // The version in which the objects are stored need not be served.
        self.iter().filter(|resource| {
            let same = || self.iter().filter(|other| Arc::ptr_eq(&other.store, &resource.store));
            let is_first = || same().next().is_some_and(|first| Arc::ptr_eq(first, resource));
            resource.conversion.is_none() || is_first() && same().all(|other| other.conversion.is_some())
        })
    }

    /// Returns the resources of one API version.
    pub(crate) fn of_version(&self, group: &str, version: &str) -> Vec<&Arc<Resource>> {
        let of_version = self.in_order_from(group, version);
        let of_version = of_version.take_while(|((g, v, _), _)| g == group && v == version);
        of_version.map(|(_, resource)| resource).collect()
    }

    /// Returns the versions of each named group, the preferred version first; groups are sorted by name.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for resource in self.iter().filter(|r| !r.kind.group.is_empty()) {
            let versions = groups.entry(&resource.kind.group).or_default();
            if !versions.contains(&resource.kind.version.as_str()) {
                versions.push(&resource.kind.version);
            }
        }
        for versions in groups.values_mut() {
            order::sort_by_key(versions, |version| std::cmp::Reverse(version_rank(version)));
        }
        groups
    }
}

/// `apiVersion` and `kind` of every built-in kind.
#[cfg(test)]
pub(crate) fn builtin_kinds() -> Vec<(String, String)> {
    let others = builtin::OTHER_VERSIONS.iter().map(|(row, ..)| row);
    builtin::KINDS.iter().chain(others).map(Kind::from).map(|kind| (kind.api_version(), kind.kind)).collect()
}

/// Orders versions: stable, beta, alpha, then any others; higher numbers first. Follows Kubernetes 1.37
/// (`version.CompareKubeAwareVersionStrings`).
fn version_rank(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (rank, stage) in [(2, "beta"), (1, "alpha")] {
        if let Some((major, minor)) = rest.split_once(stage) {
            return number(major).zip(number(minor)).map_or((0, 0, 0), |(a, b)| (rank, a, b));
        }
    }
    number(rest).map_or((0, 0, 0), |major| (3, major, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_by_kubernetes() {
        let mut versions = vec!["v1alpha1", "v2", "foo", "v1beta2", "v1", "v1beta1", "v10"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }

    #[test]
    fn kinds_are_unique() {
        let versions = Arc::new(Versions::starting_at(1));
        let registry = Registry::builtin(&versions, Window { events: 8, bytes: usize::MAX }, None);
        assert_eq!(registry.iter().count(), builtin::KINDS.len() + builtin::OTHER_VERSIONS.len());
    }
}
