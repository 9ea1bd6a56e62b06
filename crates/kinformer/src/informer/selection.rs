//! Which objects an informer holds.

use std::sync::Arc;

use kinformer_kube::{FieldPath, Packed, ShardSelector};
use kube_core::discovery::{ApiResource, Scope};

use crate::informer::Informer;
use crate::informer::view::View;
use crate::kind::resource_name;
use crate::projection::Projection;
use crate::selection::{self, Selected};
use crate::shards::ShardPart;

impl<K> Informer<K> {
    /// Which objects the informer holds, and how much of them: its resource, namespaces and selectors.
    pub fn selection(&self) -> InformerSelection<'_> {
        InformerSelection { view: &self.view }
    }
}

/// Which objects an informer holds, and how much of them. From [`Informer::selection`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = kinformer::client(kube_client::Config::new("http://localhost".parse()?))?;
/// use kinformer::SharedInformerFactory;
///
/// let factory = SharedInformerFactory::builder(client).namespaces(["team-a", "team-b"]);
/// let factory = factory.labels("app=web").build();
/// let deployments = factory.apps().v1().deployments();
/// let selection = deployments.selection();
/// assert_eq!(selection.resource(), "deployments.apps");
/// assert!(selection.namespaces().map(|name| name.to_string()).eq(["team-a", "team-b"]));
/// assert_eq!(selection.label_selector("team-a").as_deref(), Some("app=web"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct InformerSelection<'a> {
    view: &'a View,
}

impl<'a> InformerSelection<'a> {
    /// The group, version, kind and plural name of the resource.
    pub fn api_resource(&self) -> &'a ApiResource {
        &self.view.target.resource
    }

    /// The resource name as in kubectl, with the projection if it is not the whole object: `pods`, `deployments.apps`,
    /// `pods (metadata)`.
    pub fn resource(&self) -> String {
        self.projection().named(resource_name(self.api_resource()))
    }

    /// The part of each object that the informer fetches. It is decided when the informer starts: whole objects if any view
    /// of the resource requested them until then, else metadata.
    pub fn projection(&self) -> Projection {
        self.view.projection()
    }

    /// Whether the objects of the resource are in namespaces: as one in the store is or, while there is none, as the informer
    /// was requested. The definition of a custom resource may return with another scope.
    pub fn is_namespaced(&self) -> bool {
        let snapshot = self.view.bound.get().map(|bound| bound.informer.snapshot());
        let stored = snapshot.as_ref().and_then(|snapshot| snapshot.iter().next());
        let requested = || self.view.target.scope == Scope::Namespaced;
        stored.map_or_else(requested, |object| object.key().namespace().is_some())
    }

    /// The namespaces that the informer is restricted to, separated by commas, each with the selectors of the scope; empty for
    /// all objects. This and all other
    /// methods follow the scope that was [set](Informer::set_scope) last.
    pub fn scope(&self) -> String {
        selection::names(&self.selected())
    }

    fn selected(&self) -> Arc<[Selected]> {
        self.view.informer().selected()
    }

    /// The namespaces that the informer is restricted to by their names, by a watch for each or by one; none if it holds the objects
    /// of all.
    pub fn namespaces(&self) -> impl Iterator<Item = Arc<str>> {
        selection::namespaces(&self.selected()).collect::<Vec<_>>().into_iter()
    }

    /// The name of the [part](crate::InformerStatus::parts) with the objects of a namespace, if the informer has several parts;
    /// `None` if it does not hold the namespace. The user's [own informer](crate::ResourceOptions::informer) may have others.
    pub fn part_of(&self, namespace: &str) -> Option<Arc<str>> {
        selection::part_of(&self.selected(), namespace).map(|part| part.name().into())
    }

    /// Whether the informer holds the objects of this namespace; `true` for each namespace if its objects are not in
    /// namespaces.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.selected().iter().any(|part| part.has_namespace(namespace))
    }

    /// Whether the informer holds an object in this state, by the namespaces and selectors of its options: for callers
    /// that have the object from elsewhere, such as the response of a write.
    ///
    /// A field selector is compared with the fields of the object. A selector that is invalid matches everything.
    pub fn selects<K>(&self, object: &Packed<K>) -> bool {
        selection::selects(&self.selected(), object.object())
    }

    /// The label selector of the informer's requests for the objects of a namespace (of any, if objects are not in
    /// namespaces); `None` if they are not restricted by labels.
    pub fn label_selector(&self, namespace: &str) -> Option<Arc<str>> {
        let [labels, _] = selection::selectors(&self.selected(), namespace);
        labels
    }

    /// The field selector of the informer's requests for the objects of a namespace (of any, if objects are not in
    /// namespaces); `None` if they are not restricted by fields.
    pub fn field_selector(&self, namespace: &str) -> Option<Arc<str>> {
        let [_, fields] = selection::selectors(&self.selected(), namespace);
        fields
    }

    /// The shard that the informer holds; `None` if it is not restricted to one.
    pub fn shard(&self) -> Option<ShardSelector> {
        let selected = self.selected();
        let parts = selected.iter().filter_map(Selected::shard).map(ShardPart::selector);
        parts.fold(None, |all: Option<ShardSelector>, part| {
            let ranges = all.iter().flat_map(ShardSelector::ranges).chain(part.ranges()).cloned();
            Some(ShardSelector::new(part.field(), ranges.collect::<Vec<_>>()))
        })
    }

    /// Whether objects may have other labels and fields here than on the server: they are changed by a transform or by the
    /// user's [own informer](crate::ResourceOptions::informer), or their labels are dropped.
    pub fn has_transform(&self) -> bool {
        self.view.informer().changes().has_transform
    }

    /// The fields that are [dropped](crate::ResourceOptions::drop_fields) from each object.
    pub fn dropped_fields(&self) -> &'a [FieldPath] {
        &self.view.informer().changes().dropped_fields
    }
}
