//! client-go's informers and kinformer's on one server, at the same time, under the same writes and failures.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{
    ControlPlane, GROUP_VERSION_RESOURCES, InformerProgram, Line, Options, Proxy, RESOURCES, Writer, programs,
};

use crate::main_job::{PATHS, has_last};
use crate::planes;
use crate::recorder::cached;

/// The timeout for the programs to catch up: client-go waits up to a minute between retries.
const BOUND: Duration = Duration::from_secs(120);

/// A fault between writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// All connections are closed.
    Disconnect,
    /// All connections are closed within an event.
    DisconnectWithin,
    /// kube-apiserver is killed and started again.
    Restart,
    /// kube-apiserver is suspended for a while.
    Pause,
    /// Many writes and a compaction happen during an outage.
    Compaction,
    /// Writes happen during an outage.
    Outage,
}

const FAULTS: [Fault; 6] = [
    Fault::Disconnect,
    Fault::DisconnectWithin,
    Fault::Restart,
    Fault::Pause,
    Fault::Compaction,
    Fault::Outage,
];

/// The seeds to run: `FIRST+COUNT`.
pub(crate) fn seeds() -> std::ops::Range<u64> {
    let text = std::env::var("KINFORMER_SEEDS").expect("run this by `cargo xtask e2e`");
    let (first, count) = text.split_once('+').expect("FIRST+COUNT");
    let (first, count): (u64, u64) = (first.parse().expect("a number"), count.parse().expect("a number"));
    first..first + count
}

#[tokio::test(flavor = "multi_thread")]
async fn both_informers_match_the_server_history() {
    let mut control_plane = planes::take(Options::new()).await;
    let mut total = Comparison::default();
    for seed in seeds() {
        let compared = run(&mut control_plane, seed).await.unwrap_or_else(|problem| {
            panic!(
                "seed {seed}: {problem}\nagain: cargo xtask e2e differential --first-seed {seed} --seeds 1"
            )
        });
        println!("seed {seed}: {compared}");
        total.add(&compared);
    }
    println!("all seeds: {total}");
    planes::keep(control_plane).await;
}

async fn run(control_plane: &mut ControlPlane, seed: u64) -> Result<Comparison, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    // Every fourth run has no fault, and then both must deliver the same events.
    let faults = if seed.is_multiple_of(4) { 0 } else { random.usize(1..4) };
    let faults: Vec<Fault> = (0..faults).filter_map(|_| random.choice(FAULTS)).collect();
    let client = control_plane.client().await.map_err(text)?;
    let mut writer = Writer::begin(client.clone(), seed).await.map_err(text)?;
    writer.write(random.usize(0..80)).await.map_err(text)?;
    let before = writer.history().clone();
    for path in PATHS {
        cached(&client, path).await;
    }

    let mut proxy = Proxy::start(control_plane.port()).await.map_err(text)?;
    let kubeconfig = control_plane.kubeconfig_through(proxy.port()).map_err(text)?;
    let words = ["pods,nodes,deployments.apps", "-A", "-o", "json", "-v"];
    let kinformer = programs::kinformer_watch(&kubeconfig, words).map_err(text)?;
    let client_go = programs::client_go(&kubeconfig, GROUP_VERSION_RESOURCES).map_err(text)?;
    let mut ours = InformerProgram::start("kinformer", kinformer)?;
    let mut theirs = InformerProgram::start("client-go", client_go)?;
    // In half of the runs, the programs start during writes. Faults happen only later: a program that cannot reach
    // the cluster at its start ends with an error.
    let while_written = random.bool();
    if while_written {
        writer.write(random.usize(20..60)).await.map_err(text)?;
    }
    ours.until_synced(&RESOURCES, BOUND).await?;
    theirs.until_synced(&RESOURCES, BOUND).await?;
    for fault in &faults {
        writer.write(random.usize(5..60)).await.map_err(text)?;
        inject(*fault, control_plane, &mut proxy, &mut writer, &mut random).await?;
    }
    writer.write(random.usize(40..120)).await.map_err(text)?;
    writer.end().await.map_err(text)?;
    let history = writer.history();
    for program in [&mut ours, &mut theirs] {
        program.until("the last objects", BOUND, |lines| has_last(lines, &RESOURCES)).await?;
        // A list after a failure may be delivered in any order. The check below reports missing events.
        let _ = program.until("everything", BOUND, |lines| history.explain(lines).is_ok()).await;
    }
    let (ours, theirs) = (ours.stop().await?, theirs.stop().await?);

    let mut again = [0; 2];
    for (number, (name, lines)) in [("kinformer", &ours), ("client-go", &theirs)].into_iter().enumerate() {
        let context = |why: String| format!("{faults:?}: {name}: {why}");
        again[number] = history.explain(lines).map_err(|why| context(why.to_string()))?;
        if !while_written {
            initial_list(&before, lines).map_err(context)?;
        }
    }
    let (by_us, by_them) = (history.by_object(&ours), history.by_object(&theirs));
    let compared = Comparison { again: again.into(), ..Comparison::new(&by_us, &by_them) };
    // Contract, I-06: after a relist, client-go delivers known states again, also to handlers without a resync period.
    if compared.again.0 > 0 {
        return Err(format!(
            "{faults:?}: known states were delivered again: {compared}\n{}",
            compared.example
        ));
    }
    if faults.is_empty() && !while_written && compared.differ > 0 {
        return Err(format!("the events differ without a fault: {compared}\n{}", compared.example));
    }
    writer.clean_up().await.map_err(text)?;
    Ok(compared)
}

/// Checks that exactly the objects from before the start of both programs are marked as in the initial list.
fn initial_list(before: &e2e::History, lines: &[Line]) -> Result<(), String> {
    let objects = before.by_object(lines);
    for ((resource, key), events) in objects {
        let initial =
            events.iter().filter(|line| line.object_event().is_some_and(|event| event.initial)).count();
        let expected = usize::from(before.version(resource, key).is_some());
        if initial != expected {
            return Err(format!(
                "{resource} {key}: {initial} times in the initial list, not {expected}: {events:?}"
            ));
        }
    }
    Ok(())
}

async fn inject(
    fault: Fault,
    control_plane: &mut ControlPlane,
    proxy: &mut Proxy,
    writer: &mut Writer,
    random: &mut fastrand::Rng,
) -> Result<(), String> {
    match fault {
        Fault::Disconnect => proxy.disconnect(),
        Fault::DisconnectWithin => proxy.disconnect_after(random.u64(1..20_000)),
        Fault::Restart => control_plane.restart_apiserver().await.map_err(text)?,
        Fault::Pause => {
            control_plane.pause_apiserver().await;
            tokio::time::sleep(Duration::from_millis(random.u64(100..3_000))).await;
            control_plane.resume_apiserver();
        }
        Fault::Compaction => {
            proxy.refuse().await;
            writer.write(random.usize(20..80)).await.map_err(text)?;
            control_plane.compact().await.map_err(text)?;
            control_plane.restart_apiserver().await.map_err(text)?;
            proxy.accept().await.map_err(text)?;
        }
        Fault::Outage => {
            proxy.refuse().await;
            writer.write(random.usize(20..80)).await.map_err(text)?;
            proxy.accept().await.map_err(text)?;
        }
    }
    Ok(())
}

/// A comparison of the events that two informers delivered for the same objects.
#[derive(Debug, Default)]
struct Comparison {
    same: usize,
    differ: usize,
    /// The number of events of kinformer and of client-go.
    events: (usize, usize),
    /// The number of deletions with an unknown final state, of kinformer and of client-go.
    unknown: (usize, usize),
    /// The number of updates that delivered a known state again, of kinformer and of client-go.
    again: (usize, usize),
    /// The first objects that differ.
    example: String,
}

type ByObject<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a Line>>;

impl Comparison {
    fn new(ours: &ByObject<'_>, theirs: &ByObject<'_>) -> Self {
        let mut compared = Self::default();
        let nothing = Vec::new();
        let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let (ours, theirs) = (ours.get(name).unwrap_or(&nothing), theirs.get(name).unwrap_or(&nothing));
            if ours.iter().eq(theirs.iter().filter(|line| !is_again(line))) {
                compared.same += 1;
            } else {
                compared.differ += 1;
                if compared.differ < 4 {
                    compared.example += &format!("{name:?}\n  ours:   {ours:?}\n  theirs: {theirs:?}\n");
                }
            }
            let unknown = |lines: &[&Line]| {
                lines
                    .iter()
                    .filter(|line| line.object_event().is_some_and(|event| event.final_state_unknown))
                    .count()
            };
            compared.events.0 += ours.len();
            compared.events.1 += theirs.len();
            compared.unknown.0 += unknown(ours);
            compared.unknown.1 += unknown(theirs);
        }
        compared
    }

    fn add(&mut self, other: &Self) {
        self.same += other.same;
        self.differ += other.differ;
        self.events = (self.events.0 + other.events.0, self.events.1 + other.events.1);
        self.again = (self.again.0 + other.again.0, self.again.1 + other.again.1);
        self.unknown = (self.unknown.0 + other.unknown.0, self.unknown.1 + other.unknown.1);
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { same, differ, events, unknown, again, example: _ } = self;
        write!(
            f,
            "{same} objects with the same events, {differ} with others; events {} / {}, final state unknown {} / {}, \
             delivered again {} / {} (kinformer / client-go)",
            events.0, events.1, unknown.0, unknown.1, again.0, again.1
        )
    }
}

/// Whether the line delivers a known state again.
fn is_again(line: &Line) -> bool {
    matches!(line, Line::Update(event) if event.resource_version == event.old_resource_version)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
