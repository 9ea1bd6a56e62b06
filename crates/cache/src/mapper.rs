//! The resources of kinds, by discovery.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_client::discovery::pinned_group;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::gvk::{GroupVersion, GroupVersionKind, GroupVersionResource};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::Error;

/// The time after which an unknown kind is requested again.
const REFRESH: Duration = Duration::from_secs(10);
/// The time after which a failed request is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// Finds the resources of kinds by discovery: on first use, once for each group and version. Cheap to clone; clones share
/// what they have found.
///
/// A kind that the server did not serve is requested again after 10 s at the earliest, so a definition that is installed
/// later is found without a restart, and a kind that does not exist causes no more requests than that. A failed request, as
/// for a group that is not available (503), is repeated after a second at the earliest.
///
/// Follows controller-runtime 0.25 (`apiutil.NewDynamicRESTMapper`), which requests an unknown kind with each call.
#[derive(Clone)]
pub struct RestMapper {
    client: Client,
    groups: Arc<Mutex<HashMap<GroupVersion, Arc<Group>>>>,
    /// Called with the resources of each group and version that the server lists, and with those that may be served after
    /// a [reset](Self::reset).
    served: Option<Arc<Served>>,
}

type Served = dyn Fn(&dyn Fn(&GroupVersionResource) -> bool) + Send + Sync;

/// The resources of a group and version. Requests of one group are one after the other.
#[derive(Default)]
struct Group {
    found: tokio::sync::Mutex<Found>,
}

#[derive(Default)]
struct Found {
    resources: Vec<(ApiResource, Scope)>,
    /// When the resources were requested, successfully or not found.
    at: Option<Instant>,
    /// The error and the time of a failed request after that.
    failed: Option<(Arc<kube_client::Error>, Instant)>,
}

impl RestMapper {
    /// Creates a mapper that knows no kinds yet.
    pub fn new(client: Client) -> Self {
        Self { client, groups: Arc::default(), served: None }
    }

    /// Calls a function when the server may serve resources that it did not serve before. It must not block.
    pub(crate) fn on_served(
        mut self,
        served: impl Fn(&dyn Fn(&GroupVersionResource) -> bool) + Send + Sync + 'static,
    ) -> Self {
        self.served = Some(Arc::new(served));
        self
    }

    fn notify(&self, is_served: impl Fn(&GroupVersionResource) -> bool) {
        if let Some(served) = &self.served {
            served(&is_served);
        }
    }

    /// Returns the resource of a kind, and whether its objects are in namespaces.
    ///
    /// # Cancel safety
    /// Dropping the future ends the request, if there is one. Others that wait for it request again.
    ///
    /// # Errors
    /// [`Error::UnknownKind`] if the server does not serve the kind; [`kinformer::Error::Discovery`] if the request fails.
    pub async fn resource(&self, kind: &GroupVersionKind) -> Result<(ApiResource, Scope), Error> {
        let group_version = GroupVersion { group: kind.group.clone(), version: kind.version.clone() };
        let found = self.find(&group_version, &kind.kind, |resource| resource.kind == kind.kind).await?;
        found.ok_or_else(|| Error::UnknownKind {
            kind: kind.kind.as_str().into(),
            api_version: kind.api_version().into(),
        })
    }

    /// Forgets what was found, also by clones. The next calls send requests: for kinds whose definition was deleted and
    /// created again with another resource or scope. The informers of a [cache](crate::Cache::mapper) whose resources are not
    /// served request them now.
    ///
    /// Follows client-go 0.37 (`DeferredDiscoveryRESTMapper.Reset`).
    pub fn reset(&self) {
        self.groups.lock().clear();
        self.notify(|_| true);
    }

    /// Returns the scope of a resource; `None` if the server does not serve it.
    pub(crate) async fn scope(&self, of: &GroupVersionResource) -> Result<Option<Scope>, Error> {
        let group_version = GroupVersion { group: of.group.clone(), version: of.version.clone() };
        let found =
            self.find(&group_version, &of.resource, |resource| resource.plural == of.resource).await?;
        Ok(found.map(|(_, scope)| scope))
    }

    /// Finds a resource; `None` if the server does not serve it. `name` is its name in errors.
    async fn find(
        &self,
        group_version: &GroupVersion,
        name: &str,
        is_wanted: impl Fn(&ApiResource) -> bool,
    ) -> Result<Option<(ApiResource, Scope)>, Error> {
        let group = self.groups.lock().entry(group_version.clone()).or_default().clone();
        let mut found = group.found.lock().await;
        let wanted = |found: &Found| found.resources.iter().find(|(one, _)| is_wanted(one)).cloned();
        if let Some(known) = wanted(&found) {
            return Ok(Some(known));
        }
        if found.at.is_some_and(|at| at.elapsed() < REFRESH) {
            return Ok(None);
        }
        let failure = |source: &Arc<kube_client::Error>| {
            let what = format!("{name} of {}", group_version.api_version()).into();
            kinformer::Error::Discovery { what, source: source.clone() }.into()
        };
        if let Some((source, _)) = found.failed.as_ref().filter(|(_, at)| at.elapsed() < RETRY) {
            return Err(failure(source));
        }
        match pinned_group(&self.client, group_version).await {
            Ok(group) => {
                let resources = group.versioned_resources(&group_version.version).into_iter();
                found.resources =
                    resources.map(|(resource, capabilities)| (resource, capabilities.scope)).collect();
                found.at = Some(Instant::now());
                self.notify(|resource| {
                    (&resource.group, &resource.version) == (&group_version.group, &group_version.version)
                        && found.resources.iter().any(|(one, _)| one.plural == resource.resource)
                });
            }
            Err(kube_client::Error::Api(status)) if status.code == 404 => found.at = Some(Instant::now()),
            Err(source) => {
                let source = Arc::new(source);
                found.failed = Some((source.clone(), Instant::now()));
                return Err(failure(&source));
            }
        }
        found.failed = None;
        Ok(wanted(&found))
    }
}

impl fmt::Debug for RestMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestMapper").finish_non_exhaustive()
    }
}
