//! One run: a seed determines the world, its actors and every step.

use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer_processor::stepping::Stepping;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::actors::{Actors, CONVERGES, LONGEST_CALL, add_handlers, reader, visitor, waiter};
use crate::api_server::ApiServer;
use crate::behind::Comparison;
use crate::cached;
use crate::controllers;
use crate::crowd::crowd;
use crate::election;
use crate::ending;
use crate::factory::factory;
use crate::foreign;
use crate::guests::Guests;
use crate::limits::Limits;
use crate::random::{pause, pick};
use crate::restores::restores;
use crate::runtime;
use crate::scopes;
use crate::sharding;
use crate::trace::{Recorder, Trace};
use crate::view::View;

/// The longest simulated time of a run.
const LONGEST: Duration = Duration::from_secs(7_200);

/// Runs the world of a seed, and returns what happened.
///
/// # Panics
/// Panics if the runtime cannot be created.
pub fn run(seed: u64) -> Trace {
    run_with(seed, &Limits::default())
}

/// What a seed simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    /// Informers and their handlers.
    Pipeline,
    Cache,
    Controllers,
    Election,
    /// Informers whose scope changes.
    Scopes,
    /// An informer of a server that is not kube-apiserver.
    Foreign,
    /// Processes that share objects out.
    Sharding,
}

impl World {
    pub(crate) fn of(seed: u64) -> Self {
        if matches!(seed % 100, 6 | 46 | 66) {
            return Self::Sharding;
        }
        match seed % 20 {
            2 | 12 => Self::Cache,
            7 | 17 => Self::Election,
            4 | 9 | 14 | 19 => Self::Controllers,
            3 | 16 => Self::Scopes,
            11 => Self::Foreign,
            _ => Self::Pipeline,
        }
    }

    /// The actors that can end early, in the order in which that is tried.
    pub(crate) fn actors(self) -> &'static [&'static str] {
        match self {
            Self::Pipeline => {
                &["guests", "crowd", "restores", "waiter", "visitor", "reader", "faults", "writer"]
            }
            Self::Cache => &["removals", "refusals", "restores", "clients", "faults", "writer"],
            Self::Controllers => &["restarts", "faults", "writer"],
            Self::Election => &["faults"],
            Self::Scopes => &["restores", "visitor", "waiter", "reader", "scopes", "faults", "writer"],
            Self::Foreign => &["faults", "writer"],
            Self::Sharding => &["edits", "faults", "writer"],
        }
    }
}

/// As [`run`], with actors that end early.
pub(crate) fn run_with(seed: u64, limits: &Limits) -> Trace {
    let world = World::of(seed);
    match world {
        World::Election => return election::run(seed, limits),
        World::Foreign => return foreign::run(seed, limits),
        World::Sharding => return sharding::run(seed, limits),
        World::Pipeline | World::Cache | World::Controllers | World::Scopes => {}
    }
    let runtime = runtime::paused();
    let _stepping = Stepping::from_seed(seed);
    let (server, recorder) = runtime.block_on(async {
        let (mut rng, recorder) = (Rng::with_seed(seed), Recorder::new());
        let server = ApiServer::new(&mut rng, &recorder);
        let is_dropped = rng.u8(..20) == 0 && world != World::Controllers;
        let longest = if is_dropped { Duration::from_millis(rng.u64(..60_000)) } else { LONGEST };
        let has_ended = match world {
            World::Controllers => {
                timeout(longest, controllers::live(rng, server.clone(), &recorder, limits)).await.is_ok()
            }
            World::Cache => {
                timeout(longest, cached::live(rng, server.clone(), &recorder, limits)).await.is_ok()
            }
            World::Scopes => {
                timeout(longest, scopes::live(rng, server.clone(), &recorder, limits)).await.is_ok()
            }
            _ => timeout(longest, live(rng, server.clone(), &recorder, limits)).await.is_ok(),
        };
        if !has_ended && !is_dropped {
            recorder.violation("the run has not ended");
        }
        (server, recorder)
    });
    drop(runtime);
    if server.open_bodies() > 0 {
        recorder.violation(format_args!("{} responses are open after the runtime", server.open_bodies()));
    }
    recorder.trace()
}

#[expect(clippy::too_many_lines, reason = "a world from its start to its end")]
async fn live(mut rng: Rng, world: ApiServer, recorder: &Recorder, limits: &Limits) {
    let tasks = Handle::current().metrics().num_alive_tasks();
    // Of a copy, so that the other choices of a seed are the same without it.
    let mut of_reference = rng.clone();
    let (server, beside) = world.with_reference(&mut of_reference);
    let (factory, settings) = factory(&mut rng, &server, recorder);
    let queue = settings.queue;
    let maps = View::of(factory.informer::<ConfigMap>(), queue, &server, recorder);
    let secrets = View::of(factory.informer::<Secret>(), queue, &server, recorder);
    add_handlers(&mut rng, &maps);
    add_handlers(&mut rng, &secrets);

    let mut actors = Actors { tasks: JoinSet::new(), limits };
    actors.spawn("writer", writer(rng.fork(), server.clone(), recorder.clone()));
    actors.spawn("crowd", crowd(rng.fork(), server.clone(), recorder.clone()));
    actors.spawn("faults", server.clone().fail(rng.fork()));
    let guests = Guests::default();
    actors.spawn("guests", guests.clone().run(rng.fork(), world, recorder.clone()));
    let views = (maps.clone(), secrets.clone(), guests.clone());
    let have_reached = move |version| {
        let (maps, secrets, guests) = &views;
        maps.has_reached(version) && secrets.has_reached(version) && guests.has_reached(version)
    };
    actors.spawn("restores", restores(rng.fork(), server.clone(), recorder.clone(), have_reached));
    actors.spawn("visitor", visitor(rng.fork(), maps.clone()));
    actors.spawn("waiter", waiter(rng.fork(), maps.clone()));
    actors.spawn("waiter", waiter(rng.fork(), secrets.clone()));
    actors.spawn("reader", reader(rng.fork(), maps.clone()));
    actors.spawn("reader", reader(rng.fork(), secrets.clone()));
    sleep(Duration::from_millis(rng.u64(..500))).await;
    if let Err(error) = factory.start() {
        recorder.violation(error);
    }
    let comparison = Comparison::start(&maps, &server, &beside, settings, &mut of_reference);
    while let Some(ended) = actors.tasks.join_next().await {
        if let Err(error) = ended {
            recorder.violation(format_args!("an actor failed: {error}"));
        }
    }

    server.heal(&mut rng);
    recorder.note("world", "no more changes and faults");
    let deadline = Instant::now() + CONVERGES;
    for view in [maps.check_end(deadline).await, secrets.check_end(deadline).await] {
        if let Err(problem) = view {
            recorder.violation(format_args!("not in sync in time: {problem}"));
        }
    }
    if let Err(problem) = guests.check_end(deadline).await {
        recorder.violation(format_args!("not in sync in time: guest: {problem}"));
    }
    recorder.note("world", "in sync");
    if let Err(problem) = comparison.end().await {
        recorder.violation(problem);
    }
    for waited in [maps.check_wait(CONVERGES).await, secrets.check_wait(CONVERGES).await] {
        if let Err(problem) = waited {
            recorder.violation(problem);
        }
    }
    if let Err(problem) = ending::check(&mut rng, &maps, &secrets, &server).await {
        recorder.violation(problem);
    }
    let waits = [maps.wait_forever(), secrets.wait_forever()];
    let reflectors = maps.parts() + secrets.parts() + guests.parts();
    if server.open_bodies() > reflectors {
        // Lists, and questions for the newest version, end within a second.
        sleep(Duration::from_secs(1)).await;
    }
    if server.open_bodies() > reflectors {
        recorder.violation(format_args!("{} responses for {reflectors} reflectors", server.open_bodies()));
    }
    guests.leave();
    if let Err(error) = factory.shutdown().await {
        recorder.violation(error);
    }
    recorder.note("world", "shut down");
    sleep(Duration::from_secs(1)).await;
    if !waits.iter().all(tokio::task::JoinHandle::is_finished) {
        recorder.violation("a wait for a version has not ended with the informer");
    }
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    drop((factory, maps, secrets));
    // Tasks of the client end when they are next polled, and handlers of a guest after the call in progress.
    let left = || Handle::current().metrics().num_alive_tasks() - tasks;
    for _ in 0..LONGEST_CALL.as_secs() {
        sleep(Duration::from_secs(1)).await;
        if left() == 0 {
            break;
        }
    }
    ending::check_left(tasks, &server, recorder);
}

/// Writes objects.
async fn writer(mut rng: Rng, server: ApiServer, recorder: Recorder) {
    let mut burst = 0;
    let names = pick(&mut rng, [2, 5, 5, 60]);
    let undecodable = rng.u8(..4) == 0;
    for number in 0..rng.usize(20..160) {
        if burst == 0 {
            pause(&mut rng).await;
            burst = pick(&mut rng, [1, 1, 4, 20]);
        }
        burst -= 1;
        let plural = match rng.u8(..6) {
            0 | 1 => "secrets",
            _ => "configmaps",
        };
        let key = format!("{}/p{}", pick(&mut rng, ["a", "b"]), rng.u8(..names));
        if rng.u8(..4) == 0 {
            let deleted = match rng.u8(..8) {
                0 => server.delete_with(plural, &key, &rng.u8(..).to_string()),
                _ => server.delete(plural, &key),
            };
            if let Some(version) = deleted {
                recorder.note("writer", format_args!("deletes {plural} {key} at {version}"));
            }
        } else if undecodable && rng.u8(..8) == 0 {
            let version = server.put_undecodable(plural, &key);
            recorder
                .note("writer", format_args!("writes {plural} {key} at {version}, which does not decode"));
        } else {
            let version = server.put(plural, &key, &number.to_string());
            recorder.note("writer", format_args!("writes {plural} {key} at {version}"));
        }
    }
}
