//! The target of a request to a factory, and the informer that serves it.

use std::sync::Arc;

use kube_core::discovery::{ApiResource, Scope};

use crate::entry::{Entry, Key};
use crate::kube_informer::KubeInformer;
use crate::projection::Projection;

/// The informer to which a view is bound by its first use.
#[derive(Clone)]
pub(crate) struct Bound {
    pub(crate) entry: Arc<Entry>,
    pub(crate) informer: Arc<KubeInformer>,
}

/// The objects that a view reads.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) resource: ApiResource,
    pub(crate) scope: Scope,
    pub(crate) projection: Projection,
}

impl Target {
    pub(crate) fn key(&self) -> Key {
        Key::of_resource(&self.resource)
    }
}
