//! What a request is for.

use super::verb::Verb;

/// What a request is for: the plural and the subresource are empty if it names none.
#[derive(Clone, Debug)]
pub(crate) struct Requested {
    pub(crate) verb: Verb,
    pub(crate) resource: String,
    pub(crate) subresource: String,
}
