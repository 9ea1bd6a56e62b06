//! Random electors and faults: no write of an earlier leader takes effect after a write of a later one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::PostParams;
use proptest::prelude::*;
use serde_json::json;

use crate::common::{Response, Server, after, candidate};

const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
enum Step {
    /// The next requests, of whatever process, are answered in this way.
    Answer(Response),
    /// A process is killed, and another one with its name is started.
    Restart(usize),
    Wait(Duration),
}

const PROCESSES: usize = 3;

fn response() -> impl Strategy<Value = Response> {
    let delay = prop_oneof![3 => Just(0_u32), 2 => 0..3_000_u32, 1 => 0..40_000_u32];
    (delay.clone(), delay, prop::bool::weighted(0.3)).prop_map(|(before, after, fails)| Response {
        before: MS * before,
        after: MS * after,
        fails,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => response().prop_map(Step::Answer),
        1 => (0..PROCESSES).prop_map(Step::Restart),
        6 => (0..8_000_u32).prop_map(|wait| Step::Wait(MS * wait)),
    ]
}

/// One process: it waits for the leadership, writes while it has it, and begins again. Each term has a number of its own.
async fn process(server: Server, name: String, terms: Arc<AtomicUsize>) {
    loop {
        let term = terms.fetch_add(1, Ordering::Relaxed);
        let elector = candidate(&server.client(), &name).build().unwrap();
        let leadership = elector.acquire().await;
        let api: Api<ConfigMap> = Api::namespaced(leadership.client(&server.client()), "default");
        let writer = format!("{name}/{term}");
        let write = |number: u32| {
            let object =
                json!({"metadata": {"name": format!("{writer}/{number}")}, "data": {"writer": writer}});
            let object: ConfigMap = serde_json::from_value(object).unwrap();
            let api = api.clone();
            async move { api.create(&PostParams::default(), &object).await }
        };
        let work = async {
            for number in 0..fastrand::u32(1..60) {
                let writes = (0..3).map(|part| write(number * 3 + part));
                futures::future::join_all(writes).await;
                after(MS * fastrand::u32(0..500)).await;
            }
        };
        if leadership.run(work).await.is_ok() && fastrand::bool() {
            _ = leadership.release().await;
        }
    }
}

async fn run(steps: Vec<Step>) -> usize {
    let server = Server::default();
    let terms = Arc::<AtomicUsize>::default();
    let spawn =
        |number: usize| tokio::spawn(process(server.clone(), format!("process-{number}"), terms.clone()));
    let mut processes: Vec<_> = (0..PROCESSES).map(spawn).collect();
    for step in steps {
        match step {
            Step::Answer(response) => server.answer([response]),
            Step::Restart(process) => {
                processes[process].abort();
                processes[process] = spawn(process);
            }
            Step::Wait(wait) => after(wait).await,
        }
    }
    after(100_000 * MS).await;
    for process in &processes {
        process.abort();
    }
    let mut writers = server.writers();
    assert!(!writers.is_empty(), "a leader is elected when the faults are over");
    writers.dedup();
    let terms = writers.len();
    let mut unique = writers.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), terms, "a writer wrote after another one had begun: {writers:?}");
    terms
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    // contract: N-07b
    #[test]
    fn writes_of_leaders_do_not_overlap(steps in prop::collection::vec(step(), 0..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(run(steps));
    }
}
