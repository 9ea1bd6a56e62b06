//! Runs the program as a process.

use std::process::Stdio;
use std::time::Duration;

use kinformer_apiserver::{ApiServer, Kubelets, NamespaceLifecycle, ProtobufAnswers, Validation};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

/// Timeout of every wait; no test measures time.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// The exit code and the output of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts that standard error contains this text.
    #[track_caller]
    pub(crate) fn stderr_has(&self, part: &str) -> &Self {
        assert!(self.stderr.contains(part), "no {part:?} in {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

/// A process without environment variables except the given ones, so that only the arguments select a cluster.
pub(crate) struct Program {
    child: Child,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Program {
    pub(crate) fn start(line: &str) -> Self {
        Self::start_with(line.split_whitespace(), &[])
    }

    pub(crate) fn start_with<'a>(
        arguments: impl IntoIterator<Item = &'a str>,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kinformer"));
        command.args(arguments).env_clear().envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the program starts");
        let stdout = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let stderr = BufReader::new(child.stderr.take().expect("piped")).lines();
        Self { child, stdout, stderr }
    }

    /// Reads the next line of standard output.
    pub(crate) async fn line(&mut self) -> String {
        let stdout = self.stdout.as_mut().expect("not closed");
        let line = timeout(BOUND, stdout.next_line()).await.expect("a line in time").expect("readable");
        line.expect("a line before the end")
    }

    /// Reads the next line of standard error.
    pub(crate) async fn stderr_line(&mut self) -> String {
        let line = timeout(BOUND, self.stderr.next_line()).await.expect("a line in time").expect("readable");
        line.expect("a line before the end")
    }

    /// Reads the next line as JSON.
    pub(crate) async fn json(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Reads JSON lines up to and including the first with this event.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Value> {
        let mut lines = Vec::new();
        loop {
            let line = self.json().await;
            let last = line["event"] == event;
            lines.push(line);
            if last {
                return lines;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("still running");
        kill(Pid::from_raw(id.try_into().unwrap()), signal).expect("signalled");
    }

    /// Closes the reading end of standard output.
    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Waits until the process ends, and returns its remaining output.
    pub(crate) async fn ended(mut self) -> Ended {
        let rest = async {
            let mut stderr = String::new();
            let reading = async {
                let errors = self.stderr.get_mut();
                errors.read_to_string(&mut stderr).await.expect("readable");
            };
            let mut stdout = String::new();
            let lines = async {
                while let Some(lines) = &mut self.stdout
                    && let Some(line) = lines.next_line().await.expect("readable")
                {
                    stdout.push_str(&line);
                    stdout.push('\n');
                }
            };
            tokio::join!(reading, lines);
            let status = self.child.wait().await.expect("waited for");
            Ended { code: status.code(), stdout, stderr }
        };
        timeout(BOUND, rest).await.expect("the program ends in time")
    }
}

/// Runs the program until it ends.
pub(crate) async fn run(line: &str) -> Ended {
    Program::start(line).ended().await
}

/// Starts a server with this many pods in namespace `default`.
pub(crate) async fn server(pods: usize) -> ApiServer {
    server_with(pods, ProtobufAnswers::default(), Validation::On).await
}

/// Starts a server that also offers protobuf.
pub(crate) async fn server_with_protobuf(pods: usize) -> ApiServer {
    server_with(pods, ProtobufAnswers::Offered, Validation::On).await
}

/// Starts a server that takes objects that no Kubernetes would take.
pub(crate) async fn server_of_anything(pods: usize) -> ApiServer {
    server_with(pods, ProtobufAnswers::default(), Validation::Off).await
}

async fn server_with(pods: usize, protobuf: ProtobufAnswers, validation: Validation) -> ApiServer {
    let builder = ApiServer::builder()
        .validation(validation)
        .namespace_lifecycle(NamespaceLifecycle::AutoCreate)
        .kubelets(Kubelets::Skipped);
    let server = builder.protobuf(protobuf).start().await.expect("the server starts");
    for number in 0..pods {
        server.create(pod("default", &format!("p{number}"))).expect("a pod");
    }
    server
}

pub(crate) fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    })
}

/// A temporary directory, removed when dropped.
pub(crate) struct Directory(std::path::PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kinformer-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
