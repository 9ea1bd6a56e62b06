//! The cost of each additional kind for a program: CPU time of compilation, and binary size.
//!
//! Builds a program with one kind and one with thirty, each calling everything that a user of a kind calls.
//! The difference in release mode, divided by 29, is the cost of a kind. Store, queue, processor and informer are
//! compiled in kinformer's crates, so the large program must have as many of their symbols as the small one.
//!
//! CPU time depends on the machine, so two more programs of one and thirty kinds are the measure for it: they only parse
//! the kinds with serde_json.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build each program this often, and report the lowest CPU time
    #[arg(long, default_value_t = 2)]
    runs: usize,
    /// Only count symbols: fail if some are compiled more than once. Measures neither CPU time nor size
    #[arg(long)]
    symbols: bool,
}

/// The limits for the cost of a kind: the CPU time as a multiple of that of serde_json, and the size.
const CPU: f64 = 3.0;
const MEGABYTES: f64 = 0.08;

/// The profile of programs whose symbols are counted without a measurement.
const SYMBOLS: &str = "symbols";

/// The profile of programs whose cost is measured.
const RELEASE: &str = "release";

/// The difference in kinds between the programs.
const FURTHER: f64 = 29.0;

/// The programs, in the order in which they are built.
const PROGRAMS: [Program; 4] = [
    Program { name: "one", kinds: 1, text: PROGRAM, calls: CALLS },
    Program { name: "thirty", kinds: KINDS.len(), text: PROGRAM, calls: CALLS },
    Program { name: "one-parsed", kinds: 1, text: PARSER, calls: PARSE },
    Program { name: "thirty-parsed", kinds: KINDS.len(), text: PARSER, calls: PARSE },
];

struct Program {
    name: &'static str,
    kinds: usize,
    text: &'static str,
    /// The code for each kind.
    calls: &'static str,
}

/// The accessors of the kinds.
const KINDS: [&str; 30] = [
    "core().v1().pods()",
    "core().v1().nodes()",
    "core().v1().services()",
    "core().v1().config_maps()",
    "core().v1().secrets()",
    "core().v1().namespaces()",
    "core().v1().endpoints()",
    "core().v1().events()",
    "core().v1().limit_ranges()",
    "core().v1().persistent_volumes()",
    "core().v1().persistent_volume_claims()",
    "core().v1().replication_controllers()",
    "core().v1().resource_quotas()",
    "core().v1().service_accounts()",
    "apps().v1().deployments()",
    "apps().v1().daemon_sets()",
    "apps().v1().replica_sets()",
    "apps().v1().stateful_sets()",
    "batch().v1().jobs()",
    "batch().v1().cron_jobs()",
    "networking().v1().ingresses()",
    "networking().v1().network_policies()",
    "rbac().v1().roles()",
    "rbac().v1().role_bindings()",
    "rbac().v1().cluster_roles()",
    "rbac().v1().cluster_role_bindings()",
    "storage().v1().storage_classes()",
    "storage().v1().volume_attachments()",
    "policy().v1().pod_disruption_budgets()",
    "discovery().v1().endpoint_slices()",
];

/// Parts of the names of symbols that are compiled once, in kinformer's crates.
const ONCE: [(&str, &str); 4] = [
    ("store", "kinformer_store::"),
    ("queue", "kinformer_delta_fifo::"),
    ("processor", "kinformer_processor::"),
    ("informer", "kinformer_shared_informer::"),
];

/// Symbols that exist once per kind by design, and are inlined with optimization: events contain the type of their
/// objects.
const EVENTS: &str = "kinformer_processor::event::";

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let folder = prepare()?;
    let report = if args.symbols {
        compare_symbols(&folder.symbols("one", SYMBOLS)?, &folder.symbols("thirty", SYMBOLS)?)
    } else {
        let costs = folder.costs(args.runs)?;
        let symbols = compare_symbols(&folder.symbols("one", RELEASE)?, &folder.symbols("thirty", RELEASE)?);
        symbols.and(compare_costs(&costs))
    };
    for line in &report.lines {
        println!("{line}");
    }
    match report.problems.is_empty() {
        true => Ok(()),
        false => Err(report.problems.join("; ")),
    }
}

/// Counts only symbols, for `cargo xtask ci`.
pub(crate) fn symbols() -> Result<(), String> {
    run(&Args { runs: 0, symbols: true })
}

#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    bytes: u64,
}

#[derive(Default)]
struct Report {
    lines: Vec<String>,
    problems: Vec<String>,
}

impl Report {
    fn and(mut self, other: Self) -> Self {
        self.lines.extend(other.lines);
        self.problems.extend(other.problems);
        self
    }
}

/// The number of symbols of each part.
type Symbols = BTreeMap<&'static str, usize>;

/// Compares the symbols of a program with one kind with those of a program with thirty.
fn compare_symbols(one: &Symbols, thirty: &Symbols) -> Report {
    let mut report = Report::default();
    for (what, of) in ONCE {
        let count = |symbols: &Symbols| symbols.get(what).copied().unwrap_or_default();
        let (small, large) = (count(one), count(thirty));
        report.lines.push(format!("{what}: {small} symbols with one kind, {large} with thirty"));
        if small == 0 {
            report.problems.push(format!("no symbol of the {what} has {of:?} in its name"));
        } else if large.saturating_sub(small) >= KINDS.len() - 1 {
            // The compiler may split the large program differently, and compile a few drops once more.
            report
                .problems
                .push(format!("{} symbols of the {what} are compiled for each kind", large - small));
        }
    }
    report
}

/// Compares the costs of the programs, which are in the order of [`PROGRAMS`].
fn compare_costs(&[one, thirty, one_parsed, thirty_parsed]: &[Cost; PROGRAMS.len()]) -> Report {
    let mut report = Report::default();
    let in_megabytes = |cost: Cost| cost.bytes as f64 / 1e6;
    let (from, to) = (in_megabytes(one), in_megabytes(thirty));
    let megabytes = (to - from) / FURTHER;
    report.lines.push(format!("{from:.2} MB with one kind, {to:.2} MB with thirty"));
    report.lines.push(format!("each further kind: {megabytes:.3} MB (at most {MEGABYTES})"));
    if megabytes > MEGABYTES {
        report.problems.push(format!("a kind takes {megabytes:.3} MB, which is more than {MEGABYTES}"));
    }
    let each = |one: Cost, thirty: Cost| (thirty.cpu - one.cpu) / FURTHER;
    let (seconds, parsed) = (each(one, thirty), each(one_parsed, thirty_parsed));
    let ratio = seconds / parsed;
    report.lines.push(format!("{:.1} s of CPU with one kind, {:.1} s with thirty", one.cpu, thirty.cpu));
    report.lines.push(format!(
        "each further kind: {seconds:.2} s of CPU, {ratio:.2} times the {parsed:.2} s of serde_json::from_slice \
         (at most {CPU})"
    ));
    if ratio.is_nan() || ratio > CPU {
        report
            .problems
            .push(format!("a kind takes {ratio:.2} times the CPU of serde_json, which is more than {CPU}"));
    }
    report
}

/// Counts the symbols of each part in a list of symbol names.
fn count_symbols(list: &str) -> Symbols {
    let count = |of| list.lines().filter(|line| line.contains(of) && !line.contains(EVENTS)).count();
    ONCE.into_iter().map(|(what, of)| (what, count(of))).collect()
}

/// Writes a workspace with the programs, outside this workspace.
fn prepare() -> Result<Folder, String> {
    let root = files::root();
    let folder = root.join("target/kinds");
    let crates = root.join("crates");
    // Without optimization the build is much faster, and no symbol is inlined. `inline` functions are compiled once
    // per codegen unit, so one unit counts them once.
    let workspace = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\nexclude = [\"target\"]\n\n[profile.{SYMBOLS}]\n\
         inherits = \"dev\"\ndebug = false\nincremental = false\ncodegen-units = 1\n"
    );
    provide(&folder.join("Cargo.toml"), &workspace)?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(|error| error.to_string())?;
    for program in &PROGRAMS {
        let name = program.name;
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             kinformer = {{ path = {:?} }}\nkube-client = {{ version = \"*\", default-features = false }}\n\
             k8s-openapi = {{ version = \"*\", features = [\"latest\"] }}\n\
             futures = {{ version = \"*\", default-features = false }}\n\
             serde = {{ version = \"1\", features = [\"derive\"] }}\n\
             serde_json = \"1\"\n\
             tokio = {{ version = \"1\", features = [\"rt-multi-thread\"] }}\n",
            crates.join("kinformer")
        );
        provide(&folder.join(name).join("Cargo.toml"), &manifest)?;
        provide(&folder.join(name).join("src/main.rs"), &program.source())?;
    }
    Ok(Folder(folder))
}

impl Program {
    fn source(&self) -> String {
        let calls: String =
            KINDS.iter().take(self.kinds).map(|kind| self.calls.replace("$kind", kind)).collect();
        self.text.replace("$calls", &calls)
    }
}

const PROGRAM: &str = r#"use futures::StreamExt as _;

#[derive(serde::Deserialize)]
struct Own {
    metadata: Named,
}

#[derive(serde::Deserialize)]
struct Named {
    name: Option<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    let _entered = runtime.enter();
    let client = kinformer::client(kube_client::Config::new("http://localhost:1".parse()?))?;
    let factory = kinformer::SharedInformerFactory::new(client);
    let selector: kinformer::LabelSelector = std::env::args().nth(1).unwrap_or_default().parse()?;
$calls    factory.start()?;
    runtime.block_on(factory.wait_for_cache_sync()).into_result()?;
    Ok(())
}
"#;

/// Everything that the user of a kind calls.
const CALLS: &str = r#"    {
        let informer = factory.$kind;
        informer.decode_on_arrival();
        informer.index_by_field("name", &["metadata", "name"])?;
        informer.index("app", |object, values| {
            object.label("app").into_iter().for_each(|app| values.push(app));
            Ok(())
        })?;
        informer.handler().name("printer").filter(|object| object.uid().is_some()).for_each(|event| {
            let Some(object) = event.object() else { return };
            println!("{} {}", object.name(), object.decode().is_ok());
        })?;
        informer.handler().name("waiter").for_each_async(async |event| {
            tokio::task::yield_now().await;
            println!("{}", event.key());
        })?;
        let mut stream = informer.stream()?;
        runtime.spawn(async move {
            while let Some(event) = stream.next().await {
                println!("{}", event.key());
            }
        });
        for object in informer.lister().namespace("default").list(&selector)? {
            println!("{:?}", object.decode_owned()?.metadata.name);
        }
        for object in informer.cast::<Own>().snapshot()?.iter() {
            println!("{:?}", object.decode()?.metadata.name);
        }
    }
"#;

/// Parses a kind. The closures, which only name the type of a kind, are not called and therefore not compiled.
const PARSER: &str = r#"fn parse<K: serde::de::DeserializeOwned>(
    json: &[u8],
    _: impl Fn(&kinformer::SharedInformerFactory) -> kinformer::Informer<K>,
) -> bool {
    serde_json::from_slice::<K>(json).is_ok()
}

fn main() {
    let json = std::env::args().nth(1).unwrap_or_default().into_bytes();
$calls}
"#;

const PARSE: &str = "    println!(\"{}\", parse(&json, |factory| factory.$kind));\n";

/// The folder of the workspace with the programs.
struct Folder(PathBuf);

impl Folder {
    fn cargo(&self, name: &str, profile: &str) -> Command {
        let mut cargo = files::command("cargo");
        cargo.current_dir(&self.0).args(["build", "--quiet", "--profile", profile, "--package", name]);
        cargo.arg("--target-dir").arg(self.0.join("target"));
        cargo
    }

    fn binary(&self, name: &str, profile: &str) -> PathBuf {
        self.0.join("target").join(profile).join(name)
    }

    /// Builds a program and counts its symbols.
    fn symbols(&self, name: &str, profile: &str) -> Result<Symbols, String> {
        succeed(self.cargo(name, profile))?;
        let mut names = Command::new("nm");
        names.args(["--demangle", "--defined-only"]).arg(self.binary(name, profile));
        Ok(count_symbols(&succeed(names)?))
    }

    /// Builds the programs in turns, so that a slow phase of the machine affects all of them, and returns the lowest CPU
    /// time of each without its dependencies.
    fn costs(&self, runs: usize) -> Result<[Cost; PROGRAMS.len()], String> {
        for program in &PROGRAMS {
            succeed(self.cargo(program.name, RELEASE))?;
        }
        let mut costs = [Cost { cpu: f64::INFINITY, bytes: 0 }; PROGRAMS.len()];
        for _ in 0..runs.max(1) {
            for (program, cost) in PROGRAMS.iter().zip(&mut costs) {
                write(&self.0.join(program.name).join("src/main.rs"), &program.source())?;
                let before = children_seconds()?;
                succeed(self.cargo(program.name, RELEASE))?;
                cost.cpu = cost.cpu.min(children_seconds()? - before);
                cost.bytes = stripped_size(&self.binary(program.name, RELEASE))?;
            }
        }
        Ok(costs)
    }
}

fn stripped_size(binary: &Path) -> Result<u64, String> {
    let stripped = binary.with_extension("stripped");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(binary);
    succeed(strip)?;
    fs::metadata(&stripped).map(|metadata| metadata.len()).map_err(|error| format!("{stripped:?}: {error}"))
}

/// Writes only files that differ, so that nothing is rebuilt without a reason.
fn provide(path: &Path, text: &str) -> Result<(), String> {
    match fs::read_to_string(path) {
        Ok(there) if there == text => Ok(()),
        _ => write(path, text),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().ok_or("a path without a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{path:?}: {error}"))
}

/// Runs a command to its end, and returns its output.
fn succeed(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Returns the CPU time in seconds of all finished child processes of this process, and of theirs. Linux only.
fn children_seconds() -> Result<f64, String> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    seconds_of(&stat).ok_or_else(|| format!("/proc/self/stat: {stat:?}"))
}

/// Parses the line of a process in `/proc`: fields 16 and 17, in hundredths of a second. Field 2 is the name, which
/// may contain any characters.
fn seconds_of(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut ticks = after_name.split_whitespace().skip(13).map(|field| field.parse::<f64>().ok());
    Some((ticks.next()?? + ticks.next()??) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(each: usize) -> Symbols {
        ONCE.into_iter().map(|(what, _)| (what, each)).collect()
    }

    /// The costs of programs: of the first two, and of the two that only parse at one second for each kind.
    fn costs(one: (u64, f64), thirty: (u64, f64)) -> [Cost; PROGRAMS.len()] {
        [one, thirty, (0, 10.0), (0, 39.0)].map(|(bytes, cpu)| Cost { cpu, bytes })
    }

    #[test]
    fn cheap_kinds_are_no_problem() {
        let report = compare_costs(&costs((15_000_000, 20.0), (16_450_000, 78.0)));
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(
            report.lines,
            [
                "15.00 MB with one kind, 16.45 MB with thirty",
                "each further kind: 0.050 MB (at most 0.08)",
                "20.0 s of CPU with one kind, 78.0 s with thirty",
                "each further kind: 2.00 s of CPU, 2.00 times the 1.00 s of serde_json::from_slice (at most 3)",
            ]
        );
    }

    #[test]
    fn symbols_for_each_kind_are_reported() {
        let mut thirty = symbols(7);
        thirty.insert("queue", 36);
        let report = compare_symbols(&symbols(7), &thirty);
        assert_eq!(report.problems, ["29 symbols of the queue are compiled for each kind"]);
        assert_eq!(report.lines.len(), ONCE.len());
    }

    #[test]
    fn a_few_more_symbols_are_no_problem() {
        let mut thirty = symbols(7);
        thirty.insert("queue", 35);
        assert_eq!(compare_symbols(&symbols(7), &thirty).problems, Vec::<String>::new());
    }

    #[test]
    fn a_part_without_symbols_is_reported() {
        let mut one = symbols(7);
        one.remove("store");
        let report = compare_symbols(&one, &symbols(7));
        assert_eq!(report.problems, ["no symbol of the store has \"kinformer_store::\" in its name"]);
    }

    #[test]
    fn expensive_kinds_are_reported() {
        let report = compare_costs(&costs((15_000_000, 20.0), (18_000_000, 136.0)));
        assert_eq!(
            report.problems,
            [
                "a kind takes 0.103 MB, which is more than 0.08",
                "a kind takes 4.00 times the CPU of serde_json, which is more than 3"
            ]
        );
    }

    #[test]
    fn symbols_are_counted_by_part() {
        let list = "0000000000d3e2a6 t <kinformer_store::indexer::Indexer<T> as core::ops::drop::Drop>::drop\n\
            0000000000d3e2a7 t kinformer_delta_fifo::queue::DeltaQueue<T>::pop\n\
            0000000000d3e2a8 T core::ptr::drop_in_place<kinformer_store::snapshot::Snapshot<T>>\n\
            0000000000d3e2a9 t kinformer::store::own\n\
            0000000000d3e2aa t kinformer_processor::event::Event<O>::object\n";
        let counted = count_symbols(list);
        assert_eq!(counted, [("informer", 0), ("processor", 0), ("queue", 1), ("store", 2)].into());
    }

    #[test]
    fn cpu_time_of_children_is_parsed_after_any_name() {
        let stat = "71 (x) 1 (y)) S 1 71 71 0 -1 4194304 100 200 0 0 1 2 350 150 20 0 1 0 5 6 7";
        assert_eq!(seconds_of(stat), Some(5.0));
        assert_eq!(seconds_of("71 (x) S 1 71"), None);
        assert_eq!(seconds_of("no process"), None);
    }

    #[test]
    fn program_uses_all_of_its_kinds() {
        let text = Program { kinds: 2, ..PROGRAMS[0] }.source();
        assert!(
            text.contains("factory.core().v1().pods();") && text.contains("factory.core().v1().nodes();")
        );
        assert!(!text.contains("services()"));
        let distinct: std::collections::BTreeSet<_> = KINDS.into_iter().collect();
        assert_eq!(distinct.len(), 30);
    }
}
