//! One run with controllers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use kinformer::CancellationToken;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::exclusion::Exclusion;
use super::process::{Process, Shared};
use super::reconciler::ANNOTATION;
use super::triggers::LABEL;
use crate::api_server::ApiServer;
use crate::ending;
use crate::limits::Limits;
use crate::random::{pause, pick};
use crate::state::text_of;
use crate::trace::Recorder;

/// The simulated time within which all keys are reconciled after the last fault.
const CONVERGES: Duration = Duration::from_secs(900);

/// The longest time of a write on the server.
const LONGEST_WRITE: Duration = Duration::from_secs(11);

const NAMESPACES: [&str; 2] = ["a", "b"];

/// Runs a world with controllers.
pub(crate) async fn live(mut rng: Rng, server: ApiServer, recorder: &Recorder, limits: &Limits) {
    let tasks = Handle::current().metrics().num_alive_tasks();
    let shared = shared(&mut rng, &server, recorder);
    let mut actors = JoinSet::new();
    actors.spawn(limits.clone().run("writer", writer(rng.fork(), server.clone(), recorder.clone())));
    actors.spawn(limits.clone().run("faults", server.clone().fail(rng.fork())));
    let restarts = limits.end("restarts").map(|end| Instant::now() + end);
    let calm = CancellationToken::new();
    let mut slots = JoinSet::new();
    for slot in 0..if shared.is_elected { 2 } else { 1 } {
        slots.spawn(processes(rng.fork(), slot, shared.clone(), (calm.clone(), restarts)));
    }
    while let Some(ended) = actors.join_next().await {
        if let Err(error) = ended {
            recorder.violation(format_args!("an actor failed: {error}"));
        }
    }
    server.heal(&mut rng);
    shared.is_calm.store(true, Ordering::Relaxed);
    calm.cancel();
    recorder.note("world", "no more changes and faults");
    let mut processes = Vec::new();
    for process in slots.join_all().await {
        process.controllers.iter().for_each(|controller| controller.judge.set_calm());
        processes.push(process);
    }
    settle(&mut rng, &mut processes, &shared, |_| true).await;
    let names = server.objects("configmaps").into_keys();
    for key in names {
        server.put("configmaps", &key, "final");
    }
    settle(&mut rng, &mut processes, &shared, |shared| has_final_secrets(&server, shared.broken)).await;
    for process in processes {
        process.controllers.iter().for_each(|controller| controller.check_metrics());
        process.end(&mut rng).await;
    }
    recorder.note("world", "shut down");
    drop(shared);
    sleep(LONGEST_WRITE).await;
    ending::check_left(tasks, &server, recorder);
}

/// Chooses what the processes have in common.
fn shared(rng: &mut Rng, server: &ApiServer, recorder: &Recorder) -> Shared {
    let (is_elected, broken) = (rng.u8(..3) == 0, pick(rng, [None, None, Some("p0")]));
    recorder.note("world", format_args!("controllers, elected {is_elected}, broken {broken:?}"));
    Shared {
        server: server.clone(),
        recorder: recorder.clone(),
        is_calm: Arc::new(AtomicBool::new(false)),
        exclusion: Exclusion::new(),
        is_elected,
        broken,
    }
}

/// Waits until the controllers of all processes, or of the leader, have reconciled all keys. Processes that have ended are
/// started again.
async fn settle(
    rng: &mut Rng,
    processes: &mut [Process],
    shared: &Shared,
    is_done: impl Fn(&Shared) -> bool,
) {
    let deadline = Instant::now() + CONVERGES;
    loop {
        for process in processes.iter_mut().filter(|process| process.is_over()) {
            let next = Process::start(rng, process.number + 10, shared);
            std::mem::replace(process, next).has_ended().await;
        }
        let left: Vec<String> = processes.iter().filter_map(Process::unsettled).collect();
        let allowed = if shared.is_elected { processes.len() - 1 } else { 0 };
        if left.len() <= allowed && is_done(shared) {
            shared.recorder.note("world", "all keys are reconciled");
            return;
        }
        if Instant::now() >= deadline {
            shared
                .recorder
                .violation(format_args!("not reconciled in time: {left:?}, written {}", is_done(shared)));
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Whether each config map has a secret with its value.
fn has_final_secrets(server: &ApiServer, broken: Option<&str>) -> bool {
    let secrets = server.objects("secrets");
    server.objects("configmaps").keys().all(|key| {
        let value =
            secrets.get(key).and_then(|secret| text_of(secret, ["metadata", "annotations", ANNOTATION]));
        broken.is_some_and(|end| key.ends_with(end)) || value == Some("final")
    })
}

/// Processes after each other, until the faults end. Returns the last one. After the time of `restarts` only those that have
/// ended by themselves are replaced.
async fn processes(
    mut rng: Rng,
    slot: usize,
    shared: Shared,
    (calm, restarts): (CancellationToken, Option<Instant>),
) -> Process {
    let mut number = slot;
    let mut process = Process::start(&mut rng, number, &shared);
    let ends = pick(&mut rng, [0, 0, 5, 20]);
    loop {
        let step = Duration::from_millis(rng.u64(..5_000));
        if calm.run_until_cancelled(sleep(step)).await.is_none() {
            return process;
        }
        process.controllers.iter().for_each(|controller| controller.check_metrics());
        process.send(&format!("p{}", rng.u8(..6)));
        if rng.u8(..100) < 3 && restarts.is_none_or(|end| Instant::now() < end) {
            process.remove_informer().await;
        }
        let is_over = process.is_over();
        let ends = !is_over && rng.u8(..100) < ends && restarts.is_none_or(|end| Instant::now() < end);
        if is_over || ends {
            match is_over {
                true => process.has_ended().await,
                false => process.end(&mut rng).await,
            }
            number += 10;
            process = Process::start(&mut rng, number, &shared);
        }
    }
}

/// Writes objects.
async fn writer(mut rng: Rng, server: ApiServer, recorder: Recorder) {
    let names = pick(&mut rng, [2, 4, 6]);
    let mut burst = 0;
    for number in 0..rng.usize(20..100) {
        if burst == 0 {
            pause(&mut rng).await;
            burst = pick(&mut rng, [1, 1, 4, 10]);
        }
        burst -= 1;
        let plural = pick(&mut rng, ["configmaps", "configmaps", "secrets", "pods"]);
        let key = format!("{}/p{}", pick(&mut rng, NAMESPACES), rng.u8(..names));
        if rng.u8(..4) == 0 {
            if let Some(version) = server.delete(plural, &key) {
                recorder.note("writer", format_args!("deletes {plural} {key} at {version}"));
            }
            continue;
        }
        let metadata = json!({"labels": {LABEL: rng.u8(..2).to_string()}});
        let content = match plural {
            "configmaps" => json!({"data": {"value": number.to_string()}}),
            "secrets" => json!({"metadata": owned(&mut rng, metadata, names)}),
            _ => json!({"metadata": metadata}),
        };
        let version = server.put_content(plural, &key, content);
        recorder.note("writer", format_args!("writes {plural} {key} at {version}"));
    }
}

/// Adds an owner to metadata: a config map that controls the object or not, or another kind.
fn owned(rng: &mut Rng, mut metadata: Value, names: u8) -> Value {
    let (api_version, kind) =
        pick(rng, [("v1", "ConfigMap"), ("v1", "ConfigMap"), ("v1", "Pod"), ("a/v1", "ConfigMap")]);
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": format!("p{}", rng.u8(..names)),
        "uid": "00000000-0000-4000-8000-000000000000", "controller": rng.u8(..4) > 0});
    if let Some(metadata) = metadata.as_object_mut()
        && rng.u8(..4) > 0
    {
        metadata.insert("ownerReferences".into(), json!([owner]));
    }
    metadata
}
