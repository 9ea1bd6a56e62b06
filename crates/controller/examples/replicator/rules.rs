//! What the annotations say. They are those of kubernetes-replicator.

use kinformer_controller::kinformer::{
    self, LabelSelector, ObjectKey, PackedObject, SelectorError, WireError,
};
use regex::Regex;

/// Of a target: the source, `NAMESPACE/NAME`.
pub(crate) const FROM: &str = "replicator.v1.mittwald.de/replicate-from";
/// Of a source that is pushed: patterns of namespaces, and a selector of their labels.
const TO: &str = "replicator.v1.mittwald.de/replicate-to";
const TO_MATCHING: &str = "replicator.v1.mittwald.de/replicate-to-matching";
/// Of a source that others may pull: `true`, and patterns of their namespaces.
const ALLOWED: &str = "replicator.v1.mittwald.de/replication-allowed";
const ALLOWED_NAMESPACES: &str = "replicator.v1.mittwald.de/replication-allowed-namespaces";
/// Of a source that is pushed without its labels.
pub(crate) const STRIP_LABELS: &str = "replicator.v1.mittwald.de/strip-labels";
/// Of a copy: the version of the source, and the keys of its data.
pub(crate) const VERSION: &str = "replicator.v1.mittwald.de/replicated-from-version";
pub(crate) const KEYS: &str = "replicator.v1.mittwald.de/replicated-keys";
/// Of a copy that was pushed: the source. The original has no such annotation.
pub(crate) const PUSHED_FROM: &str = "replicator.v1.mittwald.de/pushed-from";

/// None of these is mended by a retry.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{annotation}: {source}")]
    Pattern { annotation: &'static str, source: regex::Error },
    #[error("{TO_MATCHING}: {0}")]
    Selector(#[from] SelectorError),
    #[error("{FROM}: {0:?} is not the namespace and the name of another object")]
    Source(String),
    #[error("the source {from} does not allow copies in the namespace {namespace}")]
    NotAllowed { from: String, namespace: String },
    #[error(transparent)]
    Unreadable(#[from] WireError),
    #[error(transparent)]
    Store(#[from] kinformer::Error),
}

/// The namespaces into which an object is pushed.
pub(crate) struct Targets {
    names: Vec<Regex>,
    labels: Option<LabelSelector>,
}

impl Targets {
    /// Returns `None` for an object that is not pushed. One that is itself pulled is not.
    pub(crate) fn of(object: &PackedObject) -> Result<Option<Self>, Error> {
        let annotations = object.annotations()?;
        let (names, labels) = (annotations.get(TO), annotations.get(TO_MATCHING));
        if names.is_none() && labels.is_none() || annotations.contains_key(FROM) {
            return Ok(None);
        }
        let names = names.map_or(Ok(Vec::new()), |names| patterns(TO, names))?;
        Ok(Some(Self { names, labels: labels.map(|labels| labels.trim().parse()).transpose()? }))
    }

    pub(crate) fn has(&self, namespace: &PackedObject) -> bool {
        self.names.iter().any(|pattern| pattern.is_match(namespace.name()))
            || self.labels.as_ref().is_some_and(|labels| labels.matches_object(namespace))
    }
}

/// Returns the source that an object names.
pub(crate) fn source_of(object: &PackedObject) -> Result<Option<ObjectKey>, Error> {
    let annotations = object.annotations()?;
    let Some(from) = annotations.get(FROM) else { return Ok(None) };
    let key = from.parse::<ObjectKey>().ok();
    let key = key.filter(|key| key.namespace().is_some() && *key != object.key());
    key.map(Some).ok_or_else(|| Error::Source(from.to_string()))
}

pub(crate) fn check_allowed(source: &PackedObject, namespace: &str) -> Result<(), Error> {
    let annotations = source.annotations()?;
    let namespaces = annotations.get(ALLOWED_NAMESPACES).map_or("", |namespaces| &**namespaces);
    let is_allowed = annotations.get(ALLOWED).is_some_and(|allowed| allowed == "true");
    if is_allowed
        && patterns(ALLOWED_NAMESPACES, namespaces)?.iter().any(|pattern| pattern.is_match(namespace))
    {
        return Ok(());
    }
    Err(Error::NotAllowed { from: source.key().to_string(), namespace: namespace.to_owned() })
}

/// Parses patterns with commas between them, each of a name as a whole.
fn patterns(annotation: &'static str, text: &str) -> Result<Vec<Regex>, Error> {
    let pattern = |text: &str| Regex::new(&format!("^(?:{})$", text.trim()));
    text.split(',')
        .map(pattern)
        .collect::<Result<_, _>>()
        .map_err(|source| Error::Pattern { annotation, source })
}
