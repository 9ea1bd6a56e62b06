//! Random graphs of owners, against a small model of the collector.
//!
//! The model has plain lists, finds dependents by looking at every object, and predicts each event.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{MAPS, World, blocking, owner};

const HOLD: &str = "example.com/hold";
const FOREGROUND: &str = "foregroundDeletion";

#[derive(Clone, Debug)]
enum Step {
    Delete(usize, Policy),
    Release(usize),
    Adopt(usize, Vec<(usize, bool)>),
}

#[derive(Clone, Copy, Debug)]
enum Policy {
    Default,
    Background,
    Foreground,
    Orphan,
}

/// The owners of an object, and whether it blocks them.
type Owners = Vec<(usize, bool)>;

fn owners(objects: usize) -> impl Strategy<Value = Owners> {
    proptest::collection::btree_map(0..objects, any::<bool>(), 0..3).prop_map(|map| map.into_iter().collect())
}

fn steps(objects: usize) -> impl Strategy<Value = Vec<Step>> {
    let policy = prop_oneof![
        Just(Policy::Default),
        Just(Policy::Background),
        Just(Policy::Foreground),
        Just(Policy::Orphan)
    ];
    let step = prop_oneof![
        4 => (0..objects, policy).prop_map(|(object, policy)| Step::Delete(object, policy)),
        2 => (0..objects).prop_map(Step::Release),
        1 => (0..objects, owners(objects)).prop_map(|(object, owners)| Step::Adopt(object, owners)),
    ];
    proptest::collection::vec(step, 1..10)
}

/// The objects with their owners, which of them a user holds, and the steps.
fn cases() -> impl Strategy<Value = (Vec<(Owners, bool)>, Vec<Step>)> {
    (2..7_usize).prop_flat_map(|objects| {
        let object = (owners(objects), proptest::bool::weighted(0.25));
        (proptest::collection::vec(object, objects), steps(objects))
    })
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Object {
    owners: Owners,
    finalizers: Vec<&'static str>,
    terminating: bool,
}

impl Object {
    fn waits(&self) -> bool {
        self.terminating && self.finalizers.contains(&FOREGROUND)
    }

    fn orphans(&self) -> bool {
        self.terminating && self.finalizers.contains(&"orphan")
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Object(usize),
    DependentsOf(usize),
    Orphan(usize),
}

#[derive(Debug, Default)]
struct Model {
    objects: BTreeMap<usize, Object>,
    queue: VecDeque<Work>,
    events: Vec<String>,
}

impl Model {
    fn push(&mut self, work: Work) {
        if !self.queue.contains(&work) {
            self.queue.push_back(work);
        }
    }

    fn dependents(&self, owner: usize) -> Vec<usize> {
        let depends = |object: &Object| object.owners.iter().any(|(other, _)| *other == owner);
        self.objects.iter().filter(|(_, object)| depends(object)).map(|(number, _)| *number).collect()
    }

    fn write(&mut self, number: usize, after: Option<Object>) {
        let before = self.objects.get(&number).cloned().unwrap_or_default();
        let event = match &after {
            Some(after) if *after == before => return,
            Some(_) => "MODIFIED",
            None => "DELETED",
        };
        self.events.push(format!("{event} o{number}"));
        match after.clone() {
            Some(after) => self.objects.insert(number, after),
            None => self.objects.remove(&number),
        };
        let after = after.unwrap_or_default();
        for (owner, blocked) in &before.owners {
            let waits = self.objects.get(owner).is_some_and(Object::waits);
            // An object that is removed while it waits is its own owner no longer.
            let waits = waits || *owner == number && before.waits();
            if *blocked && !after.owners.contains(&(*owner, true)) && waits {
                self.push(Work::Object(*owner));
            }
        }
        if after.orphans() && !before.orphans() {
            self.push(Work::Orphan(number));
        }
        if after.waits() && !before.waits() {
            self.push(Work::DependentsOf(number));
            self.push(Work::Object(number));
        }
        if !self.objects.contains_key(&number) && !self.dependents(number).is_empty() {
            self.push(Work::DependentsOf(number));
        }
    }

    fn delete(&mut self, number: usize, policy: Policy) {
        let Some(mut object) = self.objects.get(&number).cloned() else { return };
        let ours = |finalizer: &&str| ["orphan", FOREGROUND].contains(finalizer);
        let wanted = match policy {
            Policy::Default => object.finalizers.iter().copied().find(ours),
            Policy::Background => None,
            Policy::Foreground => Some(FOREGROUND),
            Policy::Orphan => Some("orphan"),
        };
        object.finalizers.retain(|finalizer| !ours(finalizer));
        object.finalizers.extend(wanted);
        object.terminating = true;
        let removed = object.finalizers.is_empty();
        self.write(number, (!removed).then_some(object));
    }

    fn drop_finalizer(&mut self, number: usize, finalizer: &str) {
        let Some(mut object) = self.objects.get(&number).cloned() else { return };
        object.finalizers.retain(|other| *other != finalizer);
        let removed = object.terminating && object.finalizers.is_empty();
        self.write(number, (!removed).then_some(object));
    }

    fn change_owners(&mut self, number: usize, change: impl FnOnce(&mut Owners)) {
        let mut object = self.objects[&number].clone();
        change(&mut object.owners);
        self.write(number, Some(object));
    }

    fn collect(&mut self, number: usize) {
        let Some(object) = self.objects.get(&number).cloned() else { return };
        if object.waits() {
            let blocks = |dependent: &usize| self.objects[dependent].owners.contains(&(number, true));
            if !self.dependents(number).iter().any(blocks) {
                self.drop_finalizer(number, FOREGROUND);
            }
            return;
        }
        if object.terminating || object.owners.is_empty() {
            return;
        }
        let waits = |owner: usize| self.objects.get(&owner).is_some_and(Object::waits);
        let keeps = |owner: usize| self.objects.get(&owner).is_some_and(|owner| !owner.waits());
        let has_waiting = object.owners.iter().any(|(owner, _)| waits(*owner));
        if object.owners.iter().any(|(owner, _)| keeps(*owner)) {
            let kept: Owners = object.owners.iter().copied().filter(|(owner, _)| keeps(*owner)).collect();
            self.change_owners(number, |owners| *owners = kept);
        } else if has_waiting && !self.dependents(number).is_empty() {
            if self.dependents(number).into_iter().any(waits) {
                self.change_owners(number, |owners| owners.iter_mut().for_each(|owner| owner.1 = false));
            }
            self.delete(number, Policy::Foreground);
        } else {
            self.delete(number, Policy::Default);
        }
    }

    fn settle(&mut self) {
        while let Some(work) = self.queue.pop_front() {
            match work {
                Work::Object(number) => self.collect(number),
                Work::DependentsOf(owner) => {
                    for dependent in self.dependents(owner) {
                        if self.dependents(owner).contains(&dependent) {
                            self.collect(dependent);
                        }
                    }
                }
                Work::Orphan(number) => {
                    if !self.objects.get(&number).is_some_and(Object::orphans) {
                        continue;
                    }
                    for dependent in self.dependents(number) {
                        self.change_owners(dependent, |owners| owners.retain(|(owner, _)| *owner != number));
                    }
                    self.drop_finalizer(number, "orphan");
                }
            }
        }
    }
}

/// The server with the objects, and the model of it.
struct Both {
    world: World,
    model: Model,
    made: Vec<Value>,
}

impl Both {
    async fn new(objects: &[(Owners, bool)]) -> Self {
        let world = World::new().await;
        let mut made = Vec::new();
        for (number, (_, held)) in objects.iter().enumerate() {
            let name = format!("o{number}");
            made.push(if *held { world.held(&name, &[]).await } else { world.map(&name, &[]).await });
        }
        let mut both = Self { world, model: Model::default(), made };
        for (number, (owners, held)) in objects.iter().enumerate() {
            let finalizers = if *held { vec![HOLD] } else { Vec::new() };
            both.model.objects.insert(number, Object { finalizers, ..Object::default() });
            both.adopt(number, owners).await;
        }
        for (number, (owners, _)) in objects.iter().enumerate() {
            both.model.change_owners(number, |present| present.clone_from(owners));
        }
        both.model.settle();
        both.model.events.clear();
        both
    }

    async fn adopt(&self, number: usize, owners: &Owners) -> bool {
        let refer = |(other, blocks): &(usize, bool)| {
            if *blocks { blocking(&self.made[*other]) } else { owner(&self.made[*other]) }
        };
        let references: Vec<Value> = owners.iter().map(refer).collect();
        let patch = json!({"metadata": {"ownerReferences": references}});
        self.world.client.patch(&format!("{MAPS}/o{number}"), "merge-patch", &patch).await.code == 200
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Delete(number, policy) => {
                let path = format!("{MAPS}/o{number}");
                match policy {
                    Policy::Default => self.world.client.delete(&path).await,
                    _ => self.world.delete(&path, json!({"propagationPolicy": format!("{policy:?}")})).await,
                };
                self.model.delete(*number, *policy);
            }
            Step::Release(number) => {
                if self.model.objects.get(number).is_some_and(|object| object.finalizers.contains(&HOLD)) {
                    self.world.release(&format!("o{number}")).await;
                    self.model.drop_finalizer(*number, HOLD);
                }
            }
            Step::Adopt(number, owners) => {
                let exists = self.model.objects.contains_key(number);
                assert_eq!(self.adopt(*number, owners).await, exists);
                if exists {
                    self.model.change_owners(*number, |present| present.clone_from(owners));
                    self.model.push(Work::Object(*number));
                }
            }
        }
        self.model.settle();
    }

    /// The objects of the server, in the form of the model.
    async fn objects(&self) -> BTreeMap<usize, Object> {
        let list = self.world.client.get(MAPS).await.ok();
        let number = |name: &Value| name.as_str().unwrap()[1..].parse::<usize>().unwrap();
        let object = |item: &Value| {
            let metadata = &item["metadata"];
            let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            let owners = owners
                .map(|owner| (number(&owner["name"]), owner["blockOwnerDeletion"] == Value::Bool(true)));
            let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
            let known = [HOLD, FOREGROUND, "orphan"];
            let finalizers = finalizers.map(|name| *known.iter().find(|other| name == **other).unwrap());
            let terminating = metadata["deletionTimestamp"].is_string();
            let object = Object { owners: owners.collect(), finalizers: finalizers.collect(), terminating };
            (number(&metadata["name"]), object)
        };
        list["items"].as_array().unwrap().iter().map(object).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    // contract: E-14a, E-14b, E-14c, E-14d, E-14e, E-14j
    #[test]
    fn random_graphs((objects, steps) in cases()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut both = Both::new(&objects).await;
            assert_eq!(both.objects().await, both.model.objects);
            for step in &steps {
                let before = both.world.server.version();
                both.step(step).await;
                let events = both.world.events(MAPS, before).await;
                assert_eq!(events, std::mem::take(&mut both.model.events), "{step:?}");
                assert_eq!(both.objects().await, both.model.objects, "{step:?}");
            }
        });
    }
}
