//! The points of a write at which webhooks are called.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::apply::{pack_with, refuse_packed, unpack};
use crate::status::Status;

use super::attributes::{Asked, Attributes, Object, Operation, text};
use super::matching::may_match;
use super::registered::{Configurations, Hooks};

/// Which webhooks are called at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Mutating,
    Validating,
    /// First the mutating ones, which cannot change anything, then the validating ones.
    Deleting,
}

/// UID and version of a stored object; empty for none.
type Version = [String; 2];

fn version(object: &Object) -> Version {
    [text(object, "uid").to_owned(), text(object, "resourceVersion").to_owned()]
}

/// A point, by what its outcome depends on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Webhooks { phase: Phase, operation: Operation, before: Version },
    Conversion { to: String, before: Version },
}

/// The calls for which a write waits.
pub(crate) enum Calls {
    Webhooks(Review),
    /// The conversion of an object to an `apiVersion`.
    Conversion(Object, String),
}

/// What webhooks are asked.
pub(crate) struct Review {
    pub(super) phase: Phase,
    pub(super) attributes: Attributes,
    /// What the write gets back from validating webhooks: the object as it came.
    kept: Object,
}

impl Review {
    /// Returns what the write gets back: the object of mutating webhooks, if there is one.
    pub(super) fn answered(self, object: Option<Object>) -> Object {
        match object {
            Some(object) => repacked(object, self.attributes.object.as_ref(), self.kept),
            None => self.kept,
        }
    }
}

/// The outcome of calls.
pub(crate) struct Outcome {
    pub(crate) result: Result<Object, Status>,
    pub(crate) warnings: Vec<String>,
}

#[derive(Default)]
struct State {
    steps: Vec<(Point, Result<Object, Status>)>,
    /// The step that the present attempt reaches next.
    next: usize,
    pending: Option<(Point, Calls)>,
    warnings: Vec<String>,
    /// The name of a new object before webhooks; empty for a name that is generated.
    name: Option<String>,
}

/// The outcomes of webhooks for a write of a client.
pub(crate) struct Session {
    pub(super) hooks: Arc<Hooks>,
    asked: Arc<Asked>,
    converts: bool,
    state: Mutex<State>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("name", &self.asked.name).finish_non_exhaustive()
    }
}

impl Session {
    /// Without hooks, there are only conversions.
    pub(crate) fn new(hooks: Arc<Hooks>, asked: Asked) -> Self {
        let converts = asked.resource.is_converted();
        Self { hooks, asked: Arc::new(asked), converts, state: Mutex::default() }
    }

    /// Whether objects are converted by a webhook.
    pub(crate) fn converts(&self) -> bool {
        self.converts
    }

    /// Whether the write is that of a scale, which is a part of the stored object.
    pub(crate) fn is_about_scale(&self) -> bool {
        self.asked.subresource == "scale"
    }

    /// Whether the request names its object.
    pub(crate) fn is_about_one(&self) -> bool {
        !self.asked.name.is_empty()
    }

    fn concern(&self, hooks: &Configurations, operation: Operation) -> bool {
        let Asked { resource, subresource, .. } = &*self.asked;
        hooks.iter().flatten().any(|hook| may_match(hook, resource, subresource, operation))
    }

    fn validates(&self, operation: Operation) -> bool {
        self.hooks.has_policies() || self.concern(&self.hooks.validating, operation)
    }

    /// Whether a mutating webhook may be called for this operation.
    pub(crate) fn mutates(&self, operation: Operation) -> bool {
        self.concern(&self.hooks.mutating, operation)
    }

    /// Remembers the name of a new object, before one is generated.
    pub(crate) fn note_name(&self, object: &Object) {
        self.state.lock().name.get_or_insert_with(|| text(object, "name").to_owned());
    }

    /// Returns an object after the mutating webhooks.
    ///
    /// # Errors
    /// The answer of a webhook that refuses the write. Any error if webhooks are to be called first.
    pub(crate) fn mutate(&self, old: Option<Object>, object: Object) -> Result<Object, Status> {
        let operation = operation(old.as_ref());
        if !self.mutates(operation) {
            return Ok(object);
        }
        self.review(Phase::Mutating, self.attributes(operation, old, Some(object.clone())), object)
    }

    /// Returns an object after the validating webhooks: the one that they have seen.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub(crate) fn validate(&self, old: Option<Object>, object: Object) -> Result<Object, Status> {
        self.validate_as(old, object.clone(), object)
    }

    /// As [`Self::validate`], for webhooks that see the object in another form.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub(crate) fn validate_as(
        &self,
        old: Option<Object>,
        shown: Object,
        object: Object,
    ) -> Result<Object, Status> {
        let operation = operation(old.as_ref());
        if !self.validates(operation) {
            return Ok(object);
        }
        self.review(Phase::Validating, self.attributes(operation, old, Some(shown)), object)
    }

    /// Asks all webhooks about the deletion of an object.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub(crate) fn delete(&self, old: Object, options: Value, is_dry_run: bool) -> Result<(), Status> {
        let operation = Operation::Delete;
        if !self.mutates(operation) && !self.validates(operation) {
            return Ok(());
        }
        let attributes = self.attributes(operation, Some(old), None);
        let attributes = Attributes { options, is_dry_run, ..attributes };
        self.review(Phase::Deleting, attributes, Object::new()).map(drop)
    }

    /// Returns an object in another version.
    ///
    /// # Errors
    /// That of the webhook. Any error if it is to be called first.
    pub(crate) fn convert(&self, object: Object, to: &str) -> Result<Object, Status> {
        // what is made up for a new object differs between attempts
        let before = Some(version(&object)).filter(|[_, version]| !version.is_empty()).unwrap_or_default();
        let to = to.to_owned();
        self.reach(Point::Conversion { to: to.clone(), before }, Calls::Conversion(object, to))
    }

    fn attributes(&self, operation: Operation, old: Option<Object>, object: Option<Object>) -> Attributes {
        let asked = self.asked.clone();
        let unpacked = |mut object: Object| {
            unpack(&mut object);
            object
        };
        let (old, object) = (old.map(unpacked), object.map(unpacked));
        let own = |field| object.as_ref().map_or("", |object| text(object, field)).to_owned();
        let given = if asked.name.is_empty() && operation == Operation::Create {
            self.state.lock().name.get_or_insert_with(|| own("name")).clone()
        } else {
            asked.name.clone()
        };
        let is_namespace = asked.resource.kind.is("", "namespaces");
        // a name that is generated is not that of the namespace
        let namespace = if is_namespace { given.clone() } else { asked.namespace.clone() };
        let name = if given.is_empty() && operation == Operation::Create { own("name") } else { given };
        let mut options = asked.options.clone();
        options.insert("kind".into(), operation.options().into());
        options.insert("apiVersion".into(), "meta.k8s.io/v1".into());
        let (options, is_dry_run) = (Value::Object(options), asked.is_dry_run);
        let is_patched = false;
        Attributes { asked, operation, namespace, name, object, old, options, is_dry_run, is_patched }
    }

    fn review(&self, phase: Phase, attributes: Attributes, kept: Object) -> Result<Object, Status> {
        let before = attributes.old.as_ref().map(version).unwrap_or_default();
        let point = Point::Webhooks { phase, operation: attributes.operation, before };
        self.reach(point, Calls::Webhooks(Review { phase, attributes, kept }))
    }

    fn reach(&self, point: Point, calls: Calls) -> Result<Object, Status> {
        let mut state = self.state.lock();
        let next = state.next;
        if let Some((_, outcome)) = state.steps.get(next).filter(|(seen, _)| *seen == point) {
            let outcome = outcome.clone();
            state.next += 1;
            return outcome;
        }
        // The object was written meanwhile, or the webhooks were not called yet.
        state.steps.truncate(next);
        state.pending = Some((point, calls));
        Err(Status::internal("webhooks have to be called first"))
    }

    /// Begins an attempt.
    pub(crate) fn rewind(&self) {
        let mut state = self.state.lock();
        (state.next, state.pending) = (0, None);
    }

    /// Begins with another object of the same request.
    pub(crate) fn next_object(&self) {
        self.state.lock().steps.clear();
        self.rewind();
    }

    /// Returns the calls that the last attempt needs, with their point; `None` if it is the final one.
    pub(crate) fn take_pending(&self) -> Option<(Point, Calls)> {
        self.state.lock().pending.take()
    }

    /// Adds the outcome of calls: an object, or a refusal.
    pub(crate) fn answered(&self, point: Point, outcome: Outcome) {
        let Outcome { result, warnings } = outcome;
        let mut state = self.state.lock();
        state.steps.push((point, result));
        state.warnings.extend(warnings);
    }

    /// Returns the warnings of the webhooks.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.state.lock().warnings.clone()
    }
}

/// Packs the managers of an object that webhooks have seen as `sent`. Those that they have not changed are as they were.
fn repacked(mut object: Object, sent: Option<&Object>, kept: Object) -> Object {
    fn managers(object: &Object) -> Option<&Value> {
        object.get("metadata")?.get("managedFields")
    }
    let is_same = sent.is_some_and(|sent| managers(sent) == managers(&object));
    match (managers(&kept).cloned(), object.get_mut("metadata")) {
        (Some(own), Some(Value::Object(metadata))) if is_same => {
            metadata.insert("managedFields".into(), own);
        }
        _ => {
            refuse_packed(&mut object);
            pack_with(&mut object, std::iter::empty());
        }
    }
    object
}

fn operation(old: Option<&Object>) -> Operation {
    if old.is_some() { Operation::Update } else { Operation::Create }
}
