//! The checks of the project. The gate is what a change must pass before it lands; the other steps take longer or find
//! less, and run in the hosted workflow.

mod commit;
mod step;
mod steps;
#[cfg(test)]
mod workflow;

use std::time::{Duration, Instant};

use commit::Commit;
use step::{Done, Extent, Group, Step};
use steps::STEPS;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the steps that the gate leaves out. The gate and these are all steps
    #[arg(long, conflicts_with = "only")]
    full: bool,
    /// Continue after a failed step, and fail at the end
    #[arg(long)]
    keep_going: bool,
    /// Run only the step with this name, or the steps whose names contain it; may be repeated, or separated by commas
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<String>,
}

/// Runs the steps.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let commit = Commit::of_head();
    let planned = match (&args.only[..], args.full) {
        ([], false) => gate(&STEPS, &commit),
        ([], true) => group(&STEPS, Group::Full),
        (only, _) => named(&STEPS, only)?,
    };
    let (summary, failed) = run_steps(&planned, args.keep_going);
    println!("\ncommit {}\n{summary}", commit.description());
    if failed.is_empty() { Ok(()) } else { Err(format!("ci: failed: {}", failed.join(", "))) }
}

/// A step of a run.
type Planned = (Step, Extent);

fn group(steps: &[Step], group: Group) -> Vec<Planned> {
    steps.iter().filter(|step| step.group == group).map(|step| (*step, Extent::Complete)).collect()
}

/// Returns the gate, with one step of the others, which the commit chooses: so each of them runs again and again.
fn gate(steps: &[Step], commit: &Commit) -> Vec<Planned> {
    let mut planned = group(steps, Group::Gate);
    let others = group(steps, Group::Full);
    planned.extend(commit.choose(&others).map(|(step, _)| (*step, Extent::Part(commit.part()))));
    planned
}

/// Returns the steps with these names, in order. A text that is no name selects the names that contain it.
fn named(steps: &[Step], only: &[String]) -> Result<Vec<Planned>, String> {
    let is_name = |text: &str| steps.iter().any(|step| step.name == text);
    let matches =
        |step: &Step, text: &str| if is_name(text) { step.name == text } else { step.name.contains(text) };
    if let Some(unknown) = only.iter().find(|text| !steps.iter().any(|step| matches(step, text))) {
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        return Err(format!("no step name contains {unknown:?}; the steps are: {}", names.join(", ")));
    }
    let chosen = steps.iter().filter(|step| only.iter().any(|text| matches(step, text)));
    Ok(chosen.map(|step| (*step, Extent::Complete)).collect())
}

/// Runs the steps. Returns a line for each, a summary, and the names of the failed steps.
fn run_steps(planned: &[Planned], keep_going: bool) -> (String, Vec<&'static str>) {
    let (mut summary, mut passed, mut skipped, mut failed) = (String::new(), 0, 0, Vec::new());
    let started = now();
    for (Step { name, run, .. }, extent) in planned {
        println!("\n== {name}");
        let step_started = now();
        let outcome = match run(*extent) {
            Ok(Done::Skipped(why)) => {
                skipped += 1;
                format!("skipped: {why}")
            }
            Ok(Done::Passed) => {
                passed += 1;
                "passed".to_owned()
            }
            Err(problem) => {
                println!("{name}: {problem}");
                failed.push(*name);
                "FAILED".to_owned()
            }
        };
        let part = if *extent == Extent::Complete { "" } else { " (one of --full, chosen by the commit)" };
        let line = format!("{} {name}{part}: {outcome}", seconds(step_started.elapsed()));
        println!("{line}");
        summary.push_str(&line);
        summary.push('\n');
        if !failed.is_empty() && !keep_going {
            break;
        }
    }
    summary.push_str(&format!("{} in all\n", seconds(started.elapsed())));
    summary.push_str(&format!("\nci: {passed} passed, {} failed, {skipped} skipped", failed.len()));
    (summary, failed)
}

#[expect(clippy::disallowed_methods, reason = "the times of steps are only printed; nothing waits for them")]
fn now() -> Instant {
    Instant::now()
}

fn seconds(time: Duration) -> String {
    format!("{:6.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSES: Step = Step { name: "good", group: Group::Gate, run: |_| Ok(Done::Passed) };
    const FAILS: Step = Step { name: "bad", group: Group::Full, run: |_| Err("why".into()) };
    const SKIPPED: Step =
        Step { name: "absent", group: Group::Full, run: |_| Ok(Done::Skipped("no tool: install it".into())) };
    const PASSES_TOO: Step = Step { name: "good too", group: Group::Gate, run: |_| Ok(Done::Passed) };

    fn complete(steps: &[Step]) -> Vec<Planned> {
        steps.iter().map(|step| (*step, Extent::Complete)).collect()
    }

    fn last_line(steps: &[Step], keep_going: bool) -> String {
        run_steps(&complete(steps), keep_going).0.lines().last().unwrap().to_owned()
    }

    #[test]
    fn steps_are_counted_by_outcome() {
        assert_eq!(last_line(&[PASSES, PASSES_TOO], false), "ci: 2 passed, 0 failed, 0 skipped");
        assert_eq!(last_line(&[PASSES, SKIPPED], false), "ci: 1 passed, 0 failed, 1 skipped");
        assert_eq!(last_line(&[FAILS, PASSES], false), "ci: 0 passed, 1 failed, 0 skipped");
        assert_eq!(last_line(&[FAILS, PASSES], true), "ci: 1 passed, 1 failed, 0 skipped");
        assert_eq!(run_steps(&complete(&[PASSES, FAILS]), true).1, ["bad"]);
        let lines = run_steps(&complete(&[SKIPPED, PASSES_TOO]), false).0;
        assert!(lines.contains("absent: skipped: no tool: install it"), "{lines}");
        assert!(lines.contains("good too: passed"), "{lines}");
    }

    #[test]
    fn steps_can_be_chosen_by_name() {
        let steps = [PASSES, FAILS, SKIPPED, PASSES_TOO];
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|part| (*part).to_owned()).collect();
            named(&steps, &only).map(|planned| planned.iter().map(|(step, _)| step.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["abs", "goo"]).unwrap(), ["good", "absent", "good too"]);
        assert_eq!(names(&["good"]).unwrap(), ["good"], "a name selects only itself");
        assert!(
            names(&["good", "nothing"])
                .is_err_and(|error| error.contains("the steps are: good, bad, absent, good too"))
        );
    }

    /// Different commits choose different steps of the other group; one commit always the same.
    #[test]
    fn the_gate_has_one_step_of_the_others() {
        let steps = [PASSES, FAILS, SKIPPED];
        let extra = |digit: char| {
            let commit = Commit::new(&digit.to_string().repeat(40));
            let planned = gate(&steps, &commit);
            assert_eq!(planned.len(), 2);
            assert_eq!(planned[0].1, Extent::Complete);
            assert_eq!(planned[1].1, Extent::Part(commit.part()));
            planned[1].0.name
        };
        let chosen: Vec<_> = "0123456789abcdef".chars().map(extra).collect();
        assert!(chosen.contains(&"bad") && chosen.contains(&"absent"), "{chosen:?}");
        assert_eq!(extra('7'), extra('7'));
    }
}
