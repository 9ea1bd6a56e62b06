//! controller-runtime's cache: a program that answers calls.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use e2e::programs;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// The timeout of an answer. A call has a shorter one.
const BOUND: Duration = Duration::from_secs(60);

pub(super) struct Program {
    child: Child,
    calls: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(super) fn start(kubeconfig: &Path) -> Self {
        let mut command = programs::controller_runtime_cache(kubeconfig).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let calls = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, calls, answers }
    }

    pub(super) async fn answer(&mut self, call: &Value) -> Value {
        self.calls.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        let line = tokio::time::timeout(BOUND, self.answers.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no answer to {call}")).unwrap();
        serde_json::from_str(&line.unwrap_or_else(|| panic!("the program has ended at {call}"))).unwrap()
    }

    /// Closes the input, which ends the program.
    pub(super) async fn end(mut self) {
        drop(self.calls);
        let ended = tokio::time::timeout(BOUND, self.child.wait()).await.unwrap().unwrap();
        assert!(ended.success(), "{ended}");
    }
}
