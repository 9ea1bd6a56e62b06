//! The server with its pods, and the phases of a run.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use e2e::{ControlPlane, Options, Proxy, programs};
use kube_client::Client;
use tokio::process::Command;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::pods::{self, Size};
use crate::process::Program;
use crate::report::{
    CLIENT_GO, CPU, Figures, KINFORMER, KINFORMER_EAGER, KUBE_RUNTIME, LATENCY_HALF, LATENCY_MOST, PEAK,
    RELIST, RELIST_BEFORE, RELIST_PEAK, STEADY, UPDATES_AFTER, UPDATES_BEFORE, UPDATES_CPU,
    UPDATES_DELIVERED, UPDATES_RATE, WALL,
};
use crate::updates::Updates;

/// How long a peer may settle before its memory is measured as steady.
pub(crate) const PAUSE: Duration = Duration::from_secs(5);
/// The duration of the updates phase.
const MINUTE: Duration = Duration::from_secs(60);
/// The duration of the latency phase, and its updates per second.
const LATENCY: Duration = Duration::from_secs(20);
const FEW: usize = 100;
/// The peers that are compared.
pub(crate) const PEERS: [&str; 4] = [KINFORMER, KINFORMER_EAGER, CLIENT_GO, KUBE_RUNTIME];
/// The quota of etcd; 100,000 pods use a quarter of it.
pub(crate) const ETCD_QUOTA: &str = "--quota-backend-bytes=8589934592";

/// The server with its pods, shared by all runs.
pub(crate) struct Environment {
    control_plane: ControlPlane,
    client: Client,
    pods: usize,
    size: Size,
    /// The memory of each peer without pods, in MiB.
    empty: [f64; PEERS.len()],
    /// Created on first use.
    updates: Option<Updates>,
}

impl Environment {
    /// Starts the server, and creates the pods.
    pub(crate) async fn begin(pods: usize) -> Result<Self, Failure> {
        eprintln!("starting etcd and kube-apiserver ...");
        let control_plane = ControlPlane::start(Options::new().etcd_flag(ETCD_QUOTA)).await?;
        let mut empty = [0.0; PEERS.len()];
        for (peer, empty) in empty.iter_mut().enumerate() {
            let (program, _) = Program::synced(command(peer, &control_plane.kubeconfig())?, 0).await?;
            tokio::time::sleep(PAUSE).await;
            *empty = program.used()?.resident_mebibytes;
            program.end().await?;
        }
        let client = control_plane.client().await?;
        let size = pods::write(&client, pods).await?;
        Ok(Self { control_plane, client, pods, size, empty, updates: None })
    }

    pub(crate) fn size(&self) -> &Size {
        &self.size
    }

    /// Measures the time from start to sync, and the memory afterwards.
    pub(crate) async fn sync(&self, peer: usize) -> Result<Figures, Failure> {
        let command = command(peer, &self.control_plane.kubeconfig())?;
        let (program, seconds) = Program::synced(command, self.pods).await?;
        let used = program.used()?;
        tokio::time::sleep(PAUSE).await;
        let steady = program.used()?.resident_mebibytes - self.empty.get(peer).copied().unwrap_or_default();
        program.end().await?;
        Ok(Figures(vec![
            (&WALL, seconds),
            (&CPU, used.cpu_seconds),
            (&PEAK, used.peak_mebibytes),
            (&STEADY, steady * 1024.0 * 1.024 / self.pods as f64),
        ]))
    }

    /// Measures a relist of all pods with one change: the restarted server no longer has the version that the peer
    /// has reached.
    pub(crate) async fn relist(&mut self, peer: usize) -> Result<Figures, Failure> {
        let mut proxy = Proxy::start(self.control_plane.port()).await?;
        let kubeconfig = self.control_plane.kubeconfig_through(proxy.port())?;
        let (mut program, _) = Program::synced(command(peer, &kubeconfig)?, self.pods).await?;
        tokio::time::sleep(PAUSE).await;
        let before = program.used()?.resident_mebibytes;
        let forwarded = proxy.forwarded();
        proxy.refuse().await;
        // Otherwise the peer might receive the change, and have the version at which the server restarts.
        while proxy.open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (key, version) = pods::touch(&self.client).await?;
        self.control_plane.compact().await?;
        self.control_plane.restart_apiserver().await?;
        program.forget_peak()?;
        proxy.accept().await?;
        program.has(&key, version).await?;
        tokio::time::sleep(PAUSE).await;
        let peak = program.used()?.peak_mebibytes;
        let again = proxy.forwarded() - forwarded;
        program.end().await?;
        if (again as f64) < 0.9 * forwarded as f64 {
            return Err(format!(
                "{again} bytes after a first list of {forwarded} bytes are not a complete relist"
            )
            .into());
        }
        Ok(Figures(vec![(&RELIST_BEFORE, before), (&RELIST_PEAK, peak), (&RELIST, peak / before)]))
    }

    /// Measures a minute of updates.
    pub(crate) async fn updates(&mut self, peer: usize, rate: usize) -> Result<Figures, Failure> {
        let (mut program, updates) = self.before_updates(peer).await?;
        let before = program.used()?;
        let written = updates.write(rate, MINUTE).await?;
        let delivered = program.has(&written.last_key, written.last_version).await?;
        let after = program.used()?;
        program.end().await?;
        // A few phases without compaction would exceed the quota of etcd.
        self.control_plane.compact().await?;
        let (count, delivered) = (written.begun.len() as f64, delivered - self.pods);
        Ok(Figures(vec![
            (&UPDATES_RATE, count / written.seconds),
            (&UPDATES_DELIVERED, delivered as f64 / count),
            (&UPDATES_CPU, (after.cpu_seconds - before.cpu_seconds) * 1e6 / count),
            (&UPDATES_BEFORE, before.resident_mebibytes),
            (&UPDATES_AFTER, after.resident_mebibytes / before.resident_mebibytes),
        ]))
    }

    /// Measures the time from the start of a write until the peer reports its event.
    pub(crate) async fn latency(&mut self, peer: usize) -> Result<Figures, Failure> {
        let (mut program, updates) = self.before_updates(peer).await?;
        program.report_events().await?;
        let mut events = Vec::new();
        let mut write = pin!(updates.write(FEW, LATENCY));
        let written = loop {
            tokio::select! {
                written = &mut write => break written?,
                version = program.event() => events.push((version?, Instant::now())),
            }
        };
        while events.len() < written.begun.len() {
            events.push((program.event().await?, Instant::now()));
        }
        program.end().await?;
        let begun = |version: &u64| written.begun.get(version).copied();
        let mut took: Vec<f64> = events
            .iter()
            .filter_map(|(version, received)| Some((*received - begun(version)?).as_secs_f64() * 1e3))
            .collect();
        took.sort_by(f64::total_cmp);
        let of = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        Ok(Figures(vec![(&LATENCY_HALF, of(0.5)), (&LATENCY_MOST, of(0.99))]))
    }

    /// Returns a synced peer, and the writer of its updates.
    async fn before_updates(&mut self, peer: usize) -> Result<(Program, &mut Updates), Failure> {
        let command = command(peer, &self.control_plane.kubeconfig())?;
        let (program, _) = Program::synced(command, self.pods).await?;
        let updates = match &mut self.updates {
            Some(updates) => updates,
            none => none.insert(Updates::of(self.control_plane.etcd()?).await?),
        };
        tokio::time::sleep(PAUSE).await;
        Ok((program, updates))
    }

    pub(crate) async fn end(self) {
        self.control_plane.stop().await;
    }
}

fn command(peer: usize, kubeconfig: &Path) -> Result<Command, Failure> {
    let peer = PEERS.get(peer).copied().unwrap_or_default();
    if peer == CLIENT_GO {
        let mut command = programs::client_go(kubeconfig, [])?;
        // Flags must precede other arguments; there are none.
        command.arg("-measured");
        return Ok(command);
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(peer).arg(kubeconfig);
    Ok(command)
}
