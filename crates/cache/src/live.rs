//! Reads from the API server.

use std::sync::Arc;
use std::time::Duration;

use kinformer::generic::{FromWire as _, List, Pager};
use kinformer::{Encoding, KeyRef, KubeListerWatcher, ObjectDecoder, Packed, PackedObject, SourceError};
use kube_client::Client;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::gvk::GroupVersionResource;
use kube_core::params::GetParams;
use kube_core::{DynamicObject, Request, Resource as _};
use tokio::time::timeout;

use crate::error::Error;
use crate::list::Query;
use crate::mapper::RestMapper;
use crate::shared::resource_name;

/// How long a get that finds nothing waits for the scope of its resource.
const DISCOVERY: Duration = Duration::from_secs(2);

/// The objects of a resource on the server.
pub(crate) struct Live<'a> {
    pub(crate) client: &'a Client,
    pub(crate) mapper: &'a RestMapper,
    pub(crate) resource: &'a ApiResource,
    /// Whether the objects were in namespaces when the reader was made.
    pub(crate) was_namespaced: bool,
    pub(crate) metadata_only: bool,
}

impl Live<'_> {
    /// Returns an object. If it is not found, its resource may have returned with another scope.
    pub(crate) async fn get(&self, key: KeyRef<'_>) -> Result<Packed<()>, Error> {
        let is_namespaced = self.is_namespaced();
        let found = self.get_in(is_namespaced, key).await;
        if key.namespace().is_none() || !matches!(found, Err(Error::NotFound { .. })) {
            return found;
        }
        match self.is_namespaced_now().await {
            Some(now) if now != is_namespaced => self.get_in(now, key).await,
            _ => found,
        }
    }

    /// Whether the objects are in namespaces, by the last response of discovery.
    fn is_namespaced(&self) -> bool {
        let known = self.mapper.known_scope(&self.named());
        known.map_or(self.was_namespaced, |scope| scope == Scope::Namespaced)
    }

    /// Whether the objects are in namespaces, by a response of discovery of the last 10 s; `None` if the server does not say.
    async fn is_namespaced_now(&self) -> Option<bool> {
        // The group of a definition has a dot; the scopes of other resources never change.
        if !self.resource.group.contains('.') {
            return None;
        }
        let scope = timeout(DISCOVERY, self.mapper.scope_now(&self.named())).await.ok()?.ok()??;
        Some(scope == Scope::Namespaced)
    }

    fn named(&self) -> GroupVersionResource {
        let ApiResource { group, version, plural, .. } = self.resource;
        GroupVersionResource::gvr(group, version, plural)
    }

    async fn get_in(&self, is_namespaced: bool, key: KeyRef<'_>) -> Result<Packed<()>, Error> {
        let namespace = key.namespace().filter(|_| is_namespaced);
        let request = Request::new(DynamicObject::url_path(self.resource, namespace));
        let params = GetParams::default();
        let request = match self.metadata_only {
            true => request.get_metadata(key.name(), &params),
            false => request.get(key.name(), &params),
        };
        let request =
            request.map_err(kube_client::Error::BuildRequest).map_err(|error| self.failed(error))?;
        match self.client.request_text(request).await {
            Ok(text) => {
                let object = Packed::from_wire(text.as_bytes(), &self.decoder());
                object.map_err(|error| self.failed(kube_client::Error::Service(error.into())))
            }
            Err(kube_client::Error::Api(status)) if status.code == 404 => {
                Err(Error::NotFound { resource: self.name(), key: key.to_string() })
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Lists the objects of one version, ordered by key.
    pub(crate) async fn list(&self, query: &Query) -> Result<Vec<Packed<()>>, Error> {
        let is_namespaced = self.is_namespaced();
        let list = match self.list_in(is_namespaced, query).await {
            Err(SourceError::OtherScope { .. }) => {
                // So that the next read knows the scope.
                self.is_namespaced_now().await;
                self.list_in(!is_namespaced, query).await
            }
            list => list,
        };
        let list = list.map_err(|error| self.failed(kube_client::Error::Service(error.into())))?;
        if let Some(undecodable) = list.undecodable.into_iter().next() {
            return Err(self.failed(kube_client::Error::Service(undecodable.into())));
        }
        let mut objects: Vec<Packed<()>> = list.objects.into_iter().map(Packed::new).collect();
        objects.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
        objects.truncate(query.limited_to());
        Ok(objects)
    }

    /// Lists in the selected namespace, if there is one.
    ///
    /// # Errors
    /// [`SourceError::OtherScope`] if the objects have the other scope, and the namespace makes a difference.
    async fn list_in(&self, is_namespaced: bool, query: &Query) -> Result<List<PackedObject>, SourceError> {
        let (client, resource) = (self.client.clone(), self.resource.clone());
        let mut source = match self.metadata_only {
            true => KubeListerWatcher::packed_metadata(client, resource),
            false => KubeListerWatcher::packed_dynamic(client, resource),
        };
        source = match query.selected_namespace() {
            Some(namespace) if is_namespaced => source.namespace(namespace),
            Some(_) => source.cluster_scoped(),
            None => source,
        };
        if let Some(labels) = query.label_selector() {
            source = source.labels(labels);
        }
        if let Some(fields) = query.requested_fields() {
            source = source.fields(fields);
        }
        Pager::new(source).list().await
    }

    fn decoder(&self) -> ObjectDecoder {
        let (api_version, kind) = match self.metadata_only {
            true => ("meta.k8s.io/v1", "PartialObjectMetadata"),
            false => (&*self.resource.api_version, &*self.resource.kind),
        };
        ObjectDecoder::new(Encoding::default(), api_version, kind).unwrap_or_else(ObjectDecoder::json)
    }

    fn name(&self) -> Arc<str> {
        resource_name(&self.resource.group, &self.resource.plural)
    }

    fn failed(&self, source: kube_client::Error) -> Error {
        Error::LiveRead { resource: self.name(), source: Arc::new(source) }
    }
}
