//! Index functions: under which values an object is found.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use kinformer_core::{BoxError, Error, Object, ObjectKey, contain};
use smallvec::SmallVec;

/// The conventional name of the index by namespace, as in client-go.
pub const NAMESPACE_INDEX: &str = "namespace";

/// The values that index functions give: none, one or several for each object and index.
///
/// A few short values take no heap. The same value twice for one object counts once.
#[derive(Clone, Debug, Default)]
pub struct IndexValues {
    text: SmallVec<[u8; 96]>,
    /// Where each value ends in `text`.
    ends: SmallVec<[usize; 8]>,
    /// Where each complete set of values ends in `ends`.
    sets: SmallVec<[usize; 4]>,
}

impl IndexValues {
    pub(crate) const EMPTY: Self =
        Self { text: SmallVec::new_const(), ends: SmallVec::new_const(), sets: SmallVec::new_const() };

    /// The object is to be found under this value.
    pub fn push(&mut self, value: &str) {
        let open = ValueSet { values: self, ends: self.sets.last().copied().unwrap_or(0)..self.ends.len() };
        if !open.iter().any(|present| present == value.as_bytes()) {
            self.text.extend_from_slice(value.as_bytes());
            self.ends.push(self.text.len());
        }
    }

    /// One set of values is complete; the next one begins.
    pub(crate) fn close_set(&mut self) {
        self.sets.push(self.ends.len());
    }

    /// Takes back the values of the set that is not complete.
    fn reopen_set(&mut self) {
        self.ends.truncate(self.sets.last().copied().unwrap_or(0));
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// The values of one set, by its number.
    pub(crate) fn set(&self, number: usize) -> ValueSet<'_> {
        let end = |number: usize| self.sets.get(number).copied();
        let start = number.checked_sub(1).and_then(end).unwrap_or(0);
        ValueSet { values: self, ends: start..end(number).unwrap_or(start) }
    }
}

/// The values of one object in one index, as UTF-8.
#[derive(Clone)]
pub(crate) struct ValueSet<'a> {
    values: &'a IndexValues,
    ends: Range<usize>,
}

impl<'a> ValueSet<'a> {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let values = self.values;
        let end = |at: usize| values.ends.get(at).copied();
        let mut start = self.ends.start.checked_sub(1).and_then(end).unwrap_or(0);
        values.ends.get(self.ends.clone()).unwrap_or_default().iter().map(move |end| {
            let range = start..*end;
            start = *end;
            values.text.get(range).unwrap_or_default()
        })
    }
}

type Function<T> = dyn Fn(&T, &mut IndexValues) -> Result<(), BoxError> + Send + Sync;

/// Says under which values of an index an object is found.
///
/// It is called once for each state of an object, without a lock held, and must give the same values for the
/// same state. If it fails or panics, the object is stored and missing from this one index, and the write's
/// report says so. Follows client-go 1.37 (`IndexFunc`), which panics then.
///
/// ```
/// use kinformer_core::Keyed;
/// use kinformer_store::{IndexFunction, Indexer};
///
/// let by_parity = IndexFunction::new(|n: &Keyed<u32>, values| values.push(if **n % 2 == 0 { "even" } else { "odd" }));
/// let numbers = Indexer::builder().index("parity", by_parity).build()?;
/// for n in 0..5 {
///     numbers.add(Keyed::by(u32::to_string, n).unwrap())?;
/// }
/// assert_eq!(numbers.by_index("parity", "odd")?.len(), 2);
/// # Ok::<(), kinformer_store::Error>(())
/// ```
pub struct IndexFunction<T>(Arc<Function<T>>);

impl<T: Object> IndexFunction<T> {
    /// An index function that cannot fail.
    pub fn new(function: impl Fn(&T, &mut IndexValues) + Send + Sync + 'static) -> Self {
        Self::fallible(move |object, values| {
            function(object, values);
            Ok(())
        })
    }

    /// An index function that can fail.
    pub fn fallible(
        function: impl Fn(&T, &mut IndexValues) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(function))
    }

    /// By namespace. Cluster-scoped objects are found under the empty value.
    pub fn by_namespace() -> Self {
        Self::new(|object: &T, values| values.push(object.key().namespace()))
    }

    /// By the value of one label. Objects without the label are not in the index.
    pub fn by_label(label: impl Into<String>) -> Self {
        let label = label.into();
        Self::new(move |object: &T, values| {
            if let Some(value) = object.label(&label) {
                values.push(value);
            }
        })
    }

    /// By any label: an object is found under `key=value` for each of its labels.
    pub fn by_any_label() -> Self {
        Self::new(|object: &T, values| {
            for (key, value) in object.labels() {
                values.push(&format!("{key}={value}"));
            }
        })
    }

    /// Appends the object's values to `values` as one more set, which is empty if the function fails.
    pub(crate) fn collect(
        &self,
        index: &Arc<str>,
        object: &T,
        values: &mut IndexValues,
    ) -> Result<(), Error> {
        let result = contain(|| (self.0)(object, values)).unwrap_or_else(Err);
        if result.is_err() {
            values.reopen_set();
        }
        values.close_set();
        result.or_else(|source| {
            let key = ObjectKey::try_from(object.key())?;
            Err(Error::IndexFunction { key, index: index.clone(), source })
        })
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
