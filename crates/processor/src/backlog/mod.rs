//! The undelivered events of one handler. Each buffer policy has a file in this folder.

mod back_pressure;
mod coalesced;
mod every_event;
mod policy;

use kinformer_core::Object;

pub(crate) use self::policy::{Backlog, Opened, Reading};

/// The policy for the undelivered events of a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Buffer {
    /// Keeps all events. Memory grows with the backlog of the handler, which its
    /// [metrics](crate::Registration::metrics) show. The default, as in client-go.
    #[default]
    EveryEvent,
    /// Keeps at most one event for each key: a newer state replaces the undelivered one. `old` is always the state that
    /// was delivered last. An undelivered addition and its deletion cancel out. A deletion and an addition become one
    /// update. Keys are delivered in the order of their oldest undelivered event, so the revision of an event can be
    /// lower than that of the event before it.
    Coalesced,
    /// Keeps all events, and makes a publisher that [sends](crate::SharedProcessor::send) wait while this many are
    /// undelivered (at least 1). A slow handler then slows down the whole pipeline before it, including the store.
    BackPressure(usize),
}

/// Opens the backlog of a handler. Each policy has a line here.
pub(crate) fn open<T: Object>(buffer: Buffer, reading: Reading<T>) -> Opened<T> {
    match buffer {
        Buffer::EveryEvent => every_event::open(reading),
        Buffer::Coalesced => coalesced::open(reading),
        Buffer::BackPressure(bound) => back_pressure::open(reading, bound),
    }
}
