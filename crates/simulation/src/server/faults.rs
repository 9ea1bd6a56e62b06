//! Faults: how a response differs from that of a healthy server.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A list, or one page.
    List,
    /// A watch or a watch-list.
    Watch,
    /// A request for one object: a read or a write.
    Object,
}

/// A fault of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error response.
    Status {
        /// The status code.
        code: u16,
        /// The value of the header `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// An error response whose header `Retry-After` is not repeated in its details.
    Busy {
        /// The status code.
        code: u16,
        /// The value of the header, in seconds.
        seconds: u32,
    },
    /// A damaged response.
    Damaged(Damage),
    /// The connection is refused.
    Refused,
    /// The request is never answered.
    NoAnswer,
    /// No connection is established: the request fails after 10 s, unless the [outage](super::Server::set_outage) ends
    /// before.
    Unreachable,
    /// The response begins after this time.
    Delay(Duration),
    /// The body stops early.
    Stop {
        /// The number of bytes before that.
        bytes: usize,
        /// How it stops.
        stop: Stop,
    },
    /// A watch without bookmarks, except the one that ends the initial events.
    NoBookmarks,
}

/// The damage of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The next event of a watch is cut. Its line ends as usual.
    Event,
    /// The name of the next event of a watch, or of an item of a list, is a number.
    Name,
    /// A list is the empty list of another kind.
    Kind,
    /// A list for a version, which a client sends only after an earlier list, is empty and has no version.
    Version,
}

/// How a body stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The connection breaks.
    Broken,
    /// The body ends, as if it were complete.
    Ended,
    /// No more bytes arrive, and the connection stays open until [`Server::break_watches`](super::Server::break_watches).
    Silent,
}

const CODES: [u16; 9] = [401, 403, 404, 410, 429, 500, 502, 503, 504];

/// The faults of the next requests.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    planned: VecDeque<(Option<Verb>, Fault)>,
    per_mille: u32,
    /// The fault of every request.
    outage: Option<Fault>,
}

impl Faults {
    pub(crate) fn plan(&mut self, verb: Option<Verb>, fault: Fault) {
        self.planned.push_back((verb, fault));
    }

    pub(crate) fn set_rate(&mut self, per_mille: u32) {
        self.per_mille = per_mille;
    }

    pub(crate) fn set_outage(&mut self, fault: Option<Fault>) {
        self.outage = fault;
    }

    pub(crate) fn is_outage(&self) -> bool {
        self.outage.is_some()
    }

    /// Drops all planned and random faults.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes the fault of a request: that of the outage, the first planned one that fits, or a random one.
    pub(crate) fn take(&mut self, verb: Verb, rng: &mut Rng) -> Option<Fault> {
        if self.outage.is_some() {
            return self.outage;
        }
        let fits = |(planned, _): &(Option<Verb>, Fault)| planned.is_none_or(|planned| planned == verb);
        if let Some(index) = self.planned.iter().position(fits) {
            return self.planned.remove(index).map(|(_, fault)| fault);
        }
        // Drawn at every rate, so that the generator is in the same state with and without random faults.
        let drawn = rng.u32(..1000);
        (drawn < self.per_mille).then(|| random(rng))
    }
}

fn random(rng: &mut Rng) -> Fault {
    match rng.u8(..8) {
        0 | 1 => {
            let code = rng.choice(CODES).unwrap_or(500);
            let retry_after = (code == 429).then(|| rng.u32(..5));
            Fault::Status { code, retry_after }
        }
        2 => Fault::Refused,
        3 => Fault::NoAnswer,
        4 => Fault::Delay(Duration::from_millis(rng.u64(..10_000))),
        5 => Fault::NoBookmarks,
        _ => {
            let stop = rng.choice([Stop::Broken, Stop::Ended, Stop::Silent]).unwrap_or(Stop::Broken);
            Fault::Stop { bytes: rng.usize(..2_000), stop }
        }
    }
}
