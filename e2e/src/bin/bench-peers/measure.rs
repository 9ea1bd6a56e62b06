//! One run of one program.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::Instant;

/// How long one may take until it has all.
const BOUND: Duration = Duration::from_secs(600);
/// How long it may take to end.
const GRACE: Duration = Duration::from_secs(20);

/// What a program says when it has all: one line of JSON.
#[derive(Deserialize, Serialize)]
pub(crate) struct Synced {
    /// How many objects its store has.
    pub(crate) kept: usize,
    /// How many its handler was told of.
    pub(crate) told: usize,
}

/// What a program took from its start until its store and its handler had all objects.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) wall_seconds: f64,
    /// Of all its threads, in user and system mode.
    pub(crate) cpu_seconds: f64,
    /// The most that was resident at once.
    pub(crate) peak_mebibytes: f64,
}

impl Run {
    /// Starts it, waits until it says that it has all, looks, and ends it.
    ///
    /// # Errors
    /// It fails, or has not all of them in time.
    pub(crate) async fn of(mut command: Command, objects: usize) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let mut lines = BufReader::new(output).lines();
        let line = tokio::time::timeout(BOUND, lines.next_line()).await;
        let wall_seconds = started.elapsed().as_secs_f64();
        let line = line.map_err(|_| format!("not synced within {BOUND:?}"))?;
        let line = line.map_err(|error| error.to_string())?.ok_or("it ended without having synced")?;
        let (cpu_seconds, peak_mebibytes) = used(child.id().ok_or("it has ended")?)?;
        // Which tells it to end.
        drop(child.stdin.take());
        let ended = tokio::time::timeout(GRACE, child.wait()).await;
        let status = ended.map_err(|_| format!("it does not end within {GRACE:?}"))?;
        let status = status.map_err(|error| error.to_string())?;
        let synced: Synced = serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))?;
        if !status.success() {
            return Err(status.to_string());
        }
        if synced.kept != objects || synced.told != objects {
            let Synced { kept, told } = synced;
            return Err(format!("of {objects} objects it has {kept}, and its handler was told of {told}"));
        }
        Ok(Self { wall_seconds, cpu_seconds, peak_mebibytes })
    }
}

/// What a process has used so far: seconds of CPU, and the most mebibytes that it had at once.
///
/// The kernel is asked, the same for all, and not by `getrusage`, whose memory counts what the parent had before exec.
#[cfg(target_os = "linux")]
fn used(process: u32) -> Result<(f64, f64), String> {
    let look = || {
        let process = procfs::process::Process::new(i32::try_from(process).unwrap_or_default())?;
        procfs::ProcResult::Ok((process.stat()?, process.status()?.vmhwm))
    };
    let (stat, peak) = look().map_err(|error| error.to_string())?;
    let kibibytes = peak.ok_or("the kernel does not say how much memory it had")?;
    let seconds = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
    Ok((seconds, kibibytes as f64 / 1024.0))
}

#[cfg(not(target_os = "linux"))]
fn used(_: u32) -> Result<(f64, f64), String> {
    Err("what a process has used is only known on Linux".into())
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wall_seconds, cpu_seconds, peak_mebibytes } = self;
        write!(f, "{wall_seconds:.2} s, {cpu_seconds:.2} s of CPU, {peak_mebibytes:.0} MiB")
    }
}
