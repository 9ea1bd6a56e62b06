//! The version of a resource in which a request is reviewed.

use std::sync::Arc;

use crate::registry::Resource;

use super::attributes::Gvk;

/// A review of a request, with the resource that a rule matches.
#[derive(Clone)]
pub(super) struct Invocation {
    pub(super) resource: Arc<Resource>,
    pub(super) kind: Gvk,
}
