//! The HTTP server of a manager.

#[cfg(feature = "ring")]
use std::ops::Range;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use futures::future::FutureExt as _;
use kinformer_leader_election::LeaderElector;
#[cfg(feature = "ring")]
use kinformer_ring::{Ring, RingProcess, Slots};
use kinformer_serve::{
    ControllerView, Controllers, LeadershipView, ReconciliationView, Server, ServerBuilder,
};
#[cfg(feature = "ring")]
use kinformer_serve::{MovedView, RingProcessView, RingView, SlotRange};
use prometheus_client::registry::Registry;

use super::Manager;
use super::layers::{Begun, Ends, Run};
use super::plan::Plan;
use super::runnable::Runnable;
use super::stage::Stage;
use crate::error::Error;
use crate::health::{ControllerState, Health};
use crate::prometheus::ControllerCollector;

impl Manager {
    /// Serves `/healthz`, `/readyz` and `/metrics`, and the page of kinformer-serve unless the builder is
    /// [`metrics_only`](ServerBuilder::metrics_only): listens now, and answers from the start of the run to its end.
    ///
    /// * `/healthz` fails when the manager has ended.
    /// * `/readyz` has a check for each informer of the [factories](Self::factory) that was requested before this call, and one
    ///   that the controllers have synced. A replica that waits for the leadership is ready.
    /// * `/metrics` has the controllers, their queues, the recorders of [events](Self::events), the informers, the requests of
    ///   clients, the election, the ring, and the process.
    /// * The page shows the controllers, their last reconciliations, who leads, and the processes of the ring with their slots.
    ///
    /// Call it after [`Self::factory`], [`Self::leader_election`], [`Self::events`] and `sharding`; controllers may be added later.
    ///
    /// ```no_run
    /// # use kinformer_controller::{Controller, Error, Manager};
    /// # async fn example(factory: &kinformer::SharedInformerFactory, controller: Controller) -> Result<(), Error> {
    /// use kinformer_controller::kinformer_serve::Server;
    ///
    /// // Probes and metrics for the cluster, without the page; the port is reached from other machines.
    /// let server = Server::builder().listen(([0, 0, 0, 0], 8080).into()).metrics_only();
    /// Manager::new().factory(factory).add(controller)?.serve(server).await?.run_until_signal().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Serve`], for example if the port is in use; it names the address.
    #[doc(alias("HealthProbeBindAddress", "MetricsBindAddress"))]
    pub async fn serve(self, server: ServerBuilder) -> Result<Self, Error> {
        let server = self.observed_by(server)?.bind().await.map_err(Error::Serve)?;
        self.add(server)
    }

    /// Adds to a server what [`Self::serve`] shows of this manager, for a caller that binds it and reads its address. Then
    /// [add](Self::add) the server.
    ///
    /// # Errors
    /// [`Error::DuplicateMetrics`].
    pub fn observed_by(&self, server: ServerBuilder) -> Result<ServerBuilder, Error> {
        let collector = ControllerCollector::new();
        collector.add_manager(self)?;
        for (recorder, _) in &self.recorders {
            collector.add_events(recorder);
        }
        if let Some(elector) = self.elector.get() {
            collector.add_election(elector);
        }
        #[cfg(feature = "ring")]
        if let Some(ring) = &self.ring {
            collector.add_ring(ring);
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(collector));
        let (health, ready) = (self.health(), self.health());
        self.plan.show();
        let shown = Shown {
            plan: Arc::downgrade(&self.plan),
            elector: self.elector.get().cloned(),
            #[cfg(feature = "ring")]
            ring: self.ring.clone(),
        };
        let alive = move || if health.is_alive() { Ok(()) } else { Err("the manager has ended".to_owned()) };
        let server = server
            .health_check("manager", alive)
            .ready_check("controllers", move || not_synced(&ready))
            .metrics(registry)
            .controllers(shown);
        let informers = self.factories.iter().flat_map(|factory| factory.informers());
        Ok(informers.fold(server, |server, informer| server.informer(&informer)))
    }
}

fn not_synced(health: &Health) -> Result<(), String> {
    if health.has_synced() {
        return Ok(());
    }
    let is_waiting =
        |state: &ControllerState| !matches!(state, ControllerState::Synced | ControllerState::Running);
    let waiting = health.controllers().into_iter().filter(|one| is_waiting(&one.state));
    let waiting: Vec<_> = waiting.map(|one| format!("{}: {}", one.name, one.state.without_error())).collect();
    Err(waiting.join("; "))
}

/// What the page shows of a manager.
struct Shown {
    plan: Weak<Plan>,
    elector: Option<LeaderElector>,
    #[cfg(feature = "ring")]
    ring: Option<Ring>,
}

impl Controllers for Shown {
    fn controllers(&self) -> Vec<ControllerView> {
        let Some(plan) = self.plan.upgrade() else { return Vec::new() };
        plan.shown(|_| true).iter().map(|controller| controller.view()).collect()
    }

    fn reconciliations(&self, controller: &str, key: &str) -> Vec<ReconciliationView> {
        let Some(plan) = self.plan.upgrade() else { return Vec::new() };
        let shown = plan.shown(|name| name == controller);
        shown.first().map(|controller| controller.reconciliations(key)).unwrap_or_default()
    }

    fn leadership(&self) -> Option<LeadershipView> {
        let elector = self.elector.as_ref()?;
        let holder = elector.leader().map(|leader| leader.to_string());
        Some(LeadershipView { holder, since: None, is_leader: elector.is_leader() })
    }

    #[cfg(feature = "ring")]
    fn ring(&self) -> Option<RingView> {
        self.ring.as_ref().map(view_of)
    }
}

/// What the page shows of a ring.
#[cfg(feature = "ring")]
fn view_of(ring: &Ring) -> RingView {
    let (status, params, metrics) = (ring.status(), ring.params(), ring.metrics());
    let process = |process: RingProcess| RingProcessView {
        identity: process.identity.to_string(),
        weight: process.member.as_ref().map(|member| member.weight),
        state: process.member.map_or_else(|| "unknown".to_owned(), |member| member.phase.to_string()),
        renewed: process.renewed,
        slots: ranges(&process.slots),
    };
    RingView {
        name: ring.name().to_owned(),
        identity: ring.identity().to_owned(),
        slots: params.slots.into(),
        field: params.field.to_string(),
        lease_duration: params.lease_duration,
        processes: ring.processes().into_iter().map(process).collect(),
        owned: ranges(&status.owned),
        unowned: ranges(&status.unowned),
        moved: MovedView {
            begun: metrics.slots_begun,
            released: metrics.slots_released,
            stopped: metrics.slots_stopped,
        },
        problem: status.problem.map(|problem| problem.to_string()),
        error: ring.error().map(|error| error.to_string()),
    }
}

#[cfg(feature = "ring")]
fn ranges(slots: &Slots) -> Vec<SlotRange> {
    let range = |range: &Range<u16>| SlotRange {
        first: range.start.into(),
        last: range.end.saturating_sub(1).into(),
    };
    slots.ranges().iter().map(range).collect()
}

impl From<Server> for Runnable {
    fn from(server: Server) -> Self {
        let name = format!("server on {}", server.local_addr()).into();
        Self::of(name, vec![(Stage::Servers, Box::new(Serving(Some(server))))])
    }
}

struct Serving(Option<Server>);

impl Run for Serving {
    fn run(&mut self, begun: Begun, ends: Ends) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            drop(begun);
            if let Some(server) = self.0.take() {
                server.run(ends.stop).await; // it runs once
            }
            Ok(())
        }
        .boxed()
    }
}
