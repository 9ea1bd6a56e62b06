//! Exec plugins.

use std::io::{IsTerminal, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use kube_client::config::{ExecConfig, ExecInteractiveMode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Error;

/// The maximum number of bytes read from a plugin's output.
const OUTPUT: u64 = 1024 * 1024;

/// The interval of checks whether a plugin that has closed its output has ended.
const CHECK: Duration = Duration::from_millis(10);

/// The credentials that a plugin has issued.
#[derive(Default)]
pub(super) struct Issued {
    pub(super) token: Option<String>,
    /// The certificate and its key, in PEM.
    pub(super) certificate: Option<(String, String)>,
    pub(super) expires: Option<Timestamp>,
}

/// The process of one run of a plugin.
#[derive(Default)]
pub(super) struct Process(Mutex<Run>);

#[derive(Default)]
struct Run {
    /// `Some` while the plugin runs.
    child: Option<Child>,
    killed: bool,
}

impl Process {
    /// Kills the process. A process that has not been started yet is never started. The run fails.
    pub(super) fn kill(&self) {
        let mut run = self.0.lock();
        run.killed = true;
        if let Some(child) = &mut run.child {
            // Fails if the process has already ended.
            let _ = child.kill();
        }
    }

    /// Starts the process, unless it was [killed](Self::kill).
    fn start(&self, command: &mut Command) -> Result<Option<ChildStdout>, String> {
        if self.0.lock().killed {
            return Err("it was killed before it was started".into());
        }
        // Outside the lock, since this blocks until the program is loaded.
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdout = child.stdout.take();
        self.started(child);
        Ok(stdout)
    }

    fn started(&self, mut child: Child) {
        let mut run = self.0.lock();
        if run.killed {
            // Fails if the process has already ended.
            let _ = child.kill();
        }
        run.child = Some(child);
    }

    /// Blocks until the process has ended. Another thread can [kill](Self::kill) it meanwhile, even after it has closed
    /// its output.
    fn wait(&self) -> Result<ExitStatus, String> {
        loop {
            let mut run = self.0.lock();
            let Some(child) = &mut run.child else { return Err("its process was already awaited".into()) };
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                run.child = None;
                return Ok(status);
            }
            drop(run);
            #[expect(
                clippy::disallowed_methods,
                reason = "std has no event for the end of a process that another thread can kill meanwhile"
            )]
            thread::sleep(CHECK);
        }
    }
}

/// Runs a plugin and blocks until it has ended. The plugin inherits standard error, and standard input if that is a
/// terminal. Follows client-go 0.37 (`plugin/pkg/client/auth/exec`).
///
/// # Errors
/// [`Error::ExecPlugin`] if the plugin cannot be run, fails, or issues no credentials.
pub(super) fn run(config: &ExecConfig, process: &Process) -> Result<Issued, Error> {
    let Some(command) = &config.command else {
        return Err(Error::ExecPlugin { command: String::new(), reason: "no command is configured".into() });
    };
    output(config, command, process).and_then(|output| read(config, &output)).map_err(|reason| {
        let hint = config.install_hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
        Error::ExecPlugin { command: command.clone(), reason: reason + &hint }
    })
}

fn output(config: &ExecConfig, command: &str, process: &Process) -> Result<Vec<u8>, String> {
    let terminal = std::io::stdin().is_terminal();
    let interactive = match config.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !terminal => {
            return Err("it needs a terminal as standard input, and there is none".into());
        }
        _ => terminal,
    };
    let spec = match &config.cluster {
        Some(cluster) if config.provide_cluster_info => {
            json!({"interactive": interactive, "cluster": cluster})
        }
        _ => json!({"interactive": interactive}),
    };
    let info = json!({"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec});
    let pairs = config.env.iter().flatten().filter_map(|env| Some((env.get("name")?, env.get("value")?)));
    let mut run = Command::new(command);
    run.args(config.args.iter().flatten())
        .envs(pairs)
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
        .stdout(Stdio::piped());
    for name in config.drop_env.iter().flatten() {
        run.env_remove(name);
    }
    let stdout = process.start(&mut run)?;
    let mut output = Vec::new();
    let read = stdout.map(|stdout| stdout.take(OUTPUT).read_to_end(&mut output)).transpose();
    if read.is_err() || output.len() as u64 == OUTPUT {
        process.kill();
    }
    let status = process.wait()?;
    read.map_err(|error| error.to_string())?;
    if status.success() { Ok(output) } else { Err(status.to_string()) }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: Option<String>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Parses a plugin's output. Errors do not quote the output, which is secret.
fn read(config: &ExecConfig, output: &[u8]) -> Result<Issued, String> {
    let output = output.strip_prefix(b"\xef\xbb\xbf").unwrap_or(output);
    let json = serde_json::from_slice(output).map_err(|error| {
        format!(
            "its output is not an ExecCredential in JSON: line {}, column {}",
            error.line(),
            error.column()
        )
    });
    let credential: ExecCredential = json.or_else(|problem| in_yaml(output).ok_or(problem))?;
    if let (Some(wanted), Some(found)) = (&config.api_version, &credential.api_version)
        && wanted != found
    {
        return Err(format!("it is configured for {wanted} and answered in {found}"));
    }
    let Some(status) = credential.status else { return Err("its output has no status".into()) };
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    let expires = some(status.expiration_timestamp).map(|text| text.parse()).transpose();
    let expires = expires.map_err(|error| format!("its expirationTimestamp is not a time: {error}"))?;
    let certificate = match (some(status.client_certificate_data), some(status.client_key_data)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("it issued a certificate without a key, or a key without a certificate".into()),
    };
    let token = some(status.token.map(|token| token.trim().to_owned()));
    if token.is_none() && certificate.is_none() {
        return Err("it issued neither a token nor a certificate".into());
    }
    Ok(Issued { token, certificate, expires })
}

fn in_yaml(output: &[u8]) -> Option<ExecCredential> {
    let value: Value = serde_saphyr::from_slice(output).ok()?;
    serde_json::from_value(value).ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    // contract: L-19g
    #[test]
    fn plugin_killed_before_start_does_not_run() {
        let config = json!({"command": "echo", "args": [r#"{"status":{"token":"issued"}}"#]});
        let config = serde_json::from_value(config).unwrap();
        assert_eq!(run(&config, &Process::default()).unwrap().token.as_deref(), Some("issued"));
        let process = Process::default();
        process.kill();
        let error = run(&config, &process).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("killed before it was started"), "{error}");
    }

    /// A plugin that is killed while it starts is killed once it has started.
    // contract: L-19g
    #[test]
    fn plugin_killed_during_start_ends() {
        let process = Process::default();
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        process.kill();
        process.started(child);
        let status = process.wait().unwrap();
        assert!(!status.success(), "{status}");
    }
}
