//! The part of several namespaces that one filtered watch of all namespaces has.

use std::collections::HashSet;
use std::sync::Arc;

use kinformer_kube::{KubeListerWatcher, NamespaceFilter, PackedObject};

use super::{Place, Selected};

/// How many namespaces have a watch of their own at least before all are listed again by one; otherwise a quarter of those that
/// the filtered watch has. So a namespace that comes costs its own list, and a fraction of the list of all on average.
const OWN_WATCHES: usize = 16;

/// A set of namespaces with one list and one watch, which were in scope when it began, without those that have left since.
#[derive(Clone, Debug)]
pub(crate) struct SeveralNamespaces {
    name: Arc<str>,
    /// Shared with the source.
    filter: NamespaceFilter,
}

impl PartialEq for SeveralNamespaces {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SeveralNamespaces {}

impl SeveralNamespaces {
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn names(&self) -> Arc<HashSet<Arc<str>>> {
        self.filter.names()
    }

    pub(super) fn has(&self, namespace: &str) -> bool {
        self.names().contains(namespace)
    }

    pub(super) fn restrict(
        &self,
        source: KubeListerWatcher<PackedObject>,
    ) -> KubeListerWatcher<PackedObject> {
        source.only_namespaces(self.filter.clone())
    }
}

/// Whether these parts are namespaces that one watch can have: their selectors do not differ.
pub(super) fn can_be_one(parts: &[Selected]) -> bool {
    let is_like = |first: &Selected, part: &Selected| {
        matches!(part.place, Place::Namespace(_))
            && (&part.selection, &part.of_scope) == (&first.selection, &first.of_scope)
    };
    parts.first().is_some_and(|first| parts.iter().all(|part| is_like(first, part)))
}

/// Joins the parts of namespaces: those that the filtered watch before has stay in it, and new ones have their own watches. When
/// these are many, or there is no such watch, all have a new one. `next` is the number of the next new part.
pub(super) fn join(parts: Vec<Selected>, before: &[Selected], next: &mut u32) -> Vec<Selected> {
    let Some(first) = parts.first().cloned() else { return parts };
    let name_of = |part: &Selected| match &part.place {
        Place::Namespace(name) => Some(name.clone()),
        _ => None,
    };
    let names: HashSet<Arc<str>> = parts.iter().filter_map(name_of).collect();
    let is_same = |part: &&Selected| (&part.selection, &part.of_scope) == (&first.selection, &first.of_scope);
    let joined = |several: SeveralNamespaces| Selected {
        of_scope: first.of_scope.clone(),
        ..Selected::new(Place::Several(several), first.selection.clone())
    };
    let several = before.iter().filter(is_same).find_map(|part| match &part.place {
        Place::Several(several) => Some(several.clone()),
        _ => None,
    });
    if let Some(several) = several {
        let kept = several.names().intersection(&names).count();
        if kept > 0 && parts.len() - kept <= OWN_WATCHES.max(kept / 4) {
            several.filter.narrow(&names);
            let own = parts.into_iter().filter(|part| name_of(part).is_none_or(|name| !several.has(&name)));
            return std::iter::once(joined(several.clone())).chain(own).collect();
        }
    }
    let name = format!("namespaces {next}").into();
    *next += 1;
    vec![joined(SeveralNamespaces { name, filter: NamespaceFilter::new(names) })]
}
