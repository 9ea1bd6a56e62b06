//! The state of one process of a ring.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, InvalidConfig};
use crate::member::{Member, MemberId, Uid};
use crate::table::Table;
use crate::view::{Object, View};

/// One process of a ring: what it knows, and what it does next. It has no clock, no I/O and no runtime: see [`Self::step`].
///
/// It is equal to another one if both would do the same from now on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub(super) config: Config,
    /// The last view; its table may be a newer one that this process has written itself.
    pub(super) view: Option<View>,
    pub(super) lease: OwnLease,
    /// The resource versions of other processes' Leases, and for how long each has been seen unchanged. `None`: the table
    /// has slots of a Lease that does not exist.
    pub(super) seen: BTreeMap<MemberId, (Option<u64>, Duration)>,
    /// For how long the table with this UID has been seen.
    pub(super) table_age: Option<(Uid, Duration)>,
    /// The slots that the table gives to this process, as far as it has noted it.
    pub(super) mine: BTreeMap<u16, Phase>,
    pub(super) table_write: TableWrite,
    /// The Lease of another process that is being written, and after how long the next write may begin.
    pub(super) other_write: (Option<Arc<str>>, Duration),
    /// After how long this process releases slots that others should own, although processes before it have not; `None` if it
    /// does not wait for them.
    pub(super) turn_in: Option<Duration>,
    pub(super) is_leaving: bool,
    pub(super) has_left: bool,
}

/// What this process does with a slot that the table gives to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It has been owned since [`Output::Own`](crate::Output::Own), and is listed at least at this version.
    Listing(Option<u64>),
    /// It is owned and has been listed.
    Acting,
    /// It is still owned, and is being released.
    Draining,
    /// It has been released at this resource version.
    Drained(Option<u64>),
    /// It is not owned, since the process had to stop. It can be again.
    Stopped,
}

impl Phase {
    /// Whether objects of the slot may be processed.
    pub(super) fn is_active(self) -> bool {
        matches!(self, Self::Listing(_) | Self::Acting | Self::Draining)
    }
}

/// The Lease of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct OwnLease {
    /// Its UID and resource version.
    pub(super) object: Option<(Uid, u64)>,
    /// The table that this process has followed last, also under a Lease that is lost.
    pub(super) followed: Option<Uid>,
    /// What this process has written into it.
    pub(super) written: Option<Member>,
    /// The write in flight, and how long ago it was sent.
    pub(super) sent: Option<(Member, Duration)>,
    /// The versions written by this process that no view has shown yet, and how long ago each was sent.
    pub(super) unseen: Vec<(u64, Duration)>,
    /// For how long this process may still process objects.
    pub(super) valid_for: Duration,
    pub(super) renew_in: Duration,
    pub(super) retry_in: Duration,
    /// How many Leases this process has lost.
    pub(super) lost: u64,
    /// The server refused to create the Lease, since it exists, and no view has it.
    pub(super) is_hidden: bool,
}

/// The writes of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TableWrite {
    /// The version that the write in flight requires, and the table that it writes.
    pub(super) in_flight: Option<(Option<u64>, Option<Table>)>,
    /// The version required by a write that may have been applied, or may be yet as long as the table has this version.
    pub(super) unresolved: Option<u64>,
    pub(super) retry_in: Duration,
    /// The server refused to create the table, since it exists, and no view has it.
    pub(super) is_hidden: bool,
}

impl Machine {
    /// Creates a process that has not read anything yet, and has no Lease.
    ///
    /// # Errors
    /// An option is invalid.
    pub fn new(config: Config) -> Result<Self, InvalidConfig> {
        config.check()?;
        Ok(Self {
            config,
            view: None,
            lease: OwnLease::default(),
            seen: BTreeMap::new(),
            table_age: None,
            mine: BTreeMap::new(),
            table_write: TableWrite::default(),
            other_write: (None, Duration::ZERO),
            turn_in: None,
            is_leaving: false,
            has_left: false,
        })
    }

    /// Sets the incarnation, before the first step.
    pub(crate) fn with_incarnation(mut self, incarnation: Arc<str>) -> Self {
        self.config.incarnation = incarnation;
        self
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, elapsed: Duration) {
        let older = |age: &mut Duration| *age = age.saturating_add(elapsed);
        let nearer = |left: &mut Duration| *left = left.saturating_sub(elapsed);
        let lease = &mut self.lease;
        lease.sent.iter_mut().for_each(|(_, age)| older(age));
        lease.unseen.iter_mut().for_each(|(_, age)| older(age));
        for left in [&mut lease.valid_for, &mut lease.renew_in, &mut lease.retry_in] {
            nearer(left);
        }
        let deadline = self.config.params.renew_deadline;
        lease.unseen.retain(|(_, age)| *age < deadline);
        self.seen.values_mut().for_each(|(_, age)| older(age));
        self.table_age.iter_mut().for_each(|(_, age)| older(age));
        nearer(&mut self.table_write.retry_in);
        nearer(&mut self.other_write.1);
        self.turn_in.iter_mut().for_each(nearer);
    }

    /// The member that this process is, if it has a Lease.
    #[must_use]
    pub fn id(&self) -> Option<MemberId> {
        let (uid, _) = self.lease.object.as_ref()?;
        Some(MemberId::new(&self.config.identity, uid))
    }

    /// The table that was read or written last, if it is readable.
    pub(super) fn table(&self) -> Option<Object<&Table>> {
        let object = self.view.as_ref()?.table.as_ref()?;
        let content = object.content.as_ref().ok()?;
        Some(Object { uid: object.uid.clone(), version: object.version, content })
    }

    /// The table, if it has the parameters of this process.
    pub(super) fn usable_table(&self) -> Option<Object<&Table>> {
        self.table().filter(|table| table.content.params == self.config.params)
    }

    /// The table, if this process follows it.
    pub(super) fn followed_table(&self) -> Option<Object<&Table>> {
        let follows = self.lease.written.as_ref()?.follows.as_ref();
        self.lease.object.as_ref()?;
        self.usable_table().filter(|table| follows == Some(&table.uid))
    }

    pub(super) fn has_unresolved_write(&self) -> bool {
        let object = self.view.as_ref().and_then(|view| view.table.as_ref());
        object.is_some_and(|table| self.table_write.unresolved == Some(table.version))
    }
}
