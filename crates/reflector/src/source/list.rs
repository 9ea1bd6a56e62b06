//! A list, or a page of one.

use std::sync::Arc;

use kinformer_core::ResourceVersion;

use crate::DecodeError;

/// The answer to a list: all objects, or one page.
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_core::Keyed;
/// use kinformer_reflector::List;
///
/// # fn main() -> Result<(), kinformer_core::KeyError> {
/// let page = List::new([Arc::new(Keyed::by(|_| "web", 80)?)], "7").continue_token("web").remaining(12);
/// assert_eq!(page.objects.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct List<T> {
    /// The objects, each in its own allocation, so that none keeps the others alive.
    pub objects: Vec<Arc<T>>,
    /// The version of the listed state, the same on all pages; unset for a source without versions.
    pub resource_version: ResourceVersion,
    /// The token that requests the next page, if there is one.
    pub continue_token: Option<String>,
    /// The number of objects after this page, if the source knows it.
    pub remaining: Option<u64>,
    /// The objects that exist but could not be decoded. An object without a key makes the list incomplete: the list
    /// deletes nothing, and the reflector relists.
    pub undecodable: Vec<DecodeError>,
}

impl<T> List<T> {
    /// Creates a list of all objects at a version.
    pub fn new(
        objects: impl IntoIterator<Item = Arc<T>>,
        resource_version: impl Into<ResourceVersion>,
    ) -> Self {
        Self {
            objects: objects.into_iter().collect(),
            resource_version: resource_version.into(),
            continue_token: None,
            remaining: None,
            undecodable: Vec::new(),
        }
    }

    /// Sets the token that requests the next page.
    #[must_use]
    pub fn continue_token(mut self, token: impl Into<String>) -> Self {
        self.continue_token = Some(token.into());
        self
    }

    /// Sets the number of objects after this page.
    #[must_use]
    pub fn remaining(mut self, objects: u64) -> Self {
        self.remaining = Some(objects);
        self
    }

    /// Adds objects that could not be decoded.
    #[must_use]
    pub fn undecodable(mut self, errors: impl IntoIterator<Item = DecodeError>) -> Self {
        self.undecodable.extend(errors);
        self
    }
}
