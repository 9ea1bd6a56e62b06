//! For how long a slot has no owner.

use std::collections::BTreeSet;
use std::time::Duration;

use kinformer_controller::kinformer_ring::{MemberId, Slots};

use super::judge::Judge;

/// The longest time for a handover after a release, at the longest steps.
const HANDOVER: Duration = Duration::from_secs(5);

/// The part of a time that requests take, at the longest steps.
const REQUESTS: Duration = Duration::from_secs(1);

/// Measures for how long each slot has no owner that runs.
pub(crate) struct Gaps {
    judge: Judge,
    /// The longest times, by the clock of the slowest process.
    handover: Duration,
    takeover: Duration,
    /// How much later each further Lease is closed that has expired at the same time.
    further: Duration,
    slots: Vec<Gap>,
    /// When processes have failed.
    failed: Vec<Duration>,
}

/// A slot, and the beginning of the time for which it has had no owner.
#[derive(Clone, Debug, Default)]
struct Gap {
    owner: Option<MemberId>,
    since: Duration,
    /// Whether the owner by the table has failed, so that its Lease must expire.
    is_lost: bool,
}

/// A process at the end of a step.
pub(crate) struct Present {
    /// What it is in the table: a later start of its identity is another member.
    pub(crate) member: Option<MemberId>,
    /// Whether it runs, also if it ends.
    pub(crate) runs: bool,
    pub(crate) is_connected: bool,
    pub(crate) owned: Slots,
    /// Since when it can take slots over, if it can.
    pub(crate) healthy: Option<Duration>,
}

impl Gaps {
    /// The speed of the slowest clock, and the retry period.
    pub(crate) fn new(judge: &Judge, slowest: f64, retry: Duration) -> Self {
        let lease = judge.params.lease_duration + Duration::from_secs(1);
        Self {
            judge: judge.clone(),
            handover: HANDOVER,
            takeover: lease.div_f64(slowest) + REQUESTS,
            further: retry.div_f64(slowest),
            slots: vec![Gap::default(); usize::from(judge.params.slots)],
            failed: Vec::new(),
        }
    }

    /// A process is killed, stopped or isolated, or is not any more: its Lease may have to expire.
    pub(crate) fn failed(&mut self, identity: &str, now: Duration) {
        self.failed.push(now);
        let of_process =
            |gap: &&mut Gap| gap.owner.as_ref().is_some_and(|owner| owner.identity() == identity);
        for gap in self.slots.iter_mut().filter(of_process) {
            (gap.since, gap.is_lost) = (now, true);
        }
    }

    /// Checks the slots at the end of a step (K-25, Y-05a).
    pub(crate) fn check(&mut self, now: Duration, processes: &[Present]) {
        let mut served = vec![false; self.slots.len()];
        for slot in processes.iter().filter(|process| process.runs).flat_map(|process| process.owned.iter()) {
            if let Some(served) = served.get_mut(usize::from(slot)) {
                *served = true;
            }
        }
        let able = processes.iter().filter(|process| process.runs && process.is_connected);
        let able: BTreeSet<&MemberId> = able.filter_map(|process| process.member.as_ref()).collect();
        let healthy = processes.iter().filter_map(|process| process.healthy).min().unwrap_or(now);
        let recent = now.saturating_sub(self.takeover * 2);
        self.failed.retain(|time| *time >= recent);
        let further = u32::try_from(self.failed.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let takeover = self.takeover + self.further * further;
        let owners = self.judge.owners();
        let mut late = Vec::new();
        for ((number, gap), (owner, is_served)) in
            self.slots.iter_mut().enumerate().zip(owners.iter().zip(served))
        {
            if gap.owner != *owner || is_served {
                gap.owner.clone_from(owner);
                gap.since = now;
                gap.is_lost = !owner.as_ref().is_some_and(|owner| able.contains(owner));
            }
            let longest = if gap.is_lost { takeover } else { self.handover };
            if now.saturating_sub(gap.since.max(healthy)) > longest {
                late.push(u16::try_from(number).unwrap_or(u16::MAX));
                gap.since = now;
            }
        }
        if !late.is_empty() {
            let late: Slots = late.into_iter().collect();
            self.judge.violation(format_args!("slots {late} have no owner for too long"));
        }
    }
}
