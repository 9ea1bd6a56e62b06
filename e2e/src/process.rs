//! A component as a process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::Error;

/// The timeout for suspending a process.
const PAUSE: Duration = Duration::from_secs(10);

/// A running component. It is killed when this value is dropped.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(
        program: &Path,
        name: &'static str,
        args: &[String],
        folder: &Path,
    ) -> Result<Self, Error> {
        let log = folder.join(format!("{name}.log"));
        let problem = |source| Error::Start { component: name, source };
        let file = std::fs::File::options().create(true).append(true).open(&log).map_err(problem)?;
        let child = Command::new(program)
            .arg(name)
            .args(args)
            .current_dir(folder)
            // The component ends when this pipe is closed, which happens when its owner ends for any reason.
            .stdin(Stdio::piped())
            .stdout(file.try_clone().map_err(problem)?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .map_err(problem)?;
        Ok(Self { name, child, log })
    }

    /// Returns an error with the end of the log if the component has ended.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(Error::Ended { component: self.name, log: self.tail() }),
        }
    }

    pub(crate) fn tail(&self) -> String {
        tail(&self.log)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            // The component may just have ended.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    /// Suspends the component, and waits until all its threads have stopped, which takes a while on a busy machine.
    pub(crate) async fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) else { return };
        let stopped = async {
            let how = WaitPidFlag::WUNTRACED | WaitPidFlag::WNOHANG;
            while waitpid(Pid::from_raw(id), Some(how)) == Ok(WaitStatus::StillAlive) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Callers that depend on the suspension fail on their own.
        let _ = tokio::time::timeout(PAUSE, stopped).await;
    }

    /// Stops the component cleanly, and kills it after a timeout.
    pub(crate) async fn stop(&mut self, bound: Duration) {
        self.signal(Signal::SIGCONT);
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(bound, self.child.wait()).await.is_err() {
            self.kill().await;
        }
    }

    /// Kills the component.
    pub(crate) async fn kill(&mut self) {
        // The component may just have ended.
        let _ = self.child.kill().await;
    }
}

/// Returns the last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
}
