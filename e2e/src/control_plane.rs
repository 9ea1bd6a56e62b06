//! A control plane of etcd, kube-apiserver and optional components.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_client::{Client, Config};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::process::Process;
use crate::{Error, Etcd, programs};

/// The timeout for a component to become ready.
const READY: Duration = Duration::from_secs(120);
/// The timeout for a component to shut down cleanly.
const GRACE: Duration = Duration::from_secs(5);

/// Options of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Options {
    apiserver: Vec<String>,
    etcd: Vec<String>,
    managers: Vec<Manager>,
}

/// A component that is only a client of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Controllers,
    Scheduler,
}

impl Options {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a flag of kube-apiserver, such as `--watch-cache=false`.
    pub fn apiserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.apiserver.push(flag.into());
        self
    }

    /// Adds a flag of etcd, such as `--quota-backend-bytes=8589934592`.
    pub fn etcd_flag(mut self, flag: impl Into<String>) -> Self {
        self.etcd.push(flag.into());
        self
    }

    /// Also starts kube-controller-manager, with all controllers but the one that marks nodes without a kubelet as
    /// dead.
    pub fn controllers(mut self) -> Self {
        self.managers.push(Manager::Controllers);
        self
    }

    /// Also starts kube-scheduler.
    pub fn scheduler(mut self) -> Self {
        self.managers.push(Manager::Scheduler);
        self
    }
}

impl Manager {
    fn component(self) -> &'static str {
        match self {
            Self::Controllers => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    /// The component's self-signed certificate.
    fn authority(self, folder: &Path) -> PathBuf {
        folder.join(format!("certificates/{}.crt", self.component()))
    }

    fn arguments(self, port: u16, folder: &Path) -> Vec<String> {
        let path = |name: &str| folder.join(name).display().to_string();
        let mut arguments = vec![
            format!("--kubeconfig={}", path(KUBECONFIG)),
            format!("--cert-dir={}", path("certificates")),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".into(),
            "--leader-elect=false".into(),
            // The defaults would limit the component to some tens of requests per second.
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ];
        if let Self::Controllers = self {
            arguments.push("--controllers=*,-node-lifecycle-controller".into());
            arguments.push(format!("--service-account-private-key-file={}", path(SERVICE_ACCOUNT_KEY)));
            arguments.push(format!("--root-ca-file={}", path(APISERVER_AUTHORITY)));
        }
        arguments
    }
}

/// etcd and kube-apiserver on loopback, and the other requested components. Dropping the value ends them and removes
/// their folder.
pub struct ControlPlane {
    managers: Vec<Process>,
    // kube-apiserver is dropped before etcd: its graceful shutdown waits for a missing etcd.
    apiserver: Process,
    etcd: Process,
    options: Options,
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
    etcd_url: String,
    folder: TempDir,
}

/// Files in the folder.
const KUBECONFIG: &str = "kubeconfig";
const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
const APISERVER_AUTHORITY: &str = "certificates/apiserver.crt";

/// The tokens and their users.
const ADMIN_USER: &str = "{token: admin-token}";
const TOKENS: &str = "admin-token,admin,1,system:masters\nguest-token,guest,2,\n";

impl ControlPlane {
    /// Starts a control plane and waits until it is ready.
    ///
    /// # Cancel safety
    /// If the future is dropped, all started components are ended.
    ///
    /// # Errors
    /// A component cannot be started, ends, or is not ready in time. The error has the end of its log.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let program = programs::path(programs::CONTROL_PLANE)?;
        let prepare = |what| move |source| Error::Prepare { what, source };
        let folder = tempfile::Builder::new()
            .prefix("kinformer-e2e-")
            .tempdir()
            .map_err(prepare("a temporary folder"))?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let [client, peer, port] = free_ports().map_err(prepare("free ports"))?;

        std::fs::write(path("tokens.csv"), TOKENS).map_err(prepare("the tokens"))?;
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut etcd = vec![
            "--name=e2e".into(),
            format!("--data-dir={}", path("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=e2e={peer}"),
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ];
        etcd.extend(options.etcd.iter().cloned());
        let etcd = Process::start(&program, "etcd", &etcd, folder.path())?;
        let key = path(SERVICE_ACCOUNT_KEY);
        let made = tokio::process::Command::new(&program).args(["service-account-key", &key]).status().await;
        made.map_err(prepare("the key for service accounts"))?;
        let mut arguments = vec![
            format!("--etcd-servers={client}"),
            format!("--cert-dir={}", path("certificates")),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={key}"),
            format!("--service-account-signing-key-file={key}"),
            format!("--token-auth-file={}", path("tokens.csv")),
            "--authorization-mode=RBAC".into(),
            "--service-cluster-ip-range=10.0.0.0/24".into(),
        ];
        arguments.extend(options.apiserver.iter().cloned());
        let apiserver = Process::start(&program, "kube-apiserver", &arguments, folder.path())?;
        let (managers, etcd_url) = (Vec::new(), client);
        let mut control_plane =
            Self { managers, apiserver, etcd, options, program, arguments, port, etcd_url, folder };
        control_plane.ready().await?;
        for manager in control_plane.options.managers.clone() {
            control_plane.start_manager(manager).await?;
        }
        Ok(control_plane)
    }

    /// Returns the options with which it was started.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Checks that all components run.
    ///
    /// # Errors
    /// A component has ended. The error has the end of its log.
    pub fn check(&mut self) -> Result<(), Error> {
        let mut components = self.managers.iter_mut().chain([&mut self.apiserver, &mut self.etcd]);
        components.try_for_each(Process::check)
    }

    /// Returns the port of kube-apiserver on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of kube-apiserver.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Returns the path of a kubeconfig of an administrator, for kubectl and other clients.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join(KUBECONFIG)
    }

    /// Writes a kubeconfig of an administrator who connects through another port on loopback, and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn kubeconfig_through(&self, port: u16) -> Result<PathBuf, Error> {
        let path = self.folder.path().join(format!("kubeconfig-{port}"));
        let text = kubeconfig(&format!("https://127.0.0.1:{port}"), &self.authority(), ADMIN_USER);
        std::fs::write(&path, text).map_err(|source| Error::Prepare { what: "a kubeconfig", source })?;
        Ok(path)
    }

    /// Returns the configuration of an administrator.
    ///
    /// # Errors
    /// The kubeconfig is invalid.
    pub async fn config(&self) -> Result<Config, Error> {
        let problem = |error: KubeconfigError| Error::Kubeconfig(error.to_string());
        config(Kubeconfig::read_from(self.kubeconfig()).map_err(problem)?).await
    }

    /// Returns a client of an administrator.
    ///
    /// # Errors
    /// The same as [`Self::config`].
    pub async fn client(&self) -> Result<Client, Error> {
        client(self.config().await?)
    }

    /// Kills kube-apiserver.
    pub fn kill_apiserver(&mut self) {
        self.apiserver.kill();
    }

    /// Restarts kube-apiserver with the same etcd and address, and waits until it is ready.
    ///
    /// # Errors
    /// The same as [`Self::start`].
    pub async fn restart_apiserver(&mut self) -> Result<(), Error> {
        self.apiserver.kill();
        self.apiserver =
            Process::start(&self.program, "kube-apiserver", &self.arguments, self.folder.path())?;
        self.ready().await
    }

    /// Suspends kube-apiserver with its connections; when this returns, it no longer runs.
    pub async fn pause_apiserver(&mut self) {
        self.apiserver.pause().await;
    }

    /// Resumes kube-apiserver.
    pub fn resume_apiserver(&mut self) {
        self.apiserver.signal(Signal::SIGCONT);
    }

    /// Replaces the tokens, in the format of kube-apiserver's token file, from its next start on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_tokens(&self, tokens: &str) -> Result<(), Error> {
        let written = std::fs::write(self.folder.path().join("tokens.csv"), tokens);
        written.map_err(|source| Error::Prepare { what: "the tokens", source })
    }

    /// Compacts etcd: [`Etcd::compact`].
    ///
    /// # Errors
    /// The request to etcd fails.
    pub async fn compact(&self) -> Result<u64, Error> {
        self.etcd()?.compact().await
    }

    /// Returns the etcd. To kube-apiserver, writes to it look like those of another kube-apiserver.
    ///
    /// # Errors
    /// The client for etcd cannot be built.
    pub fn etcd(&self) -> Result<Etcd, Error> {
        Etcd::connect(&self.etcd_url)
    }

    /// Shuts down all components cleanly, within a timeout.
    pub async fn stop(mut self) {
        for manager in &mut self.managers {
            manager.stop(GRACE).await;
        }
        self.apiserver.stop(GRACE).await;
        self.etcd.stop(GRACE).await;
    }

    async fn ready(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + READY;
        let mut last = String::new();
        while Instant::now() < deadline {
            self.etcd.check()?;
            self.apiserver.check()?;
            match self.ask().await {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
            // Nothing signals that another process is ready, so it is polled.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(Error::NotReady { component: "kube-apiserver", after: READY, last, log: self.apiserver.tail() })
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join(APISERVER_AUTHORITY)
    }

    async fn ask(&self) -> Result<(), String> {
        let authority = self.authority();
        if !authority.exists() {
            return Err("the component has no certificate yet".into());
        }
        let kubeconfig = kubeconfig(&self.url(), &authority, ADMIN_USER);
        std::fs::write(self.kubeconfig(), kubeconfig).map_err(|error| error.to_string())?;
        get(self.config().await, "/readyz").await
    }

    async fn start_manager(&mut self, manager: Manager) -> Result<(), Error> {
        let [port] = free_ports().map_err(|source| Error::Prepare { what: "a free port", source })?;
        let (component, folder) = (manager.component(), self.folder.path());
        let mut process = Process::start(&self.program, component, &manager.arguments(port, folder), folder)?;
        let authority = manager.authority(folder);
        let url = format!("https://127.0.0.1:{port}");
        let deadline = Instant::now() + READY;
        let mut last = String::new();
        while Instant::now() < deadline {
            process.check()?;
            if authority.exists() {
                // The health endpoint is public; the component knows no user.
                match get(config_of(&kubeconfig(&url, &authority, "{}")).await, "/healthz").await {
                    Ok(()) => {
                        self.managers.push(process);
                        return Ok(());
                    }
                    Err(error) => last = error,
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(Error::NotReady { component, after: READY, last, log: process.tail() })
    }
}

/// Whether a component responds to this path successfully.
async fn get(config: Result<Config, Error>, path: &str) -> Result<(), String> {
    let client = config.and_then(client).map_err(|error| error.to_string())?;
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map(drop).map_err(|error| error.to_string())
}

async fn config_of(text: &str) -> Result<Config, Error> {
    config(Kubeconfig::from_yaml(text).map_err(|error| Error::Kubeconfig(error.to_string()))?).await
}

async fn config(kubeconfig: Kubeconfig) -> Result<Config, Error> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(|error| Error::Kubeconfig(error.to_string()))
}

fn client(config: Config) -> Result<Client, Error> {
    kinformer::client(config).map_err(|error| Error::Kubeconfig(error.to_string()))
}

fn kubeconfig(url: &str, authority: &Path, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: e2e\n\
         clusters:\n- name: e2e\n  cluster: {{server: \"{url}\", certificate-authority: \"{}\"}}\n\
         users:\n- name: e2e\n  user: {user}\n\
         contexts:\n- name: e2e\n  context: {{cluster: e2e, user: e2e}}\n",
        authority.display(),
    )
}

/// The ports of components. The system gives other ports to connections and to listeners without a choice, so that the
/// port of a component is not taken before its start, or while it is restarted.
const PORTS: Range<u16> = 20_000..30_000;
/// The next port to try. Other processes use the same ports.
static NEXT_PORT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..)));

/// Returns ports that are free on loopback.
///
/// # Errors
/// No port is free.
pub fn free_ports<const N: usize>() -> std::io::Result<[u16; N]> {
    let mut next = PORTS.filter_map(|_| {
        let port = PORTS.start + NEXT_PORT.fetch_add(1, Ordering::Relaxed) % (PORTS.end - PORTS.start);
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
    });
    let mut ports = [0; N];
    for port in &mut ports {
        *port = next.next().ok_or(std::io::ErrorKind::AddrInUse)?;
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_once() {
        let sockets: Vec<_> =
            PORTS.filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()).take(10).collect();
        let taken: Vec<u16> = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        let [first, second]: [[u16; 100]; 2] = [free_ports().unwrap(), free_ports().unwrap()];
        assert!(first.iter().chain(&second).all(|port| PORTS.contains(port) && !taken.contains(port)));
        assert!(second.iter().all(|port| !first.contains(port)));
        drop(sockets);
    }
}
