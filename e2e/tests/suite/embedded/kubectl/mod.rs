//! kubectl prints the same for the embedded API server as for kube-apiserver.
//!
//! The same script runs on both servers. Every difference must be listed with its reason, and every listed difference
//! must exist.

pub(super) mod compare;
mod objects;
mod script;
mod tables;
mod watch;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use e2e::{ControlPlane, Options, programs};
use kinformer_apiserver::ApiServer;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const BOUND: Duration = Duration::from_secs(60);

/// kubectl on one of the servers.
pub(crate) struct Kubectl {
    kubeconfig: PathBuf,
    /// A home directory of its own, so that the cache of one server is not used for the other.
    home: TempDir,
}

/// The exit code and the output.
pub(crate) struct Seen {
    code: Option<i32>,
    output: String,
    errors: String,
}

impl Kubectl {
    pub(crate) fn new(kubeconfig: impl Into<PathBuf>) -> Self {
        Self { kubeconfig: kubeconfig.into(), home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn of(server: &ApiServer, folder: &Path) -> Self {
        let kubeconfig = folder.join("embedded");
        std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
        Self::new(kubeconfig)
    }

    pub(crate) fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = programs::kubectl(&self.kubeconfig, words).unwrap();
        command.env("HOME", self.home.path()).env_remove("KUBECONFIG").kill_on_drop(true);
        // It ends before collecting garbage pays, and runs hundreds of times.
        command.env("GOGC", "off");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) async fn run(&self, line: &str) -> Seen {
        let (words, input) = script::words(line);
        let mut child = self.command(words.iter().map(String::as_str)).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // kubectl may not read its input.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let ended = tokio::time::timeout(BOUND, child.wait_with_output()).await;
        let output = ended.unwrap_or_else(|_| panic!("kubectl {line}: not within {BOUND:?}")).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Seen { code: output.status.code(), output: text(output.stdout), errors: text(output.stderr) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_the_same_on_both_servers() {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let server = ApiServer::builder().start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let real = Kubectl::new(control_plane.kubeconfig());
    let ours = Kubectl::of(&server, folder.path());

    let mut problems = Vec::new();
    for line in script::lines() {
        let (theirs, ours) = tokio::join!(real.run(line), ours.run(line));
        let differences = compare::differences(&theirs, &ours);
        match (script::reason(line), differences.is_empty()) {
            (None, true) | (Some(_), false) => {}
            (None, false) => problems.push(format!("kubectl {line}\n    {}", differences.join("\n    "))),
            (Some(reason), true) => {
                problems.push(format!("kubectl {line}\n    is the same on both, but: {reason}"))
            }
        }
    }
    assert!(problems.is_empty(), "{} commands:\n{}", problems.len(), problems.join("\n"));

    watch::shows_the_same(&real, &ours).await;
    let client = kinformer::client(server.config().unwrap()).unwrap();
    tables::have_the_same_columns(&control_plane.client().await.unwrap(), &client).await;
    server.shutdown().await;
}
