//! `kubectl get --watch`.

use tokio::io::{AsyncBufReadExt, BufReader};

use super::{BOUND, Kubectl};

/// What is done while it watches, in a namespace of its own.
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

/// The forms in which it can watch. Each shows the first object and the last one.
const WATCHES: &[&str] = &[
    "get configmaps -n watched --watch --output-watch-events --no-headers",
    "get configmaps -n watched --watch --output-watch-events",
    "get configmaps -n watched --watch --output-watch-events -o name",
    "get configmaps -n watched --watch -o jsonpath={.metadata.name}{.data}{\"\\n\"}",
    "get configmaps -n watched --watch --output-watch-events -l on=yes --show-labels",
    "get configmaps -A --watch --output-watch-events --field-selector=metadata.namespace=watched,metadata.name!=a",
];

pub(super) async fn shows_the_same(real: &Kubectl, ours: &Kubectl) {
    let (theirs, ours) = tokio::join!(told(real), told(ours));
    for ((watch, theirs), ours) in WATCHES.iter().zip(theirs).zip(ours) {
        assert_eq!(theirs, ours, "kubectl {watch}");
    }
}

async fn told(kubectl: &Kubectl) -> Vec<Vec<String>> {
    let namespace = kubectl.run("create namespace watched").await;
    assert_eq!(namespace.code, Some(0), "{}", namespace.errors);
    for first in ["create configmap begin -n watched", "label configmap begin -n watched on=yes"] {
        assert_eq!(kubectl.run(first).await.code, Some(0), "kubectl {first}");
    }
    let mut watches = Vec::new();
    for watch in WATCHES {
        let mut child = kubectl.command(watch.split(' ')).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // It lists, and watches from there on: once it shows what is there, nothing is lost.
        let mut told = Vec::new();
        while !told.iter().any(|line: &String| line.contains("begin")) {
            told.push(next(&mut lines, watch).await);
        }
        watches.push((watch, child, lines, told));
    }
    for write in WRITES {
        let seen = kubectl.run(write).await;
        assert_eq!(seen.code, Some(0), "kubectl {write}: {}", seen.errors);
    }
    let mut all = Vec::new();
    for (watch, mut child, mut lines, mut told) in watches {
        loop {
            let line = next(&mut lines, watch).await;
            let ends = line.contains("end");
            told.push(line);
            if ends {
                break;
            }
        }
        child.kill().await.unwrap();
        all.push(told);
    }
    all
}

/// A line, without what is different in each run.
async fn next(lines: &mut tokio::io::Lines<BufReader<tokio::process::ChildStdout>>, watch: &str) -> String {
    let line = tokio::time::timeout(BOUND, lines.next_line()).await;
    let line = line.unwrap_or_else(|_| panic!("kubectl {watch}: no line within {BOUND:?}")).unwrap();
    let line = line.unwrap_or_else(|| panic!("kubectl {watch} has ended"));
    super::compare::plain_line(&line)
}
