//! The query of a list, and how it is answered.

use std::collections::HashSet;
use std::sync::Arc;

use kinformer::{
    FieldPath, FieldSelector, FieldSelectorError, Informer, LabelSelector, NAMESPACE_INDEX, Packed,
    PackedObject, PackedRef, Snapshot,
};

use crate::error::Error;

/// Which objects a list returns; by default all that are cached.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
/// # for name in ["a", "b", "c"] {
/// #     server.create(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
/// #         "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}}))?;
/// # }
/// # let cache = kinformer_cache::Cache::builder(kinformer::client(server.config()?)?).build().await?;
/// # cache.start()?;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_cache::Query;
///
/// let query = Query::new().namespace("default").labels("app=web".parse()?).limit(2);
/// let maps = cache.list::<ConfigMap>(&query).await?;
/// assert!(maps.iter().map(|map| map.name()).eq(["a", "b"]));
/// # Ok(())
/// # }
/// ```
#[doc(alias("ListOption", "ListOptions"))]
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is listed yet"]
pub struct Query {
    namespace: Option<Arc<str>>,
    labels: LabelSelector,
    fields: Vec<(Arc<str>, Arc<str>)>,
    limit: Option<usize>,
}

impl Query {
    /// Selects all objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the objects of one namespace. An empty one means all. Has no effect on kinds that are not in namespaces.
    #[doc(alias = "InNamespace")]
    pub fn namespace(mut self, namespace: impl Into<Arc<str>>) -> Self {
        self.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Selects the objects that this label selector matches.
    #[doc(alias("LabelSelector", "MatchingLabels", "MatchingLabelsSelector"))]
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = selector;
        self
    }

    /// Selects the objects with this value of an indexed field; see [`Kind::index_by_field`](crate::Kind::index_by_field). Any index
    /// of the informer is one of a field by its name. Several fields must all have their values.
    #[doc(alias = "MatchingFields")]
    pub fn field(mut self, field: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        self.fields.push((field.into(), value.into()));
        self
    }

    pub(crate) fn selected_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The labels as a parameter of a request.
    pub(crate) fn label_selector(&self) -> Option<String> {
        (!self.labels.is_everything()).then(|| self.labels.to_string())
    }

    /// The fields as a parameter of a request.
    pub(crate) fn requested_fields(&self) -> Option<String> {
        let escaped = |value: &str| value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
        let fields = self.fields.iter().map(|(field, value)| format!("{field}={}", escaped(value)));
        (!self.fields.is_empty()).then(|| fields.collect::<Vec<_>>().join(","))
    }

    pub(crate) fn limited_to(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// Whether the list has objects of this namespace.
    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }

    /// Whether an object has the labels, and the values of those fields whose index is by path.
    pub(crate) fn matches(&self, object: &PackedObject, path_of: impl Fn(&str) -> Option<FieldPath>) -> bool {
        let has_labels = self.labels.is_everything() || self.labels.matches_object(object);
        let mut fields = self.fields.iter();
        has_labels
            && fields.all(|(field, value)| {
                path_of(field).is_none_or(|path| FieldSelector::exact_at(path, &**value).matches(object))
            })
    }

    /// Selects the objects that an exact field selector matches, as [`Self::field`] for each requirement:
    /// `spec.nodeName=node-1,status.phase==Running`.
    ///
    /// ```
    /// use kinformer_cache::Query;
    ///
    /// let query = Query::new().field_selector("spec.nodeName=node-1,status.phase=Running")?;
    /// assert!(query.field_selector("metadata.name!=web-0").is_err());
    /// # Ok::<(), kinformer_cache::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::FieldSelector`] if the selector is invalid, or not exact: `!=` cannot be answered by an index.
    #[doc(alias = "MatchingFieldsSelector")]
    pub fn field_selector(mut self, selector: &str) -> Result<Self, Error> {
        let error =
            |problem: String| Error::FieldSelector { selector: selector.into(), problem: problem.into() };
        let parsed: FieldSelector =
            selector.parse().map_err(|FieldSelectorError { requirement, .. }| {
                error(format!("{requirement:?} is not field=value"))
            })?;
        for (field, is_equal, value) in parsed.requirements() {
            if !is_equal {
                return Err(error(format!(
                    "{field}!={value} is not exact; filter the objects of the list instead"
                )));
            }
            self = self.field(field, value);
        }
        Ok(self)
    }

    /// Returns at most this many objects: the first ones by key.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// Lists the objects of one state of an informer, ordered by key. Not generic, so that it is compiled in this crate.
pub(crate) fn list(
    informer: &Informer<()>,
    snapshot: &Snapshot<()>,
    query: &Query,
) -> Result<Vec<Packed<()>>, Error> {
    let Query { namespace, labels, fields, limit } = query;
    let namespace = namespace.as_deref().filter(|_| informer.selection().is_namespaced());
    if let Some(namespace) = namespace
        && !informer.selection().has_namespace(namespace)
    {
        return Err(Error::UnknownNamespace {
            resource: informer.selection().resource().into(),
            namespace: namespace.into(),
        });
    }
    let names: HashSet<Arc<str>> = snapshot.index_names().into_iter().collect();
    let mut conditions: Vec<(Arc<str>, &str)> = Vec::new();
    for (field, value) in fields {
        if !names.contains(field) {
            return Err(Error::NoFieldIndex {
                resource: informer.selection().resource().into(),
                field: field.clone(),
            });
        }
        conditions.push((field.clone(), value));
    }
    conditions.extend(namespace.map(|namespace| (NAMESPACE_INDEX.into(), namespace)));
    // The most selective index first; the others are looked up by key.
    let mut sizes = Vec::new();
    for (index, value) in conditions {
        sizes.push((snapshot.index_len(&index, value)?, index, value));
    }
    sizes.sort_by_key(|(size, ..)| *size);
    let mut sizes = sizes.into_iter();
    let mut found: Vec<PackedRef<'_, ()>> = match sizes.next() {
        Some((_, index, value)) => snapshot.by_index(&index, value)?,
        None => snapshot.iter().collect(),
    };
    for (_, index, value) in sizes {
        let others = snapshot.by_index(&index, value)?;
        let keys: HashSet<_> = others.iter().map(|object| object.object().key()).collect();
        found.retain(|object| keys.contains(&object.object().key()));
    }
    if !labels.is_everything() {
        found.retain(|object| labels.matches_object(&**object.object()));
    }
    found.sort_unstable_by(|one, other| one.object().key().cmp(&other.object().key()));
    Ok(found.into_iter().take(limit.unwrap_or(usize::MAX)).map(PackedRef::into_owned).collect())
}
