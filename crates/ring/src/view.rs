//! What a process reads and writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::member::{InvalidMember, Member, Uid};
use crate::slots::Slots;
use crate::table::{Table, TableError};

/// An object as it was read or written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object<T> {
    /// Its UID. An object that is deleted and created again has another one.
    pub uid: Uid,
    /// Its resource version.
    pub version: u64,
    /// What it says.
    pub content: T,
}

/// All Leases of a ring at one resource version: a list, with the changes of a watch applied to it in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The resource version: that of the list, or of the last change. A view with a lower one than an earlier view is ignored.
    pub version: u64,
    /// The table, if it exists.
    pub table: Option<Object<Result<Table, TableError>>>,
    /// The Leases of the processes, by their identity, which is a part of the Lease's name.
    pub members: BTreeMap<Arc<str>, Object<Result<Member, InvalidMember>>>,
}

/// The Lease that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The table.
    Table,
    /// The Lease of the process with this identity.
    Member(Arc<str>),
}

/// How a Lease is changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The table is created, or replaced.
    Table(Table),
    /// The Lease of a process is created, or replaced. `renewTime` is the present time, for people.
    Member(Member),
    /// The Lease is deleted.
    Delete,
}

/// A write that the process should send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The Lease.
    pub target: Target,
    /// UID and resource version that the Lease must have, otherwise the server must refuse the write. `None`: it must not
    /// exist, and is created.
    pub precondition: Option<(Uid, u64)>,
    /// The change.
    pub change: Change,
}

/// How a write has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriteResult {
    /// It has been applied, and the Lease has this UID and resource version (of a deletion they are not used).
    Applied {
        /// The UID of the Lease.
        uid: Uid,
        /// The new resource version.
        version: u64,
    },
    /// The server has refused it, since the precondition was not met (409 or 404): it has not been applied, and will not be.
    Conflict,
    /// Another error, or no response in time: it may have been applied, or be applied later.
    Unknown,
}

/// From which version on the objects of slots must be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListFrom {
    /// The resource version at which the last owner has released the slots, or a later one. Any server may answer, also from
    /// its watch cache.
    AtLeast(u64),
    /// The most recent state (`resourceVersion` unset): the last owner did not say at which version it ended.
    Latest,
}

/// What a process is informed of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The Leases were read.
    View(View),
    /// A write has ended. Each [`Output::Write`] must be answered once.
    Written {
        /// The Lease that was written.
        target: Target,
        /// How it ended.
        result: WriteResult,
    },
    /// The objects of these slots were listed, and they are processed from now on.
    Listed {
        /// The slots.
        slots: Slots,
        /// The resource version of the list.
        version: u64,
    },
    /// The objects of these slots are not processed any more: all work in progress has ended, and no write is in flight.
    Drained {
        /// The slots.
        slots: Slots,
        /// A resource version that is not older than the last write of this process to an object of these slots; `None` if there
        /// is none to compare: the next owner then lists the most recent state.
        version: Option<u64>,
    },
    /// The process is going to end: it hands its slots over. [`Output::Left`] follows.
    Leave,
}

/// What a process should do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send this write, and answer it by [`Input::Written`]. There is at most one at a time for each Lease.
    Write(Write),
    /// These slots are owned from now on, as long as [`Machine::valid_for`](crate::Machine::valid_for) is not over. List
    /// their objects, answer by [`Input::Listed`], and process them.
    Own {
        /// The slots.
        slots: Slots,
        /// From which version on to list.
        list: ListFrom,
    },
    /// End the work on these slots, and answer by [`Input::Drained`].
    Release {
        /// The slots.
        slots: Slots,
    },
    /// Stop at once: these slots may soon have another owner. There is no answer.
    Stop {
        /// The slots.
        slots: Slots,
        /// Why.
        reason: StopReason,
    },
    /// The process has left. No other output follows.
    Left,
}

/// Why a process must stop at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// The Lease was not renewed before the renew deadline, or no read has shown the renewal.
    #[error("the lease was not renewed in time")]
    NotRenewed,
    /// The Lease was deleted, or another process has declared it expired.
    #[error("the lease was deleted, or another process has declared it expired")]
    LeaseLost,
    /// The table was deleted, replaced or damaged.
    #[error("the table was deleted, replaced or damaged")]
    TableLost,
    /// The process ends, and has not handed the slots over.
    #[error("the process ends, and has not handed the slots over")]
    Ended,
    /// The table gives the slots to another process, although this one has not released them.
    #[error("the table gives the slots to another process")]
    TableChanged,
}
