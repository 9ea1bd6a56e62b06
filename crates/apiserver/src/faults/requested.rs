//! What a request is for.

use super::verb::Verb;

/// What a request is for, and who sent it. What it does not name is empty.
#[derive(Clone, Debug)]
pub(crate) struct Requested {
    pub(crate) verb: Verb,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) field_manager: String,
    pub(crate) user_agent: String,
}
