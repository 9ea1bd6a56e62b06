//! An indexer of an own type: by namespace, by a label, and by an own function.
//!
//! An index finds objects by the values that its function returns for them, which may be none or several. The store updates
//! the indexes at each write. A snapshot has objects and indexes of one state, and does not change when the store does. The
//! program ends by itself.
//!
//! `cargo run -p kinformer-store --example indexer`
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::sync::Arc;

use kinformer_core::{KeyRef, Labels, Object, ResourceVersion};
use kinformer_store::{IndexFunction, IndexValues, Indexer, NAMESPACE_INDEX};

struct Pod {
    namespace: &'static str,
    name: &'static str,
    labels: Vec<(String, String)>,
    ports: Vec<u16>,
    version: u64,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(self.namespace, self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }

    fn labels(&self) -> Labels<'_> {
        self.labels.as_slice().into()
    }
}

fn pod(namespace: &'static str, name: &'static str, app: &str, ports: &[u16], version: u64) -> Pod {
    Pod { namespace, name, labels: vec![("app".into(), app.into())], ports: ports.into(), version }
}

/// The values of the index by port: as many as the pod has ports.
fn ports(pod: &Arc<Pod>, values: &mut IndexValues) {
    for port in &pod.ports {
        values.push_fmt(format_args!("{port}"));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pods = Indexer::builder()
        .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
        .index("app", IndexFunction::by_label("app"))
        .index("port", IndexFunction::new(ports))
        .build()?;
    for pod in [
        pod("default", "web-0", "web", &[80, 443], 1),
        pod("default", "web-1", "web", &[80], 2),
        pod("default", "db-0", "db", &[5432], 3),
        pod("kube-system", "dns-0", "dns", &[53, 443], 4),
    ] {
        pods.add(pod)?.into_result()?;
    }
    println!("{} pods at version {}", pods.len(), pods.resource_versions().lowest());
    println!("# by an index");
    for (index, value) in [(NAMESPACE_INDEX, "default"), ("app", "web"), ("port", "443"), ("port", "22")] {
        let mut keys: Vec<_> = pods.by_index(index, value)?.iter().map(|pod| pod.key().to_string()).collect();
        keys.sort(); // an index has no order
        println!("{index} {value}: [{}]", keys.join(", "));
    }
    if let Err(error) = pods.by_index("node", "n1") {
        println!("{error}");
    }

    println!("# in order");
    let snapshot = pods.snapshot();
    for pod in snapshot.ordered_in("default") {
        println!("{} at version {}", pod.key(), pod.version);
    }

    println!("# after an update of web-1 and the deletion of web-0");
    pods.update(pod("default", "web-1", "db", &[5432], 5))?.into_result()?;
    pods.delete_by_key(("default", "web-0"));
    let later = pods.snapshot();
    println!(
        "app web: {}, in the snapshot: {}",
        later.index_len("app", "web")?,
        snapshot.index_len("app", "web")?
    );
    let mut differences = Vec::new();
    for difference in later.changes_since(&snapshot) {
        differences.push(match (difference.old, difference.new) {
            (Some(old), Some(new)) => format!("{}: version {} -> {}", new.key(), old.version, new.version),
            (Some(old), None) => format!("{}: deleted", old.key()),
            (_, Some(new)) => format!("{}: new", new.key()),
            (None, None) => continue,
        });
    }
    differences.sort();
    println!("{}", differences.join("\n"));
    Ok(())
}
