//! Reads that wait until their informer reflects the writes of the cache's client.

use std::sync::Arc;
use std::time::Duration;

use kinformer::generic::FromWire as _;
use kinformer::{
    FieldSelector, Informer, KeyRef, ObjectDecoder, ObjectKey, Packed, PackedRef, Part, ResourceVersion,
    Snapshot,
};
use kube_core::discovery::ApiResource;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::ledger::{Pending, Write};
use super::question::{list_one, of_name};
use crate::error::Error;
use crate::list::Query;
use crate::shared::{Shared, lowest, storage_name};

/// Longer than the time between two bookmarks, which is a minute. An informer of an idle resource has a version that is not
/// one of its objects only then. Also longer than the time between the lists of an informer without a watch.
const BOOKMARKS: Duration = Duration::from_secs(90);

/// How long a read is delayed at most by a question that it does not depend on.
const DELAY: Duration = Duration::from_secs(2);

/// The delays before a question without an answer is sent again: the first one, and the longest.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// What is read.
#[derive(Clone, Copy)]
pub(crate) enum Read<'a> {
    Get(&'a ObjectKey),
    List(&'a Query),
}

impl Read<'_> {
    /// The namespace that is read; `None` for all of them.
    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Get(key) => key.namespace(),
            Self::List(query) => query.selected_namespace(),
        }
    }
}

/// Waits of a read for writes.
struct Wait<'a> {
    read: Read<'a>,
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
    let wait = Wait { read, shared, resource, name, informer, begun: Instant::now() };
    let key = match read {
        Read::Get(key) => Some(key),
        Read::List(_) => None,
    };
    wait.bound_old_writes().await;
    loop {
        let pending = {
            let mut informers = shared.informers(name);
            shared.writes.pending((name, informer.id()), key, shared.state_of(name, &mut informers))
        };
        // After that: a write that another read has removed by now is in this snapshot.
        let snapshot = informer.snapshot()?;
        let mut unseen = None;
        for pending in pending {
            match wait.state(&snapshot, &pending) {
                // It stays recorded for other informers of the resource that may not have it.
                Seen::Always => wait.note_reflected(&pending, &highest(&snapshot)),
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
        waited?;
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
    fn state(&self, snapshot: &Snapshot<()>, pending: &Pending) -> Seen {
        let seen = self.state_for_a_get(snapshot, pending);
        if let (Seen::No, Read::List(query), Some(key)) = (&seen, self.read, &pending.key)
            && !self.concerns(query, key, &pending.write, snapshot.get(key).as_ref())
        {
            return Seen::InThisState;
        }
        seen
    }

    fn state_for_a_get(&self, snapshot: &Snapshot<()>, pending: &Pending) -> Seen {
        let version = pending.write.version_or_unconfirmed();
        let reached = self.reached(snapshot, self.namespace_of(pending));
        // Also if the list does not concern it, so that no later read looks at it.
        if version.as_ref().is_some_and(|version| reached.reaches(version)) {
            let have_all = || version.is_some_and(|version| self.reached(snapshot, None).reaches(&version));
            return if pending.key.is_some() || have_all() { Seen::Always } else { Seen::InThisState };
        }
        let Some(key) = &pending.key else { return Seen::No };
        if !may_hold(self.informer, key) {
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
        match (&pending.write, &stored) {
            // It has left the scope of the informer, or was never in it.
            (Write::State(written), None) if !self.informer.selection().selects(written) => Seen::InThisState,
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
        query: &Query,
        key: &ObjectKey,
        write: &Write,
        stored: Option<&PackedRef<'_, ()>>,
    ) -> bool {
        if self.informer.selection().is_namespaced() && !query.has_namespace(namespace(key)) {
            return false;
        }
        let path_of = |field: &str| self.informer.field_path(field);
        let written = match write {
            Write::State(object) => {
                self.informer.selection().has_transform() || query.matches(object, path_of)
            }
            Write::Deleted { .. } | Write::Absent(_) => false,
            _ => true,
        };
        written || stored.is_some_and(|stored| query.matches(stored, path_of))
    }

    /// Whether an object cannot enter or leave the selectors of the informer.
    fn is_selection_fixed(&self, key: &ObjectKey) -> bool {
        let fields = self.informer.selection().field_selector(namespace(key));
        self.informer.selection().label_selector(namespace(key)).is_none()
            && fields.is_none_or(|fields| {
                let is_fixed =
                    |(field, ..): (&str, bool, &str)| matches!(field, "metadata.name" | "metadata.namespace");
                fields.parse::<FieldSelector>().is_ok_and(|fields| fields.requirements().all(is_fixed))
            })
    }

    /// The namespace that a write is about; for a write of any keys, the one that is read. `None` for all of them.
    fn namespace_of<'p>(&'p self, pending: &'p Pending) -> Option<&'p str> {
        let namespace = pending.key.as_ref().map_or_else(|| self.read.namespace(), ObjectKey::namespace);
        namespace.filter(|namespace| !namespace.is_empty() && self.informer.selection().is_namespaced())
    }

    /// The parts of the informer that have the objects of a namespace. A part of another namespace may be behind, for as long
    /// as the server does not answer its requests.
    fn parts(&self, namespace: Option<&str>) -> Vec<Part> {
        let parts = self.informer.status().parts();
        let id_of = |name: &str| parts.iter().find(|part| part.name() == name).map(Part::id);
        let selected = |namespace: &str| id_of(&self.informer.selection().part_of(namespace)?);
        // The user's own informer may have a part for a namespace that is not in the options, or parts of another kind.
        let id = namespace.and_then(|namespace| id_of(namespace).or_else(|| selected(namespace)));
        parts.iter().filter(|part| id.is_none_or(|id| part.id() == id)).cloned().collect()
    }

    /// The lowest version of these parts.
    fn reached(&self, snapshot: &Snapshot<()>, namespace: Option<&str>) -> ResourceVersion {
        let versions = snapshot.resource_versions();
        let versions = self.parts(namespace).into_iter().map(|part| versions.of(part.id()).clone());
        lowest(versions)
    }

    /// Waits until the write may be seen.
    async fn until_seen(&self, pending: &Pending, snapshot: Snapshot<()>) -> Result<(), Error> {
        let Pending { key, write, .. } = pending;
        let stored = key.as_ref().and_then(|key| identity(&snapshot, key));
        let (revision, highest) = (snapshot.revision(), highest(&snapshot));
        drop(snapshot); // its objects may be released during the wait
        let is_unknown = match (write, &stored, key) {
            (Write::Unversioned | Write::AtLeast(_) | Write::Unconfirmed(_), ..) => true,
            // It may be outside the selectors.
            (Write::Version(_), None, Some(key)) => !self.is_selection_fixed(key),
            (Write::Deleted { uid, existed: None, .. }, Some((stored, version)), _) => {
                if stored.as_ref() == Some(uid) {
                    let known = write.clone().with_existed(version);
                    self.shared.writes.replace(self.name, pending, known);
                    return Ok(());
                }
                // Another object, which may be an earlier one.
                true
            }
            // A transform may have removed the time of its deletion.
            (Write::Deleted { is_gone: false, .. }, Some(_), _) => self.informer.selection().has_transform(),
            _ => false,
        };
        let version = write.version_or_unconfirmed();
        let reached = async {
            let Some(version) = &version else { return std::future::pending().await };
            for part in self.parts(self.namespace_of(pending)) {
                self.informer.wait_for(part.id(), version).await?;
            }
            Ok::<_, Error>(())
        };
        let changed = async {
            match key {
                Some(key) if !is_unknown => self.changed(key, stored.clone(), revision).await,
                _ => std::future::pending().await,
            }
        };
        let found_out = async {
            if is_unknown { self.find_out(pending, &highest).await } else { std::future::pending().await }
        };
        // The server may not answer the question before the informer has the version.
        let waited = timeout_at(self.deadline(write).1, async {
            tokio::select! {
                biased;
                reached = reached => reached,
                changed = changed => Ok(changed?),
                found_out = found_out => found_out,
            }
        });
        waited.await.map_err(|_| self.not_seen(pending))?
    }

    /// Waits until the informer has another state of an object than before.
    async fn changed(
        &self,
        key: &ObjectKey,
        before: Option<Identity>,
        mut revision: u64,
    ) -> Result<(), kinformer::Error> {
        // A transform may have removed it.
        let has_version = before.as_ref().is_none_or(|(_, version)| !version.is_unset());
        while self.informer.changed(revision).await {
            let snapshot = self.informer.snapshot()?;
            if !has_version || identity(&snapshot, key) != before {
                return Ok(());
            }
            revision = snapshot.revision();
        }
        let (resource, key) = (self.name.clone(), key.to_string());
        Err(kinformer::Error::ConditionNotMet { resource, key, is_stopped: true })
    }

    /// Notes a write that all later reads of this informer see; it has reached this version in one of its parts.
    fn note_reflected(&self, pending: &Pending, highest: &ResourceVersion) {
        let version = pending.write.version().unwrap_or_else(|| highest.clone());
        self.shared.writes.note_reflected((self.name, self.informer.id()), pending, &version);
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
        let known = match self.ask_again(pending).await {
            Ok((known, version)) => {
                self.shared.writes.note_bound(self.name, last_id, version);
                known
            }
            Err(error) if self.is_refused(&error) => match &pending.write {
                Write::Unconfirmed(known) => Write::clone(known),
                // What arrives from now on is taken for later than the write.
                write => {
                    let mut version = next(highest);
                    if let Some(lowest) = write.lower_bound() {
                        version.advance(&lowest);
                    }
                    Write::Reached(write.version().unwrap_or(version))
                }
            },
            Err(source) => {
                return Err(Error::Request { resource: self.name.clone(), source: Arc::new(source) });
            }
        };
        self.shared.writes.replace(self.name, pending, known);
        Ok(())
    }

    /// Asks the server about a write, again and again if it does not answer, as long as the read waits.
    async fn ask_again(&self, pending: &Pending) -> Result<(Write, ResourceVersion), kube_client::Error> {
        let (_, deadline) = self.deadline(&pending.write);
        let mut delay = FIRST_RETRY;
        loop {
            let answer = self.ask(pending.key.as_ref()).await;
            let is_passing = match &answer {
                Err(kube_client::Error::Api(status)) => matches!(status.code, 408 | 429 | 500..),
                Err(error) => !matches!(error, kube_client::Error::SerdeError(_)),
                Ok(_) => false,
            };
            if !is_passing || Instant::now() + delay >= deadline {
                return answer;
            }
            sleep(delay).await;
            delay = (2 * delay).min(LAST_RETRY);
        }
    }

    /// Asks the server for a version after old writes that have none, so that they do not stay for ever. After a refusal, any
    /// later version of the informer counts as one. No read waits for it.
    async fn bound_old_writes(&self) {
        if !self.shared.writes.is_question_due(self.name) {
            return;
        }
        let last_id = self.shared.writes.last_id(self.name);
        match timeout(DELAY, self.ask(None)).await {
            Ok(Ok((_, version))) => self.shared.writes.note_bound(self.name, last_id, version),
            Ok(Err(error)) if self.is_refused(&error) => {
                if let Ok(snapshot) = self.informer.snapshot() {
                    self.shared.writes.note_bound(self.name, last_id, next(&highest(&snapshot)));
                }
            }
            Ok(Err(_)) | Err(_) => {}
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
        let is_rare = matches!(write, Write::Reached(_)) || self.informer.status().not_watchable().is_some();
        let timeout = if is_rare { timeout.max(BOOKMARKS) } else { timeout };
        (timeout, self.begun + timeout)
    }

    fn not_seen(&self, pending: &Pending) -> Error {
        let Pending { key, write, .. } = pending;
        let read =
            self.informer.snapshot().map(|snapshot| self.reached(&snapshot, self.namespace_of(pending)));
        Error::WriteNotSeen {
            resource: self.name.clone(),
            key: key.as_ref().map(ToString::to_string),
            written: write.version(),
            read: read.unwrap_or_else(|_| ResourceVersion::from("")),
            timeout: self.deadline(write).0,
        }
    }

    /// Asks the server for the state of an object, or only for its current version, by a list that the informer may send as
    /// well: of the namespace of the key, of the one that is read, or of one of the informer's namespaces.
    async fn ask(&self, key: Option<&ObjectKey>) -> Result<(Write, ResourceVersion), kube_client::Error> {
        let first = || self.informer.selection().namespaces().next();
        let read = self.read.namespace().filter(|_| self.informer.selection().is_namespaced());
        let first = if key.is_none() && read.is_none() { first() } else { None };
        let namespace = key.map_or_else(|| read.or(first.as_deref()), |key| key.namespace());
        let namespace = namespace.filter(|name| !name.is_empty());
        let fields = match key {
            Some(key) => Some(of_name(key.name()).into()),
            None => self.informer.selection().field_selector(namespace.unwrap_or_default()),
        };
        let (item, version) =
            list_one(&self.shared.client, self.resource, namespace, fields.as_deref()).await?;
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

/// Whether an informer can have an object with this key, by its namespaces and the names in its field selector.
pub(super) fn may_hold(informer: &Informer<()>, key: &ObjectKey) -> bool {
    if informer.selection().is_namespaced() && !informer.selection().has_namespace(namespace(key)) {
        return false;
    }
    let fields = informer.selection().field_selector(namespace(key));
    let Some(Ok(fields)) = fields.map(|fields| fields.parse::<FieldSelector>()) else { return true };
    fields.requirements().all(|(field, is_equal, value)| match field {
        "metadata.name" => (value == key.name()) == is_equal,
        "metadata.namespace" => (value == namespace(key)) == is_equal,
        _ => true,
    })
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

/// Whether the deletion of an object has begun, also if its time is dropped.
fn is_ending(stored: &kinformer::PackedObject) -> bool {
    let dropped = stored.dropped_fields();
    dropped.iter().any(|field| field.names().eq(["metadata", "deletionTimestamp"]))
        || matches!(stored.deletion_timestamp_as::<serde::de::IgnoredAny>(), Ok(Some(_)))
}
