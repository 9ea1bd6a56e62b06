//! Two processes that elect a leader. One leader is killed, another one is stopped for longer than the lease and continued.
//! At the end the objects that the leaders have written show that there were never two of them.
//!
//! `cargo run -p kinformer-leader-election --example leader_election` runs an API server in this process and starts
//! the candidates as child processes. It ends by itself.
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value returns null for a missing field")]

use std::error::Error;
use std::process::{Child, Command};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::ApiServer;
use kinformer_leader_election::LeaderElector;
use kube_client::api::PostParams;
use kube_client::{Api, Client, Config};
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments {
        [] => audit().await,
        [url, identity] => candidate(url, identity).await,
        _ => Err("usage: leader_election".into()),
    }
}

/// A process that writes while it is the leader.
async fn candidate(url: &str, identity: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::try_from(Config::new(url.parse()?))?;
    let elector = LeaderElector::builder(client.clone(), "default", "example")
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
                written.metadata.generate_name = Some("write-".to_owned());
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
struct Candidates(Vec<(String, Child)>);

impl Candidates {
    fn start(&mut self, server: &ApiServer, identity: &str) -> Result<(), Box<dyn Error>> {
        let child = Command::new(std::env::current_exe()?).args([&server.url(), identity]).spawn()?;
        self.0.push((identity.to_owned(), child));
        Ok(())
    }

    fn named(&mut self, identity: &str) -> Result<&mut Child, Box<dyn Error>> {
        let found = self.0.iter_mut().find(|(name, _)| name == identity);
        Ok(&mut found.ok_or_else(|| format!("no process {identity}"))?.1)
    }
}

impl Drop for Candidates {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

async fn audit() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().start().await?;
    let mut candidates = Candidates(Vec::new());
    candidates.start(&server, "a")?;
    candidates.start(&server, "b")?;

    let first = writer_other_than(&server, "").await?;
    println!("# kill {first}");
    candidates.named(&first)?.kill()?;
    let second = writer_other_than(&server, &first).await?;
    candidates.start(&server, "c")?;
    println!("# stop {second}");
    signal(candidates.named(&second)?, Signal::Stop)?;
    let third = writer_other_than(&server, &second).await?;
    println!("# continue {second}");
    signal(candidates.named(&second)?, Signal::Continue)?;
    sleep(Duration::from_secs(3)).await;
    drop(candidates);

    let mut writers = writers(&server)?;
    println!("# {} writes", writers.len());
    writers.dedup();
    writers.iter().for_each(|writer| println!("written by {writer}"));
    let terms = writers.len();
    writers.sort();
    writers.dedup();
    if writers.len() != terms || !third.starts_with('c') {
        return Err("the writes of two leaders overlap".into());
    }
    server.shutdown().await;
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

/// Returns the writers of all objects, in the order of the writes.
fn writers(server: &ApiServer) -> Result<Vec<String>, Box<dyn Error>> {
    let mut written = Vec::new();
    for object in server.list("v1", "ConfigMap", "default")? {
        if let Some(writer) = object["data"]["writer"].as_str() {
            let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse()?;
            written.push((version, writer.to_owned()));
        }
    }
    written.sort();
    Ok(written.into_iter().map(|(_, writer)| writer).collect())
}

/// Waits until the newest ten objects were written by one process other than this one, and returns its name.
async fn writer_other_than(server: &ApiServer, other: &str) -> Result<String, Box<dyn Error>> {
    let wait = async {
        loop {
            let writers = writers(server)?;
            let newest: Vec<&str> =
                writers.iter().rev().take(10).filter_map(|writer| writer.get(..1)).collect();
            if let [newest, rest @ ..] = &*newest
                && newest != &other
                && rest.len() == 9
                && rest.iter().all(|writer| writer == newest)
            {
                return Ok(newest.to_string());
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(60), wait).await.map_err(|_| "no leader wrote anything for a minute")?
}
