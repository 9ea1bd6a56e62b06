//! Evaluates the rules by Prometheus: `e2e/prometheus`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use e2e::programs;
use serde::{Deserialize, Serialize};

/// The rules of the documentation.
pub(crate) const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/observability/alerts.yaml");

/// A page of a process.
#[derive(Serialize)]
pub(crate) struct Scrape {
    at: u64,
    target: BTreeMap<&'static str, &'static str>,
    text: String,
}

impl Scrape {
    pub(crate) fn of(at: u64, instance: &'static str, text: String) -> Self {
        let target = [("job", "operator"), ("namespace", "default"), ("instance", instance)].into();
        Self { at, target, text }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) for_seconds: f64,
}

/// An alert that was active at a time.
#[derive(Debug, Deserialize)]
pub(crate) struct Alert {
    pub(crate) at: u64,
    pub(crate) name: String,
    pub(crate) firing: bool,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Alert {
    /// Whether each label that its texts name is there.
    pub(crate) fn is_complete(&self) -> bool {
        let is_text = |text: &String| !text.is_empty() && !text.contains("<error") && !text.contains("  ");
        self.annotations.len() == 3
            && self.annotations.values().all(is_text)
            && self.labels.contains_key("severity")
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Evaluation {
    pub(crate) rules: Vec<Rule>,
    /// In the order of time.
    pub(crate) alerts: Vec<Alert>,
}

impl Evaluation {
    pub(crate) fn of(rules: &Path, scrapes: &[Scrape]) -> Self {
        let mut prometheus = programs::prometheus(rules).unwrap().into_std();
        let mut prometheus = prometheus.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = prometheus.stdin.take().unwrap();
        input.write_all(&serde_json::to_vec(scrapes).unwrap()).unwrap();
        drop(input);
        let output = prometheus.wait_with_output().unwrap();
        assert!(output.status.success(), "prometheus: {}", output.status);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
