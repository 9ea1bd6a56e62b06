//! The resources of kinds, by discovery.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer::discovery_client;
use kube_client::Client;
use kube_client::discovery::pinned_group;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::gvk::{GroupVersion, GroupVersionKind, GroupVersionResource};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::Error;

/// The time after which an unknown kind, or one whose scope may have changed, is requested again.
const REFRESH: Duration = Duration::from_secs(10);
/// The time after which a failed request is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// How long a call waits for a response, also for one to another call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Finds the resources of kinds by discovery: on first use, once for each group and version. Cheap to clone; clones share
/// what they have found.
///
/// A kind that the server did not serve is requested again after 10 s at the earliest, so a definition that is installed
/// later is found without a restart, and a kind that does not exist causes no more requests than that. A busy server is
/// requested again ([`discovery_client`](kinformer::discovery_client)). Another failed request, as for a group that is not
/// available, is repeated after a second at the earliest. A call that has no response after 30 s fails.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
/// # let client = kinformer::client(server.config()?)?;
/// use kinformer::kube_core::discovery::Scope;
/// use kinformer::kube_core::gvk::GroupVersionKind;
/// use kinformer_cache::{Error, RestMapper};
///
/// let mapper = RestMapper::new(client);
/// let (resource, scope) = mapper.resource(&GroupVersionKind::gvk("apps", "v1", "Deployment")).await?;
/// assert!(resource.plural == "deployments" && scope == Scope::Namespaced);
/// let unknown = mapper.resource(&GroupVersionKind::gvk("example.com", "v1", "Widget")).await;
/// assert!(matches!(unknown, Err(Error::UnknownKind { .. })), "its definition is not installed");
/// # Ok(())
/// # }
/// ```
///
/// Follows controller-runtime 0.25 (`apiutil.NewDynamicRESTMapper`), which requests an unknown kind with each call.
#[doc(alias = "NewDynamicRESTMapper")]
#[derive(Clone)]
pub struct RestMapper {
    client: Client,
    groups: Arc<Mutex<HashMap<GroupVersion, Arc<Group>>>>,
    /// Called with the resources of each group and version that the server lists, and with those that may be served after
    /// a [reset](Self::reset).
    served: Option<Arc<Served>>,
}

type Served = dyn Fn(&dyn Fn(&GroupVersionResource) -> bool) + Send + Sync;

/// Which known resources answer a call without a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Any,
    /// Those of the last 10 s.
    Recent,
}

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
    /// When they were last requested, whatever came of it.
    asked_at: Option<Instant>,
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
        let is_wanted = |resource: &ApiResource| resource.kind == kind.kind;
        let found = self.find(&group_version, &kind.kind, Known::Any, is_wanted).await?;
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
        self.scope_after(of, Known::Any).await
    }

    /// As [`Self::scope`], from a response that is not older than 10 s: the definition may have returned with another scope.
    pub(crate) async fn scope_now(&self, of: &GroupVersionResource) -> Result<Option<Scope>, Error> {
        self.scope_after(of, Known::Recent).await
    }

    async fn scope_after(&self, of: &GroupVersionResource, known: Known) -> Result<Option<Scope>, Error> {
        let group_version = GroupVersion { group: of.group.clone(), version: of.version.clone() };
        let is_wanted = |resource: &ApiResource| resource.plural == of.resource;
        let found = self.find(&group_version, &of.resource, known, is_wanted).await?;
        Ok(found.map(|(_, scope)| scope))
    }

    /// Returns the scope of a resource that was found before, without a request or a wait.
    pub(crate) fn known_scope(&self, of: &GroupVersionResource) -> Option<Scope> {
        let group_version = GroupVersion { group: of.group.clone(), version: of.version.clone() };
        let group = self.groups.lock().get(&group_version)?.clone();
        let found = group.found.try_lock().ok()?;
        found.resources.iter().find(|(one, _)| one.plural == of.resource).map(|(_, scope)| scope.clone())
    }

    /// Finds a resource; `None` if the server does not serve it. `name` is its name in errors.
    async fn find(
        &self,
        group_version: &GroupVersion,
        name: &str,
        known: Known,
        is_wanted: impl Fn(&ApiResource) -> bool,
    ) -> Result<Option<(ApiResource, Scope)>, Error> {
        let found = tokio::time::timeout(TIMEOUT, self.found(group_version, known, is_wanted)).await;
        let no_response =
            |_| Err(Arc::new(kube_client::Error::Service(format!("no response within {TIMEOUT:?}").into())));
        found.unwrap_or_else(no_response).map_err(|source| {
            let what = format!("{name} of {}", group_version.api_version()).into();
            kinformer::Error::Discovery { what, source }.into()
        })
    }

    async fn found(
        &self,
        group_version: &GroupVersion,
        known: Known,
        is_wanted: impl Fn(&ApiResource) -> bool,
    ) -> Result<Option<(ApiResource, Scope)>, Arc<kube_client::Error>> {
        let group = self.group(group_version);
        let mut found = group.found.lock().await;
        let wanted = |found: &Found| found.resources.iter().find(|(one, _)| is_wanted(one)).cloned();
        let before = wanted(&found);
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < REFRESH);
        if is_recent(found.at) || before.is_some() && (known == Known::Any || is_recent(found.asked_at)) {
            return Ok(before);
        }
        if let Some((source, _)) = found.failed.as_ref().filter(|(_, at)| at.elapsed() < RETRY) {
            return Err(source.clone());
        }
        found.asked_at = Some(Instant::now());
        match pinned_group(&discovery_client(&self.client), group_version).await {
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
                return Err(source);
            }
        }
        found.failed = None;
        Ok(wanted(&found))
    }

    /// Returns the entry of a group and version. Entries without resources are not kept for longer than they are used.
    fn group(&self, of: &GroupVersion) -> Arc<Group> {
        let mut groups = self.groups.lock();
        if !groups.contains_key(of) {
            groups.retain(|_, group| Arc::strong_count(group) > 1 || group.is_of_use());
        }
        groups.entry(of.clone()).or_default().clone()
    }
}

impl Group {
    fn is_of_use(&self) -> bool {
        let Ok(found) = self.found.try_lock() else { return true };
        let is_recent = |at: Instant, time| at.elapsed() < time;
        !found.resources.is_empty()
            || found.at.is_some_and(|at| is_recent(at, REFRESH))
            || found.failed.as_ref().is_some_and(|(_, at)| is_recent(*at, RETRY))
    }
}

impl fmt::Debug for RestMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestMapper").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube_client::client::Body;

    use super::*;

    const NOT_FOUND: &str = r#"{"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}"#;

    fn widget(group: u32) -> GroupVersionKind {
        GroupVersionKind::gvk(&format!("g{group}.example.com"), "v1", "Widget")
    }

    /// The kinds may be input of users.
    // contract: C-09e
    #[tokio::test(start_paused = true)]
    async fn unknown_groups_are_not_kept() {
        let not_found = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, tower::BoxError>(
                Response::builder().status(404).body(Body::from(NOT_FOUND.as_bytes().to_vec()))?,
            )
        });
        let mapper = RestMapper::new(Client::new(not_found, "default"));
        for group in 0..20 {
            let error = mapper.resource(&widget(group)).await.unwrap_err();
            assert!(matches!(error, Error::UnknownKind { .. }), "{error}");
            tokio::time::advance(REFRESH / 4).await;
        }
        assert!(mapper.groups.lock().len() <= 5);
    }

    // contract: C-09e
    #[tokio::test(start_paused = true)]
    async fn calls_without_a_response_end() {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, tower::BoxError>>()
        });
        let mapper = RestMapper::new(Client::new(silent, "default"));
        let (one, other) = (widget(1), widget(1));
        let (first, second) = tokio::join!(mapper.resource(&one), mapper.resource(&other));
        for error in [first.unwrap_err(), second.unwrap_err()] {
            assert!(error.to_string().contains("no response within 30s"), "{error}");
        }
    }
}
