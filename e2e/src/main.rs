//! Runs a control plane until Ctrl-C: `cargo xtask e2e up`.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a command prints")]

use e2e::{ControlPlane, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::new();
    match std::env::args().nth(1).as_deref() {
        None => eprintln!("starting etcd and kube-apiserver ..."),
        Some("--controllers") => {
            eprintln!("starting etcd, kube-apiserver, kube-controller-manager and kube-scheduler ...");
            options = options.controllers().scheduler();
        }
        Some(other) => return Err(format!("unknown argument {other}; expected --controllers").into()),
    }
    let control_plane = ControlPlane::start(options).await?;
    println!("export KUBECONFIG={}", control_plane.kubeconfig().display());
    eprintln!("ready at {}; Ctrl-C to stop", control_plane.url());
    tokio::signal::ctrl_c().await?;
    eprintln!("stopping ...");
    control_plane.stop().await;
    Ok(())
}
