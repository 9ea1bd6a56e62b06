//! `kubectl get --watch`.

use tokio::io::{AsyncBufReadExt, BufReader};

use super::{BOUND, Kubectl};

/// The writes during the watches.
const WRITES: &[&str] = &[
    "create configmap a -n watched --from-literal=x=1",
    "label configmap a -n watched on=yes",
    "patch configmap a -n watched --type=merge -p '{\"data\":{\"y\":\"2\"}}'",
    "create configmap b -n watched",
    "label configmap a -n watched on-",
    "delete configmap b -n watched",
    "create configmap b -n watched --from-literal=again=1",
    "delete configmap --all -n watched",
    "create configmap end -n watched",
    "label configmap end -n watched on=yes",
];

/// The watches. Each prints the first and the last object.
const WATCHES: &[&str] = &[
    "get configmaps -n watched --watch --output-watch-events --no-headers",
    "get configmaps -n watched --watch --output-watch-events",
    "get configmaps -n watched --watch --output-watch-events -o name",
    "get configmaps -n watched --watch -o jsonpath={.metadata.name}{.data}{\"\\n\"}",
    "get configmaps -n watched --watch --output-watch-events -l on=yes --show-labels",
    "get configmaps -A --watch --output-watch-events --field-selector=metadata.namespace=watched,metadata.name!=a",
];

pub(super) async fn shows_the_same(real: &Kubectl, ours: &Kubectl) {
    let (theirs, ours) = tokio::join!(lines_of_watches(real), lines_of_watches(ours));
    for ((watch, theirs), ours) in WATCHES.iter().zip(theirs).zip(ours) {
        assert_eq!(theirs, ours, "kubectl {watch}");
    }
}

async fn lines_of_watches(kubectl: &Kubectl) -> Vec<Vec<String>> {
    let namespace = kubectl.run("create namespace watched").await;
    assert_eq!(namespace.code, Some(0), "{}", namespace.errors);
    for first in ["create configmap begin -n watched", "label configmap begin -n watched on=yes"] {
        assert_eq!(kubectl.run(first).await.code, Some(0), "kubectl {first}");
    }
    let mut watches = Vec::new();
    for watch in WATCHES {
        let mut child = kubectl.command(watch.split(' ')).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // kubectl watches from the version of its list: once it has printed the list, no event is missed.
        let mut printed = Vec::new();
        while !printed.iter().any(|line: &String| line.contains("begin")) {
            printed.push(next(&mut lines, watch).await);
        }
        watches.push((watch, child, lines, printed));
    }
    for write in WRITES {
        let seen = kubectl.run(write).await;
        assert_eq!(seen.code, Some(0), "kubectl {write}: {}", seen.errors);
    }
    let mut all = Vec::new();
    for (watch, mut child, mut lines, mut printed) in watches {
        loop {
            let line = next(&mut lines, watch).await;
            let ends = line.contains("end");
            printed.push(line);
            if ends {
                break;
            }
        }
        child.kill().await.unwrap();
        all.push(printed);
    }
    all
}

/// Reads a line, without the parts that differ in every run.
async fn next(lines: &mut tokio::io::Lines<BufReader<tokio::process::ChildStdout>>, watch: &str) -> String {
    let line = tokio::time::timeout(BOUND, lines.next_line()).await;
    let line = line.unwrap_or_else(|_| panic!("kubectl {watch}: no line within {BOUND:?}")).unwrap();
    let line = line.unwrap_or_else(|| panic!("kubectl {watch} has ended"));
    super::compare::plain_line(&line)
}
