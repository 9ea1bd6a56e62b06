//! The HTTP server of a manager.

use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use futures::future::FutureExt as _;
use kinformer_leader_election::LeaderElector;
use kinformer_serve::{
    ControllerView, Controllers, LeadershipView, ReconciliationView, Server, ServerBuilder,
};
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
    /// * The page shows the controllers, their last reconciliations, and who leads.
    ///
    /// Call it after [`Self::factory`], [`Self::leader_election`] and [`Self::events`]; controllers may be added later.
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
        let shown = Shown { plan: Arc::downgrade(&self.plan), elector: self.elector.get().cloned() };
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
