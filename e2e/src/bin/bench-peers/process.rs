//! One program that is measured, as a process.

use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use crate::used::{self, Used};

/// How long one may take until it has what it is waited for.
const BOUND: Duration = Duration::from_secs(600);
/// How long it may take to end.
const GRACE: Duration = Duration::from_secs(20);
/// How often it is asked whether it has it.
const AGAIN: Duration = Duration::from_millis(100);

/// What a program says by itself, when its store and its handler have all there is: one line of JSON.
#[derive(Deserialize, Serialize)]
pub(crate) struct Synced {
    /// How many objects its store has.
    pub(crate) kept: usize,
    /// How many its handler was told of.
    pub(crate) told: usize,
}

/// What it is sent in place of a key, to say from then on what each event brings.
pub(crate) const ALOUD: &str = "aloud";

/// What it says to each line that it is sent, which is the key of an object: another one.
#[derive(Deserialize, Serialize)]
pub(crate) struct Answer {
    /// How many events its handler was told of so far.
    pub(crate) told: usize,
    /// The version of the object in its store, if it is there, or that of the event.
    pub(crate) version: Option<String>,
}

/// It ends when this is dropped, at the latest.
pub(crate) struct Program {
    child: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    id: u32,
}

impl Program {
    /// Starts it, and waits until its store and its handler have so many objects. Says how many seconds it took.
    ///
    /// # Errors
    /// It fails, or has not all of them in time.
    pub(crate) async fn synced(mut command: Command, objects: usize) -> Result<(Self, f64), String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let id = child.id().ok_or("it has ended")?;
        let questions = input.ok_or("it has no input")?;
        let answers = BufReader::new(output.ok_or("it has no output")?).lines();
        let mut program = Self { child, questions, answers, id };
        let Synced { kept, told } = program.line().await?;
        let seconds = started.elapsed().as_secs_f64();
        if kept != objects || told != objects {
            return Err(format!("of {objects} objects it has {kept}, and its handler was told of {told}"));
        }
        Ok((program, seconds))
    }

    /// Waits until its store has this version of an object and its handler was told of what it had heard then. Gives
    /// how many events its handler was told of so far.
    ///
    /// # Errors
    /// It ends, or has it not in time.
    pub(crate) async fn has(&mut self, key: &str, version: u64) -> Result<usize, String> {
        let version = Some(version.to_string());
        let deadline = Instant::now() + BOUND;
        let mut before = None;
        while Instant::now() < deadline {
            self.questions
                .write_all(format!("{key}\n").as_bytes())
                .await
                .map_err(|error| error.to_string())?;
            let answer: Answer = self.line().await?;
            let has_it = answer.version == version;
            if has_it && before == Some(answer.told) {
                return Ok(answer.told);
            }
            before = has_it.then_some(answer.told);
            tokio::time::sleep(AGAIN).await;
        }
        Err(format!("it has not {key} in version {version:?} within {BOUND:?}"))
    }

    /// From here on its events can be heard.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) async fn aloud(&mut self) -> Result<(), String> {
        self.say(ALOUD).await
    }

    /// Waits for its next event, and gives the version. Nothing is lost when this is dropped.
    ///
    /// # Errors
    /// It ends, or hears of nothing in time.
    pub(crate) async fn event(&mut self) -> Result<u64, String> {
        let Answer { version, .. } = self.line().await?;
        version.and_then(|version| version.parse().ok()).ok_or_else(|| "an event without a version".into())
    }

    /// What it has used so far.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(crate) fn used(&self) -> Result<Used, String> {
        used::used(self.id)
    }

    /// From here on its peak is that of what follows.
    ///
    /// # Errors
    /// The kernel does not do it.
    pub(crate) fn forget_peak(&self) -> Result<(), String> {
        used::forget_peak(self.id)
    }

    /// Has it end.
    ///
    /// # Errors
    /// It does not end in time, or not well.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        // Which tells it to.
        drop(self.questions);
        let ended = tokio::time::timeout(GRACE, self.child.wait()).await;
        let status = ended.map_err(|_| format!("it does not end within {GRACE:?}"))?;
        let status = status.map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(status.to_string()) }
    }

    async fn say(&mut self, line: &str) -> Result<(), String> {
        let written = self.questions.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|error| error.to_string())
    }

    async fn line<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T, String> {
        let line = tokio::time::timeout(BOUND, self.answers.next_line()).await;
        let line = line.map_err(|_| format!("it says nothing for {BOUND:?}"))?;
        let line = line.map_err(|error| error.to_string())?.ok_or("it has ended")?;
        serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))
    }
}
