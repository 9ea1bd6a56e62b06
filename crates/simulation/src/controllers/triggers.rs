//! The triggers of a controller, whose events the judge knows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kinformer::kube_core::Resource;
use kinformer::{Event, Informer, PackedObject, Updated};
use kinformer_controller::kinformer_workqueue::LOW_PRIORITY;
use kinformer_controller::{InformerTrigger, Predicate, Trigger};
use parking_lot::Mutex;

use super::judge::Judge;
use crate::random::pick;

/// The label that a predicate compares.
pub(crate) const LABEL: &str = "color";

/// Which events pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    All,
    /// Updates that change the labels.
    Labels,
    /// Updates that change the version.
    Versions,
    /// A predicate that panics for some events, which pass.
    Panics,
}

/// Which keys an object enqueues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Its own.
    Object,
    /// That of the config map that controls it.
    Owner,
    /// Its own, by a function, unless that panics.
    Mapped,
    /// Its name.
    Name,
}

impl Keys {
    fn of(self, object: &PackedObject) -> Option<String> {
        match self {
            Self::Object | Self::Mapped => Some(object.key().to_string()),
            Self::Name => Some(object.key().name().to_owned()),
            Self::Owner => {
                let owners = object.owner_references_as::<OwnerReference>().unwrap_or_default();
                let owner = owners.into_iter().find(|owner| {
                    owner.controller == Some(true) && owner.api_version == "v1" && owner.kind == "ConfigMap"
                })?;
                Some(format!("{}/{}", object.namespace()?, owner.name))
            }
        }
    }
}

/// Whether the function of a trigger panics for a key.
pub(crate) fn map_panics(key: &str) -> bool {
    key.ends_with("/p1")
}

pub(crate) fn plural_of<K: Resource<DynamicType = ()>>() -> &'static str {
    match &*K::kind(&()) {
        "ConfigMap" => "configmaps",
        "Secret" => "secrets",
        _ => "pods",
    }
}

/// Returns the options of a trigger by the events of an informer: a predicate, a delay and a priority.
#[expect(clippy::too_many_lines, reason = "one arm for each kind of trigger")]
pub(crate) fn trigger<K: Resource<DynamicType = ()> + 'static>(
    rng: &mut Rng,
    informer: &Informer<K>,
    keys: Keys,
    judge: &Judge,
) -> InformerTrigger<K> {
    let filter = pick(rng, [Filter::All, Filter::All, Filter::Labels, Filter::Versions, Filter::Panics]);
    // Each value of a config map is written to its secret, and labels do not change with it.
    let filter = if keys == Keys::Object && filter == Filter::Labels { Filter::All } else { filter };
    let debounce = Duration::from_millis(if rng.u8(..3) == 0 { rng.u64(1..5_000) } else { 0 });
    let priority = pick(rng, [None, None, Some(5), Some(-5), Some(0)]);
    judge.recorder.note(
        &judge.name,
        format_args!(
            "{}: {keys:?}, {filter:?}, debounce {debounce:?}, priority {priority:?}",
            K::plural(&())
        ),
    );
    let judge = judge.clone();
    let plural = plural_of::<K>();
    let known = Predicate::new(move |event| {
        let objects: Vec<&PackedObject> = match event {
            Event::Updated(Updated { old, new, .. }) => vec![&**old.object(), &**new.object()],
            event => event.object().map(|object| &**object.object()).into_iter().collect(),
        };
        let version = match event {
            Event::Deleted(_) | Event::Left(_) => None,
            event => event.object().and_then(|new| new.object().resource_version().to_string().parse().ok()),
        };
        judge.seen(plural, event.key().to_string(), version);
        let is_resync = match objects.as_slice() {
            [old, new] => old.resource_version() == new.resource_version(),
            _ => false,
        };
        let passes = match (filter, objects.as_slice()) {
            // Another object under the same key (K-03d).
            (_, [old, new]) if old.uid() != new.uid() => true,
            (Filter::Labels, [old, new]) => old.label(LABEL) != new.label(LABEL),
            (Filter::Versions, [_, _]) => !is_resync,
            _ => true,
        };
        let is_old = is_resync || matches!(event, Event::Added(added) if added.in_initial_list);
        let of_event = if is_old { LOW_PRIORITY } else { 0 };
        let enqueued: BTreeSet<String> = match keys {
            Keys::Mapped | Keys::Name => {
                objects.last().and_then(|object| keys.of(object)).into_iter().collect()
            }
            _ => objects.into_iter().filter_map(|object| keys.of(object)).collect(),
        };
        for key in enqueued {
            if passes && !(keys == Keys::Mapped && map_panics(&key)) {
                judge.enqueued(&key, priority.unwrap_or(of_event), debounce);
            }
        }
        true
    });
    let mut trigger = Trigger::on(informer).filter(known);
    let panics = Arc::new(Mutex::new(rng.fork()));
    match filter {
        Filter::All => {}
        Filter::Labels => trigger = trigger.filter(Predicate::labels_changed()),
        Filter::Versions => trigger = trigger.filter(Predicate::resource_version_changed()),
        Filter::Panics => {
            trigger = trigger.filter(Predicate::new(move |_| {
                let panics = panics.lock().bool();
                assert!(!panics, "simulated panic of a predicate");
                true
            }));
        }
    }
    if !debounce.is_zero() {
        trigger = trigger.debounce(debounce);
    }
    match priority {
        Some(priority) => trigger.priority(priority),
        None => trigger,
    }
}
