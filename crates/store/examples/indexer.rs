//! Indexes a custom type by namespace and by a label. The program ends by itself.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use kinformer_core::{KeyRef, Labels, Object, ResourceVersion};
use kinformer_store::{IndexFunction, Indexer, NAMESPACE_INDEX};

#[derive(Debug)]
struct Pod {
    namespace: &'static str,
    name: &'static str,
    labels: Vec<(String, String)>,
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

fn pod(namespace: &'static str, name: &'static str, app: &str, version: u64) -> Pod {
    Pod { namespace, name, labels: vec![("app".into(), app.into())], version }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pods = Indexer::builder()
        .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
        .index("app", IndexFunction::by_label("app"))
        .build()?;
    for pod in [
        pod("default", "web-0", "web", 1),
        pod("default", "web-1", "web", 2),
        pod("default", "db-0", "db", 3),
        pod("kube-system", "dns-0", "dns", 4),
    ] {
        pods.add(pod)?.into_result()?;
    }
    println!("{} pods at version {}", pods.len(), pods.resource_versions().lowest());

    let snapshot = pods.snapshot();
    let mut keys: Vec<_> = snapshot.by_index("app", "web")?.map(|pod| pod.key().to_string()).collect();
    keys.sort();
    println!("with app=web: {}", keys.join(", "));
    for pod in snapshot.ordered_in("default") {
        println!("in default, in order: {} (version {})", pod.name, pod.version);
    }

    pods.update(pod("default", "web-1", "db", 5))?.into_result()?;
    pods.delete_by_key(("default", "web-0"));
    let later = pods.snapshot();
    println!(
        "with app=web now: {}, in the snapshot: {}",
        later.index_len("app", "web")?,
        snapshot.index_len("app", "web")?
    );
    for difference in later.changes_since(&snapshot) {
        match (difference.old, difference.new) {
            (Some(old), Some(new)) => println!("{}: version {} -> {}", new.key(), old.version, new.version),
            (Some(old), None) => println!("{}: deleted", old.key()),
            (_, Some(new)) => println!("{}: new", new.key()),
            (None, None) => {}
        }
    }
    if let Err(error) = pods.by_index("node", "n1") {
        println!("{error}");
    }
    Ok(())
}
