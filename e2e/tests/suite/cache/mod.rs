//! kinformer-cache and controller-runtime's cache answer the same calls, on one kube-apiserver. Their answers are equal, or
//! differ as documented.

mod call;
mod fixtures;
mod informers;
mod inheritance;
mod program;
mod reads;
mod script;
mod selectors;
mod session;
mod writes;

use std::fmt::Write;
use std::time::Duration;

use e2e::{ControlPlane, Options};
use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use program::Program;
use script::{Script, Step};
use session::Session;

/// How many programs and caches answer scripts that write nothing. Most of their time is spent waiting for a first sync.
const LANES: usize = 5;

/// How long controller-runtime may take for an answer that is late.
const LATE: Duration = Duration::from_secs(10);

async fn their_answer(program: &mut Program, step: &Step) -> Value {
    let mut answer = program.answer(&step.call).await;
    let begun = Instant::now();
    while step.is_late && answer != step.theirs && begun.elapsed() < LATE {
        tokio::time::sleep(Duration::from_millis(20)).await;
        answer = program.answer(&step.call).await;
    }
    answer
}

/// Runs scripts one after the other, first by controller-runtime. Returns the number of calls and the unexpected answers.
async fn run(control_plane: &ControlPlane, scripts: Vec<Script>) -> (usize, String) {
    let mut program = Program::start(&control_plane.kubeconfig());
    let mut session = Session::new(control_plane.config().await.unwrap());
    let (mut calls, mut problems) = (0, String::new());
    for script in scripts {
        calls += script.steps.len();
        let mut theirs = Vec::new();
        for step in &script.steps {
            theirs.push(their_answer(&mut program, step).await);
        }
        for (Step { call, ours, theirs, .. }, their_answer) in script.steps.iter().zip(theirs) {
            let answer = session.answer(call).await;
            if answer != *ours || their_answer != *theirs {
                writeln!(problems, "{}: {call}", script.name).unwrap();
                writeln!(problems, "  kinformer-cache     {answer}\n    expected          {ours}").unwrap();
                writeln!(problems, "  controller-runtime  {their_answer}\n    expected          {theirs}")
                    .unwrap();
            }
        }
    }
    session.end().await;
    program.end().await;
    (calls, problems)
}

/// The four shapes of controller-runtime's suite with typed, dynamic and metadata-only objects, its tables of selectors and of
/// the inheritance of options, informers, and reads after writes.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_controller_runtime() {
    // Not one with objects of other tests: the expected lists have all namespaces.
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    fixtures::create(&control_plane.client().await.unwrap()).await;
    let reading = [reads::scripts(), selectors::scripts(), inheritance::scripts(), informers::scripts()];
    let mut lanes: Vec<Vec<Script>> = (0..LANES).map(|_| Vec::new()).collect();
    for (number, script) in reading.into_iter().flatten().enumerate() {
        lanes[number % LANES].push(script);
    }
    // These write the same object.
    lanes.push(writes::scripts());
    let results = join_all(lanes.into_iter().map(|scripts| run(&control_plane, scripts))).await;
    let calls: usize = results.iter().map(|(calls, _)| calls).sum();
    let problems: String = results.into_iter().map(|(_, problems)| problems).collect();
    assert!(problems.is_empty(), "of {calls} calls:\n{problems}");
}
