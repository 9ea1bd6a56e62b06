//! Reads from the API server.

use std::sync::Arc;

use kinformer::generic::{FromWire as _, Pager};
use kinformer::{Encoding, KeyRef, KubeListerWatcher, ObjectDecoder, Packed};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::params::GetParams;
use kube_core::{DynamicObject, Request, Resource as _};

use crate::error::Error;
use crate::list::ListOptions;
use crate::shared::resource_name;

/// The objects of a resource on the server.
pub(crate) struct Live<'a> {
    pub(crate) client: &'a Client,
    pub(crate) resource: &'a ApiResource,
    pub(crate) is_namespaced: bool,
    pub(crate) metadata_only: bool,
}

impl Live<'_> {
    pub(crate) async fn get(&self, key: KeyRef<'_>) -> Result<Packed<()>, Error> {
        let namespace = key.namespace().filter(|_| self.is_namespaced);
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
    pub(crate) async fn list(&self, options: &ListOptions) -> Result<Vec<Packed<()>>, Error> {
        let (client, resource) = (self.client.clone(), self.resource.clone());
        let mut source = match self.metadata_only {
            true => KubeListerWatcher::packed_metadata(client, resource),
            false => KubeListerWatcher::packed_dynamic(client, resource),
        };
        if let Some(namespace) = options.selected_namespace().filter(|_| self.is_namespaced) {
            source = source.namespace(namespace);
        }
        if let Some(labels) = options.label_selector() {
            source = source.labels(labels);
        }
        if let Some(fields) = options.requested_fields() {
            source = source.fields(fields);
        }
        let list = Pager::new(source).list().await;
        let list = list.map_err(|error| self.failed(kube_client::Error::Service(error.into())))?;
        if let Some(undecodable) = list.undecodable.into_iter().next() {
            return Err(self.failed(kube_client::Error::Service(undecodable.into())));
        }
        let mut objects: Vec<Packed<()>> = list.objects.into_iter().map(Packed::new).collect();
        objects.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
        objects.truncate(options.limited_to());
        Ok(objects)
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
