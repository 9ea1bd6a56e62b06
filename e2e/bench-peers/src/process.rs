//! A measured program as a process.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use crate::used::{self, Used};

/// The timeout for a program to reach an expected state.
pub(crate) const BOUND: Duration = Duration::from_secs(600);
/// The timeout for a program to end.
const GRACE: Duration = Duration::from_secs(20);
/// The interval of requests while waiting for a state.
const AGAIN: Duration = Duration::from_millis(100);

/// The first line of a program, in JSON, when its store and its handler have received the initial list.
#[derive(Deserialize, Serialize)]
pub(crate) struct Synced {
    /// The number of objects in its store.
    pub(crate) stored: usize,
    /// The number of events delivered to its handler.
    pub(crate) delivered: usize,
}

/// The request to report every event from then on.
pub(crate) const REPORT_EVENTS: &str = "report-events";

/// The response to a request for an object by its key, and the report of an event.
#[derive(Deserialize, Serialize)]
pub(crate) struct Response {
    /// The number of events delivered to its handler so far.
    pub(crate) delivered: usize,
    /// The version of the object in its store, if it exists, or of the event.
    pub(crate) version: Option<String>,
}

/// A running program. It is killed when this value is dropped.
pub(crate) struct Program {
    child: Child,
    requests: ChildStdin,
    responses: Lines<BufReader<ChildStdout>>,
    id: u32,
}

impl Program {
    /// Starts a program, and waits until its store and its handler have this many objects. Returns the seconds that
    /// this took.
    ///
    /// # Errors
    /// The program fails, or does not have all objects in time.
    pub(crate) async fn synced(command: Command, objects: usize) -> Result<(Self, f64), String> {
        let (program, Synced { stored, delivered }, seconds) = Self::start(command).await?;
        if stored != objects || delivered != objects {
            return Err(format!(
                "of {objects} objects, {stored} are in the store and {delivered} were delivered"
            ));
        }
        Ok((program, seconds))
    }

    /// Starts a program, and waits for its first line. Returns also the seconds that this took.
    ///
    /// # Errors
    /// The program fails, or prints nothing in time.
    pub(crate) async fn start<T: for<'de> Deserialize<'de>>(
        mut command: Command,
    ) -> Result<(Self, T, f64), String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let id = child.id().ok_or("the program has ended")?;
        let requests = input.ok_or("the program has no input")?;
        let responses = BufReader::new(output.ok_or("the program has no output")?).lines();
        let mut program = Self { child, requests, responses, id };
        let first = program.line().await?;
        Ok((program, first, started.elapsed().as_secs_f64()))
    }

    /// Waits until the store has this version of an object and the handler has received all events up to then.
    /// Returns the number of events delivered so far.
    ///
    /// # Errors
    /// The program ends, or does not have the version in time.
    pub(crate) async fn has(&mut self, key: &str, version: u64) -> Result<usize, String> {
        let version = Some(version.to_string());
        let deadline = Instant::now() + BOUND;
        let mut before = None;
        while Instant::now() < deadline {
            self.requests
                .write_all(format!("{key}\n").as_bytes())
                .await
                .map_err(|error| error.to_string())?;
            let answer: Response = self.line().await?;
            let has_it = answer.version == version;
            if has_it && before == Some(answer.delivered) {
                return Ok(answer.delivered);
            }
            before = has_it.then_some(answer.delivered);
            tokio::time::sleep(AGAIN).await;
        }
        Err(format!("{key} did not reach version {version:?} within {BOUND:?}"))
    }

    /// Makes the program report its events from now on.
    ///
    /// # Errors
    /// The program has ended.
    pub(crate) async fn report_events(&mut self) -> Result<(), String> {
        self.send(REPORT_EVENTS).await
    }

    /// Waits for the next event, and returns its version.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    ///
    /// # Errors
    /// The program ends, or reports no event in time.
    pub(crate) async fn event(&mut self) -> Result<u64, String> {
        let Response { version, .. } = self.line().await?;
        version.and_then(|version| version.parse().ok()).ok_or_else(|| "an event without a version".into())
    }

    /// Sends a request, and returns the answer.
    ///
    /// # Errors
    /// The program ends, or does not answer in time.
    pub(crate) async fn request<T: for<'de> Deserialize<'de>>(&mut self, line: &str) -> Result<T, String> {
        self.send(line).await?;
        self.line().await
    }

    /// Returns the resources used so far.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub(crate) fn used(&self) -> Result<Used, String> {
        used::used(self.id)
    }

    /// Resets the peak memory.
    ///
    /// # Errors
    /// The kernel rejects it.
    pub(crate) fn forget_peak(&self) -> Result<(), String> {
        used::forget_peak(self.id)
    }

    /// Ends the program.
    ///
    /// # Errors
    /// The program does not end in time, or fails.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        // Closing its input ends the program.
        drop(self.requests);
        exit(&mut self.child).await
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// The program has ended.
    pub(crate) fn terminate(&self) -> Result<(), String> {
        let id = Pid::from_raw(i32::try_from(self.id).unwrap_or_default());
        kill(id, Signal::SIGTERM).map_err(|error| error.to_string())
    }

    /// Waits for the end of a program that was terminated.
    ///
    /// # Errors
    /// The program does not end in time, or fails.
    pub(crate) async fn ended(mut self) -> Result<(), String> {
        exit(&mut self.child).await
    }

    async fn send(&mut self, line: &str) -> Result<(), String> {
        let written = self.requests.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|error| error.to_string())
    }

    /// Waits for the next line.
    ///
    /// # Errors
    /// The program ends, or prints nothing in time.
    pub(crate) async fn line<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T, String> {
        let line = tokio::time::timeout(BOUND, self.responses.next_line()).await;
        let line = line.map_err(|_| format!("no output for {BOUND:?}"))?;
        let line = line.map_err(|error| error.to_string())?.ok_or("the program has ended")?;
        serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))
    }
}

async fn exit(child: &mut Child) -> Result<(), String> {
    let ended = tokio::time::timeout(GRACE, child.wait()).await;
    let status = ended.map_err(|_| format!("the program did not end within {GRACE:?}"))?;
    let status = status.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}
