//! The steps of a random history, and how they are written.

use kinformer_core::{Delta, Error, PartialErrors, Replacement};
use kinformer_delta_fifo::Queue;
use proptest::prelude::*;

use super::{Pod, pod, unknown};

#[derive(Clone, Debug)]
pub enum Step<O> {
    Add(u8),
    Update(u8),
    Delete(u8),
    DeleteUnknown(u8),
    /// The listed objects, the undelivered ones, and how many are unidentified.
    Replace(Vec<u8>, Vec<u8>, usize),
    Resync,
    Bookmark,
    /// A step other than a write, defined by the test.
    Other(O),
}

/// The relative frequency of each kind of step.
pub struct Weights {
    pub write: u32,
    pub delete_unknown: u32,
    pub resync: u32,
    pub bookmark: u32,
    pub other: u32,
}

pub fn any_step<O: Clone + std::fmt::Debug + 'static>(
    weights: Weights,
    other: impl Strategy<Value = O> + 'static,
) -> impl Strategy<Value = Step<O>> {
    let key = 0u8..5;
    prop_oneof![
        weights.write => key.clone().prop_map(Step::Add),
        weights.write => key.clone().prop_map(Step::Update),
        weights.write => key.clone().prop_map(Step::Delete),
        weights.delete_unknown => key.clone().prop_map(Step::DeleteUnknown),
        weights.write => (
            prop::collection::vec(key.clone(), 0..5),
            prop::collection::vec(key, 0..2),
            prop_oneof![4 => Just(0), 1 => Just(1_usize)],
        )
            .prop_map(|(keys, undelivered, unidentified)| Step::Replace(keys, undelivered, unidentified)),
        weights.resync => Just(Step::Resync),
        weights.bookmark => Just(Step::Bookmark),
        weights.other => other.prop_map(Step::Other),
    ]
}

pub fn name(key: u8) -> String {
    format!("p{key}")
}

/// Writes the objects of a step with this value.
pub fn write<O>(queue: &dyn Queue<Pod>, step: &Step<O>, value: u32) -> Result<PartialErrors, Error> {
    match step {
        Step::Add(key) => one(queue, Delta::Added(pod(&name(*key), value))),
        Step::Update(key) => one(queue, Delta::Updated(pod(&name(*key), value))),
        Step::Delete(key) => one(queue, Delta::Deleted(pod(&name(*key), value).into())),
        Step::DeleteUnknown(key) => one(queue, Delta::Deleted(unknown(&name(*key), None))),
        Step::Replace(keys, undelivered, unidentified) => {
            let objects = keys.iter().map(|key| pod(&name(*key), value)).collect();
            let undelivered = undelivered.iter().map(|key| name(*key).parse().unwrap());
            let list = Replacement::new(objects, value.to_string());
            let list = list.undelivered(undelivered).unidentified(*unidentified);
            queue.apply(Delta::ReplacedAll(Box::new(list)).into())
        }
        Step::Resync => queue.apply(Delta::SyncAll.into()),
        Step::Bookmark => queue.apply(Delta::bookmark(value.to_string()).into()),
        Step::Other(_) => Ok(PartialErrors::default()),
    }
}

fn one(queue: &dyn Queue<Pod>, delta: Delta<Pod>) -> Result<PartialErrors, Error> {
    queue.apply(delta.into())?.require_applied()
}
