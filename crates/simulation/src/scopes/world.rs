//! A world whose informers change their scope, from its start to its end.

use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::kube_core::Resource;
use kinformer::{Error, Scope, SharedInformerFactory};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::actors::{Actors, CONVERGES, LONGEST_CALL, add_handlers, reader, visitor, waiter};
use crate::api_server::ApiServer;
use crate::ending;
use crate::factory::factory;
use crate::limits::Limits;
use crate::random::{pause, pick};
use crate::restores::restores;
use crate::scopes::{NAMESPACES, Scoped};
use crate::trace::Recorder;
use crate::view::View;

/// The time between two writes of a busy world, of 2,000 updates a second.
const BUSY: Duration = Duration::from_micros(500);

/// The informers of a world.
#[derive(Clone)]
struct Informers {
    factory: SharedInformerFactory,
    maps: View<ConfigMap>,
    secrets: View<Secret>,
    recorder: Recorder,
}

pub(crate) async fn live(mut rng: Rng, server: ApiServer, recorder: &Recorder, limits: &Limits) {
    let tasks = Handle::current().metrics().num_alive_tasks();
    let (factory, settings) = factory(&mut rng, &server, recorder);
    let informers = Informers {
        maps: View::of(factory.informer(), settings.queue, &server, recorder),
        secrets: View::of(factory.informer(), settings.queue, &server, recorder),
        recorder: recorder.clone(),
        factory,
    };
    started_with(&informers.maps);
    started_with(&informers.secrets);
    // A namespace that comes back is listed at once, which the limits on requests of one informer do not have.
    server.removal_begins();
    informers.run_actors(&mut rng, &server, limits).await;
    server.heal(&mut rng);
    recorder.note("world", "no more changes and faults");
    if let Err(problem) = informers.check_end(&mut rng, &server).await {
        recorder.violation(problem);
    }
    informers.end(tasks, &server).await;
}

impl Informers {
    async fn run_actors(&self, rng: &mut Rng, server: &ApiServer, limits: &Limits) {
        let Self { maps, secrets, recorder, .. } = self;
        let mut actors = Actors { tasks: JoinSet::new(), limits };
        let is_busy = rng.u8(..6) == 0;
        if is_busy {
            server.set_busy();
        }
        // In some worlds the informers start with a scope that was set before.
        if rng.bool() {
            self.change(rng, CONVERGES).await;
        }
        add_handlers(rng, maps);
        add_handlers(rng, secrets);
        actors.spawn("writer", writer(rng.fork(), server.clone(), recorder.clone(), is_busy));
        actors.spawn("scopes", self.clone().scopes(rng.fork()));
        actors.spawn("faults", server.clone().fail(rng.fork()));
        let views = (maps.clone(), secrets.clone());
        let have_reached = move |version| views.0.has_reached(version) && views.1.has_reached(version);
        actors.spawn("restores", restores(rng.fork(), server.clone(), recorder.clone(), have_reached));
        actors.spawn("visitor", visitor(rng.fork(), maps.clone()));
        actors.spawn("waiter", waiter(rng.fork(), maps.clone()));
        actors.spawn("reader", reader(rng.fork(), maps.clone()));
        actors.spawn("reader", reader(rng.fork(), secrets.clone()));
        sleep(Duration::from_millis(rng.u64(..500))).await;
        if let Err(error) = self.factory.start() {
            recorder.violation(error);
        }
        while let Some(ended) = actors.tasks.join_next().await {
            if let Err(error) = ended {
                recorder.violation(format_args!("an actor failed: {error}"));
            }
        }
    }

    /// Changes the scope, again and again. Some changes are dropped while they take effect.
    async fn scopes(self, mut rng: Rng) {
        for _ in 0..rng.usize(4..40) {
            pause(&mut rng).await;
            let longest = pick(&mut rng, [0, 3, 100, 900_000]);
            self.change(&mut rng, Duration::from_millis(longest)).await;
        }
    }

    /// Requests a random scope, for the config maps or for both resources.
    async fn change(&self, rng: &mut Rng, longest: Duration) {
        let names = NAMESPACES.into_iter().filter(|_| rng.bool()).collect::<Vec<_>>();
        let scope = if rng.u8(..6) == 0 { Scope::all() } else { Scope::namespaces(names) };
        let mut scope = Scoped::from(scope);
        if rng.u8(..3) == 0 {
            scope = scope.one_watch();
        }
        let is_of_all = rng.u8(..3) == 0;
        self.set(&scope, is_of_all, longest).await;
    }

    /// Requests a scope. Returns whether it took effect before the request was dropped.
    async fn set(&self, scope: &Scoped, is_of_all: bool, longest: Duration) -> bool {
        let of = if is_of_all { "both" } else { "config maps" };
        self.recorder.note("scopes", format_args!("{of}: {scope}, for {longest:?}"));
        let maps = self.maps.request_scope(scope);
        let secrets = is_of_all.then(|| self.secrets.request_scope(scope));
        let scope = scope.scope();
        let set = async {
            match is_of_all {
                true => self.factory.set_scope(&scope).await,
                false => self.maps.informer().set_scope(&scope).await,
            }
        };
        let set: Result<Result<(), Error>, _> = timeout(longest, set).await;
        match set {
            Ok(Ok(())) => {
                self.maps.scope_applied(maps);
                secrets.into_iter().for_each(|number| self.secrets.scope_applied(number));
                self.recorder.note("scopes", "changed");
            }
            Ok(Err(ref error)) => self.recorder.violation(format_args!("a scope is not set: {error}")),
            Err(_) => self.recorder.note("scopes", "drops the change"),
        }
        set.is_ok()
    }

    /// Sets the last scope, and checks everything within it.
    async fn check_end(&self, rng: &mut Rng, server: &ApiServer) -> Result<(), String> {
        let last = NAMESPACES.into_iter().filter(|name| *name == "a" || rng.bool()).collect::<Vec<_>>();
        let last = if rng.u8(..4) == 0 { Scope::all() } else { Scope::namespaces(last) };
        let last = Scoped::from(last);
        let last = if rng.bool() { last.one_watch() } else { last };
        if !self.set(&last, true, CONVERGES).await {
            return Err("the last scope has not taken effect in time".into());
        }
        let Self { maps, secrets, .. } = self;
        listed(maps).await?;
        listed(secrets).await?;
        let deadline = Instant::now() + CONVERGES;
        for ended in [maps.check_end(deadline).await, secrets.check_end(deadline).await] {
            ended.map_err(|problem| format!("not in sync in time: {problem}"))?;
        }
        self.recorder.note("world", "in sync");
        ending::check(rng, maps, secrets, server).await
    }

    async fn end(self, tasks: usize, server: &ApiServer) {
        let Self { factory, maps, secrets, recorder } = self;
        let reflectors = maps.parts() + secrets.parts();
        // Lists, and questions for the newest version, end within a second.
        sleep(Duration::from_secs(1)).await;
        if server.open_bodies() > reflectors {
            recorder
                .violation(format_args!("{} responses for {reflectors} reflectors", server.open_bodies()));
        }
        if let Err(error) = factory.shutdown().await {
            recorder.violation(error);
        }
        recorder.note("world", "shut down");
        drop((factory, maps, secrets));
        for _ in 0..=LONGEST_CALL.as_secs() {
            sleep(Duration::from_secs(1)).await;
            if Handle::current().metrics().num_alive_tasks() == tasks {
                break;
            }
        }
        ending::check_left(tasks, server, &recorder);
    }
}

/// Notes the scope that the options of the factory have.
fn started_with<K: Resource<DynamicType = ()> + 'static>(view: &View<K>) {
    let names: Vec<_> = view.informer().selection().namespaces().collect();
    let scope = if names.is_empty() { Scope::all() } else { Scope::namespaces(names) };
    view.scopes.start(&scope.into());
}

/// Waits for the lists of all namespaces in scope.
async fn listed<K: Resource<DynamicType = ()> + 'static>(view: &View<K>) -> Result<(), String> {
    let listed = view.informer().wait_for_scope().until(Instant::now() + CONVERGES).await;
    listed.map_err(|error| format!("not listed in time: {error}"))
}

/// Writes objects of all namespaces: some, or in a busy world 2,000 a second.
async fn writer(mut rng: Rng, server: ApiServer, recorder: Recorder, is_busy: bool) {
    let (writes, names) = if is_busy { (4_000, 40) } else { (rng.usize(20..160), rng.u8(1..6)) };
    let mut burst = 0;
    for number in 0..writes {
        if is_busy {
            sleep(BUSY).await;
        } else if burst == 0 {
            pause(&mut rng).await;
            burst = pick(&mut rng, [1, 1, 4, 20]);
        }
        burst = burst.max(1) - 1;
        let plural = if rng.u8(..3) == 0 { "secrets" } else { "configmaps" };
        let key = format!("{}/p{}", pick(&mut rng, NAMESPACES), rng.u8(..names));
        if rng.u8(..4) > 0 {
            let version = server.put(plural, &key, &number.to_string());
            recorder.note("writer", format_args!("writes {plural} {key} at {version}"));
        } else if let Some(version) = server.delete(plural, &key) {
            recorder.note("writer", format_args!("deletes {plural} {key} at {version}"));
        }
    }
}
