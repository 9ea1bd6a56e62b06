//! Reads that wait until their informer reflects the writes of the cache's client.

use std::sync::Arc;

use kinformer::generic::FromWire as _;
use kinformer::{Informer, ObjectDecoder, ObjectKey, Packed, PackedRef, ResourceVersion, Snapshot};
use kube_core::discovery::ApiResource;
use kube_core::{DynamicObject, Resource as _};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::ledger::{Pending, Write};
use crate::error::Error;
use crate::list::ListOptions;
use crate::shared::{Shared, resource_name};

/// What is read.
#[derive(Clone, Copy)]
pub(crate) enum Read<'a> {
    Get(&'a ObjectKey),
    List(&'a ListOptions),
}

/// Waits of a read for writes.
struct Wait<'a> {
    shared: &'a Shared,
    resource: &'a ApiResource,
    name: &'a Arc<str>,
    informer: &'a Informer<()>,
    deadline: Instant,
}

/// Returns a snapshot that reflects all writes that the read can see. Not generic, so that it is compiled in this crate.
pub(crate) async fn caught_up(
    shared: &Shared,
    resource: &ApiResource,
    informer: &Informer<()>,
    read: Read<'_>,
) -> Result<Snapshot<()>, Error> {
    if shared.writes.is_empty() {
        return Ok(informer.snapshot()?);
    }
    let name = &resource_name(&resource.group, &resource.plural);
    let deadline = Instant::now() + shared.settings.write_timeout;
    let wait = Wait { shared, resource, name, informer, deadline };
    let key = match read {
        Read::Get(key) => Some(key),
        Read::List(_) => None,
    };
    // The writes that this informer has, and that stay recorded because it is no longer that of the resource.
    let mut passed = Vec::new();
    loop {
        let pending = shared.writes.pending(name, key, || shared.version_of(name, informer));
        // After that: a write that another read has removed by now is in this snapshot.
        let snapshot = informer.snapshot()?;
        let reached = snapshot.resource_versions().lowest();
        let mut unseen = None;
        for pending in pending.into_iter().filter(|pending| !passed.contains(&pending.id)) {
            match wait.state(&snapshot, &reached, &pending, read) {
                Seen::Always => wait.seen(&pending),
                Seen::InThisState => {}
                Seen::No => {
                    unseen = Some(pending);
                    break;
                }
            }
        }
        let Some(unseen) = unseen else { return Ok(snapshot) };
        let waited = wait.until_seen(&unseen).await;
        if let Err(Error::WriteNotSeen { .. }) = &waited {
            // A server that was restored from a backup may not have the write any more: the next read asks it.
            shared.writes.replace(name, &unseen, Write::Unversioned);
        }
        waited?;
        if shared.number_of(name, informer).is_none() {
            passed.push(unseen.id);
        }
    }
}

/// Whether a snapshot reflects a write.
enum Seen {
    /// As each later one does.
    Always,
    /// A later one may not, or the read cannot see the write.
    InThisState,
    No,
}

impl Wait<'_> {
    fn state(
        &self,
        snapshot: &Snapshot<()>,
        reached: &ResourceVersion,
        pending: &Pending,
        read: Read<'_>,
    ) -> Seen {
        // Also if the list does not concern it, so that no later read looks at it.
        if pending.write.version().is_some_and(|version| reached.reaches(&version)) {
            return Seen::Always;
        }
        let Some(key) = &pending.key else { return Seen::No };
        if self.informer.is_namespaced() && !self.informer.has_namespace(key.namespace().unwrap_or_default())
        {
            return Seen::Always; // as each informer of this cache: the options do not change
        }
        let stored = snapshot.get(key);
        if let (Write::State(written), Some(stored)) = (&pending.write, &stored)
            && stored.resource_version().reaches(&written.resource_version())
        {
            return Seen::Always;
        }
        if let Read::List(options) = read
            && !self.concerns(options, key, &pending.write, stored.as_ref())
        {
            return Seen::InThisState;
        }
        match (&pending.write, stored) {
            (Write::Absent(version), stored) => match stored {
                Some(stored) if stored.resource_version().reaches(version) => Seen::Always,
                Some(_) => Seen::No,
                // An earlier state may still arrive.
                None => Seen::InThisState,
            },
            // It has left the scope of the informer, or was never in it.
            (Write::State(written), None) if !self.informer.selects(written) => Seen::InThisState,
            // Another object, which may be an earlier one.
            (Write::Deleted { uid, was_cached: false, .. }, Some(stored)) if stored.uid() != Some(uid) => {
                Seen::No
            }
            (Write::Deleted { uid, is_gone, .. }, stored) => {
                match is_deleted(stored.as_deref(), uid, *is_gone) {
                    // An earlier state may still arrive.
                    true => Seen::InThisState,
                    false => Seen::No,
                }
            }
            _ => Seen::No,
        }
    }

    /// Whether a write can change a list.
    fn concerns(
        &self,
        options: &ListOptions,
        key: &ObjectKey,
        write: &Write,
        stored: Option<&PackedRef<'_, ()>>,
    ) -> bool {
        if self.informer.is_namespaced() {
            let namespace = key.namespace().unwrap_or_default();
            if !options.has_namespace(namespace) {
                return false;
            }
        }
        let is_plain = |field: &str| self.shared.is_plain_field(self.name, field);
        let written = match write {
            Write::State(object) => options.matches(object, is_plain),
            Write::Version(_) | Write::Unversioned => true,
            Write::Deleted { .. } | Write::Absent(_) => false,
        };
        written || stored.is_some_and(|stored| options.matches(stored, is_plain))
    }

    async fn until_seen(&self, pending: &Pending) -> Result<(), Error> {
        let Pending { key, write, .. } = pending;
        match (key, write) {
            (_, Write::Unversioned) => return self.find_out_until(pending).await,
            (Some(key), Write::Deleted { uid, is_gone, was_cached }) => {
                if !was_cached && !self.has(key, uid) {
                    return self.find_out_until(pending).await;
                }
                let is_deleted =
                    |object: Option<&Packed<()>>| is_deleted(object.map(|object| &**object), uid, *is_gone);
                let waited = self.informer.wait_for_condition_until(key, is_deleted, self.deadline).await;
                waited.map_err(|error| self.unreached(pending, error))?;
                if !was_cached {
                    let write = Write::Deleted { uid: uid.clone(), is_gone: *is_gone, was_cached: true };
                    self.shared.writes.replace(self.name, pending, write);
                }
                return Ok(());
            }
            (Some(key), Write::Absent(version)) => {
                let is_seen = |object: Option<&Packed<()>>| {
                    object.is_none_or(|object| object.resource_version().reaches(version))
                };
                let reached = self.reached_or(key, version, is_seen).await;
                if !reached.map_err(|error| self.unreached(pending, error))? {
                    return Ok(());
                }
            }
            (Some(key), _) => {
                let Some(version) = write.version() else { return Ok(()) };
                let is_stored = |object: Option<&Packed<()>>| {
                    object.is_some_and(|object| object.resource_version().reaches(&version))
                };
                let reached = self.reached_or(key, &version, is_stored).await;
                reached.map_err(|error| self.unreached(pending, error))?;
            }
            (None, _) => {
                let Some(version) = write.version() else { return Ok(()) };
                for part in self.informer.parts() {
                    let waited = self.informer.wait_for_until(part.id(), &version, self.deadline).await;
                    waited.map_err(|error| self.unreached(pending, error))?;
                }
            }
        }
        self.seen(pending);
        Ok(())
    }

    /// Waits until the informer has reached a version, or the object meets this condition. Returns whether it was the
    /// version, which takes up to a minute for an idle resource, and until the next complete list after an incomplete one.
    async fn reached_or(
        &self,
        key: &ObjectKey,
        version: &ResourceVersion,
        condition: impl Fn(Option<&Packed<()>>) -> bool,
    ) -> Result<bool, kinformer::Error> {
        tokio::select! {
            biased;
            waited = self.informer.wait_for_until(key, version, self.deadline) => waited.map(|()| true),
            waited = self.informer.wait_for_condition_until(key, condition, self.deadline) => waited.map(|_| false),
        }
    }

    /// Removes a write that all later reads of this informer see.
    fn seen(&self, pending: &Pending) {
        if let Some(number) = self.shared.number_of(self.name, self.informer) {
            self.shared.writes.remove(self.name, pending, number);
        }
    }

    /// Whether the cache has the object with this UID.
    fn has(&self, key: &ObjectKey, uid: &str) -> bool {
        let snapshot = self.informer.snapshot();
        snapshot.is_ok_and(|snapshot| snapshot.get(key).is_some_and(|stored| stored.uid() == Some(uid)))
    }

    async fn find_out_until(&self, pending: &Pending) -> Result<(), Error> {
        let found_out = timeout_at(self.deadline, self.find_out(pending)).await;
        found_out.map_err(|_| self.not_seen(pending))?
    }

    /// Asks the server for the version of a write, unless another read has done so.
    async fn find_out(&self, pending: &Pending) -> Result<(), Error> {
        // Never closed.
        let question = self.shared.question(self.name);
        let _permit = question.acquire().await;
        if self.shared.writes.has(self.name, pending) {
            let known = self.ask(pending.key.as_ref()).await?;
            self.shared.writes.replace(self.name, pending, known);
        }
        Ok(())
    }

    /// The informer stopped, or the deadline passed.
    fn unreached(&self, pending: &Pending, error: kinformer::Error) -> Error {
        match Instant::now() < self.deadline {
            true => error.into(),
            false => self.not_seen(pending),
        }
    }

    fn not_seen(&self, Pending { key, write, .. }: &Pending) -> Error {
        let read = self.informer.snapshot().map(|snapshot| snapshot.resource_versions().lowest());
        Error::WriteNotSeen {
            resource: self.name.clone(),
            key: key.as_ref().map(ToString::to_string),
            written: write.version(),
            read: read.unwrap_or_else(|_| ResourceVersion::from("")),
            timeout: self.shared.settings.write_timeout,
        }
    }

    /// Asks the server for the state of an object, or only for its current version.
    async fn ask(&self, key: Option<&ObjectKey>) -> Result<Write, Error> {
        let namespace = key.and_then(|key| key.namespace());
        let request = kube_core::Request::new(DynamicObject::url_path(self.resource, namespace));
        let mut is_absent = false;
        if let Some(key) = key {
            match self.text(request.get(key.name(), &kube_core::params::GetParams::default())).await {
                // An object that cannot be read has a version as well: that of a list.
                Ok(text) => {
                    if let Ok(object) = Packed::<()>::from_wire(text.as_bytes(), &ObjectDecoder::json()) {
                        return Ok(Write::State(object));
                    }
                }
                Err(kube_client::Error::Api(status)) if status.code == 404 => is_absent = true,
                Err(error) => return Err(self.unanswered(error)),
            }
        }
        #[derive(Deserialize)]
        struct List {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            resource_version: String,
        }
        let one = kube_core::params::ListParams::default().limit(1);
        let text = self.text(request.list(&one)).await.map_err(|error| self.unanswered(error))?;
        let list: List = serde_json::from_str(&text)
            .map_err(|error| self.unanswered(kube_client::Error::SerdeError(error)))?;
        let version = ResourceVersion::from(list.metadata.resource_version);
        Ok(if is_absent { Write::Absent(version) } else { Write::Version(version) })
    }

    async fn text(
        &self,
        request: Result<http::Request<Vec<u8>>, kube_core::request::Error>,
    ) -> Result<String, kube_client::Error> {
        self.shared.client.request_text(request.map_err(kube_client::Error::BuildRequest)?).await
    }

    fn unanswered(&self, source: kube_client::Error) -> Error {
        Error::Request { resource: self.name.clone(), source: Arc::new(source) }
    }
}

/// Whether an object is not the one with this UID, or its deletion has begun and need not be complete.
fn is_deleted(stored: Option<&kinformer::PackedObject>, uid: &str, is_gone: bool) -> bool {
    let Some(stored) = stored.filter(|stored| stored.uid() == Some(uid)) else { return true };
    !is_gone && matches!(stored.deletion_timestamp_as::<serde::de::IgnoredAny>(), Ok(Some(_)))
}
