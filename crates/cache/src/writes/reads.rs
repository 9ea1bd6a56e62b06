//! Reads that wait until their informer reflects the writes of the cache's client.

use std::sync::Arc;
use std::time::Duration;

use kinformer::generic::FromWire as _;
use kinformer::{
    FieldSelector, Informer, KeyRef, ObjectDecoder, ObjectKey, Packed, PackedRef, ResourceVersion, Snapshot,
};
use kube_core::discovery::ApiResource;
use tokio::time::{Instant, timeout, timeout_at};

use super::ledger::{Pending, Write};
use super::question::list_one;
use crate::error::Error;
use crate::list::ListOptions;
use crate::shared::{Shared, noted, storage_name};

/// Longer than the time between two bookmarks, which is a minute. An informer of an idle resource has a version that is not
/// one of its objects only then.
const BOOKMARKS: Duration = Duration::from_secs(90);

/// How long a read is delayed at most by a question that it does not depend on.
const DELAY: Duration = Duration::from_secs(2);

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
    begun: Instant,
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
    let name = &storage_name(&resource.group, &resource.plural);
    if !shared.writes.were_recorded(name) {
        return Ok(informer.snapshot()?);
    }
    let wait = Wait { shared, resource, name, informer, begun: Instant::now() };
    let key = match read {
        Read::Get(key) => Some(key),
        Read::List(_) => None,
    };
    wait.bound_old_writes().await;
    // The writes that this informer has, and that stay recorded because others of the resource may not.
    let mut passed = Vec::new();
    loop {
        let pending = {
            let informers = shared.informers(name);
            shared.writes.pending(name, key, || noted(&informers))
        };
        // After that: a write that another read has removed by now is in this snapshot.
        let snapshot = informer.snapshot()?;
        let reached = snapshot.resource_versions().lowest();
        let mut unseen = None;
        for pending in pending.into_iter().filter(|pending| !passed.contains(&pending.id)) {
            match wait.state(&snapshot, &reached, &pending, read) {
                Seen::Always => _ = wait.seen(&pending, &highest(&snapshot)),
                Seen::InThisState => {}
                Seen::No => {
                    unseen = Some(pending);
                    break;
                }
            }
        }
        let Some(unseen) = unseen else { return Ok(snapshot) };
        let waited = wait.until_seen(&unseen, snapshot).await;
        if let Err(Error::WriteNotSeen { .. }) = &waited {
            shared.writes.replace(name, &unseen, unseen.write.clone().unconfirmed());
        }
        if waited? {
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
        let version = pending.write.version();
        // Also if the list does not concern it, so that no later read looks at it.
        if version.as_ref().is_some_and(|version| reached.reaches(version)) {
            return Seen::Always;
        }
        let Some(key) = &pending.key else { return Seen::No };
        if self.informer.is_namespaced() && !self.informer.has_namespace(namespace(key)) {
            return Seen::Always; // as each informer of this cache: the options do not change
        }
        let stored = snapshot.get(key);
        let has = |version: &Option<ResourceVersion>| {
            let stored = stored.as_ref().map(|stored| stored.resource_version());
            stored.zip(version.as_ref()).is_some_and(|(stored, version)| stored.reaches(version))
        };
        if has(&version) {
            return Seen::Always;
        }
        if let Read::List(options) = read
            && !self.concerns(options, key, &pending.write, stored.as_ref())
        {
            return Seen::InThisState;
        }
        match (&pending.write, &stored) {
            // It has left the scope of the informer, or was never in it.
            (Write::State(written), None) if !self.informer.selects(written) => Seen::InThisState,
            // An earlier state may still arrive.
            (Write::Absent(_), None) => Seen::InThisState,
            (Write::Deleted { existed, .. }, None) => {
                let has_existed = existed.as_ref().is_some_and(|existed| reached.reaches(existed));
                match has_existed && self.is_selection_fixed(key) {
                    true => Seen::Always,
                    // The same, or it has only left the selectors.
                    false => Seen::InThisState,
                }
            }
            (Write::Deleted { uid, is_gone, .. }, Some(stored)) if stored.uid() == Some(uid) => {
                match !is_gone && is_ending(stored) {
                    true => Seen::Always,
                    false => Seen::No,
                }
            }
            // Another object, which is a later one.
            (Write::Deleted { existed, .. }, Some(_)) if has(existed) => Seen::Always,
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
        if self.informer.is_namespaced() && !options.has_namespace(namespace(key)) {
            return false;
        }
        let path_of = |field: &str| self.informer.field_path(field);
        let written = match write {
            Write::State(object) => self.informer.has_transform() || options.matches(object, path_of),
            Write::Version(_) | Write::Reached(_) | Write::Unversioned | Write::Unconfirmed(_) => true,
            Write::Deleted { .. } | Write::Absent(_) => false,
        };
        written || stored.is_some_and(|stored| options.matches(stored, path_of))
    }

    /// Whether an object cannot enter or leave the selectors of the informer.
    fn is_selection_fixed(&self, key: &ObjectKey) -> bool {
        let fields = self.informer.field_selector(namespace(key));
        self.informer.label_selector(namespace(key)).is_none()
            && fields.is_none_or(|fields| {
                let is_fixed =
                    |(field, ..): (&str, bool, &str)| matches!(field, "metadata.name" | "metadata.namespace");
                fields.parse::<FieldSelector>().is_ok_and(|fields| fields.requirements().all(is_fixed))
            })
    }

    /// Waits until the write may be seen. Returns whether it is, by its version, and stays recorded.
    async fn until_seen(&self, pending: &Pending, snapshot: Snapshot<()>) -> Result<bool, Error> {
        let Pending { key, write, .. } = pending;
        let stored = key.as_ref().and_then(|key| identity(&snapshot, key));
        let (revision, highest) = (snapshot.revision(), highest(&snapshot));
        drop(snapshot); // its objects may be released during the wait
        let is_unknown = match (write, &stored, key) {
            (Write::Unversioned | Write::Unconfirmed(_), ..) => true,
            // It may be outside the selectors.
            (Write::Version(_), None, Some(key)) => !self.is_selection_fixed(key),
            (Write::Deleted { uid, existed: None, .. }, Some((stored, version)), _) => {
                if stored.as_ref() == Some(uid) {
                    let known = write.clone().existing(version);
                    self.shared.writes.replace(self.name, pending, known);
                    return Ok(false);
                }
                // Another object, which may be an earlier one.
                true
            }
            _ => false,
        };
        let (_, deadline) = self.deadline(write);
        if is_unknown {
            let found_out = timeout_at(deadline, self.find_out(pending, &highest)).await;
            return found_out.map_err(|_| self.not_seen(pending))?.map(|()| false);
        }
        let version = write.version();
        let reached = async {
            match (key, &version) {
                (Some(key), Some(version)) => self.informer.wait_for(key, version).await,
                (None, Some(version)) => {
                    for part in self.informer.parts() {
                        self.informer.wait_for(part.id(), version).await?;
                    }
                    Ok(())
                }
                (_, None) => std::future::pending().await,
            }
        };
        let changed = async {
            match key {
                Some(key) => self.changed(key, stored.clone(), revision).await,
                None => std::future::pending().await,
            }
        };
        let waited = timeout_at(deadline, async {
            tokio::select! {
                biased;
                reached = reached => reached.map(|()| true),
                changed = changed => changed.map(|()| false),
            }
        });
        let is_reached = waited.await.map_err(|_| self.not_seen(pending))??;
        Ok(is_reached && !self.seen(pending, &highest))
    }

    /// Waits until the informer has another state of an object than before.
    async fn changed(
        &self,
        key: &ObjectKey,
        before: Option<Identity>,
        mut revision: u64,
    ) -> Result<(), kinformer::Error> {
        while self.informer.changed(revision).await {
            let snapshot = self.informer.snapshot()?;
            if identity(&snapshot, key) != before {
                return Ok(());
            }
            revision = snapshot.revision();
        }
        let (resource, key) = (self.name.clone(), key.to_string());
        Err(kinformer::Error::ConditionNotMet { resource, key, is_stopped: true })
    }

    /// Removes a write that all later reads of this informer see; it has reached this version in one of its parts. Returns
    /// `false` if the write stays recorded.
    fn seen(&self, pending: &Pending, highest: &ResourceVersion) -> bool {
        let version = pending.write.version().unwrap_or_else(|| highest.clone());
        self.shared.writes.remove(self.name, pending, &version, self.informer.id())
    }

    /// Asks the server for the state or the version of a write, unless another read has done so.
    async fn find_out(&self, pending: &Pending, highest: &ResourceVersion) -> Result<(), Error> {
        // Never closed.
        let question = self.shared.question(self.name);
        let _permit = question.acquire().await;
        if !self.shared.writes.has(self.name, pending) {
            return Ok(());
        }
        let last_id = self.shared.writes.last_id(self.name);
        let known = match self.ask(pending.key.as_ref()).await {
            Ok((known, version)) => {
                self.shared.writes.note_bound(self.name, last_id, version);
                known
            }
            Err(error) if self.is_refused(&error) => match &pending.write {
                Write::Unconfirmed(known) => Write::clone(known),
                // What arrives from now on is taken for later than the write.
                write => Write::Reached(write.version().unwrap_or_else(|| next(highest))),
            },
            Err(source) => {
                return Err(Error::Request { resource: self.name.clone(), source: Arc::new(source) });
            }
        };
        self.shared.writes.replace(self.name, pending, known);
        Ok(())
    }

    /// Asks the server for a version after old writes that have none, so that they do not stay for ever. No read waits for
    /// it.
    async fn bound_old_writes(&self) {
        if !self.shared.writes.is_question_due(self.name) {
            return;
        }
        let last_id = self.shared.writes.last_id(self.name);
        match timeout(DELAY, self.ask(None)).await {
            Ok(Ok((_, version))) => self.shared.writes.note_bound(self.name, last_id, version),
            Ok(Err(error)) => _ = self.is_refused(&error),
            Err(_) => {}
        }
    }

    /// Whether the server does not allow the question. Logs it, once for each resource.
    fn is_refused(&self, error: &kube_client::Error) -> bool {
        let is_refused = matches!(error, kube_client::Error::Api(status) if matches!(status.code, 401 | 403));
        if is_refused && self.shared.is_first_refusal(self.name) {
            let resource = &**self.name;
            tracing::warn!(resource, %error, "the version of a write is not known; waiting for the informer");
        }
        is_refused
    }

    /// How long a read waits for a write, and until when.
    fn deadline(&self, write: &Write) -> (Duration, Instant) {
        let timeout = self.shared.settings.write_timeout;
        let timeout = if let Write::Reached(_) = write { timeout.max(BOOKMARKS) } else { timeout };
        (timeout, self.begun + timeout)
    }

    fn not_seen(&self, Pending { key, write, .. }: &Pending) -> Error {
        let read = self.informer.snapshot().map(|snapshot| snapshot.resource_versions().lowest());
        Error::WriteNotSeen {
            resource: self.name.clone(),
            key: key.as_ref().map(ToString::to_string),
            written: write.version(),
            read: read.unwrap_or_else(|_| ResourceVersion::from("")),
            timeout: self.deadline(write).0,
        }
    }

    /// Asks the server for the state of an object, or only for its current version, by a list that the informer may send as
    /// well: of the namespace of the key, or of one of the informer's namespaces.
    async fn ask(&self, key: Option<&ObjectKey>) -> Result<(Write, ResourceVersion), kube_client::Error> {
        // All other namespaces have a name with a space.
        let first = self.informer.scope().split(',').next().filter(|name| !name.contains(' '));
        let namespace = key.map_or(first, |key| key.namespace()).filter(|name| !name.is_empty());
        let (item, version) =
            list_one(&self.shared.client, self.resource, namespace, key.map(ObjectKey::name)).await?;
        let decoded = |item: serde_json::Value| {
            Packed::<()>::from_wire(item.to_string().as_bytes(), &ObjectDecoder::json()).ok()
        };
        let known = match (key, item) {
            (Some(_), None) => Write::Absent(version.clone()),
            (Some(key), Some(item)) => match decoded(item) {
                Some(object) if object.key() == KeyRef::from(key) => Write::State(object),
                _ => Write::Reached(version.clone()),
            },
            (None, _) => Write::Reached(version.clone()),
        };
        Ok((known, version))
    }
}

/// The UID and the version of an object.
type Identity = (Option<Arc<str>>, ResourceVersion);

fn identity(snapshot: &Snapshot<()>, key: &ObjectKey) -> Option<Identity> {
    snapshot.get(key).map(|object| (object.uid().map(Arc::from), object.resource_version()))
}

fn namespace(key: &ObjectKey) -> &str {
    key.namespace().unwrap_or_default()
}

/// The version of the part that is ahead of all others.
fn highest(snapshot: &Snapshot<()>) -> ResourceVersion {
    let mut highest = ResourceVersion::UNSET;
    snapshot.resource_versions().iter().for_each(|(_, version)| highest.advance(version));
    highest
}

/// The version after this one; unset if it is not a number.
fn next(version: &ResourceVersion) -> ResourceVersion {
    let number = version.to_string().parse::<u64>().ok().and_then(|number| number.checked_add(1));
    number.map_or(ResourceVersion::UNSET, ResourceVersion::number)
}

/// Whether the deletion of an object has begun.
fn is_ending(stored: &kinformer::PackedObject) -> bool {
    matches!(stored.deletion_timestamp_as::<serde::de::IgnoredAny>(), Ok(Some(_)))
}
