//! The undelivered events of one handler. Each buffer policy is a file of this folder.

mod back_pressure;
mod coalesced;
mod every_event;
mod policy;

use kinformer_core::Object;

pub(crate) use self::policy::{Backlog, Opened, Parts};

/// What happens to the undelivered events of a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Buffer {
    /// All of them wait: memory grows with the backlog of the handler, which its
    /// [statistics](crate::Registration::metrics) show. The default, as upstream.
    #[default]
    EveryEvent,
    /// At most one event for each key waits: the newest state replaces the one that waits. `old` stays the state that
    /// was delivered last; an addition and a deletion that both wait cancel out; a deletion and an addition become one
    /// update. Keys are delivered in the order in which they began to wait.
    Coalesced,
    /// All of them wait, and a publisher that [sends](crate::SharedProcessor::send) waits while this many are
    /// undelivered (at least 1): a slow handler then slows down everything before it, the store included.
    BackPressure(usize),
}

/// Opens the backlog of a handler. Each policy has its line here.
pub(crate) fn open<T: Object>(buffer: Buffer, parts: Parts<T>) -> Opened<T> {
    match buffer {
        Buffer::EveryEvent => every_event::open(parts),
        Buffer::Coalesced => coalesced::open(parts),
        Buffer::BackPressure(bound) => back_pressure::open(parts, bound),
    }
}
