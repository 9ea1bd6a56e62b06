//! A component as a process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::time::Instant;

use crate::Error;

/// The timeout for suspending a process.
const PAUSE: Duration = Duration::from_secs(10);
/// How often the state of a process is polled, since nothing notifies of it.
const AGAIN: Duration = Duration::from_millis(5);

/// A running component. It is killed when this value is dropped. It is not bound to a tokio runtime, because tests with
/// runtimes of their own use it one after another.
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

    pub(crate) fn signal(&mut self, signal: Signal) {
        if let Some(id) = self.id() {
            // The component may just have ended.
            let _ = kill(id, signal);
        }
    }

    /// The id of the process, unless it has ended: the id may then belong to another process.
    fn id(&mut self) -> Option<Pid> {
        let Ok(None) = self.child.try_wait() else { return None };
        i32::try_from(self.child.id()).ok().map(Pid::from_raw)
    }

    /// Suspends the component, and waits until all its threads have stopped, which takes a while on a busy machine.
    pub(crate) async fn pause(&mut self) {
        self.signal(Signal::SIGSTOP);
        let Some(id) = self.id() else { return };
        let stopped = async {
            let how = WaitPidFlag::WUNTRACED | WaitPidFlag::WNOHANG;
            while waitpid(id, Some(how)) == Ok(WaitStatus::StillAlive) {
                tokio::time::sleep(AGAIN).await;
            }
        };
        // Callers that depend on the suspension fail on their own.
        let _ = tokio::time::timeout(PAUSE, stopped).await;
    }

    /// Stops the component cleanly, and kills it after a timeout.
    pub(crate) async fn stop(&mut self, bound: Duration) {
        self.signal(Signal::SIGCONT);
        self.signal(Signal::SIGTERM);
        let deadline = Instant::now() + bound;
        while self.id().is_some() && Instant::now() < deadline {
            tokio::time::sleep(AGAIN).await;
        }
        self.kill();
    }

    /// Kills the component, and waits for its end, so that its port is free.
    pub(crate) fn kill(&mut self) {
        // The component may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    /// A program that runs until its input is closed, as the components do.
    fn start(folder: &Path) -> Process {
        Process::start(Path::new("cat"), "-", &[], folder).unwrap()
    }

    #[tokio::test]
    async fn a_process_that_has_ended_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(folder.path());
        assert!(process.check().is_ok());
        process.pause().await;
        process.signal(Signal::SIGCONT);
        assert!(process.check().is_ok());
        process.kill();
        assert!(matches!(process.check(), Err(Error::Ended { .. })));
        // Its id is not used any more.
        assert_eq!(process.id(), None);
    }

    #[test]
    fn a_process_ends_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(folder.path());
        let id = process.id().unwrap();
        drop(process);
        assert_eq!(kill(id, None), Err(Errno::ESRCH));
    }

    #[tokio::test]
    async fn a_process_without_an_owner_ends() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(folder.path());
        // The end of this process would close the pipe as well.
        drop(process.child.stdin.take());
        while process.check().is_ok() {
            tokio::time::sleep(AGAIN).await;
        }
    }
}
