//! What a manager has been given, before and during its run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
#[cfg(feature = "prometheus")]
use std::sync::Weak;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::layers::{Layer, Run};
use super::runnable::Runnable;
use super::stage::Stage;
use crate::error::Error;
use crate::health::Status;
#[cfg(feature = "prometheus")]
use crate::prometheus::ControllerCollector;
#[cfg(feature = "serve")]
use crate::view::Shown;
#[cfg(feature = "prometheus")]
use crate::worker::Named;

/// The layers of a run: for each stage one for each group, and one for what is in no group.
pub(crate) struct Layers {
    pub(crate) layers: Vec<Layer>,
    groups: BTreeMap<Arc<str>, usize>,
    /// The layers of each stage.
    of_stage: usize,
}

impl Layers {
    fn new(groups: &[Vec<Arc<str>>], names: &BTreeSet<Arc<str>>) -> Result<Self, Error> {
        let of_stage = groups.len().saturating_add(1);
        let mut places = BTreeMap::new();
        for (place, name) in
            groups.iter().enumerate().flat_map(|(place, group)| group.iter().map(move |name| (place, name)))
        {
            if !names.contains(name) {
                return Err(Error::UnknownName { name: name.clone() });
            }
            if places.insert(name.clone(), place).is_some_and(|other| other != place) {
                return Err(Error::InTwoGroups { name: name.clone() });
            }
        }
        // What is added later is in no group.
        let stage = || (0..=groups.len()).map(|place| Layer::new(place == groups.len()));
        let layers = (0..Stage::COUNT).flat_map(|_| stage()).collect();
        Ok(Self { layers, groups: places, of_stage })
    }

    fn add(&self, Entry { name, stage, run }: Entry) {
        let last = self.of_stage.saturating_sub(1);
        let group = self.groups.get(&name).copied().unwrap_or(last);
        let place = (stage as usize).saturating_mul(self.of_stage).saturating_add(group);
        if let Some(layer) = self.layers.get(place) {
            layer.add(name, run);
        }
    }

    /// The layers of the leader, and those before.
    pub(crate) fn split(&self) -> (&[Layer], &[Layer]) {
        self.layers.split_at((Stage::Leaders as usize).saturating_mul(self.of_stage))
    }
}

#[cfg(feature = "serve")]
impl Shows {
    fn add(&mut self, name: &Arc<str>, controller: Weak<dyn Shown>) {
        if let Some(controller) = controller.upgrade().filter(|_| self.is_shown) {
            controller.keep();
        }
        self.controllers.push((name.clone(), controller));
    }
}

struct Entry {
    name: Arc<str>,
    stage: Stage,
    run: Box<dyn Run>,
}

enum Phase {
    NotStarted(Vec<Entry>),
    /// With the end of the run.
    Running(Arc<Layers>, CancellationToken),
    Ended,
}

/// What a manager and its handles share.
pub(crate) struct Plan {
    names: Mutex<BTreeSet<Arc<str>>>,
    phase: Mutex<Phase>,
    pub(crate) statuses: Arc<Mutex<Vec<Arc<Status>>>>,
    #[cfg(feature = "prometheus")]
    collected: Mutex<Collected>,
    #[cfg(feature = "serve")]
    shown: Mutex<Shows>,
}

/// The metrics of the controllers, and who collects them.
#[cfg(feature = "prometheus")]
#[derive(Default)]
struct Collected {
    controllers: Vec<Named>,
    collectors: Vec<ControllerCollector>,
}

/// The controllers with their names, and whether somebody shows them.
#[cfg(feature = "serve")]
#[derive(Default)]
struct Shows {
    controllers: Vec<(Arc<str>, Weak<dyn Shown>)>,
    is_shown: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            names: Mutex::default(),
            phase: Mutex::new(Phase::NotStarted(Vec::new())),
            statuses: Arc::default(),
            #[cfg(feature = "prometheus")]
            collected: Mutex::default(),
            #[cfg(feature = "serve")]
            shown: Mutex::default(),
        }
    }
}

impl Plan {
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.names.lock().iter().cloned().collect()
    }

    pub(crate) fn add(&self, runnable: Runnable) -> Result<(), Error> {
        let name = runnable.name;
        let mut phase = self.phase.lock();
        match &*phase {
            Phase::Running(_, ending) if ending.is_cancelled() => return Err(Error::ManagerEnded { name }),
            Phase::Ended => return Err(Error::ManagerEnded { name }),
            Phase::NotStarted(_) | Phase::Running(..) => {}
        }
        if !self.names.lock().insert(name.clone()) {
            return Err(Error::DuplicateName { name });
        }
        self.statuses.lock().extend(runnable.controller.as_ref().map(|controller| controller.status.clone()));
        for (stage, run) in runnable.parts {
            let entry = Entry { name: name.clone(), stage, run };
            match &mut *phase {
                Phase::NotStarted(entries) => entries.push(entry),
                Phase::Running(layers, _) => layers.add(entry),
                Phase::Ended => {}
            }
        }
        drop(phase);
        #[cfg(feature = "prometheus")]
        if let Some(controller) = runnable.controller {
            #[cfg(feature = "serve")]
            self.shown.lock().add(controller.status.name(), controller.shown);
            self.collect_controller((controller.status.name().clone(), controller.observed));
        }
        Ok(())
    }

    #[cfg(feature = "prometheus")]
    fn collect_controller(&self, controller: Named) {
        let mut collected = self.collected.lock();
        let collectors = collected.collectors.clone();
        collected.controllers.push(controller.clone());
        drop(collected);
        for collector in collectors {
            if let Err(error) = collector.add_all(std::slice::from_ref(&controller)) {
                tracing::warn!(%error, "a controller has no metrics");
            }
        }
    }

    /// Adds the controllers to a collector, also those that are added later.
    #[cfg(feature = "prometheus")]
    pub(crate) fn collect(&self, collector: &ControllerCollector) -> Result<(), Error> {
        let mut collected = self.collected.lock();
        collector.add_all(&collected.controllers)?;
        collected.collectors.push(collector.clone());
        Ok(())
    }

    /// Lets the controllers keep their reconciliations, also those that are added later.
    #[cfg(feature = "serve")]
    pub(crate) fn show(&self) {
        self.shown.lock().is_shown = true;
        self.shown(|_| true).iter().for_each(|controller| controller.keep());
    }

    /// The controllers that have not ended and have such a name, in the order in which they were added.
    #[cfg(feature = "serve")]
    pub(crate) fn shown(&self, is_such: impl Fn(&str) -> bool) -> Vec<Arc<dyn Shown>> {
        let shown = self.shown.lock();
        let such = shown.controllers.iter().filter(|(name, _)| is_such(name));
        such.filter_map(|(_, controller)| controller.upgrade()).collect()
    }

    /// Begins the run. When `ending` is cancelled, nothing can be added any more.
    pub(crate) fn begin(
        &self,
        groups: &[Vec<Arc<str>>],
        ending: &CancellationToken,
    ) -> Result<Arc<Layers>, Error> {
        let layers = Arc::new(Layers::new(groups, &self.names.lock())?);
        let running = Phase::Running(layers.clone(), ending.clone());
        let before = std::mem::replace(&mut *self.phase.lock(), running);
        if let Phase::NotStarted(entries) = before {
            entries.into_iter().for_each(|entry| layers.add(entry));
        }
        Ok(layers)
    }
}

/// Ends a plan when it is dropped: nothing can be added any more, and what it has is dropped.
pub(crate) struct Ending(pub(crate) Arc<Plan>);

impl Drop for Ending {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.0.phase.lock(), Phase::Ended);
        drop(before);
    }
}
