//! What each further kind costs a program: the CPU of compiling it, and bytes of it.
//!
//! A program with one kind and one with thirty are built in release, each with all that a user of a kind calls. The
//! difference, divided by 29, is what a kind costs. Store, queue, processor and informer are compiled in our crates, and so
//! their symbols must be in the large program as often as in the small one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build each program so many times, and take the smallest figure.
    #[arg(long, default_value_t = 2)]
    runs: usize,
    /// Only count: fail for what is compiled more than once, and take no time.
    #[arg(long)]
    symbols: bool,
}

/// What a kind may cost.
const CPU: f64 = 1.0;
const MEGABYTES: f64 = 0.08;

/// The accessor of a kind.
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

/// What a symbol has in its name that is compiled once, in our crates.
const ONCE: [(&str, &str); 4] = [
    ("store", "kinformer_store::"),
    ("queue", "kinformer_delta_fifo::"),
    ("processor", "kinformer_processor::"),
    ("informer", "kinformer_shared_informer::"),
];

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let folder = prepare()?;
    let (one, thirty) = (build(&folder, "one", args)?, build(&folder, "thirty", args)?);
    let mut problems = Vec::new();
    for (what, _) in ONCE {
        let count = |built: &Built| built.symbols.get(what).copied().unwrap_or_default();
        let (small, large) = (count(&one), count(&thirty));
        println!("{what}: {small} symbols with one kind, {large} with thirty");
        if large > small {
            problems.push(format!("{} symbols of the {what} are compiled for each kind", large - small));
        }
    }
    let megabytes = (thirty.bytes.saturating_sub(one.bytes)) as f64 / 29e6;
    println!(
        "{:.2} MB with one kind, {:.2} MB with thirty",
        one.bytes as f64 / 1e6,
        thirty.bytes as f64 / 1e6
    );
    println!("each further kind: {megabytes:.3} MB (at most {MEGABYTES})");
    if megabytes > MEGABYTES {
        problems.push(format!("a kind takes {megabytes:.3} MB, which is more than {MEGABYTES}"));
    }
    if let (Some(small), Some(large)) = (one.cpu, thirty.cpu) {
        // Time is shown and not judged: it depends on the machine.
        println!("{small:.1} s of CPU with one kind, {large:.1} s with thirty");
        println!("each further kind: {:.2} s of CPU (aim: at most {CPU})", (large - small) / 29.0);
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("; ")),
    }
}

struct Built {
    cpu: Option<f64>,
    bytes: u64,
    symbols: BTreeMap<&'static str, usize>,
}

/// Writes a workspace with both programs, outside of ours.
fn prepare() -> Result<PathBuf, String> {
    let root = files::root();
    let folder = root.join("target/kinds");
    let crates = root.join("crates");
    write(&folder.join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"one\", \"thirty\"]\n")?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(|error| error.to_string())?;
    for (name, kinds) in [("one", &KINDS[..1]), ("thirty", &KINDS[..])] {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             kinformer = {{ path = {:?} }}\nkube-client = {{ version = \"*\", default-features = false }}\n\
             k8s-openapi = {{ version = \"*\", features = [\"latest\"] }}\n\
             tokio = {{ version = \"1\", features = [\"rt-multi-thread\"] }}\n",
            crates.join("kinformer")
        );
        write(&folder.join(name).join("Cargo.toml"), &manifest)?;
        write(&folder.join(name).join("src/main.rs"), &program(kinds))?;
    }
    Ok(folder)
}

/// All that the user of a kind calls.
fn program(kinds: &[&str]) -> String {
    let mut calls = String::new();
    for kind in kinds {
        let _ = write!(
            calls,
            "    {{\n        let informer = factory.{kind};\n        \
             informer.index_by_field(\"name\", &[\"metadata\", \"name\"])?;\n        \
             informer.handler().named(\"printer\").for_each(|event| {{\n            \
             let Some(object) = event.object() else {{ return }};\n            \
             println!(\"{{}} {{}}\", object.name(), object.decode().is_ok());\n        }})?;\n        \
             for object in informer.lister().namespace(\"default\").list(&selector) {{\n            \
             println!(\"{{:?}}\", object.decode_owned()?.metadata.name);\n        }}\n    }}\n"
        );
    }
    format!(
        "fn main() -> Result<(), Box<dyn std::error::Error>> {{\n    \
         let runtime = tokio::runtime::Runtime::new()?;\n    let _entered = runtime.enter();\n    \
         let client = kinformer::client(kube_client::Config::new(\"http://localhost:1\".parse()?))?;\n    \
         let factory = kinformer::SharedInformerFactory::new(client);\n    \
         let selector: kinformer::LabelSelector = std::env::args().nth(1).unwrap_or_default().parse()?;\n\
         {calls}    factory.start()?;\n    \
         runtime.block_on(factory.wait_for_cache_sync()).into_result()?;\n    Ok(())\n}}\n"
    )
}

fn build(folder: &Path, name: &str, args: &Args) -> Result<Built, String> {
    let cargo = || {
        let mut cargo = files::command("cargo");
        cargo.current_dir(folder).args(["build", "--quiet", "--release", "--package", name]);
        cargo
    };
    succeed(cargo())?;
    let mut cpu = None;
    if !args.symbols {
        for _ in 0..args.runs {
            let main = folder.join(name).join("src/main.rs");
            let text = fs::read_to_string(&main).map_err(|error| error.to_string())?;
            write(&main, &text)?;
            let before = children_seconds()?;
            succeed(cargo())?;
            let took = children_seconds()? - before;
            cpu = Some(cpu.map_or(took, |least: f64| least.min(took)));
        }
    }
    let binary = folder.join("target/release").join(name);
    let stripped = binary.with_extension("stripped");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(&binary);
    succeed(strip)?;
    let bytes = fs::metadata(&stripped).map_err(|error| error.to_string())?.len();
    let mut names = Command::new("nm");
    names.args(["--demangle", "--defined-only"]).arg(&binary);
    let names = succeed(names)?;
    let mut symbols = BTreeMap::new();
    for (what, of) in ONCE {
        symbols.insert(what, names.lines().filter(|line| line.contains(of)).count());
    }
    Ok(Built { cpu, bytes, symbols })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().ok_or("a path without a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{path:?}: {error}"))
}

/// Runs it to its end, and gives its output.
fn succeed(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The CPU that all finished children of this process took, and theirs, in seconds. Linux only.
fn children_seconds() -> Result<f64, String> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // The 16th and 17th field, in hundredths of a second; the third is the first behind the name.
    let ticks = after_name.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / 100.0)
}
