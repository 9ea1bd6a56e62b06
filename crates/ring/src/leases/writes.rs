//! The writes of Leases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kinformer_kube::KubeObject;
use kube_client::api::{DeleteParams, PostParams, Preconditions};
use kube_client::{Api, Client};
use tokio::time::timeout;

use super::names::{LABEL, Names};
use crate::member::MEMBER;
use crate::table::TABLE;
use crate::view::{Change, Target, Write, WriteResult};

const NO_RESPONSE: &str = "no response in time";

/// Sends the writes of a process.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) names: Names,
    pub(crate) api: Api<Lease>,
    /// After this time without a response, the outcome is unknown.
    pub(crate) limit: Duration,
}

/// A write that has ended.
pub(crate) struct Written {
    pub(crate) target: Target,
    pub(crate) result: WriteResult,
    /// Why the outcome is unknown.
    pub(crate) error: Option<Arc<str>>,
}

impl Writer {
    pub(crate) fn new(client: Client, names: Names, limit: Duration) -> Self {
        let api = Api::namespaced(client, &names.namespace);
        Self { names, api, limit }
    }

    /// Sends a write. `read` is the Lease as it was read last: the metadata of others in it is kept.
    pub(crate) async fn send(self, write: Write, read: Option<Arc<KubeObject<Lease>>>) -> Written {
        let response = timeout(self.limit, self.request(&write, read.as_deref())).await;
        let is_creation = write.precondition.is_none();
        let (result, error) = match response {
            Ok(Ok(result)) => (result, None),
            Ok(Err(kube_client::Error::Api(status)))
                if status.code == 409 || (status.code == 404 && !is_creation) =>
            {
                (WriteResult::Conflict, None)
            }
            Ok(Err(error)) => (WriteResult::Unknown, Some(error.to_string())),
            Err(_) => (WriteResult::Unknown, Some(NO_RESPONSE.to_owned())),
        };
        let error = error.map(|error| self.error(&write.target, &error));
        Written { target: write.target, result, error }
    }

    /// Writes the label of a Lease that exists and that no read has, since somebody has removed its label. Returns why it
    /// cannot, as text.
    pub(crate) async fn relabel(self, target: Target) -> Option<Arc<str>> {
        let name = self.names.of(&target);
        let error = match timeout(self.limit, self.write_label(&name, &target)).await {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error,
            Err(_) => NO_RESPONSE.to_owned(),
        };
        Some(self.error(&target, &error))
    }

    /// An error with the name of its Lease.
    fn error(&self, target: &Target, error: &str) -> Arc<str> {
        format!("lease {}: {error}", self.names.text(target)).into()
    }

    async fn write_label(&self, name: &str, target: &Target) -> Result<(), String> {
        let Some(mut lease) = self.api.get_opt(name).await.map_err(|error| error.to_string())? else {
            return Ok(()); // deleted since
        };
        let labels = lease.metadata.labels.get_or_insert_default();
        match labels.get(LABEL) {
            Some(ring) if **ring == *self.names.name => return Ok(()),
            Some(ring) => return Err(format!("it belongs to the ring {ring:?}")),
            None => {}
        }
        let annotations = lease.metadata.annotations.clone().unwrap_or_default();
        let is_of_ring = match target {
            Target::Table => TABLE.iter().any(|key| annotations.contains_key(*key)),
            Target::Member(_) => annotations.contains_key(MEMBER),
        };
        if !is_of_ring {
            return Err("it is not a lease of a ring".to_owned());
        }
        labels.insert(LABEL.to_owned(), self.names.name.to_string());
        self.api.replace(name, &PostParams::default(), &lease).await.map_err(|error| error.to_string())?;
        Ok(())
    }

    async fn request(
        &self,
        write: &Write,
        read: Option<&KubeObject<Lease>>,
    ) -> Result<WriteResult, kube_client::Error> {
        let name = self.names.of(&write.target);
        let (annotations, lease_duration) = match &write.change {
            Change::Table(table) => (table.annotations(), table.params().lease_duration),
            Change::Member(member) => (member.annotations(), member.lease_duration),
            Change::Delete => {
                let Some((uid, version)) = &write.precondition else { return Ok(WriteResult::Conflict) };
                let (uid, resource_version) = (Some(uid.to_string()), Some(version.to_string()));
                let preconditions = Some(Preconditions { uid, resource_version });
                self.api.delete(&name, &DeleteParams { preconditions, ..DeleteParams::default() }).await?;
                return Ok(WriteResult::Applied { uid: "".into(), version: *version });
            }
        };
        let lease = self.lease(&name, write, annotations, lease_duration, read);
        let params = PostParams::default();
        let written = match &write.precondition {
            Some(_) => self.api.replace(&name, &params, &lease).await?,
            None => self.api.create(&params, &lease).await?,
        };
        let metadata = written.metadata;
        let version = metadata.resource_version.and_then(|version| version.parse().ok());
        Ok(match (metadata.uid, version) {
            (Some(uid), Some(version)) => WriteResult::Applied { uid: uid.into(), version },
            _ => WriteResult::Unknown,
        })
    }

    fn lease(
        &self,
        name: &str,
        write: &Write,
        annotations: BTreeMap<String, String>,
        lease_duration: Duration,
        read: Option<&KubeObject<Lease>>,
    ) -> Lease {
        let version = write.precondition.as_ref().map(|(_, version)| version.to_string());
        let read = read.filter(|read| version.is_some() && read.0.metadata.resource_version == version);
        let mut metadata = read.map(|read| read.0.metadata.clone()).unwrap_or_default();
        metadata.name = Some(name.to_owned());
        metadata.namespace = Some(self.names.namespace.to_string());
        metadata.uid = write.precondition.as_ref().map(|(uid, _)| uid.to_string());
        metadata.resource_version = version;
        metadata.labels.get_or_insert_default().insert(LABEL.to_owned(), self.names.name.to_string());
        metadata.annotations.get_or_insert_default().extend(annotations);
        let seconds = i32::try_from(lease_duration.as_secs().max(1)).unwrap_or(i32::MAX);
        let holder = match &write.target {
            Target::Table => None,
            Target::Member(identity) => Some(identity.to_string()),
        };
        let spec = LeaseSpec {
            holder_identity: holder,
            lease_duration_seconds: Some(seconds),
            renew_time: Some(now()),
            ..LeaseSpec::default()
        };
        Lease { metadata, spec: Some(spec) }
    }
}

/// The present time in microseconds, which is what a `MicroTime` has; for people.
fn now() -> MicroTime {
    let now = Timestamp::now();
    MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
}
