//! The control plane as a whole.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_client::{Client, Config};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::process::Process;
use crate::{Error, Etcd, programs};

/// How long a component may take to be ready.
const READY: Duration = Duration::from_secs(120);
/// How long a component may take to end in good order.
const GRACE: Duration = Duration::from_secs(5);

/// How a control plane is started.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    apiserver: Vec<String>,
    etcd: Vec<String>,
    managers: Vec<Manager>,
}

/// A component that is a client of kube-apiserver and nothing more.
#[derive(Clone, Copy, Debug)]
enum Manager {
    Controllers,
    Scheduler,
}

impl Options {
    /// The defaults of every component.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more flag of kube-apiserver, such as `--watch-cache=false`.
    pub fn apiserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.apiserver.push(flag.into());
        self
    }

    /// One more flag of etcd, such as `--quota-backend-bytes=8589934592`.
    pub fn etcd_flag(mut self, flag: impl Into<String>) -> Self {
        self.etcd.push(flag.into());
        self
    }

    /// kube-controller-manager as well: with all its controllers but the one that takes a node without a kubelet
    /// for dead.
    pub fn controllers(mut self) -> Self {
        self.managers.push(Manager::Controllers);
        self
    }

    /// kube-scheduler as well.
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

    /// Its certificate is its own authority.
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
            // By default they would hold themselves back to some tens of requests a second.
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

/// etcd and kube-apiserver on loopback, and what else was asked for. They end with this value, and so does their
/// folder.
pub struct ControlPlane {
    managers: Vec<Process>,
    // kube-apiserver before etcd: its graceful end waits for an etcd that is gone.
    apiserver: Process,
    etcd: Process,
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
    etcd_url: String,
    folder: TempDir,
}

/// Files in its folder.
const KUBECONFIG: &str = "kubeconfig";
const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
const APISERVER_AUTHORITY: &str = "certificates/apiserver.crt";

/// The tokens and who they are.
const ADMIN_USER: &str = "{token: admin-token}";
const TOKENS: &str = "admin-token,admin,1,system:masters\nnobody-token,nobody,2,\n";

impl ControlPlane {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// A component cannot be started, ends, or is not ready in time: with the end of its log.
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
        let key = path(SERVICE_ACCOUNT_KEY);
        let made = tokio::process::Command::new(&program).args(["service-account-key", &key]).status().await;
        made.map_err(prepare("the key for service accounts"))?;

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
        etcd.extend(options.etcd);
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
        arguments.extend(options.apiserver);
        let etcd = Process::start(&program, "etcd", &etcd, folder.path())?;
        let apiserver = Process::start(&program, "kube-apiserver", &arguments, folder.path())?;
        let managers = Vec::new();
        let mut control_plane =
            Self { managers, apiserver, etcd, program, arguments, port, etcd_url: client, folder };
        control_plane.ready().await?;
        for manager in options.managers {
            control_plane.start_manager(manager).await?;
        }
        Ok(control_plane)
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The kubeconfig of an administrator, for kubectl and other clients.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join(KUBECONFIG)
    }

    /// The kubeconfig of an administrator who reaches it through another port on loopback.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn kubeconfig_through(&self, port: u16) -> Result<PathBuf, Error> {
        let path = self.folder.path().join(format!("kubeconfig-{port}"));
        let text = kubeconfig(&format!("https://127.0.0.1:{port}"), &self.authority(), ADMIN_USER);
        std::fs::write(&path, text).map_err(|source| Error::Prepare { what: "a kubeconfig", source })?;
        Ok(path)
    }

    /// The configuration of an administrator.
    ///
    /// # Errors
    /// The kubeconfig is none.
    pub async fn config(&self) -> Result<Config, Error> {
        let problem = |error: KubeconfigError| Error::Kubeconfig(error.to_string());
        config(Kubeconfig::read_from(self.kubeconfig()).map_err(problem)?).await
    }

    /// A client of an administrator.
    ///
    /// # Errors
    /// As [`Self::config`].
    pub async fn client(&self) -> Result<Client, Error> {
        client(self.config().await?)
    }

    /// Ends kube-apiserver on the spot.
    pub async fn kill_apiserver(&mut self) {
        self.apiserver.kill().await;
    }

    /// Starts kube-apiserver again, on the same etcd and at the same address, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn restart_apiserver(&mut self) -> Result<(), Error> {
        self.apiserver.kill().await;
        self.apiserver =
            Process::start(&self.program, "kube-apiserver", &self.arguments, self.folder.path())?;
        self.ready().await
    }

    /// Stops kube-apiserver where it is, connections and all; afterwards it does nothing any more.
    pub async fn pause_apiserver(&self) {
        self.apiserver.pause().await;
    }

    /// Lets it go on.
    pub fn resume_apiserver(&self) {
        self.apiserver.signal(Signal::SIGCONT);
    }

    /// Which tokens there are, in the format of kube-apiserver's token file, from its next start on.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn set_tokens(&self, tokens: &str) -> Result<(), Error> {
        let written = std::fs::write(self.folder.path().join("tokens.csv"), tokens);
        written.map_err(|source| Error::Prepare { what: "the tokens", source })
    }

    /// Has etcd forget every version before the newest, which is given. What kube-apiserver keeps in its watch cache
    /// it goes on serving until it is started again.
    ///
    /// # Errors
    /// etcd does not do it.
    pub async fn compact(&self) -> Result<u64, Error> {
        self.etcd()?.compact().await
    }

    /// Its etcd. What is written there is to kube-apiserver as what another kube-apiserver writes.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn etcd(&self) -> Result<Etcd, Error> {
        Etcd::at(&self.etcd_url)
    }

    /// Ends all of it in good order, with a bound.
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
            // A process of somebody else: there is nothing to be woken by.
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
            return Err("it has made no certificate yet".into());
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
                // Its health is everybody's to see; it would not know a user.
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

/// Whether a component answers this path well.
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

/// Ports that nobody had a moment ago.
fn free_ports<const N: usize>() -> std::io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
