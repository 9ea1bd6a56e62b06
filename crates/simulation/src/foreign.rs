//! Worlds of healthy servers that are not kube-apiserver: an informer, and beside it a reference reflector.
//!
//! The server is that of `kinformer-testing`, with one of its [`Versions`]. Each of the two has a copy, so that neither
//! takes the failures of the other. The judge measures for how long each differs from the server: the informer must not
//! differ for longer than client-go would, and must have the objects of the server at the end if the reference has them.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use kinformer::{
    ApiStatus, CancellationToken, KeyRef, Object as _, QueueKind, SharedIndexInformer, SourceError,
};
use kinformer_processor::stepping::Stepping;
use kinformer_testing::fake_source::Versions;
use kinformer_testing::{FakeSource, Item};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::behind::{Side, judge};
use crate::limits::Limits;
use crate::random::pick;
use crate::reference::Reference;
use crate::runtime;
use crate::trace::{Recorder, Trace};

/// The simulated time of all writes and faults, and the time in which everything is equal after them.
const WRITES: Duration = Duration::from_secs(900);
const CONVERGES: Duration = Duration::from_secs(300);

/// How often the two are compared with the server.
const STEP: Duration = Duration::from_millis(50);

/// For how much longer than the reference the informer may differ. The delays between requests are random, and up to 30 s
/// long soon after failures: that after a false alarm, that after a list which is refused then, and that in which a write
/// happens while each list expires at once, whose length both draw.
const LONGER: Duration = Duration::from_secs(90);

/// The values of the objects, by key.
type Objects = BTreeMap<String, u64>;

/// Runs the world of a seed.
///
/// # Panics
/// Panics if the runtime cannot be created.
pub(crate) fn run(seed: u64, limits: &Limits) -> Trace {
    let runtime = runtime::paused();
    let _stepping = Stepping::from_seed(seed);
    runtime.block_on(async {
        let recorder = Recorder::new();
        let world = live(Rng::with_seed(seed), &recorder, limits);
        if timeout(2 * (WRITES + CONVERGES), world).await.is_err() {
            recorder.violation("the run has not ended");
        }
        recorder.trace()
    })
}

/// The server, once for the informer and once for the reference.
#[derive(Clone)]
struct Servers([FakeSource<Item>; 2]);

impl Servers {
    fn each(&self, change: impl Fn(&FakeSource<Item>)) {
        self.0.iter().for_each(change);
    }

    fn objects(&self) -> Objects {
        let Self([server, _]) = self;
        values(server.decodable().values().map(|item| &**item))
    }
}

fn values<'a>(items: impl Iterator<Item = &'a Item>) -> Objects {
    items.map(|item| (item.key().to_string(), item.value)).collect()
}

#[expect(clippy::too_many_lines, reason = "a world from its start to its end")]
async fn live(mut rng: Rng, recorder: &Recorder, limits: &Limits) {
    let kinds = [
        Versions::None,
        Versions::PerObject,
        Versions::HighestItem,
        Versions::Replayed,
        Versions::LastUpdate,
        Versions::Constant,
        Versions::Server,
    ];
    let versions = pick(&mut rng, kinds);
    let has_bookmarks = rng.bool();
    let server = || {
        let server = FakeSource::new().without_watch_list().versions(versions);
        if has_bookmarks { server } else { server.without_bookmarks() }
    };
    let servers = Servers([server(), server()]);
    let queue = pick(&mut rng, [QueueKind::RealFifo, QueueKind::RealFifoByObject, QueueKind::DeltaFifo]);
    let min_watch = Duration::from_secs(rng.u64(20..400));
    recorder.note(
        "world",
        format_args!("{versions:?}, bookmarks {has_bookmarks}, {queue:?}, watches of {min_watch:?}"),
    );

    let [ours, others] = servers.0.clone();
    let reference = Reference::new(others, false, min_watch);
    let stored = reference.stored();
    let informer = SharedIndexInformer::builder(ours)
        .queue(queue)
        .reflector(move |options| options.min_watch_timeout_unbounded(min_watch))
        .build();
    let informer = match informer {
        Ok(informer) => informer,
        Err(error) => return recorder.violation(error),
    };
    let cancel = CancellationToken::new();
    let mut followers = JoinSet::new();
    followers.spawn(reference.run());
    let (running, stop) = (informer.clone(), cancel.clone());
    followers.spawn(async move { _ = running.run(stop).await });

    let mut actors = JoinSet::new();
    actors.spawn(limits.clone().run("writer", writer(rng.fork(), servers.clone(), recorder.clone())));
    actors.spawn(limits.clone().run("faults", faults(rng.fork(), servers.clone(), recorder.clone())));
    let own = || values(informer.snapshot().iter().map(|item| &**item));
    let other = || values(stored.lock().values().map(|item| &**item));
    let mut informer_side = Side::new("informer");
    let mut reference_side = Side::new("reference");
    let mut calm_at = None;
    loop {
        let server = servers.objects();
        let (is_equal, reference_is) = (own() == server, other() == server);
        informer_side.add(STEP, is_equal, recorder);
        reference_side.add(STEP, reference_is, recorder);
        while actors.try_join_next().is_some() {}
        if actors.is_empty() && calm_at.is_none() {
            calm_at = Some(Instant::now());
            recorder.note("world", "no more changes and faults");
        }
        let is_late = calm_at.is_some_and(|calm| calm.elapsed() >= CONVERGES);
        if is_late && !is_equal && reference_is {
            recorder.violation(format_args!("the informer has {:?}, but the server {server:?}", own()));
        }
        if is_late || calm_at.is_some() && is_equal && reference_is {
            break;
        }
        sleep(STEP).await;
    }
    if let Err(problem) = judge([informer_side.behind, reference_side.behind], LONGER, recorder) {
        recorder.violation(problem);
    }
    cancel.cancel();
    followers.abort_all();
    while followers.join_next().await.is_some() {}
}

/// Writes objects.
async fn writer(mut rng: Rng, servers: Servers, recorder: Recorder) {
    let ended = Instant::now() + WRITES;
    let names = pick(&mut rng, [1, 3, 8]);
    let longest = pick(&mut rng, [2_000, 10_000, 60_000]);
    let mut number = 0;
    while Instant::now() < ended {
        let name = format!("p{}", rng.u8(..names));
        if rng.u8(..4) == 0 {
            recorder.note("writer", format_args!("deletes {name}"));
            servers.each(|server| _ = server.delete(KeyRef::named(&name)));
        } else {
            number += 1;
            recorder.note("writer", format_args!("writes {name}: {number}"));
            servers.each(|server| _ = server.apply(Item::of(&name, 0, number)));
        }
        sleep(Duration::from_millis(rng.u64(..longest))).await;
    }
}

/// Breaks watches, restarts the server, and fails requests.
async fn faults(mut rng: Rng, servers: Servers, recorder: Recorder) {
    let broken = || SourceError::Transport { source: "reset by peer".into() };
    for _ in 0..rng.usize(..6) {
        sleep(Duration::from_secs(rng.u64(..200))).await;
        let fault = rng.u8(..6);
        let code = pick(&mut rng, [403, 429, 500, 503]);
        let what = match fault {
            0 => "ends the watches",
            1 => "breaks the watches",
            2 => "restarts",
            3 => "drops its history",
            4 => "refuses the next watch",
            _ => "refuses the next list",
        };
        recorder.note("server", format_args!("{what}, {code}"));
        servers.each(|server| match fault {
            0 => server.disconnect(),
            1 => server.break_watches(broken),
            2 => server.restart(),
            3 => {
                server.compact();
                server.disconnect();
            }
            4 => {
                server.fail_next_watch(ApiStatus::new(code, "", "refused").into());
                server.break_watches(broken);
            }
            _ => {
                server.fail_next_list(ApiStatus::new(code, "", "refused").into());
                server.compact();
                server.disconnect();
            }
        });
    }
}
