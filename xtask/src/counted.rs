//! The instructions of hot paths, compared with the recorded figures.
//!
//! valgrind counts the instructions of `benches/counted`, which are equal from run to run, unlike times. The figures
//! depend on the compiler and the C library, so they are compared only where these are the recorded ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::files;

/// The recorded figures.
const FIGURES: &str = "benches/counted/figures.json";

/// The function of the program in which instructions are counted.
const COUNTED: &str = "--toggle-collect=counted::counted";

/// The greatest ratio of a figure to the recorded one that passes, and the one below which the figure should be recorded.
const MOST: f64 = 1.03;
const LEAST: f64 = 0.97;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the figures to benches/counted/figures.json instead of comparing them; without names, those of all hot paths
    #[arg(long)]
    record: bool,
    /// Only these hot paths
    names: Vec<String>,
}

/// Instructions for one operation, by hot path.
type Figures = BTreeMap<String, u64>;

/// The recorded figures, and the compiler and C library for which they were recorded.
#[derive(Debug, PartialEq)]
struct Recorded {
    tools: String,
    figures: Figures,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if let Some(missing) = if args.record { no_valgrind() } else { missing() } {
        return Err(missing);
    }
    let (tools, recorded) = (tools()?, Recorded::read());
    let program = build()?;
    let names = chosen(&files::output(&program.display().to_string(), &[])?, &args.names)?;
    let counted = count(&program, &names)?;
    if !args.record {
        let recorded = recorded?.figures;
        println!("{}", table(&recorded, &counted));
        return problems(&recorded, &counted);
    }
    let kept = match recorded {
        _ if args.names.is_empty() => Figures::new(),
        Ok(recorded) if recorded.tools == tools => recorded.figures,
        // Figures of different tools are not comparable.
        Ok(recorded) => return Err(other_tools(&recorded.tools, &tools)),
        Err(error) => return Err(error),
    };
    println!("{}", table(&kept, &counted));
    let recorded = Recorded { tools, figures: kept.into_iter().chain(counted).collect() };
    files::write(&files::root().join(FIGURES), &recorded.text())
}

/// Compares all hot paths with their figures.
pub(crate) fn check() -> Result<(), String> {
    run(&Args { record: false, names: Vec::new() })
}

/// Returns the reason why the figures cannot be compared on this machine, if there is one.
pub(crate) fn missing() -> Option<String> {
    if let Some(missing) = no_valgrind() {
        return Some(missing);
    }
    match (Recorded::read(), tools()) {
        (Ok(recorded), Ok(tools)) if recorded.tools != tools => Some(other_tools(&recorded.tools, &tools)),
        _ => None,
    }
}

fn no_valgrind() -> Option<String> {
    let valgrind = files::command("valgrind").arg("--version").output();
    let is_installed = valgrind.is_ok_and(|output| output.status.success());
    (!is_installed).then(|| "valgrind is not installed: apt-get install valgrind".to_owned())
}

fn other_tools(recorded: &str, here: &str) -> String {
    format!(
        "{FIGURES} is of {recorded}, and here is {here}; record all figures on an unchanged tree: cargo xtask counted --record"
    )
}

/// Returns the compiler, its target and the C library.
fn tools() -> Result<String, String> {
    let compiler = files::output("rustc", &["--version", "--verbose"])?;
    let field =
        |name: &str| compiler.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let library = files::output("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_default();
    let version = compiler.lines().next().unwrap_or_default();
    Ok(format!("{version}, {}, {}", field("host:"), library.trim()))
}

impl Recorded {
    fn read() -> Result<Self, String> {
        Self::parse(&files::read(FIGURES)?)
            .ok_or_else(|| format!("{FIGURES}: not as `cargo xtask counted --record` writes it"))
    }

    fn parse(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let figures = json.get("instructions")?.as_object()?.iter();
        Some(Self {
            tools: json.get("tools")?.as_str()?.to_owned(),
            figures: figures
                .map(|(name, figure)| Some((name.clone(), figure.as_u64()?)))
                .collect::<Option<_>>()?,
        })
    }

    fn text(&self) -> String {
        format!("{:#}\n", json!({"tools": self.tools, "instructions": self.figures}))
    }
}

/// Builds the program, and returns its path. It is built as a release with the features of the whole workspace, which are
/// those of the simulation, so that both share the dependencies. Each of our crates is one unit, so that a change of a
/// function does not change how others are inlined.
fn build() -> Result<PathBuf, String> {
    let mut cargo = files::command("cargo");
    // The whole workspace, as the simulation is built: it decides the features of the dependencies.
    cargo.args([
        "build",
        "--quiet",
        "--release",
        "--workspace",
        "--bin",
        "counted",
        "--target-dir",
        "target",
    ]);
    let mut metadata = cargo_metadata::MetadataCommand::new();
    let metadata = metadata.current_dir(files::root()).no_deps().exec().map_err(|error| error.to_string())?;
    for package in &metadata.packages {
        cargo.args(["--config", &format!("profile.release.package.{}.codegen-units=1", package.name)]);
    }
    files::run(&mut cargo)?;
    Ok(files::root().join("target/release/counted"))
}

/// Returns the chosen names, or all of them.
fn chosen(all: &str, chosen: &[String]) -> Result<Vec<String>, String> {
    match chosen.iter().find(|name| !all.lines().any(|known| known == *name)) {
        Some(unknown) => Err(format!("no hot path is called {unknown:?}; there are:\n{all}")),
        None if chosen.is_empty() => Ok(all.lines().map(str::to_owned).collect()),
        None => Ok(chosen.to_vec()),
    }
}

/// Counts the instructions of hot paths.
fn count(program: &Path, names: &[String]) -> Result<Figures, String> {
    names.iter().map(|name| Ok((name.clone(), count_one(program, name)?))).collect()
}

fn count_one(program: &Path, name: &str) -> Result<u64, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED]).arg(program).arg(name);
    // The size of the environment changes the addresses on the stack.
    valgrind.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
    let output = valgrind.output().map_err(|error| format!("valgrind: {error}"))?;
    let (operations, report) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    each(&operations, &report).filter(|_| output.status.success()).ok_or_else(|| format!("{name}: {report}"))
}

/// Returns the instructions for one operation, from the number of operations and the report of callgrind, with the line
/// `==1== Collected : 12345`.
fn each(operations: &str, report: &str) -> Option<u64> {
    let collected = report.lines().find_map(|line| line.split_once("Collected :"))?.1;
    let (collected, operations) =
        (collected.trim().parse::<u64>().ok()?, operations.trim().parse::<u64>().ok()?);
    collected.checked_add(operations / 2)?.checked_div(operations).filter(|each| *each > 0)
}

fn ratio(recorded: u64, now: u64) -> f64 {
    now as f64 / recorded as f64
}

/// Formats a line for each hot path.
fn table(recorded: &Figures, counted: &Figures) -> String {
    let mut table = format!("{:<28} {:>12} {:>12}  ratio\n", "instructions", "recorded", "now");
    for (name, now) in counted {
        table += &match recorded.get(name) {
            None => format!("{name:<28} {:>12} {now:>12}\n", "-"),
            Some(figure) => {
                let ratio = ratio(*figure, *now);
                let hint = match ratio {
                    MOST.. => "  more than 103 %",
                    ..LEAST => "  less than 97 %: record it",
                    _ => "",
                };
                format!("{name:<28} {figure:>12} {now:>12}  {ratio:.3}{hint}\n")
            }
        };
    }
    table
}

/// Returns an error if a figure is above its limit or not recorded.
fn problems(recorded: &Figures, counted: &Figures) -> Result<(), String> {
    let is_wrong = |(name, now): &(&String, &u64)| match recorded.get(*name) {
        None => true,
        Some(figure) => ratio(*figure, **now) > MOST,
    };
    let names: Vec<&str> = counted.iter().filter(is_wrong).map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join(" ");
    Err(format!(
        "more instructions than 103 % of the recorded figure, or none is recorded: {names}\n\
         Where the additional work is intended, record it: cargo xtask counted --record {names}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures<const N: usize>(figures: [(&str, u64); N]) -> Figures {
        figures.map(|(name, figure)| (name.to_owned(), figure)).into()
    }

    #[test]
    fn a_slower_hot_path_fails() {
        let recorded = figures([("a", 1_000), ("b", 1_000), ("c", 1_000)]);
        let check = |a, b| problems(&recorded, &figures([("a", a), ("b", b)]));
        assert_eq!(check(1_030, 500), Ok(()));
        let error = check(1_050, 1_000).unwrap_err();
        assert!(error.ends_with("cargo xtask counted --record a"), "{error}");
        let error = problems(&recorded, &figures([("b", 1_031), ("new", 1)])).unwrap_err();
        assert!(error.ends_with("cargo xtask counted --record b new"), "{error}");
    }

    #[test]
    fn the_table_has_ratios_and_hints() {
        let recorded = figures([("a", 1_000), ("b", 1_000), ("c", 1_000)]);
        let table = table(&recorded, &figures([("a", 1_050), ("b", 1_000), ("c", 900), ("d", 7)]));
        let lines: Vec<Vec<&str>> =
            table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["a", "1000", "1050", "1.050", "more", "than", "103", "%"]);
        assert_eq!(lines[1], ["b", "1000", "1000", "1.000"]);
        assert_eq!(lines[2], ["c", "1000", "900", "0.900", "less", "than", "97", "%:", "record", "it"]);
        assert_eq!(lines[3], ["d", "-", "7"]);
    }

    #[test]
    fn figures_are_read_as_they_are_written() {
        let recorded = Recorded { tools: "rustc 1".to_owned(), figures: figures([("a", 1), ("b", 2)]) };
        assert_eq!(Recorded::parse(&recorded.text()), Some(recorded));
        assert_eq!(Recorded::parse("{}"), None);
        Recorded::read().unwrap();
    }

    #[test]
    fn reports_of_callgrind_are_read() {
        let report = "==7== Events    : Ir\n==7== Collected : 12345\n==7==\n";
        assert_eq!(each("10\n", report), Some(1_235));
        assert_eq!(each("", report), None);
        assert_eq!(each("10", "==7== Collected : 0"), None);
        assert_eq!(each("10", "valgrind: no such file"), None);
    }

    #[test]
    fn unknown_names_are_reported() {
        let names = |names: &[&str]| {
            chosen("a\nb\n", &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["b"]).unwrap(), ["b"]);
        assert!(names(&["c"]).is_err_and(|error| error.contains("no hot path is called \"c\"")));
    }
}
