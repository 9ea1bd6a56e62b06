//! The hosted workflow runs all steps, in jobs beside each other.

use super::steps::STEPS;
use crate::files;

const WORKFLOW: &str = ".github/workflows/ci.yml";

/// The command of the jobs, which are the rows of a matrix.
const COMMAND: &str = "- run: cargo xtask ci --keep-going --only \"${{ matrix.steps }}\"";

/// Returns the problems of a workflow: steps that are in no job or in several, and names that are no step.
fn problems(workflow: &str, steps: &[&str]) -> Vec<String> {
    let lines = || workflow.lines().map(str::trim);
    let rows = lines().filter_map(|line| line.strip_prefix("steps: "));
    let in_jobs: Vec<&str> = rows.flat_map(|row| row.trim_matches('"').split(',')).collect();
    let mut problems = Vec::new();
    if !lines().any(|line| line == COMMAND) {
        problems.push(format!("{WORKFLOW}: no job runs `{COMMAND}`"));
    }
    for step in steps {
        let jobs = in_jobs.iter().filter(|name| name == &step).count();
        if jobs != 1 {
            problems.push(format!("{WORKFLOW}: the step {step:?} is in {jobs} jobs; it belongs in one"));
        }
    }
    let unknown = in_jobs.iter().filter(|name| !steps.contains(name));
    problems.extend(unknown.map(|name| format!("{WORKFLOW}: {name:?} is no step of cargo xtask ci")));
    problems
}

#[test]
fn each_step_is_in_one_job() {
    let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
    assert_eq!(problems(&files::read(WORKFLOW).unwrap(), &names), [""; 0]);
}

#[test]
fn missing_and_unknown_steps_are_reported() {
    let workflow = |rows: &[&str]| {
        rows.iter().map(|row| format!("  steps: \"{row}\"\n")).collect::<String>() + "  " + COMMAND
    };
    let of = |rows: &[&str]| problems(&workflow(rows), &["fmt", "all seeds"]);
    assert_eq!(of(&["fmt", "all seeds"]), [""; 0]);
    assert_eq!(of(&["fmt,all seeds"]), [""; 0]);
    assert!(of(&["fmt"])[0].contains("\"all seeds\" is in 0 jobs"));
    assert!(of(&["fmt,all seeds", "fmt"])[0].contains("\"fmt\" is in 2 jobs"));
    assert!(of(&["fmt,all seeds,tidi"])[0].contains("\"tidi\" is no step"));
    assert!(problems("steps: fmt,all seeds", &["fmt", "all seeds"])[0].contains("no job runs"));
}
