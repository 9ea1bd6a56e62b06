//! Two processes that elect a leader. One leader is killed, another one is stopped for longer than the lease and continued.
//! At the end the objects that the leaders have written show that there were never two of them.
//!
//! `cargo run -p kinformer-leader-election --example leader_election` runs an API server in this process and starts the
//! candidates as child processes. With `-- KUBECONFIG`, or the variable `$KUBECONFIG`, it uses that cluster in place of
//! the server. It ends by itself.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::ApiServer;
use kinformer_leader_election::LeaderElector;
use kube_client::api::{DeleteParams, ListParams, PostParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use tokio::time::{sleep, timeout};

/// The label of all written objects. Its value is the name of the run, and of its Lease.
const RUN: &str = "leader-election-example";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        arguments.extend(std::env::var("KUBECONFIG").ok());
    }
    match &*arguments {
        [] => {
            let server = ApiServer::builder().start().await?;
            let mut kubeconfig = tempfile::NamedTempFile::new()?;
            kubeconfig.write_all(server.kubeconfig().as_bytes())?;
            audit(kubeconfig.path()).await?;
            server.shutdown().await;
            Ok(())
        }
        [kubeconfig] => audit(kubeconfig.as_ref()).await,
        [kubeconfig, run, identity] => candidate(kubeconfig.as_ref(), run, identity).await,
        _ => Err("usage: leader_election [KUBECONFIG]".into()),
    }
}

async fn connect(kubeconfig: &Path) -> Result<Client, Box<dyn Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(kinformer_kube::client(config)?)
}

/// A process that writes while it is the leader.
async fn candidate(kubeconfig: &Path, run: &str, identity: &str) -> Result<(), Box<dyn Error>> {
    let client = connect(kubeconfig).await?;
    let elector = LeaderElector::builder(client.clone(), "default", run)
        .identity(identity)
        .lease_duration(Duration::from_secs(2)) // short, for an example
        .renew_deadline(Duration::from_millis(1500))
        .retry_period(Duration::from_millis(300))
        .build()?;
    loop {
        let leadership = elector.acquire().await;
        let term = format!("{identity} in term {}", leadership.transitions());
        println!("{identity}: leader");
        let config_maps: Api<ConfigMap> = Api::namespaced(leadership.client(&client), "default");
        let work = async {
            loop {
                let mut written = ConfigMap::default();
                written.metadata.generate_name = Some(format!("{run}-"));
                written.metadata.labels = Some([(RUN.to_owned(), run.to_owned())].into());
                written.data = Some([("writer".to_owned(), term.clone())].into());
                if let Err(error) = config_maps.create(&PostParams::default(), &written).await {
                    println!("{identity}: {error}");
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        if let Err(reason) = leadership.run::<()>(work).await {
            println!("{identity}: {reason}");
        }
    }
}

/// The candidates, which are killed at the end.
struct Candidates<'a> {
    kubeconfig: &'a Path,
    run: &'a str,
    processes: Vec<(String, Child)>,
}

impl Candidates<'_> {
    fn start(&mut self, identity: &str) -> Result<(), Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.arg(self.kubeconfig).args([self.run, identity]).spawn()?;
        self.processes.push((identity.to_owned(), child));
        Ok(())
    }

    fn named(&mut self, identity: &str) -> Result<&mut Child, Box<dyn Error>> {
        let found = self.processes.iter_mut().find(|(name, _)| name == identity);
        Ok(&mut found.ok_or_else(|| format!("no process {identity}"))?.1)
    }
}

impl Drop for Candidates<'_> {
    fn drop(&mut self) {
        for (_, child) in &mut self.processes {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

async fn audit(kubeconfig: &Path) -> Result<(), Box<dyn Error>> {
    let run = format!("{RUN}-{}", std::process::id());
    let client = connect(kubeconfig).await?;
    let written = Written { objects: Api::namespaced(client.clone(), "default"), run: &run };
    let mut candidates = Candidates { kubeconfig, run: &run, processes: Vec::new() };
    candidates.start("a")?;
    candidates.start("b")?;

    let first = written.by_other_than("").await?;
    println!("# kill {first}");
    candidates.named(&first)?.kill()?;
    let second = written.by_other_than(&first).await?;
    candidates.start("c")?;
    println!("# stop {second}");
    signal(candidates.named(&second)?, Signal::Stop)?;
    let third = written.by_other_than(&second).await?;
    println!("# continue {second}");
    signal(candidates.named(&second)?, Signal::Continue)?;
    sleep(Duration::from_secs(3)).await;
    drop(candidates);

    let mut writers = written.writers().await?;
    written.delete().await?;
    let leases: Api<Lease> = Api::namespaced(client, "default");
    leases.delete(&run, &DeleteParams::default()).await?;
    println!("# {} writes", writers.len());
    writers.dedup();
    writers.iter().for_each(|writer| println!("written by {writer}"));
    let terms = writers.len();
    writers.sort();
    writers.dedup();
    if writers.len() != terms || third != "c" {
        return Err("the writes of two leaders overlap".into());
    }
    Ok(())
}

enum Signal {
    Stop,
    Continue,
}

#[cfg(unix)]
fn signal(process: &Child, signal: Signal) -> Result<(), Box<dyn Error>> {
    use nix::sys::signal::{Signal::*, kill};
    let signal = match signal {
        Signal::Stop => SIGSTOP,
        Signal::Continue => SIGCONT,
    };
    Ok(kill(nix::unistd::Pid::from_raw(process.id().try_into()?), signal)?)
}

#[cfg(not(unix))]
fn signal(_: &Child, _: Signal) -> Result<(), Box<dyn Error>> {
    Err("processes cannot be stopped on this system".into())
}

/// The objects that the leaders have written.
struct Written<'a> {
    objects: Api<ConfigMap>,
    run: &'a str,
}

impl Written<'_> {
    fn of_run(&self) -> ListParams {
        ListParams::default().labels(&format!("{RUN}={}", self.run))
    }

    /// Returns the writers of all objects, in the order of the writes.
    async fn writers(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let mut written = Vec::new();
        for object in self.objects.list(&self.of_run()).await? {
            let version: u64 = object.metadata.resource_version.unwrap_or_default().parse()?;
            if let Some(writer) = object.data.unwrap_or_default().remove("writer") {
                written.push((version, writer));
            }
        }
        written.sort();
        Ok(written.into_iter().map(|(_, writer)| writer).collect())
    }

    /// Waits until the newest ten objects were written by one process other than this one, and returns its name. The
    /// API server may be away for some time.
    async fn by_other_than(&self, other: &str) -> Result<String, Box<dyn Error>> {
        let wait = async {
            loop {
                let writers = self.writers().await.unwrap_or_default();
                let newest: Vec<&str> =
                    writers.iter().rev().take(10).filter_map(|writer| writer.get(..1)).collect();
                if let [newest, rest @ ..] = &*newest
                    && newest != &other
                    && rest.len() == 9
                    && rest.iter().all(|writer| writer == newest)
                {
                    return newest.to_string();
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(60), wait)
            .await
            .map_err(|_| "no leader wrote anything for a minute".into())
    }

    async fn delete(&self) -> Result<(), Box<dyn Error>> {
        self.objects.delete_collection(&DeleteParams::default(), &self.of_run()).await?;
        Ok(())
    }
}
