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

use e2e::{ControlPlane, Options};

use program::Program;
use script::Script;
use session::Session;

/// Runs scripts by both caches.
async fn compare(scripts: impl IntoIterator<Item = Script>) {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    fixtures::create(&control_plane.client().await.unwrap()).await;
    let mut program = Program::start(&control_plane.kubeconfig());
    let mut session = Session::new(control_plane.config().await.unwrap());
    let (mut calls, mut problems) = (0, String::new());
    for script in scripts {
        calls += script.steps.len();
        // One after the other, since they write the same objects.
        let mut theirs = Vec::new();
        for step in &script.steps {
            theirs.push(program.answer(&step.call).await);
        }
        for (step, theirs) in script.steps.iter().zip(theirs) {
            let ours = session.answer(&step.call).await;
            if (&ours, &theirs) != (&step.ours, &step.theirs) {
                let (name, call) = (&script.name, &step.call);
                writeln!(
                    problems,
                    "{name}: {call}\n  kinformer-cache     {ours}\n    expected          {}",
                    step.ours
                )
                .unwrap();
                writeln!(problems, "  controller-runtime  {theirs}\n    expected          {}", step.theirs)
                    .unwrap();
            }
        }
    }
    session.end().await;
    program.end().await;
    control_plane.stop().await;
    assert!(problems.is_empty(), "of {calls} calls:\n{problems}");
}

/// The four shapes of controller-runtime's suite, with typed, dynamic and metadata-only objects: all reads.
#[tokio::test(flavor = "multi_thread")]
async fn reads_are_answered_as_by_controller_runtime() {
    compare(reads::scripts()).await;
}

/// The tables of selectors and of the inheritance of options.
#[tokio::test(flavor = "multi_thread")]
async fn options_select_as_in_controller_runtime() {
    compare(selectors::scripts().into_iter().chain(inheritance::scripts())).await;
}

/// Informers, errors of options and of the start, and writes of the client.
#[tokio::test(flavor = "multi_thread")]
async fn informers_and_writes_are_as_in_controller_runtime() {
    compare(informers::scripts().into_iter().chain(writes::scripts())).await;
}
