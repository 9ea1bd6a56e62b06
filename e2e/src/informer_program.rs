//! A program that prints the events of its informers as lines.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Line;

/// The timeout of a clean shutdown.
const GRACE: Duration = Duration::from_secs(20);

/// A running program. It is killed when this value is dropped.
pub struct InformerProgram {
    name: String,
    child: Child,
    lines: watch::Receiver<Vec<Line>>,
    reader: JoinHandle<Result<(), String>>,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl InformerProgram {
    /// Starts the program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(name: &str, mut command: Command) -> Result<Self, String> {
        let problem = |error: std::io::Error| format!("{name}: {error}");
        let folder = tempfile::Builder::new().prefix("kinformer-e2e-").tempdir().map_err(problem)?;
        let log = folder.path().join("log");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command.stderr(std::fs::File::create(&log).map_err(problem)?);
        let mut child = command.spawn().map_err(problem)?;
        let output = child.stdout.take().ok_or(format!("{name} has no output"))?;
        let (sender, lines) = watch::channel(Vec::new());
        let reader = tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            while let Some(text) = output.next_line().await.map_err(|error| error.to_string())? {
                let line = serde_json::from_str(&text).map_err(|error| format!("{text:?}: {error}"))?;
                sender.send_modify(|lines: &mut Vec<Line>| lines.push(line));
            }
            Ok(())
        });
        Ok(Self { name: name.to_owned(), child, lines, reader, log, _folder: folder })
    }

    /// Waits until the lines satisfy `wanted`.
    ///
    /// # Cancel safety
    /// Dropping the future loses no lines.
    ///
    /// # Errors
    /// The program ends, or the lines do not satisfy `wanted` in time. The error has the last lines and the end of
    /// the log.
    pub async fn until(
        &mut self,
        what: &str,
        bound: Duration,
        wanted: impl Fn(&[Line]) -> bool,
    ) -> Result<(), String> {
        let waited = self.lines.wait_for(|lines| wanted(lines));
        let problem = match tokio::time::timeout(bound, waited).await.map(|waited| waited.map(drop)) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(_)) => "it has ended, or printed an invalid line".to_owned(),
            Err(_) => format!("not within {bound:?}"),
        };
        let mut text = format!("{}: waiting for {what}: {problem}; the last lines:", self.name);
        let lines = self.lines.borrow();
        for line in lines.iter().rev().take(10).rev() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {line:?}");
        }
        let _ = write!(text, "\nthe end of its log:\n{}", crate::process::tail(&self.log));
        Err(text)
    }

    /// Waits until the initial lists of all these resources have been delivered.
    ///
    /// # Cancel safety
    /// Dropping the future loses no lines.
    ///
    /// # Errors
    /// The same as [`Self::until`].
    pub async fn until_synced(&mut self, resources: &[&str], bound: Duration) -> Result<(), String> {
        let all = |lines: &[Line]| resources.iter().all(|name| lines.iter().any(|line| line.is_synced(name)));
        self.until("the first lists", bound, all).await
    }

    /// Stops the program as Ctrl-C does, and returns its lines.
    ///
    /// # Cancel safety
    /// If the future is dropped, the program is killed and its lines are lost.
    ///
    /// # Errors
    /// The program does not end in time, ends with an error, or has printed an invalid line.
    pub async fn stop(mut self) -> Result<Vec<Line>, String> {
        if let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            // The program may just have ended.
            let _ = kill(Pid::from_raw(id), Signal::SIGINT);
        }
        let ended = tokio::time::timeout(GRACE, self.child.wait()).await;
        let log = crate::process::tail(&self.log);
        let status = ended
            .map_err(|_| format!("{} does not end within {GRACE:?} of Ctrl-C; its log:\n{log}", self.name))?
            .map_err(|error| format!("{}: {error}", self.name))?;
        if !status.success() {
            return Err(format!("{}: {status}; its log:\n{log}", self.name));
        }
        let read = self.reader.await.map_err(|error| error.to_string())?;
        read.map_err(|problem| format!("{}: {problem}", self.name))?;
        let lines = self.lines.borrow().clone();
        Ok(lines)
    }
}
