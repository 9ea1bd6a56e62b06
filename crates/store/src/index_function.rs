//! Index functions and their values.

use std::fmt::{self, Write};
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{BoxError, Object};

use crate::{Error, NAMESPACE_INDEX};

/// An index function with the name of its index.
pub(crate) type Named<T> = (Arc<str>, IndexFunction<T>);

type Function<T> = dyn Fn(&Arc<T>, &mut IndexValues) -> Result<(), BoxError> + Send + Sync;

/// A function that returns the values of an object in one index: none, one or several.
///
/// Called once for every write of an object, before any lock is taken; it must be deterministic. If it fails or panics,
/// the object is stored anyway but is missing from this index, and the returned error names the object and the index.
///
/// Follows client-go 0.37 (`IndexFunc`), where a failing function panics.
#[doc(alias("IndexerFunc", "IndexFunc", "TypedIndexerFuncToIndexerFunc", "TypedIndexFunc"))]
pub struct IndexFunction<T>(Arc<Function<T>>);

impl<T: Object> IndexFunction<T> {
    /// Creates an infallible index function.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let parity = IndexFunction::new(|pod: &std::sync::Arc<Keyed<u32>>, values| {
    ///     values.push(if ***pod % 2 == 0 { "even" } else { "odd" });
    /// });
    /// let pods = Indexer::builder().index("parity", parity).build()?;
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("other/web-0", 2))?;
    /// assert_eq!(pods.by_index("parity", "odd")?, [pod("default/web-0", 1).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(function: impl Fn(&Arc<T>, &mut IndexValues) + Send + Sync + 'static) -> Self {
        Self::fallible(move |object: &Arc<T>, values| {
            function(object, values);
            Ok(())
        })
    }

    /// Creates a fallible index function.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// let number = IndexFunction::fallible(|text: &std::sync::Arc<Keyed<&str>>, values| {
    ///     let number: u32 = text.parse()?;
    ///     values.push_fmt(format_args!("{number}"));
    ///     Ok(())
    /// });
    /// let texts = Indexer::builder().index("number", number).build()?;
    /// assert!(!texts.add(Keyed::new("a".parse()?, "seven"))?.is_empty(), "the error of the function");
    /// assert!(texts.add(Keyed::new("b".parse()?, "007"))?.is_empty());
    /// assert_eq!((texts.len(), texts.by_index("number", "7")?.len()), (2, 1), "both are stored");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fallible(
        function: impl Fn(&Arc<T>, &mut IndexValues) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(function))
    }

    /// Creates an index by namespace; cluster-scoped objects have the value `""`.
    ///
    /// Follows client-go 0.37 (`MetaNamespaceIndexFunc`).
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::builder().index("namespace", IndexFunction::by_namespace()).build()?;
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("other/web-0", 2))?;
    /// assert_eq!(pods.by_index("namespace", "default")?, [pod("default/web-0", 1).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "MetaNamespaceIndexFunc")]
    #[must_use]
    pub fn by_namespace() -> Self {
        Self::new(|object, values| values.push(object.key().namespace().unwrap_or_default()))
    }

    /// Creates an index by the value of one label; objects without the label have no value.
    ///
    /// ```
    /// use kinformer_core::{KeyRef, Labels, Object};
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// struct Pod(&'static str, [(String, String); 1]);
    ///
    /// impl Object for Pod {
    ///     fn key(&self) -> KeyRef<'_> {
    ///         KeyRef::new("default", self.0)
    ///     }
    ///
    ///     fn labels(&self) -> Labels<'_> {
    ///         Labels::from(&self.1[..])
    ///     }
    /// }
    ///
    /// let pods = Indexer::builder().index("app", IndexFunction::by_label("app")).build()?;
    /// pods.add(Pod("web-0", [("app".to_owned(), "web".to_owned())]))?;
    /// pods.add(Pod("job-0", [("job".to_owned(), "backup".to_owned())]))?;
    /// assert_eq!(pods.by_index("app", "web")?.len(), 1);
    /// assert_eq!(pods.index_values("app")?.len(), 1, "the job has no such label");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_label(label: impl Into<String>) -> Self {
        let label = label.into();
        Self::new(move |object, values| object.label(&label).into_iter().for_each(|value| values.push(value)))
    }

    /// Creates an index by any label: an object has the value `key=value` for each of its labels.
    #[must_use]
    pub fn by_any_label() -> Self {
        Self::new(|object, values| {
            for (key, value) in object.labels() {
                values.push_fmt(format_args!("{key}={value}"));
            }
        })
    }

    /// Calls the function and contains its panics. If it fails, `values` still contains what it pushed.
    pub(crate) fn call(&self, object: &Arc<T>, values: &mut IndexValues) -> Result<(), BoxError> {
        contain(|| (self.0)(object, values)).unwrap_or_else(Err)?;
        if values.too_long { Err("its values are longer than 4 GiB".into()) } else { Ok(()) }
    }
}

impl<T> Clone for IndexFunction<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for IndexFunction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexFunction")
    }
}

/// Collects the values of an [`IndexFunction`]. Duplicates are ignored.
#[derive(Clone, Default)]
pub struct IndexValues {
    pub(crate) text: String,
    pub(crate) ranges: Vec<(u32, u32)>,
    pub(crate) too_long: bool,
}

impl IndexValues {
    /// Adds a value, copying it into a buffer that is reused for the next object.
    pub fn push(&mut self, value: &str) {
        let start = self.text.len();
        self.text.push_str(value);
        self.finish(start);
    }

    /// Adds a formatted value, without allocating an intermediate string.
    ///
    /// ```
    /// # let mut values = kinformer_store::IndexValues::default();
    /// values.push_fmt(format_args!("{}/{}", "node", 7));
    /// assert_eq!(values.iter().collect::<Vec<_>>(), ["node/7"]);
    /// ```
    pub fn push_fmt(&mut self, value: fmt::Arguments<'_>) {
        let start = self.text.len();
        // Writing to a `String` cannot fail; an `Err` can only come from a `Display` implementation that gave up, and
        // the text written until then is its value.
        _ = self.text.write_fmt(value);
        self.finish(start);
    }

    /// Returns the values added so far. For tests of index functions.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.ranges.iter().map(|range| self.text(*range))
    }

    pub(crate) fn text(&self, (from, to): (u32, u32)) -> &str {
        self.text.get(from as usize..to as usize).unwrap_or_default()
    }

    fn finish(&mut self, start: usize) {
        match (u32::try_from(start), u32::try_from(self.text.len())) {
            (Ok(start), Ok(end)) => self.ranges.push((start, end)),
            _ => {
                self.text.truncate(start);
                self.too_long = true;
            }
        }
    }
}

impl fmt::Debug for IndexValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Index functions by index name.
///
/// ```
/// # use kinformer_core::{KeyRef, Object};
/// # use std::sync::Arc;
/// use kinformer_store::{IndexFunction, Indexers};
/// # struct Pod { node: Option<String> }
/// # impl Object for Pod { fn key(&self) -> KeyRef<'_> { KeyRef::named("x") } }
///
/// let indexers = Indexers::namespaced().index(
///     "node",
///     IndexFunction::new(|pod: &Arc<Pod>, values| pod.node.iter().for_each(|node| values.push(node))),
/// );
/// # assert_eq!(indexers.names().collect::<Vec<_>>(), ["namespace", "node"]);
/// ```
#[doc(alias("TypedIndexers", "TypedIndexersToIndexers"))]
pub struct Indexers<T>(Vec<Named<T>>);

impl<T: Object> Indexers<T> {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Creates a set with an index by namespace, named [`NAMESPACE_INDEX`].
    #[must_use]
    pub fn namespaced() -> Self {
        Self::new().index(NAMESPACE_INDEX, IndexFunction::by_namespace())
    }

    /// Adds an index. Duplicate names are rejected where the indexers are used.
    #[must_use]
    pub fn index(mut self, name: impl Into<Arc<str>>, function: IndexFunction<T>) -> Self {
        self.0.push((name.into(), function));
        self
    }

    /// Returns the names, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    pub(crate) fn as_slice(&self) -> &[(Arc<str>, IndexFunction<T>)] {
        &self.0
    }
}

impl<T> IntoIterator for Indexers<T> {
    type Item = (Arc<str>, IndexFunction<T>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T, N: Into<Arc<str>>> FromIterator<(N, IndexFunction<T>)> for Indexers<T> {
    fn from_iter<I: IntoIterator<Item = (N, IndexFunction<T>)>>(indexers: I) -> Self {
        Self(indexers.into_iter().map(|(name, function)| (name.into(), function)).collect())
    }
}

/// Appends new index functions to the present ones.
///
/// # Errors
/// [`Error::IndexerConflict`]: a name is repeated.
pub(crate) fn join<T>(present: &[Named<T>], more: Indexers<T>) -> Result<Vec<Named<T>>, Error> {
    let mut all = present.to_vec();
    for (name, function) in more {
        if all.iter().any(|(other, _)| *other == name) {
            return Err(Error::IndexerConflict { name });
        }
        all.push((name, function));
    }
    Ok(all)
}

impl<T: Object> Default for Indexers<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Indexers<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Indexers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
