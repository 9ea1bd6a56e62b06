//! The slots that a process owns, for questions from anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kinformer_leader_election::{Clock, End, Term};
use parking_lot::Mutex;

use crate::config::{MAX_SLOTS, Params};
use crate::machine::Machine;
use crate::slots::Slots;

const WORDS: usize = MAX_SLOTS as usize / 64;

/// What the last step of the protocol has decided.
pub(crate) struct Owned {
    lease: Arc<str>,
    identity: Arc<str>,
    params: Params,
    clock: Arc<dyn Clock>,
    /// A bit for each slot.
    slots: [AtomicU64; WORDS],
    /// Until when they are owned, in nanoseconds of the clock.
    until: AtomicU64,
    /// The time during which writes are allowed.
    term: Mutex<Arc<Term>>,
}

impl Owned {
    pub(crate) fn new(lease: Arc<str>, identity: Arc<str>, params: Params, clock: Arc<dyn Clock>) -> Self {
        let term = term(&lease, &identity, &params, clock.clone(), Duration::ZERO);
        term.end(End::NotElected);
        let (slots, until) = (std::array::from_fn(|_| AtomicU64::new(0)), AtomicU64::new(0));
        Self { lease, identity, params, clock, slots, until, term: Mutex::new(Arc::new(term)) }
    }

    /// Publishes the state of the protocol after a step at this time.
    pub(crate) fn publish(&self, machine: &Machine, now: Duration) {
        let valid_for = machine.valid_for();
        self.set(&machine.owned(), now.saturating_add(valid_for));
        let mut term = self.term.lock();
        if valid_for.is_zero() {
            let end = if machine.id().is_none() { End::Removed } else { End::Expired(None) };
            term.end(end);
            return;
        }
        // when the renewal that counts was sent
        let since = now.saturating_sub(self.params.renew_deadline.saturating_sub(valid_for));
        if term.check().is_ok() {
            term.renewed(since);
        } else {
            let (lease, identity) = (&self.lease, &self.identity);
            let next = self::term(lease, identity, &self.params, self.clock.clone(), since);
            next.unanswered(term.unanswered_until());
            *term = Arc::new(next);
        }
    }

    /// The process owns nothing any more.
    pub(crate) fn end(&self) {
        self.set(&Slots::default(), Duration::ZERO);
        self.term.lock().end(End::Released);
    }

    fn set(&self, owned: &Slots, until: Duration) {
        let mut words = [0u64; WORDS];
        for slot in owned.iter() {
            if let Some(word) = words.get_mut(usize::from(slot / 64)) {
                *word |= 1 << (slot % 64);
            }
        }
        for (word, now) in self.slots.iter().zip(words) {
            word.store(now, Ordering::Release);
        }
        self.until.store(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }

    pub(crate) fn has(&self, slot: u16) -> bool {
        let word = self.slots.get(usize::from(slot / 64)).map_or(0, |word| word.load(Ordering::Acquire));
        let until = Duration::from_nanos(self.until.load(Ordering::Acquire));
        word & (1 << (slot % 64)) != 0 && self.clock.now() < until
    }

    pub(crate) fn term(&self) -> Arc<Term> {
        self.term.lock().clone()
    }

    pub(crate) fn params(&self) -> &Params {
        &self.params
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }
}

fn term(
    lease: &Arc<str>,
    identity: &Arc<str>,
    params: &Params,
    clock: Arc<dyn Clock>,
    since: Duration,
) -> Term {
    let Params { lease_duration, renew_deadline, .. } = *params;
    Term::new(lease.clone(), identity.clone(), clock, lease_duration, renew_deadline, since)
}
