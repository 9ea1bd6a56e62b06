//! Sequences of deltas.

use std::fmt;
use std::ops::Deref;
use std::slice;

use smallvec::SmallVec;

use crate::Delta;

/// Deltas in order: a [`Sink`](crate::Sink) applies them in one operation, and a pop returns them.
///
/// A single delta needs no heap allocation.
///
/// ```
/// use kinformer_core::{Delta, Deltas, Keyed};
///
/// let pod = |name: &str| Ok::<_, kinformer_core::KeyError>(Keyed::new(name.parse()?, ()).into());
/// let mut deltas = Deltas::from(Delta::Added(pod("default/web-0")?));
/// deltas.extend([Delta::Updated(pod("default/web-1")?), Delta::SyncAll]);
/// assert_eq!(deltas.len(), 3);
/// assert!(deltas.iter().any(|delta| delta.object().is_none()));
/// # Ok::<(), kinformer_core::KeyError>(())
/// ```
pub struct Deltas<T>(SmallVec<[Delta<T>; 1]>);

impl<T> Deltas<T> {
    /// Creates an empty sequence.
    pub fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Creates an empty sequence with room for this many deltas.
    pub fn with_capacity(deltas: usize) -> Self {
        Self(SmallVec::with_capacity(deltas))
    }

    /// Appends a delta.
    ///
    /// ```
    /// use kinformer_core::{Delta, Deltas, Keyed};
    ///
    /// let mut deltas = Deltas::<Keyed<()>>::new();
    /// deltas.push(Delta::SyncAll);
    /// assert!(matches!(deltas[..], [Delta::SyncAll]));
    /// ```
    pub fn push(&mut self, delta: Delta<T>) {
        self.0.push(delta);
    }

    /// Removes and returns the last delta.
    ///
    /// ```
    /// use kinformer_core::{Delta, Deltas, Keyed};
    ///
    /// let mut deltas = Deltas::<Keyed<()>>::from(Delta::SyncAll);
    /// assert!(matches!(deltas.pop(), Some(Delta::SyncAll)));
    /// assert!(deltas.pop().is_none());
    /// ```
    pub fn pop(&mut self) -> Option<Delta<T>> {
        self.0.pop()
    }

    /// Moves all deltas of `other` to the end of this sequence, leaving `other` empty.
    ///
    /// ```
    /// use kinformer_core::{Delta, Deltas, Keyed};
    ///
    /// let mut deltas = Deltas::<Keyed<()>>::new();
    /// let mut later = Deltas::from(Delta::SyncAll);
    /// deltas.append(&mut later);
    /// assert_eq!((deltas.len(), later.len()), (1, 0));
    /// ```
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Returns the last delta.
    pub fn last_mut(&mut self) -> Option<&mut Delta<T>> {
        self.0.last_mut()
    }

    /// Reserves room for this many more deltas.
    pub fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }
}

impl<T> Deref for Deltas<T> {
    type Target = [Delta<T>];

    fn deref(&self) -> &[Delta<T>] {
        &self.0
    }
}

impl<T> Default for Deltas<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Deltas<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Deltas<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T> From<Delta<T>> for Deltas<T> {
    fn from(delta: Delta<T>) -> Self {
        let mut deltas = Self::new();
        deltas.push(delta);
        deltas
    }
}

impl<T> From<Vec<Delta<T>>> for Deltas<T> {
    fn from(deltas: Vec<Delta<T>>) -> Self {
        Self(deltas.into())
    }
}

impl<T, const N: usize> From<[Delta<T>; N]> for Deltas<T> {
    fn from(deltas: [Delta<T>; N]) -> Self {
        deltas.into_iter().collect()
    }
}

impl<T> FromIterator<Delta<T>> for Deltas<T> {
    fn from_iter<I: IntoIterator<Item = Delta<T>>>(deltas: I) -> Self {
        Self(deltas.into_iter().collect())
    }
}

impl<T> Extend<Delta<T>> for Deltas<T> {
    fn extend<I: IntoIterator<Item = Delta<T>>>(&mut self, deltas: I) {
        self.0.extend(deltas);
    }
}

impl<T> IntoIterator for Deltas<T> {
    type Item = Delta<T>;
    type IntoIter = IntoDeltas<T>;

    fn into_iter(self) -> IntoDeltas<T> {
        IntoDeltas(self.0.into_iter())
    }
}

impl<'a, T> IntoIterator for &'a Deltas<T> {
    type Item = &'a Delta<T>;
    type IntoIter = slice::Iter<'a, Delta<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// An iterator over owned [`Deltas`].
pub struct IntoDeltas<T>(smallvec::IntoIter<[Delta<T>; 1]>);

impl<T> Iterator for IntoDeltas<T> {
    type Item = Delta<T>;

    fn next(&mut self) -> Option<Delta<T>> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for IntoDeltas<T> {}
impl<T> std::iter::FusedIterator for IntoDeltas<T> {}
