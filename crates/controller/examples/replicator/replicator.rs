//! The controller of the copies of one kind.
//!
//! Its key is that of a target, which may not exist: what it should have is decided from the objects that exist now. So a source
//! that was deleted while the controller did not run has the same effect as one that is deleted meanwhile.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kinformer_controller::kinformer::{
    self, Informer, LabelSelector, Lister, ObjectKey, Packed, PackedMetadata as _, PackedObject,
    SharedInformerFactory,
};
use kinformer_controller::{Action, Controller, Predicate, ReconcileError, Request, Trigger, apply};
use kube_client::api::{DeleteParams, Preconditions};
use kube_client::{Api, Client};
use kube_core::PartialObjectMeta;
use serde_json::Value;

use super::kinds::Copied;
use super::rules::{self, Error, FROM, KEYS, PUSHED_FROM, STRIP_LABELS, Targets, VERSION};
use super::{NAME, Options};

/// An index: the objects that pull from a source, by its key.
const PULLING: &str = "pulling";
/// An index: the objects that are pushed, by their name.
const PUSHED: &str = "pushed";

struct Replicator<K> {
    objects: Lister<K>,
    namespaces: Lister<PartialObjectMeta<Namespace>>,
    client: Client,
    options: Arc<Options>,
}

pub(crate) fn controller<K: Copied>(
    factory: &SharedInformerFactory,
    client: &Client,
    options: &Arc<Options>,
) -> Result<Controller, kinformer::Error> {
    let (objects, namespaces) = (factory.informer::<K>(), factory.metadata::<Namespace>());
    objects.index(PULLING, |object, values| {
        object.annotations()?.get(FROM).into_iter().for_each(|from| values.push(from));
        Ok(())
    })?;
    objects.index(PUSHED, |object, values| {
        // One with an invalid annotation is reported when its own key is reconciled.
        if let Ok(Some(_)) = Targets::of(&object) {
            values.push(object.name());
        }
        Ok(())
    })?;
    let replicator = Arc::new(Replicator {
        objects: objects.lister(),
        namespaces: namespaces.lister(),
        client: client.clone(),
        options: options.clone(),
    });
    Ok(Controller::of(factory)
        .reconciles::<K>()
        .trigger(targets_of_objects(&objects, &namespaces))
        .trigger(targets_in_namespaces(&objects, &namespaces))
        .workers(4)
        .build(move |request| replicator.clone().reconcile(request)))
}

/// An object changes: the objects that pull from it, and those that it is pushed to.
fn targets_of_objects<K: Copied>(
    objects: &Informer<K>,
    namespaces: &Informer<PartialObjectMeta<Namespace>>,
) -> Trigger<ObjectKey> {
    let (all, namespaces) = (objects.lister(), namespaces.lister());
    Trigger::on(objects).map(move |object, keys| {
        for target in all.by_index(PULLING, &object.key().to_string())? {
            keys.push(target.key().try_into()?);
        }
        if let Ok(Some(targets)) = Targets::of(&object) {
            for namespace in namespaces.list(&LabelSelector::everything())? {
                if targets.has(&namespace) {
                    keys.push(ObjectKey::new(namespace.name(), object.name())?);
                }
            }
        }
        Ok(())
    })
}

/// A namespace is created, or its labels change: each object that is pushed anywhere.
fn targets_in_namespaces<K: Copied>(
    objects: &Informer<K>,
    namespaces: &Informer<PartialObjectMeta<Namespace>>,
) -> Trigger<ObjectKey> {
    let objects = objects.clone();
    Trigger::on(namespaces).filter(Predicate::labels_changed()).map(move |namespace, keys| {
        for name in objects.snapshot()?.index_values(PUSHED)? {
            keys.push(ObjectKey::new(namespace.name(), &name)?);
        }
        Ok(())
    })
}

impl<K: Copied> Replicator<K> {
    async fn reconcile(self: Arc<Self>, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Some(namespace) = self.namespaces.get_opt(request.namespace().unwrap_or_default())? else {
            return Ok(Action::none());
        };
        if namespace.deletion_timestamp()?.is_some() {
            return Ok(Action::none()); // nothing can be created in it
        }
        let target = self.objects.get_opt(&request.key)?;
        let source = self.source(&namespace, request.name(), target.as_ref());
        match (source.map_err(ReconcileError::permanent)?, target) {
            (Some(source), target) => self.copy(&source, target.as_ref(), &request.key).await?,
            (None, Some(target)) => self.release(&target).await?,
            (None, None) => {}
        }
        Ok(Action::none())
    }

    /// Returns the source of a target: the one that it names, or the first one that is pushed to it.
    fn source(
        &self,
        namespace: &PackedObject,
        name: &str,
        target: Option<&Packed<K>>,
    ) -> Result<Option<Packed<K>>, Error> {
        if let Some(target) = target {
            if let Some(from) = rules::source_of(target)? {
                let source = self.objects.get_opt(&from)?;
                if let Some(source) = source.as_ref().filter(|_| !self.options.allow_all) {
                    rules::check_allowed(source, namespace.name())?;
                }
                return Ok(source);
            }
            if Targets::of(target)?.is_some() {
                return Ok(None); // two objects that are pushed to each other would never rest
            }
        }
        if self.options.excluded.iter().any(|pattern| pattern.is_match(namespace.name())) {
            return Ok(None);
        }
        let mut sources = self.objects.by_index(PUSHED, name)?;
        sources.retain(|source| {
            let targets = Targets::of(source).ok().flatten();
            source.namespace() != Some(namespace.name())
                && targets.is_some_and(|targets| targets.has(namespace))
        });
        Ok(sources.into_iter().min_by(|a, b| a.namespace().cmp(&b.namespace())))
    }

    /// Applies the data of the source. Keys that were applied before and are not in it any more are removed by the API server;
    /// keys of others stay.
    async fn copy(
        &self,
        source: &Packed<K>,
        target: Option<&Packed<K>>,
        key: &ObjectKey,
    ) -> Result<(), ReconcileError> {
        let (object, existing) = (source.decode()?, target.map(Packed::decode).transpose()?);
        let mut copy = object.without_metadata(existing.as_deref());
        let metadata = copy.meta_mut();
        metadata.name = Some(key.name().to_owned());
        // Otherwise a target that is deleted meanwhile would be created again.
        metadata.uid = target.and_then(|target| target.uid()).map(str::to_owned);
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(KEYS.to_owned(), object.keys());
        if !target.is_some_and(has_source) {
            annotations.insert(PUSHED_FROM.to_owned(), source.key().to_string());
            if source.annotations()?.get(STRIP_LABELS).is_none_or(|strip| strip != "true") {
                metadata.labels = object.meta().labels.clone();
            }
        }
        if let Some(existing) = existing
            && contains(&serde_json::to_value(&*existing)?, &serde_json::to_value(&copy)?)
        {
            return Ok(());
        }
        let version = (VERSION.to_owned(), source.resource_version().to_string());
        copy.meta_mut().annotations.get_or_insert_default().extend([version]);
        let api = Api::namespaced(self.client.clone(), key.namespace().unwrap_or_default());
        apply::object(&api, &copy, NAME).await?;
        Ok(())
    }

    /// Deletes a copy that was pushed and has no other data; removes what was applied to another one.
    async fn release(&self, target: &Packed<K>) -> Result<(), ReconcileError> {
        let annotations = target.annotations()?;
        let Some(keys) = annotations.get(KEYS) else { return Ok(()) }; // it is no copy
        let object = target.decode()?;
        let api = Api::<K>::namespaced(self.client.clone(), target.namespace().unwrap_or_default());
        if annotations.contains_key(PUSHED_FROM) && !has_source(target) && object.keys() == **keys {
            let metadata = object.meta();
            let (uid, resource_version) = (metadata.uid.clone(), metadata.resource_version.clone());
            let unchanged = DeleteParams::default().preconditions(Preconditions { uid, resource_version });
            api.delete(target.name(), &unchanged).await?;
            return Ok(());
        }
        let mut rest = K::default().without_metadata(Some(&*object));
        rest.meta_mut().name = Some(target.name().to_owned());
        rest.meta_mut().uid = target.uid().map(str::to_owned);
        apply::object(&api, &rest, NAME).await?;
        Ok(())
    }
}

fn has_source(target: &Packed<impl Copied>) -> bool {
    target.annotations().is_ok_and(|annotations| annotations.contains_key(FROM))
}

/// Whether a JSON value has all that another one has.
fn contains(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => wanted
            .iter()
            .all(|(field, wanted)| stored.get(field).is_some_and(|stored| contains(stored, wanted))),
        (stored, wanted) => stored == wanted,
    }
}
