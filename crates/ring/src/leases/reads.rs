//! The Leases of a ring, as lists and a watch show them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kinformer_core::{Delta, Deltas, Error, Object as _, PartialErrors, Replacement, ResourceVersion, Sink};
use kinformer_kube::KubeObject;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::names::Names;
use super::process::RingProcess;
use crate::member::{InvalidMember, Member, MemberId};
use crate::table::Table;
use crate::view::{Object, Target, View};

type Read = Arc<KubeObject<Lease>>;

/// The Leases at the version of the last read. A reflector writes them, and lists beside it.
pub(crate) struct Reads {
    names: Names,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    version: Option<u64>,
    leases: BTreeMap<String, Read>,
    /// Whether a list was older than what is known: the server was restored from a backup.
    went_back: bool,
}

/// What has changed since the last question.
pub(crate) struct News {
    /// The Leases, unless no list is known yet.
    pub(crate) view: Option<View>,
    /// Whether the server's versions have gone back.
    pub(crate) went_back: bool,
}

impl Reads {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, state: Mutex::default(), changed: Notify::new() }
    }

    /// Waits until there is something new.
    pub(crate) async fn news(&self) -> News {
        self.changed.notified().await;
        let mut state = self.state.lock();
        let went_back = std::mem::take(&mut state.went_back);
        News { view: state.view(&self.names), went_back }
    }

    /// A list beside the reflector has ended.
    pub(crate) fn listed(&self, objects: Vec<Read>, version: &ResourceVersion) {
        let mut state = self.state.lock();
        let known = state.version;
        if let Some(version) = number(version).filter(|version| known.is_none_or(|known| known <= *version)) {
            state.replace(objects, version);
            self.changed.notify_one();
        }
    }

    /// The processes as they were read last.
    pub(crate) fn processes(&self) -> Vec<RingProcess> {
        let state = self.state.lock();
        let Some(View { table, members, .. }) = state.view(&self.names) else { return Vec::new() };
        let mut slots: BTreeMap<MemberId, Vec<u16>> = BTreeMap::new();
        let table = table.and_then(|table| table.content.ok());
        for (slot, number) in table.iter().flat_map(|table| table.slots().iter().zip(0u16..)) {
            if let Some(owner) = &slot.owner {
                slots.entry(owner.clone()).or_default().push(number);
            }
        }
        let process = |(identity, member): (Arc<str>, Object<Result<Member, InvalidMember>>)| {
            let lease = state.leases.get(&self.names.of(&Target::Member(identity.clone())));
            let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
            let slots = slots.remove(&MemberId::new(&identity, &member.uid)).unwrap_or_default();
            RingProcess {
                identity,
                member: member.content.ok(),
                renewed: renewed.map(|time| time.0.into()),
                slots: slots.into_iter().collect(),
            }
        };
        members.into_iter().map(process).collect()
    }

    /// The Lease as it was read last.
    pub(crate) fn lease(&self, target: &Target) -> Option<Read> {
        self.state.lock().leases.get(&self.names.of(target)).cloned()
    }
}

impl Sink<KubeObject<Lease>> for Reads {
    fn apply(&self, deltas: Deltas<KubeObject<Lease>>) -> Result<PartialErrors, Error> {
        let mut state = self.state.lock();
        deltas.iter().for_each(|delta| state.apply(delta));
        self.changed.notify_one();
        Ok(PartialErrors::default())
    }
}

impl State {
    fn apply(&mut self, delta: &Delta<KubeObject<Lease>>) {
        match delta {
            Delta::ReplacedAll(list) => self.replace_all(list),
            Delta::Added(lease) | Delta::Updated(lease) | Delta::Replaced(lease)
                if self.advance(&lease.resource_version()) =>
            {
                self.leases.insert(lease.key().name().to_owned(), lease.clone());
            }
            Delta::Deleted(tombstone) => {
                let version = tombstone.object().map(|lease| lease.resource_version());
                if version.is_some_and(|version| self.advance(&version)) {
                    self.leases.remove(tombstone.key().name());
                }
            }
            Delta::Bookmark { resource_version, .. } => _ = self.advance(resource_version),
            _ => {}
        }
    }

    /// Moves the version; returns `false` if a list has already shown a newer one.
    fn advance(&mut self, version: &ResourceVersion) -> bool {
        let Some(version) = number(version) else { return false };
        let is_newer = self.version.is_some_and(|known| known < version);
        if is_newer {
            self.version = Some(version);
        }
        is_newer
    }

    /// A list of the reflector, which has a lower version than what is known only if the server's versions have gone back.
    fn replace_all(&mut self, list: &Replacement<KubeObject<Lease>>) {
        let Some(version) = number(&list.resource_version).filter(|_| list.is_complete()) else { return };
        self.went_back |= self.version.is_some_and(|known| known > version);
        self.replace(list.objects.clone(), version);
    }

    fn replace(&mut self, objects: Vec<Read>, version: u64) {
        self.version = Some(version);
        let leases = objects.into_iter().map(|lease| (lease.key().name().to_owned(), lease));
        let known = std::mem::replace(&mut self.leases, leases.collect());
        // a backup may have been restored at a higher version, with the Leases as they were
        self.went_back |= known.iter().any(|(name, known)| {
            let found = self.leases.get(name).filter(|found| found.uid() == known.uid());
            found.is_some_and(|found| number(&found.resource_version()) < number(&known.resource_version()))
        });
    }

    fn view(&self, names: &Names) -> Option<View> {
        let mut view = View { version: self.version?, table: None, members: BTreeMap::new() };
        for (name, lease) in &self.leases {
            let annotations = lease.metadata.annotations.clone().unwrap_or_default();
            let Some(version) = number(&lease.resource_version()) else { continue };
            let uid: Arc<str> = lease.uid().unwrap_or_default().into();
            match names.target(name) {
                Some(Target::Table) => {
                    view.table = Some(Object { uid, version, content: Table::parse(&annotations) });
                }
                Some(Target::Member(identity)) => {
                    let object = Object { uid, version, content: Member::parse(&annotations) };
                    view.members.insert(identity, object);
                }
                None => {}
            }
        }
        Some(view)
    }
}

/// Kubernetes 1.35 and newer guarantee that versions are numbers; etcd's fit into 64 bits.
pub(crate) fn number(version: &ResourceVersion) -> Option<u64> {
    version.to_string().parse().ok()
}
