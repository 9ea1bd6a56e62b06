//! The steps of a random history, and how they are written.

use kinformer_core::{Error, Replacement, Report, Sink};
use kinformer_delta_fifo::Queue;
use proptest::prelude::*;

use super::{Pod, pod, unknown};

#[derive(Clone, Debug)]
pub enum Step<O> {
    Add(u8),
    Update(u8),
    Delete(u8),
    DeleteUnknown(u8),
    /// The listed objects, the undelivered ones, and how many are unreadable.
    Replace(Vec<u8>, Vec<u8>, usize),
    Resync,
    Bookmark,
    /// What a test does besides writing.
    Other(O),
}

/// How often each kind of step comes.
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
            .prop_map(|(keys, undelivered, unreadable)| Step::Replace(keys, undelivered, unreadable)),
        weights.resync => Just(Step::Resync),
        weights.bookmark => Just(Step::Bookmark),
        weights.other => other.prop_map(Step::Other),
    ]
}

pub fn name(key: u8) -> String {
    format!("p{key}")
}

/// Writes the objects of a step with this value.
pub fn write<O>(queue: &dyn Queue<Pod>, step: &Step<O>, value: u32) -> Result<Report, Error> {
    match step {
        Step::Add(key) => Sink::add(queue, pod(&name(*key), value)),
        Step::Update(key) => queue.update(pod(&name(*key), value)),
        Step::Delete(key) => queue.delete(pod(&name(*key), value).into()),
        Step::DeleteUnknown(key) => queue.delete(unknown(&name(*key), None)),
        Step::Replace(keys, undelivered, unreadable) => {
            let objects = keys.iter().map(|key| pod(&name(*key), value)).collect();
            let undelivered = undelivered.iter().map(|key| name(*key).parse().unwrap());
            let list = Replacement::new(objects, value.to_string());
            queue.replace(list.undelivered(undelivered).unreadable(*unreadable))
        }
        Step::Resync => queue.resync().map(|()| Report::default()),
        Step::Bookmark => queue.bookmark(value.to_string().into()).map(|()| Report::default()),
        Step::Other(_) => Ok(Report::default()),
    }
}
