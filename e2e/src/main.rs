//! A control plane for as long as one likes: `cargo xtask e2e up`.

use e2e::{ControlPlane, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    eprintln!("starting etcd and kube-apiserver ...");
    let control_plane = ControlPlane::start(Options::new()).await?;
    println!("export KUBECONFIG={}", control_plane.kubeconfig().display());
    eprintln!("ready at {}; Ctrl-C ends it", control_plane.url());
    tokio::signal::ctrl_c().await?;
    eprintln!("stopping ...");
    control_plane.stop().await;
    Ok(())
}
