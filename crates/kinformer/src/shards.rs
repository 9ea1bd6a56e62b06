//! The parts of an informer that holds a shard.

use std::sync::Arc;

use kinformer_core::{KeyRef, PartId, Partition, ResourceVersion};
use kinformer_kube::{KubeListerWatcher, PackedObject, Shard, ShardField, ShardSelector};

use crate::scope::ScopedShard;

/// How many parts a shard has at most. Each is a watch. When more ranges are added, all are listed again by one.
const MAX_PARTS: usize = 8;

/// One part of a shard: the ranges that were added by one change of the scope, without those that have left since.
#[derive(Clone, Debug)]
pub(crate) struct ShardPart {
    name: Arc<str>,
    /// Shared with its source.
    shard: Shard,
    at_least: ResourceVersion,
}

impl PartialEq for ShardPart {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ShardPart {}

impl ShardPart {
    /// Returns the parts of a shard: those before, as far as they are in it, and one with what is new. `next` is the number of
    /// the next new part.
    pub(crate) fn of_scope(
        scope: &ScopedShard,
        before: impl Iterator<Item = Self>,
        next: &mut u32,
    ) -> Vec<Self> {
        let ScopedShard { selector, at_least } = scope;
        let is_of_field = |part: &Self| part.shard.selector().field() == selector.field();
        let kept = before.filter(is_of_field).filter_map(|part| {
            let left = part.shard.selector().and(selector);
            (!left.is_empty()).then_some((part, left))
        });
        let mut kept: Vec<(Self, ShardSelector)> = kept.collect();
        let mut added = kept.iter().fold(selector.clone(), |rest, (_, left)| rest.without(left));
        if !added.is_empty() && kept.len() >= MAX_PARTS {
            kept.clear();
            added = selector.clone();
        }
        let narrowed = kept.into_iter().map(|(part, left)| {
            part.shard.narrow(left);
            part
        });
        let mut parts: Vec<Self> = narrowed.collect();
        if !added.is_empty() {
            let (name, at_least) = (format!("shard {next}").into(), at_least.clone());
            *next += 1;
            parts.push(Self { name, shard: Shard::new(added), at_least });
        }
        parts
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn restrict(
        &self,
        source: KubeListerWatcher<PackedObject>,
    ) -> KubeListerWatcher<PackedObject> {
        source.shard(self.shard.clone()).at_least(self.at_least.clone())
    }

    /// Whether an object is in this part.
    pub(crate) fn has(&self, object: &PackedObject) -> bool {
        has(&self.shard.selector(), object)
    }

    pub(crate) fn selector(&self) -> Arc<ShardSelector> {
        self.shard.selector()
    }
}

fn has(selector: &ShardSelector, object: &PackedObject) -> bool {
    selector.matches(selector.field().value(object))
}

/// The assignment of objects to the parts of a shard.
pub(crate) struct ByShard(pub(crate) Vec<Arc<ShardSelector>>);

impl Partition<PackedObject> for ByShard {
    fn parts(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    fn part_of(&self, object: &PackedObject) -> Option<PartId> {
        self.find(|selector| has(selector, object))
    }

    fn part_of_key(&self, key: KeyRef<'_>) -> Option<PartId> {
        self.find(|selector| {
            selector.field() == ShardField::Namespace && selector.matches(key.namespace().unwrap_or_default())
        })
    }
}

impl ByShard {
    fn find(&self, is_of: impl Fn(&ShardSelector) -> bool) -> Option<PartId> {
        let index = self.0.iter().position(|selector| is_of(selector))?;
        u32::try_from(index).ok().map(PartId::new)
    }
}
