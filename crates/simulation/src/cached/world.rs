//! One run with a cache.

use std::time::Duration;

use fastrand::Rng;
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::kube_core::Resource;
use kinformer::{Informer, QueueKind};
use kinformer_cache::Cache;
use kube_client::client::Body;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::clients::{Client, NAMESPACES, content, remove_informers};
use super::judge::{Judge, LABEL, Scope};
use super::refusals::{Refusals, Refused, is_question};
use crate::api_server::ApiServer;
use crate::ending;
use crate::factory::configured;
use crate::limits::Limits;
use crate::random::{pause, pick};
use crate::restores::{AHEAD, restores};
use crate::server::History;
use crate::trace::Recorder;

/// The simulated time within which reads return the newest states after the last fault.
const CONVERGES: Duration = Duration::from_secs(900);

/// Longer than the cache keeps a write by its key.
const RETENTION: Duration = Duration::from_secs(601);

/// The time for which some caches keep writes by their keys.
const SHORT: Duration = Duration::from_secs(2);

/// Longer than the server takes for a request.
const LONGEST_REQUEST: Duration = Duration::from_secs(61);

/// Runs a world with a cache.
#[expect(clippy::too_many_lines, reason = "a world from its start to its end")]
pub(crate) async fn live(mut rng: Rng, server: ApiServer, recorder: &Recorder, limits: &Limits) {
    let tasks = Handle::current().metrics().num_alive_tasks();
    let scope = Scope {
        namespaces: pick(&mut rng, [vec![], vec!["a"], vec!["a", "b"]]),
        label: pick(&mut rng, [None, None, Some("x")]),
    };
    let write_timeout = Duration::from_secs(rng.u64(5..60));
    let has_removals = rng.u8(..4) == 0;
    // Of a copy, so that the other choices of a seed are the same without these.
    let mut own = rng.clone();
    let is_busy = own.u8(..3) == 0;
    let refused = Refused::random(&mut own);
    // Without answers, reads wait for a later version, which an idle server never has (C-08t), and for a write that a restored
    // backup has undone.
    let is_always_refused = matches!(refused, Refused::Always(..));
    let (is_busy, has_removals) = (is_busy || is_always_refused, has_removals && !is_always_refused);
    recorder.note("world", format_args!("cache of {scope:?}, {write_timeout:?}, removals {has_removals}"));
    recorder.note("world", format_args!("busy {is_busy}, refusals {refused:?}"));
    let refusals = Refusals::new(refused);
    let client = service_account(&server, recorder, &scope, &refusals);
    let Some((cache, queue)) = cache(&mut rng, client, (&server, recorder), &scope, write_timeout).await
    else {
        return;
    };
    let is_current = {
        let (cache, server) = (cache.clone(), server.clone());
        move || {
            let (is_back, origin) = (server.has_gone_back(), server.read(History::origin));
            have(&cache, true, |version| if is_back { version < AHEAD } else { version >= origin })
        }
    };
    let setting = (scope, queue == QueueKind::RealFifo, has_removals);
    let judge = Judge::new(&server, recorder, setting, write_timeout, refusals.clone(), is_current);

    // To the end, so that versions move on while no object of the cache changes.
    let mut busy = JoinSet::new();
    if is_busy {
        busy.spawn(write_other_resources(rng.clone(), server.clone()));
    }
    let mut actors = Actors { tasks: JoinSet::new(), limits };
    actors.spawn("writer", writer(rng.fork(), server.clone(), recorder.clone()));
    actors.spawn("faults", server.clone().fail(rng.fork()));
    let reached = cache.clone();
    let have_reached = move |version| have(&reached, false, |own| own >= version);
    let restores = restores(rng.fork(), server.clone(), recorder.clone(), have_reached);
    match is_always_refused {
        true => drop(restores), // it holds the cache
        false => actors.spawn("restores", restores),
    }
    if has_removals {
        actors.spawn("removals", remove_informers::<ConfigMap>(rng.fork(), cache.clone(), judge.clone()));
        actors.spawn("removals", remove_informers::<Secret>(rng.fork(), cache.clone(), judge.clone()));
    }
    actors.spawn("refusals", refusals.clone().run(own, recorder.clone()));
    let names = pick(&mut rng, [1, 2, 6]);
    for number in 0..pick(&mut rng, [1, 2, 4]) {
        let client = Client::new(&cache, &judge, format!("client {number}"), names);
        actors.spawn("clients", client.run(rng.fork()));
    }
    sleep(Duration::from_millis(rng.u64(..500))).await;
    judge.set_started();
    if let Err(error) = cache.start() {
        recorder.violation(error);
    }
    while let Some(ended) = actors.tasks.join_next().await {
        if let Err(error) = ended {
            recorder.violation(format_args!("an actor failed: {error}"));
        }
    }

    server.heal(&mut rng);
    refusals.end();
    recorder.note("world", "no more changes and faults");
    let last = Client::new(&cache, &judge, "last".into(), names);
    settle(&last, recorder).await;
    let key = format!("{}/last", judge.scope().namespaces.first().unwrap_or(&"a"));
    for value in ["first", "second"] {
        for plural in ["configmaps", "secrets"] {
            server.put_content(plural, &key, json!({"metadata": {"labels": {LABEL: "x"}}}));
            last.change(plural, &key, value).await;
        }
        settle(&last, recorder).await;
        // Writes that are older than that are not kept by their keys, or until a read has asked the server (C-08s).
        sleep(RETENTION).await;
        settle(&last, recorder).await;
    }
    if cache.pending_writes() > 2 {
        recorder.violation(format_args!("{} writes are kept after all reads", cache.pending_writes()));
    }
    if let Err(error) = cache.shutdown().await {
        recorder.violation(error);
    }
    recorder.note("world", "shut down");
    drop((last, judge, cache, busy));
    sleep(LONGEST_REQUEST).await;
    ending::check_left(tasks, &server, recorder);
}

/// The actors of a world.
struct Actors<'a> {
    tasks: JoinSet<()>,
    limits: &'a Limits,
}

impl Actors<'_> {
    fn spawn(&mut self, name: &'static str, actor: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.limits.clone().run(name, actor));
    }
}

/// Returns a client as that of a service account, which may list in the namespaces of the cache only.
fn service_account(
    server: &ApiServer,
    recorder: &Recorder,
    scope: &Scope,
    refusals: &Refusals,
) -> kube_client::Client {
    let (client, recorder, is_restricted) = (server.client(), recorder.clone(), !scope.namespaces.is_empty());
    let refusals = refusals.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        if is_restricted && matches!(request.uri().path(), "/api/v1/configmaps" | "/api/v1/secrets") {
            recorder.violation(format_args!(
                "{} {} is not in the namespaces",
                request.method(),
                request.uri()
            ));
        }
        let (client, refusals, is_question) = (client.clone(), refusals.clone(), is_question(&request));
        let refused = refusals.response(&request);
        if refused.is_some() {
            recorder.note("refusals", format_args!("{} is refused", request.uri()));
        }
        async move {
            let response = match refused {
                Some(refused) => refused,
                None => client.send(request).await?,
            };
            if is_question {
                refusals.note(response.status().as_u16());
            }
            Ok::<_, kube_client::Error>(response)
        }
    });
    kube_client::Client::new(service, "default")
}

/// Moves the version of the server on.
async fn write_other_resources(mut rng: Rng, server: ApiServer) {
    loop {
        sleep(Duration::from_millis(rng.u64(100..5_000))).await;
        server.skip(1);
    }
}

async fn cache(
    rng: &mut Rng,
    client: kube_client::Client,
    (server, recorder): (&ApiServer, &Recorder),
    scope: &Scope,
    write_timeout: Duration,
) -> Option<(Cache, QueueKind)> {
    let mut queue = QueueKind::RealFifo;
    let sync_timeout = Duration::from_secs(rng.u64(10..120));
    let options = |builder| {
        let (builder, chosen) = configured(rng, server, recorder, builder);
        queue = chosen.queue;
        let builder = builder.namespaces(scope.namespaces.iter().copied());
        match scope.label {
            Some(label) => builder.of_kind::<ConfigMap>(|maps| maps.labels(format!("{LABEL}={label}"))),
            None => builder,
        }
    };
    let builder = Cache::builder(client).options(options);
    let long = Duration::from_secs(600);
    let (kept, time) = pick(rng, [(65_536, long), (65_536, long), (1, long), (4, long), (65_536, SHORT)]);
    recorder.note("world", format_args!("keeps {kept} writes for {time:?}"));
    let builder = builder.kept_writes(kept, time);
    match builder.write_timeout(write_timeout).sync_timeout(sync_timeout).build().await {
        Ok(cache) => Some((cache, queue)),
        Err(error) => {
            recorder.violation(error);
            None
        }
    }
}

/// Whether the versions of all parts of all informers are such; `without` for informers that were not requested.
fn have(cache: &Cache, without: bool, is_such: impl Fn(u64) -> bool) -> bool {
    has::<ConfigMap>(cache, without, &is_such) && has::<Secret>(cache, without, &is_such)
}

fn has<K: Resource<DynamicType = (), Scope: 'static>>(
    cache: &Cache,
    without: bool,
    is_such: &impl Fn(u64) -> bool,
) -> bool {
    let informers = cache.factory().informers_of("", &K::plural(&()));
    let has = |informer: &Informer<()>| {
        let Ok(snapshot) = informer.snapshot() else { return without };
        informer.status().parts().iter().all(|part| {
            let version = snapshot.resource_versions().of(part.id()).to_string().parse::<u64>();
            version.map_or(without, is_such)
        })
    };
    if informers.is_empty() { without } else { informers.iter().all(has) }
}

/// Waits until reads return the newest states.
async fn settle(client: &Client, recorder: &Recorder) {
    let deadline = Instant::now() + CONVERGES;
    while !client.is_in_sync().await {
        if Instant::now() >= deadline {
            recorder.violation("reads do not return the newest states in time");
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    recorder.note("world", "in sync");
}

/// Writes objects by another client.
async fn writer(mut rng: Rng, server: ApiServer, recorder: Recorder) {
    let names = pick(&mut rng, [1, 2, 6]);
    let mut burst = 0;
    for _ in 0..rng.usize(..60) {
        if burst == 0 {
            pause(&mut rng).await;
            burst = pick(&mut rng, [1, 1, 4]);
        }
        burst -= 1;
        let plural = pick(&mut rng, ["configmaps", "configmaps", "secrets"]);
        let key = format!("{}/p{}", pick(&mut rng, NAMESPACES), rng.u8(..names));
        if rng.u8(..4) == 0 {
            if let Some(version) = server.delete(plural, &key) {
                recorder.note("writer", format_args!("deletes {plural} {key} at {version}"));
            }
        } else {
            let version = server.put_content(plural, &key, content(&mut rng));
            recorder.note("writer", format_args!("writes {plural} {key} at {version}"));
        }
    }
}
