//! Property tests of the assignment.

use kinformer_ring::{Holder, assign};
use proptest::prelude::*;

fn counts(slots: &[Option<usize>], processes: usize) -> Vec<usize> {
    (0..processes).map(|index| slots.iter().filter(|owner| **owner == Some(index)).count()).collect()
}

fn ranges(slots: &[Option<usize>], index: usize) -> usize {
    let starts =
        |slot: &usize| slots[*slot] == Some(index) && (*slot == 0 || slots[*slot - 1] != Some(index));
    (0..slots.len()).filter(starts).count()
}

/// The fewest owned slots that must change their owner: all of a process above its share rounded down or up, where as many
/// are rounded up as remain.
fn fewest_moves(current: &[Holder], weights: &[u32]) -> usize {
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    let (mut moves, mut rest, mut saved) = (0, current.len(), 0);
    for (index, weight) in weights.iter().enumerate() {
        let count = current.iter().filter(|holder| **holder == Holder::Owned(index)).count();
        let product = current.len() as u64 * u64::from(*weight);
        let share = (product / total) as usize;
        rest -= share;
        moves += count.saturating_sub(share);
        saved += usize::from(count > share && !product.is_multiple_of(total));
    }
    moves - saved.min(rest)
}

fn moves(current: &[Holder], next: &[Option<usize>]) -> usize {
    let is_moved = |(before, after): &(&Holder, &Option<usize>)| match before {
        Holder::Owned(owner) => **after != Some(*owner),
        _ => false,
    };
    current.iter().zip(next).filter(is_moved).count()
}

fn holder(processes: usize) -> impl Strategy<Value = Holder> {
    prop_oneof![1 => Just(Holder::Free), 12 => (0..processes).prop_map(Holder::Owned)]
}

/// A table of ranges of some length, and weights.
fn tables() -> impl Strategy<Value = (Vec<Holder>, Vec<u32>)> {
    (1usize..12).prop_flat_map(|processes| {
        let runs = prop::collection::vec((holder(processes), 1usize..80), 1..80);
        let slots = runs.prop_map(|runs| {
            let slots = runs.into_iter().flat_map(|(holder, length)| std::iter::repeat_n(holder, length));
            let mut slots: Vec<Holder> = slots.take(1024).collect();
            slots.resize(1024, Holder::Free);
            slots
        });
        (slots, prop::collection::vec(1u32..10, processes))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each process gets its share to within one slot and at most the allowed ranges, by the fewest moves if the ranges allow.
    // contract: Y-02a, Y-02b, Y-02c
    #[test]
    fn shares_and_moves((current, weights) in tables()) {
        let next = assign(&current, &weights, 32);
        let total: u32 = weights.iter().sum();
        for (count, weight) in counts(&next, weights.len()).into_iter().zip(&weights) {
            let share = 1024.0 * f64::from(*weight) / f64::from(total);
            prop_assert!((count as f64 - share).abs() < 1.0, "{count} of {share}");
        }
        prop_assert!(next.iter().all(Option::is_some));
        prop_assert!((0..weights.len()).all(|index| ranges(&next, index) <= 32));
        let unlimited = assign(&current, &weights, 1024);
        prop_assert_eq!(moves(&current, &unlimited), fewest_moves(&current, &weights));
        // with what is as it should be nothing moves
        let settled: Vec<Holder> = next.iter().map(|owner| Holder::Owned(owner.unwrap())).collect();
        prop_assert_eq!(assign(&settled, &weights, 32), next);
    }

    /// Frozen slots stay, and are the only ones without an owner.
    #[test]
    fn frozen_slots((mut current, weights) in tables(), first in 0usize..1000, length in 1usize..200) {
        let end = (first + length).min(1024);
        current[first..end].fill(Holder::Frozen);
        let next = assign(&current, &weights, 32);
        for (before, after) in current.iter().zip(&next) {
            prop_assert_eq!(*before == Holder::Frozen, after.is_none());
        }
    }

    /// Processes join and leave, each owner hands over what it should at a moment of its own: all comes to rest, with few
    /// ranges and at most the fewest moves, as long as no ranges have to be joined.
    // contract: Y-02d
    #[test]
    fn churn(changes in prop::collection::vec((any::<bool>(), 0usize..24), 1..60), order in any::<u64>()) {
        let (mut alive, mut rng) = (vec![0usize], fastrand::Rng::with_seed(order));
        let mut owners: Vec<Option<usize>> = vec![Some(0); 1024];
        for (joins, process) in changes {
            match alive.binary_search(&process) {
                Err(place) if joins => alive.insert(place, process),
                Ok(place) if !joins && alive.len() > 1 => drop(alive.remove(place)),
                _ => continue,
            }
            let weights = vec![1; alive.len()];
            let present = |owners: &[Option<usize>]| -> Vec<Holder> {
                let holder = |owner: &Option<usize>| {
                    owner.and_then(|owner| alive.binary_search(&owner).ok()).map_or(Holder::Free, Holder::Owned)
                };
                owners.iter().map(holder).collect()
            };
            let fewest = fewest_moves(&present(&owners), &weights);
            let is_joined = assign(&present(&owners), &weights, 32) != assign(&present(&owners), &weights, 1024);
            let (mut moved, mut rounds) = (0, 0);
            loop {
                let current = present(&owners);
                let next = assign(&current, &weights, 32);
                let differs = |slot: &usize| current[*slot] != Holder::Owned(next[*slot].unwrap());
                let changed: Vec<usize> = (0..1024).filter(differs).collect();
                let Some(first) = rng.choice(changed.iter().copied()) else { break };
                // one owner hands over all that it should
                for slot in changed.into_iter().filter(|slot| current[*slot] == current[first]) {
                    moved += usize::from(current[slot] != Holder::Free);
                    owners[slot] = next[slot].map(|index| alive[index]);
                }
                rounds += 1;
                prop_assert!(rounds <= 200, "no rest");
            }
            prop_assert!(is_joined || moved <= fewest, "{} moves, {} are enough", moved, fewest);
            for index in 0..alive.len() {
                let end: Vec<Option<usize>> =
                    owners.iter().map(|owner| alive.binary_search(&owner.unwrap()).ok()).collect();
                prop_assert!(ranges(&end, index) <= 32);
            }
        }
    }
}
