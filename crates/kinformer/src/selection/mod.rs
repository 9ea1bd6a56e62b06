//! Which objects the informers of a factory hold.

mod one_watch;
mod watch_choice;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kinformer_core::{ByNamespace, KeyRef, PartId, Partition};
use kinformer_kube::{KubeListerWatcher, LabelSelector, NamespaceFilter, PackedObject, Params};
use kinformer_reflector::ListerWatcher;
use kinformer_shared_informer::Sources;

use self::one_watch::{OWN_WATCHES, SeveralNamespaces};
pub(crate) use self::watch_choice::{ChosenSource, WatchChoice, Watches};
pub use self::watch_choice::{NamespaceWatches, WatchReason};
use crate::field_selector::FieldSelector;
use crate::scope::Scope;
use crate::shards::{ByShard, ShardPart};

/// The objects of one namespace that an informer holds, or those of all other namespaces.
///
/// A namespace by its name has no selectors of its own: `"team-a".into()`.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer::{NamespaceOptions, SharedInformerFactory};
///
/// # fn example(client: kube_client::Client) {
/// // All pods of team-a, and the running ones of the other namespaces.
/// let running = NamespaceOptions::all_others().fields("status.phase=Running");
/// let factory = SharedInformerFactory::builder(client)
///     .of_kind::<Pod>(|pods| pods.namespaces([NamespaceOptions::new("team-a"), running]))
///     .build();
/// # _ = factory;
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it is an option of a factory or of a resource"]
pub struct NamespaceOptions {
    /// `None` for all others.
    name: Option<Arc<str>>,
    selection: Selection,
}

impl NamespaceOptions {
    /// Selects the objects of a namespace.
    pub fn new(namespace: impl Into<Arc<str>>) -> Self {
        Self { name: Some(namespace.into()), selection: Selection::default() }
    }

    /// Selects the objects of all namespaces that have no options of their own beside these.
    ///
    /// Follows controller-runtime 0.25 (`cache.AllNamespaces` as a key of `DefaultNamespaces`).
    #[doc(alias = "AllNamespaces")]
    pub fn all_others() -> Self {
        Self { name: None, selection: Selection::default() }
    }

    /// Restricts the objects to those that this label selector matches. An empty selector matches all objects, whatever the
    /// options of the resource and the factory are.
    #[doc(alias = "LabelSelector")]
    pub fn labels(mut self, selector: impl Into<Arc<str>>) -> Self {
        self.selection.labels = Some(selector.into());
        self
    }

    /// Restricts the objects to those that this field selector matches. An empty selector matches all objects, whatever the
    /// options of the resource and the factory are.
    #[doc(alias = "FieldSelector")]
    pub fn fields(mut self, selector: impl Into<Arc<str>>) -> Self {
        self.selection.fields = Some(selector.into());
        self
    }
}

impl From<&str> for NamespaceOptions {
    fn from(namespace: &str) -> Self {
        Self::new(namespace)
    }
}

impl From<String> for NamespaceOptions {
    fn from(namespace: String) -> Self {
        Self::new(namespace)
    }
}

impl From<Arc<str>> for NamespaceOptions {
    fn from(namespace: Arc<str>) -> Self {
        Self::new(namespace)
    }
}

/// The selectors of requests. `None` is inherited; an empty selector matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) labels: Option<Arc<str>>,
    pub(crate) fields: Option<Arc<str>>,
}

impl Selection {
    /// Returns the selectors of these options, and of the others where these have none.
    fn or(&self, others: &Self) -> Self {
        let Self { labels, fields } = self;
        Self {
            labels: labels.as_ref().or(others.labels.as_ref()).cloned(),
            fields: fields.as_ref().or(others.fields.as_ref()).cloned(),
        }
    }
}

impl Selection {
    /// Whether an object has the labels and fields. An invalid selector matches everything.
    fn matches(&self, object: &PackedObject) -> bool {
        let Self { labels, fields } = self;
        let labels = labels.as_deref().and_then(|selector| selector.parse::<LabelSelector>().ok());
        let fields = fields.as_deref().and_then(|selector| selector.parse::<FieldSelector>().ok());
        labels.is_none_or(|selector| selector.matches_object(object))
            && fields.is_none_or(|selector| selector.matches(object))
    }
}

/// Joins selectors; `None` if all are empty.
fn joined(selectors: impl Iterator<Item = String>) -> Option<Arc<str>> {
    let selectors: Vec<String> = selectors.filter(|selector| !selector.is_empty()).collect();
    (!selectors.is_empty()).then(|| selectors.join(",").into())
}

/// The selectors and namespaces of a factory or of a resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selections {
    pub(crate) selection: Selection,
    /// `None` is inherited; an empty list means all namespaces.
    namespaces: Option<Vec<NamespaceOptions>>,
}

impl Selections {
    /// Sets the namespaces. No namespaces, or one without a name, means all. Of several with one name, the first counts.
    pub(crate) fn set_namespaces<N: Into<NamespaceOptions>>(
        &mut self,
        namespaces: impl IntoIterator<Item = N>,
    ) {
        let mut all: Vec<NamespaceOptions> = Vec::new();
        for namespace in namespaces {
            let namespace = namespace.into();
            if !all.iter().any(|other| other.name == namespace.name) {
                all.push(namespace);
            }
        }
        if all.iter().any(|namespace| namespace.name.as_deref() == Some("")) {
            all.clear();
        }
        self.namespaces = Some(all);
    }

    /// Whether namespaces were set, also an empty list.
    pub(crate) fn has_namespaces(&self) -> bool {
        self.namespaces.is_some()
    }

    /// Returns the parts of an informer in this scope, also none: see [`Self::parts`]. A namespace has its own selectors, as if
    /// it had been in the options.
    ///
    /// `before` are the present parts, and `next` is the number of the next new part without a name of its own.
    pub(crate) fn parts_within(
        &self,
        factory: &Self,
        (scope, choice): (&Scope, &WatchChoice),
        before: &[Selected],
        next: &mut u32,
    ) -> Vec<Selected> {
        if let Some(shard) = scope.scoped_shard() {
            let mut all = Selected::new(Place::All, self.selection.or(&factory.selection));
            all.narrow(scope);
            let is_same =
                |part: &&Selected| (&part.selection, &part.of_scope) == (&all.selection, &all.of_scope);
            let before = before.iter().filter(is_same).filter_map(|part| part.shard()).cloned();
            let parts = ShardPart::of_scope(shard, before, next).into_iter();
            return parts.map(|part| all.in_shard(part)).collect();
        }
        let mut parts = self.places_within(factory, scope);
        parts.iter_mut().for_each(|part| part.narrow(scope));
        if scope.names().is_none() {
            choice.clear();
            return parts;
        }
        match choice.is_one(scope.watches(), parts.len(), can_be_one(&parts)) {
            true => join(parts, before, next),
            false => parts,
        }
    }

    fn places_within(&self, factory: &Self, scope: &Scope) -> Vec<Selected> {
        let Some(names) = scope.names() else {
            return Self { namespaces: Some(Vec::new()), ..self.clone() }.parts(factory, true);
        };
        let own = self.namespaces.as_deref().unwrap_or_default();
        let of_name = |name: &str| {
            let options = own.iter().find(|options| options.name.as_deref() == Some(name));
            options.cloned().unwrap_or_else(|| NamespaceOptions::new(name))
        };
        let namespaces: Vec<NamespaceOptions> = names.map(of_name).collect();
        if namespaces.is_empty() {
            return Vec::new();
        }
        Self { namespaces: Some(namespaces), ..self.clone() }.parts(factory, true)
    }

    /// Returns the parts of an informer, at least one: these are the options of its resource, `factory` those of the
    /// factory.
    ///
    /// Follows controller-runtime 0.25 (`cache.Options`, the order of its defaults).
    pub(crate) fn parts(&self, factory: &Self, is_namespaced: bool) -> Vec<Selected> {
        let of_all = self.selection.or(&factory.selection);
        let defaults = factory.namespaces.as_deref().unwrap_or_default();
        let inherited = |namespace: &NamespaceOptions| {
            let default = defaults.iter().find(|default| default.name == namespace.name);
            let selection = namespace.selection.or(&self.selection);
            let selection = default.map_or(selection.clone(), |default| selection.or(&default.selection));
            NamespaceOptions { selection: selection.or(&factory.selection), ..namespace.clone() }
        };
        let namespaces = self.namespaces.as_deref().unwrap_or(defaults);
        if !is_namespaced || namespaces.is_empty() {
            let is_restricted = !namespaces.is_empty() && namespaces.iter().all(|one| one.name.is_some());
            let place = if is_restricted { Place::NoNamespace } else { Place::All };
            return vec![Selected::new(place, of_all)];
        }
        let namespaces: Vec<NamespaceOptions> = namespaces.iter().map(inherited).collect();
        let names: Vec<Arc<str>> = namespaces.iter().filter_map(|namespace| namespace.name.clone()).collect();
        let (named, others): (Vec<_>, Vec<_>) = namespaces.into_iter().partition(|one| one.name.is_some());
        let parts = named.into_iter().chain(others).map(|NamespaceOptions { name, mut selection }| {
            let place = match name {
                Some(name) => Place::Namespace(name),
                None if names.is_empty() => Place::All,
                None => Place::Others,
            };
            if place == Place::Others {
                let own =
                    selection.fields.iter().filter(|fields| !fields.is_empty()).map(|own| own.to_string());
                let others = names.iter().map(|name| format!("metadata.namespace!={name}"));
                selection.fields = Some(own.chain(others).collect::<Vec<_>>().join(",").into());
            }
            Selected::new(place, selection)
        });
        parts.collect()
    }
}

/// The objects of one part of an informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    place: Place,
    selection: Selection,
    /// The selectors of the requests, after the tweak of the factory.
    requested: Selection,
    /// The selectors of the scope, which are among those of the requests.
    of_scope: Selection,
    name: Arc<str>,
}

/// Where the objects of a part are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Everywhere.
    All,
    /// In all namespaces but these, which are sorted.
    AllBut(Vec<Arc<str>>),
    Namespace(Arc<str>),
    /// In several namespaces, by one watch of all.
    Several(SeveralNamespaces),
    /// In all namespaces but those of the other parts.
    Others,
    /// In a shard of all namespaces.
    Shard(ShardPart),
    /// In no namespace: those of a cluster-scoped resource, where namespaces restrict the other resources.
    NoNamespace,
}

/// The name of the part with all other namespaces.
const OTHERS: &str = "other namespaces";

impl Selected {
    fn new(place: Place, selection: Selection) -> Self {
        let name = match &place {
            Place::All | Place::NoNamespace => "".into(),
            Place::AllBut(names) if names.is_empty() => "".into(),
            Place::AllBut(names) => format!("all but {}", names.join(",")).into(),
            Place::Namespace(name) => name.clone(),
            Place::Several(several) => several.name().clone(),
            Place::Others => OTHERS.into(),
            Place::Shard(shard) => shard.name().into(),
        };
        Self { place, requested: selection.clone(), selection, of_scope: Selection::default(), name }
    }

    /// Restricts the part by a scope: parts of other selectors have other names.
    fn narrow(&mut self, scope: &Scope) {
        let (excluded, [labels, fields]) = (scope.excluded(), scope.selectors());
        if excluded.is_empty() && labels.is_none() && fields.is_none() {
            return;
        }
        let place = match &self.place {
            Place::All => Place::AllBut(excluded.clone()),
            place => place.clone(),
        };
        let without = excluded.iter().map(|name| format!("metadata.namespace!={name}"));
        let Selection { labels: own_labels, fields: own_fields } = &self.selection;
        let selection = Selection {
            labels: joined(own_labels.iter().chain(labels).map(|labels| labels.to_string())),
            fields: joined(own_fields.iter().chain(fields).map(|fields| fields.to_string()).chain(without)),
        };
        let mut part = Self::new(place, selection);
        part.of_scope = Selection { labels: labels.cloned(), fields: fields.cloned() };
        let selectors = [("labels", labels), ("fields", fields)];
        for (of, selector) in selectors.into_iter().filter_map(|(of, selector)| Some((of, selector?))) {
            part.name = format!("{} {of} {selector}", part.name).trim_start().into();
        }
        *self = part;
    }

    /// Returns the part with the same selectors in a shard.
    fn in_shard(&self, shard: ShardPart) -> Self {
        Self { of_scope: self.of_scope.clone(), ..Self::new(Place::Shard(shard), self.selection.clone()) }
    }

    pub(crate) fn shard(&self) -> Option<&ShardPart> {
        match &self.place {
            Place::Shard(shard) => Some(shard),
            _ => None,
        }
    }

    /// Notes the selectors that a tweak makes of those of this part.
    pub(crate) fn note_tweak(&mut self, tweak: &(dyn Fn(&mut Params) + Send + Sync)) {
        let Selection { labels, fields } = &self.selection;
        let mut params = Params::default();
        if let Some(labels) = labels {
            params.labels(labels);
        }
        if let Some(fields) = fields {
            params.fields(fields);
        }
        tweak(&mut params);
        let get = |name| params.get(name).map(Arc::from);
        self.requested = Selection { labels: get("labelSelector"), fields: get("fieldSelector") };
    }

    /// Whether an object in this state has the labels and fields of this part. An invalid selector matches everything.
    pub(crate) fn selects(&self, object: &PackedObject) -> bool {
        self.requested.matches(object)
    }

    /// Applies the namespace and the selectors to a source.
    pub(crate) fn restrict(
        &self,
        mut source: KubeListerWatcher<PackedObject>,
    ) -> KubeListerWatcher<PackedObject> {
        source = match &self.place {
            Place::Namespace(namespace) => source.namespace(&**namespace),
            Place::NoNamespace => source.cluster_scoped(),
            Place::Shard(shard) => shard.restrict(source),
            Place::Several(several) => several.restrict(source),
            Place::All | Place::AllBut(_) | Place::Others => source,
        };
        let Selection { labels, fields } = &self.selection;
        if let Some(labels) = labels.as_deref().filter(|labels| !labels.is_empty()) {
            source = source.labels(labels);
        }
        if let Some(fields) = fields.as_deref().filter(|fields| !fields.is_empty()) {
            source = source.fields(fields);
        }
        source
    }

    /// Whether the part has the objects of this namespace; all others do, if no part is that of the namespace.
    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        match &self.place {
            Place::All | Place::Others | Place::NoNamespace | Place::Shard(_) => true,
            Place::AllBut(names) => !names.iter().any(|name| **name == *namespace),
            Place::Namespace(name) => **name == *namespace,
            Place::Several(several) => several.has(namespace),
        }
    }

    /// Whether one watch of all namespaces has the part, although it has several.
    pub(crate) fn is_several(&self) -> bool {
        matches!(self.place, Place::Several(_))
    }

    /// The namespaces that are named by the part, in their order.
    fn namespaces(&self) -> Vec<Arc<str>> {
        match &self.place {
            Place::Namespace(name) => vec![name.clone()],
            Place::Several(several) => {
                let mut names: Vec<Arc<str>> = several.names().iter().cloned().collect();
                names.sort_unstable();
                names
            }
            _ => Vec::new(),
        }
    }

    /// Whether this is the part of all namespaces that have none of their own.
    fn is_others(&self) -> bool {
        self.place == Place::Others
    }

    /// The name of the part; empty for one with the objects of all namespaces.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The part with the objects of a namespace.
pub(crate) fn part_of<'a>(parts: &'a [Selected], namespace: &str) -> Option<&'a Selected> {
    let own = parts.iter().find(|part| !part.is_others() && part.has_namespace(namespace));
    own.or_else(|| parts.iter().find(|part| part.is_others()))
}

/// Whether an informer with these parts has an object in this state, by its namespace, labels and fields.
pub(crate) fn selects(parts: &[Selected], object: &PackedObject) -> bool {
    let part = match parts.first().and_then(Selected::shard) {
        Some(_) => parts.iter().find(|part| part.shard().is_some_and(|shard| shard.has(object))),
        None => part_of(parts, object.namespace().unwrap_or_default()),
    };
    part.is_some_and(|part| part.selects(object))
}

/// The label selector and the field selector of the requests for the objects of a namespace; `None` for no selector, or if
/// the informer does not hold the namespace.
pub(crate) fn selectors(parts: &[Selected], namespace: &str) -> [Option<Arc<str>>; 2] {
    let Some(part) = part_of(parts, namespace) else { return [None, None] };
    let Selection { labels, fields } = &part.requested;
    [labels, fields].map(|selector| selector.clone().filter(|selector| !selector.is_empty()))
}

/// The names of parts, separated by commas. In place of several namespaces with one watch are their names.
pub(crate) fn names(parts: &[Selected]) -> String {
    let name = |part: &Selected| match part.is_several() {
        true => part.namespaces().join(","),
        false => part.name().to_owned(),
    };
    parts.iter().map(name).collect::<Vec<_>>().join(",")
}

/// The namespaces that parts name.
pub(crate) fn namespaces(parts: &[Selected]) -> impl Iterator<Item = Arc<str>> {
    parts.iter().flat_map(Selected::namespaces)
}

/// The namespace of the objects, if there is exactly one.
pub(crate) fn only_namespace(parts: &[Selected]) -> Option<&str> {
    match parts {
        [Selected { place: Place::Namespace(name), .. }] => Some(name),
        _ => None,
    }
}

/// Returns a source for each part.
pub(crate) fn sources<S: ListerWatcher<PackedObject> + 'static>(
    parts: &[Selected],
    mut source: impl FnMut(&Selected) -> S,
) -> Sources<PackedObject> {
    if let [only] = parts {
        return Sources::only(only.name(), source(only));
    }
    divided_sources(parts, source)
}

/// Returns a source for each part of an informer whose scope changes. It may hold objects of other namespaces until then, so
/// even a single namespace is a division.
pub(crate) fn changed_sources<S: ListerWatcher<PackedObject> + 'static>(
    parts: &[Selected],
    mut source: impl FnMut(&Selected) -> S,
) -> Sources<PackedObject> {
    let sources = match parts {
        [only @ Selected { place: Place::All, .. }] => Sources::only(only.name(), source(only)),
        parts => divided_sources(parts, source),
    };
    sources.of_one_server()
}

fn divided_sources<S: ListerWatcher<PackedObject> + 'static>(
    parts: &[Selected],
    mut source: impl FnMut(&Selected) -> S,
) -> Sources<PackedObject> {
    let shards: Vec<_> = parts.iter().filter_map(Selected::shard).map(ShardPart::selector).collect();
    let has_others = parts.iter().any(|part| matches!(part.place, Place::AllBut(_) | Place::Others));
    let division: Box<dyn Partition<PackedObject>> = match has_others {
        _ if !shards.is_empty() => Box::new(ByShard(shards)),
        true => Box::new(ByNamespace::new(namespaces(parts)).with_others()),
        false => Box::new(ByPlace::new(parts)),
    };
    let partition = InScope { division, parts: parts.into() };
    Sources::new(partition, parts.iter().map(|part| (part.name(), source(part))))
}

/// The assignment of objects to parts that name their namespaces.
struct ByPlace {
    places: HashMap<Arc<str>, PartId>,
    parts: u32,
}

impl ByPlace {
    fn new(parts: &[Selected]) -> Self {
        let numbered = (0..).map(PartId::new).zip(parts);
        let places =
            numbered.flat_map(|(id, part)| part.namespaces().into_iter().map(move |name| (name, id)));
        Self { places: places.collect(), parts: u32::try_from(parts.len()).unwrap_or(u32::MAX) }
    }
}

impl Partition<PackedObject> for ByPlace {
    fn parts(&self) -> u32 {
        self.parts
    }

    fn part_of(&self, object: &PackedObject) -> Option<PartId> {
        self.part_of_key(object.key())
    }

    fn part_of_key(&self, key: KeyRef<'_>) -> Option<PartId> {
        self.places.get(key.namespace()?).copied()
    }
}

/// The assignment of objects to the parts of a scope, in the order of the parts.
struct InScope {
    division: Box<dyn Partition<PackedObject>>,
    parts: Arc<[Selected]>,
}

impl InScope {
    fn excludes(&self, key: KeyRef<'_>) -> bool {
        let is_excluded = |part: &Selected| {
            matches!(part.place, Place::AllBut(_)) && !part.has_namespace(key.namespace().unwrap_or_default())
        };
        self.parts.first().is_some_and(is_excluded)
    }
}

impl Partition<PackedObject> for InScope {
    fn parts(&self) -> u32 {
        self.division.parts()
    }

    fn part_of(&self, object: &PackedObject) -> Option<PartId> {
        self.division.part_of(object).filter(|_| !self.excludes(object.key()))
    }

    fn part_of_key(&self, key: KeyRef<'_>) -> Option<PartId> {
        self.division.part_of_key(key).filter(|_| !self.excludes(key))
    }

    fn stays(&self, object: &PackedObject) -> bool {
        let part = self.part_of(object).and_then(|part| self.parts.get(part.number() as usize));
        part.is_none_or(|part| part.of_scope.matches(object))
    }
}

/// Whether these parts are namespaces that one watch can have: their selectors do not differ.
fn can_be_one(parts: &[Selected]) -> bool {
    let is_like = |first: &Selected, part: &Selected| {
        matches!(part.place, Place::Namespace(_))
            && (&part.selection, &part.of_scope) == (&first.selection, &first.of_scope)
    };
    parts.first().is_some_and(|first| parts.iter().all(|part| is_like(first, part)))
}

/// Joins the parts of namespaces: those that the filtered watch before has stay in it, and new ones have their own watches. When
/// these are many, or there is no such watch, all have a new one. `next` is the number of the next new part.
fn join(parts: Vec<Selected>, before: &[Selected], next: &mut u32) -> Vec<Selected> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The selectors of each part, as "name labels fields".
    fn described(factory: &Selections, resource: &Selections, is_namespaced: bool) -> Vec<String> {
        let text =
            |selector: Option<Arc<str>>| selector.map_or("-".to_owned(), |selector| format!("[{selector}]"));
        let part = |part: Selected| {
            let name = part.name().to_owned();
            format!("{name} {} {}", text(part.selection.labels), text(part.selection.fields))
        };
        resource.parts(factory, is_namespaced).into_iter().map(part).collect()
    }

    fn selections(labels: Option<&str>, namespaces: Option<&[NamespaceOptions]>) -> Selections {
        let mut selections = Selections::default();
        selections.selection.labels = labels.map(Into::into);
        if let Some(namespaces) = namespaces {
            selections.set_namespaces(namespaces.iter().cloned());
        }
        selections
    }

    fn named(name: &str) -> NamespaceOptions {
        NamespaceOptions::new(name)
    }

    /// The cases of controller-runtime 0.25's `TestDefaultOpts` that concern namespaces and selectors.
    // contract: F-24a, F-24b, F-24c, F-24d
    #[test]
    #[expect(clippy::too_many_lines, reason = "a test shows each step of a case")]
    fn selectors_are_inherited() {
        let a = || named("a");
        let others = NamespaceOptions::all_others;
        let none = selections(None, None);
        type Case<'a> = (&'a str, Selections, Selections, &'a [&'a str]);
        let cases: &[Case<'_>] = &[
            ("nothing is set", none.clone(), none.clone(), &[" - -"]),
            ("of the factory", selections(Some("f"), None), none.clone(), &[" [f] -"]),
            ("of the resource", selections(Some("f"), None), selections(Some("r"), None), &[" [r] -"]),
            ("everything is a value", selections(Some("f"), None), selections(Some(""), None), &[" [] -"]),
            (
                "a namespace's own selector precedes that of its resource",
                selections(Some("f"), Some(&[a().labels("d")])),
                selections(Some("r"), Some(&[a().labels("n"), named("b").labels("")])),
                &["a [n] -", "b [] -"],
            ),
            (
                "then that of its resource",
                selections(Some("f"), Some(&[a().labels("d")])),
                selections(Some("r"), Some(&[a()])),
                &["a [r] -"],
            ),
            (
                "then that of the same namespace of the factory",
                selections(Some("f"), Some(&[a().labels("d")])),
                selections(None, Some(&[a(), named("b")])),
                &["a [d] -", "b [f] -"],
            ),
            (
                "a resource without namespaces has those of the factory",
                selections(Some("f"), Some(&[a(), named("b").labels("d")])),
                selections(Some("r"), None),
                &["a [r] -", "b [d] -"],
            ),
            (
                "a resource with all namespaces has no others",
                selections(Some("f"), Some(&[a().labels("d")])),
                selections(None, Some(&[])),
                &[" [f] -"],
            ),
            (
                "all others",
                selections(None, Some(&[a(), others().labels("o").fields("x=y"), named("b").fields("z=y")])),
                none.clone(),
                &[
                    "a - -",
                    "b - [z=y]",
                    "other namespaces [o] [x=y,metadata.namespace!=a,metadata.namespace!=b]",
                ],
            ),
            (
                "all others of none",
                selections(None, Some(&[others().fields("x=y")])),
                none.clone(),
                &[" - [x=y]"],
            ),
            (
                "all others of a resource inherit those of the factory",
                selections(None, Some(&[others().labels("d")])),
                selections(None, Some(&[a(), others()])),
                &["a - -", "other namespaces [d] [metadata.namespace!=a]"],
            ),
            (
                "of several with one name, the first",
                selections(None, Some(&[a().labels("1"), a()])),
                none,
                &["a [1] -"],
            ),
        ];
        for (case, factory, resource, parts) in cases {
            assert_eq!(described(factory, resource, true), *parts, "{case}");
        }
        let factory = selections(Some("f"), Some(&[a().labels("d")]));
        assert_eq!(
            described(&factory, &selections(None, Some(&[a()])), false),
            [" [f] -"],
            "not in namespaces"
        );
    }
    // contract: F-24b, F-24d
    #[test]
    fn namespaces_are_in_parts() {
        let none = selections(None, None);
        let named_parts = selections(None, Some(&[named("a"), named("b")])).parts(&none, true);
        let others = NamespaceOptions::all_others();
        let all_parts = selections(None, Some(&[others, named("a")])).parts(&none, true);
        for (parts, named, of_c) in [
            (none.parts(&none, true), &[][..], Some("")),
            (named_parts, &["a", "b"], None),
            (all_parts, &["a"], Some("other namespaces")),
        ] {
            assert_eq!(namespaces(&parts).map(|name| name.to_string()).collect::<Vec<_>>(), named);
            named.iter().for_each(|name| assert_eq!(part_of(&parts, name).map(Selected::name), Some(*name)));
            assert_eq!(part_of(&parts, "c").map(Selected::name), of_c);
        }
    }
}
