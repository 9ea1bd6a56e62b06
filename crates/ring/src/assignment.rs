//! Which process should own which slots: a function of the present owners and the weights.

use std::ops::Range;

/// The present use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// It can be given to any process.
    Free,
    /// It is owned by the process with this index.
    Owned(usize),
    /// It is owned by a process that takes no part, and cannot be given to another one yet.
    Frozen,
}

/// Returns the owner that each slot should have, as an index into `weights`; `None` for frozen slots, and for all that are
/// free if there is no process.
///
/// Each process gets its weight's share of the slots, rounded down or up. From the owned slots as few as possible are
/// taken, and pieces beside other slots of the receiver first, so that ranges stay few. If a process would nevertheless own
/// more than `max_ranges` ranges, this limit is more important than few moves: ranges are joined by exchanges of slots, the
/// smallest exchange first, until none is above the limit. Only frozen slots between the ranges can prevent this.
///
/// It is deterministic. Each process calculates it for itself, and releases only its own slots, so it is not necessary that
/// two processes have the same result.
///
/// ```
/// use kinformer_ring::{Holder, assign};
///
/// // The first process has all slots, and a second one of the same weight joins: half of them move.
/// let owners = assign(&[Holder::Owned(0); 8], &[1, 1], 32);
/// assert_eq!(owners.iter().filter(|owner| **owner == Some(1)).count(), 4);
/// ```
#[must_use]
pub fn assign(current: &[Holder], weights: &[u32], max_ranges: usize) -> Vec<Option<usize>> {
    let quotas = quotas(current, weights);
    let mut slots = current.to_vec();
    for (donor, quota) in quotas.iter().enumerate() {
        release(&mut slots, donor, *quota, &quotas);
    }
    fill(&mut slots, &quotas);
    join_ranges(&mut slots, weights.len(), max_ranges.max(1));
    let owner = |holder: &Holder| match holder {
        Holder::Owned(owner) => Some(*owner),
        Holder::Free | Holder::Frozen => None,
    };
    slots.iter().map(owner).collect()
}

/// The shares in whole slots. Of the processes whose share is not a whole number, those are rounded up that own more than
/// the lower number already, so that no slot moves for the rounding.
fn quotas(current: &[Holder], weights: &[u32]) -> Vec<usize> {
    let total: u64 = weights.iter().copied().map(u64::from).sum::<u64>().max(1);
    let slots = current.len() as u64;
    let share = |weight: &u32| (slots * u64::from(*weight)) / total;
    let mut quotas: Vec<usize> = weights.iter().map(|weight| share(weight) as usize).collect();
    let mut rounded: Vec<(bool, usize)> = Vec::new();
    for (index, (weight, quota)) in weights.iter().zip(&quotas).enumerate() {
        if !(slots * u64::from(*weight)).is_multiple_of(total) {
            rounded.push((count(current, index) <= *quota, index));
        }
    }
    rounded.sort_unstable();
    let rest = if weights.is_empty() { 0 } else { current.len() - quotas.iter().sum::<usize>() };
    for (_, index) in rounded.into_iter().take(rest) {
        if let Some(quota) = quotas.get_mut(index) {
            *quota += 1;
        }
    }
    quotas
}

fn count(slots: &[Holder], owner: usize) -> usize {
    slots.iter().filter(|holder| **holder == Holder::Owned(owner)).count()
}

/// The maximal ranges of slots with one holder, in order.
fn runs(slots: &[Holder]) -> Vec<(Range<usize>, Holder)> {
    let mut runs: Vec<(Range<usize>, Holder)> = Vec::new();
    for (slot, holder) in slots.iter().enumerate() {
        match runs.last_mut() {
            Some((range, last)) if last == holder => range.end = slot + 1,
            _ => runs.push((slot..slot + 1, *holder)),
        }
    }
    runs
}

fn set(slots: &mut [Holder], range: Range<usize>, holder: Holder) {
    if let Some(slots) = slots.get_mut(range) {
        slots.fill(holder);
    }
}

/// Makes slots of one process free until it owns no more than its quota.
fn release(slots: &mut [Holder], donor: usize, quota: usize, quotas: &[usize]) {
    let mut surplus = count(slots, donor).saturating_sub(quota);
    while surplus > 0 {
        let receives = |holder: Option<&(Range<usize>, Holder)>| match holder {
            Some((_, Holder::Free)) => true,
            Some((_, Holder::Owned(owner))) => {
                quotas.get(*owner).is_some_and(|quota| count(slots, *owner) < *quota)
            }
            _ => false,
        };
        let runs = runs(slots);
        let own = runs.iter().enumerate().filter(|(_, (_, holder))| *holder == Holder::Owned(donor));
        let piece = own.map(|(index, (range, _))| {
            let before = index.checked_sub(1).is_some_and(|index| receives(runs.get(index)));
            let after = receives(runs.get(index + 1));
            let taken = range.len().min(surplus);
            let piece = if before { range.start..range.start + taken } else { range.end - taken..range.end };
            // a range beside a receiver, then the smallest one
            ((!before && !after, range.len(), range.start), piece)
        });
        let Some((_, piece)) = piece.min_by_key(|(order, _)| *order) else { return };
        surplus -= piece.len();
        set(slots, piece, Holder::Free);
    }
}

/// Gives the free slots to the processes that own less than their quota: to the neighbours first, and what remains to the
/// process that lacks most.
fn fill(slots: &mut [Holder], quotas: &[usize]) {
    let mut lacking: Vec<usize> =
        quotas.iter().enumerate().map(|(owner, quota)| quota.saturating_sub(count(slots, owner))).collect();
    let mut free: Vec<Range<usize>> =
        runs(slots).into_iter().filter(is_free).map(|(range, _)| range).collect();
    free.sort_by_key(|range| (usize::MAX - range.len(), range.start));
    for mut range in free {
        for is_before in [true, false] {
            let beside = if is_before { range.start.checked_sub(1) } else { Some(range.end) };
            if let Some(Holder::Owned(owner)) = beside.and_then(|slot| slots.get(slot)).copied() {
                give(slots, &mut range, owner, is_before, &mut lacking);
            }
        }
        while !range.is_empty() {
            let most = lacking.iter().enumerate().max_by_key(|(owner, lacks)| (**lacks, usize::MAX - owner));
            match most {
                Some((owner, lacks)) if *lacks > 0 => give(slots, &mut range, owner, true, &mut lacking),
                _ => break,
            }
        }
    }
}

fn is_free((_, holder): &(Range<usize>, Holder)) -> bool {
    *holder == Holder::Free
}

/// Gives a process as many slots of a range as it lacks, from the start or from the end.
fn give(
    slots: &mut [Holder],
    range: &mut Range<usize>,
    owner: usize,
    from_start: bool,
    lacking: &mut [usize],
) {
    let Some(lacks) = lacking.get_mut(owner) else { return };
    let given = range.len().min(*lacks);
    *lacks -= given;
    let piece = match from_start {
        true => range.start..range.start + given,
        false => range.end - given..range.end,
    };
    match from_start {
        true => range.start += given,
        false => range.end -= given,
    }
    set(slots, piece, Holder::Owned(owner));
}

/// Joins ranges of the processes that own too many. Each exchange removes a range and adds none, so this ends.
fn join_ranges(slots: &mut [Holder], processes: usize, max_ranges: usize) {
    for owner in 0..processes {
        loop {
            let runs = runs(slots);
            let own: Vec<Range<usize>> = runs
                .into_iter()
                .filter(|run| run.1 == Holder::Owned(owner))
                .map(|(range, _)| range)
                .collect();
            if own.len() <= max_ranges {
                break;
            }
            let pairs = own.iter().zip(own.iter().skip(1));
            let exchanges = pairs.flat_map(|(first, second)| {
                // the first range moves to the second one, or the second one to the first one
                [(first.start..second.start, first.len()), (first.end..second.end, second.start - first.end)]
            });
            let possible = exchanges.filter_map(|(range, by)| {
                let mut moved = slots.get(range.clone())?.to_vec();
                if moved.iter().any(|holder| !matches!(holder, Holder::Owned(_))) {
                    return None;
                }
                moved.rotate_left(by);
                let changed = slots.get(range.clone())?.iter().zip(&moved).filter(|(a, b)| a != b).count();
                Some((changed, range, moved))
            });
            let Some((_, range, moved)) = possible.min_by_key(|(changed, range, _)| (*changed, range.start))
            else {
                break;
            };
            if let Some(slots) = slots.get_mut(range) {
                slots.clone_from_slice(&moved);
            }
        }
    }
}
