//! Two processes, whose metrics are scraped while all is well, during a fault, and after it.

use std::collections::BTreeSet;
use std::time::Duration;

use kinformer_apiserver::TestCluster;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::MINUTE;
use super::operator::{Behavior, Operator};
use super::prometheus::{ALERTS, Alert, Evaluation, Scrape};

/// How often Prometheus scrapes, and evaluates the rules.
const INTERVAL: Duration = Duration::from_secs(15);
const HEALTHY: Duration = Duration::from_secs(12 * 60);
/// Longer than the windows of the rules.
const AFTER: Duration = Duration::from_secs(12 * 60);
const OBJECTS: usize = 20;

/// An alert that a fault must fire.
pub(crate) struct Expected {
    name: &'static str,
    labels: Vec<(&'static str, &'static str)>,
    after: Duration,
}

impl Expected {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, labels: Vec::new(), after: Duration::ZERO }
    }

    /// Each of these alerts must have this label.
    pub(crate) fn with(mut self, label: &'static str, value: &'static str) -> Self {
        self.labels.push((label, value));
        self
    }

    /// How long after the fault the expression begins to be true: a duration that it has itself.
    pub(crate) fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }
}

pub(crate) struct Scene {
    pub(crate) cluster: TestCluster,
    pub(crate) operators: Vec<Operator>,
    /// Whether objects change.
    pub(crate) is_busy: bool,
    begun: Instant,
    pub(crate) scrapes: Vec<Scrape>,
    changes: usize,
    fault: Option<Duration>,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let cluster = TestCluster::start().await.unwrap();
        for number in 0..OBJECTS {
            let metadata = |kind| json!({"name": format!("{kind}-{number}"), "namespace": "default"});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("map")});
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("secret")});
            for object in [map, secret] {
                cluster.server().create(object).unwrap();
            }
        }
        let operators = ["a", "b"].map(|name| Operator::start(&cluster, name)).into();
        let (begun, scrapes) = (Instant::now(), Vec::new());
        Self { cluster, operators, is_busy: true, begun, scrapes, changes: 0, fault: None }
    }

    pub(crate) fn add(&mut self, name: &'static str) {
        self.operators.push(Operator::start(&self.cluster, name));
    }

    /// Ends a process without its last words. Its metrics are no longer scraped.
    pub(crate) fn crash(&mut self, name: &str) {
        let crashed = self.operators.extract_if(.., |operator| operator.name == name);
        crashed.for_each(Operator::crash);
    }

    /// Sets what reconciliations do, of whichever process is the leader.
    pub(crate) fn reconciliations(&self, behavior: Behavior) {
        self.operators.iter().for_each(|operator| operator.reconcile.set(behavior));
    }

    pub(crate) fn change(&mut self, name: &str) {
        self.changes += 1;
        let data = json!({"change": self.changes.to_string()});
        let metadata = json!({"name": name, "namespace": "default"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.cluster.server().update(map).unwrap();
    }

    async fn pass(&mut self, duration: Duration) {
        let until = Instant::now() + duration;
        while Instant::now() < until {
            if self.is_busy {
                self.change(&format!("map-{}", self.changes % OBJECTS));
            }
            sleep(INTERVAL).await;
            let at = self.begun.elapsed().as_secs();
            let scraped =
                self.operators.iter().map(|operator| Scrape::of(at, operator.name, operator.page()));
            self.scrapes.extend(scraped);
        }
    }

    /// All is well for longer than each rule waits.
    pub(crate) async fn healthy(&mut self) {
        self.pass(HEALTHY).await;
    }

    pub(crate) async fn faulty(&mut self, duration: Duration) {
        self.fault = Some(self.begun.elapsed());
        self.pass(duration).await;
    }

    /// All is well again. These alerts, and no others, have fired in time after the fault, and have ended.
    pub(crate) async fn ends_with(mut self, expected: &[Expected]) {
        self.pass(AFTER).await;
        let end = self.begun.elapsed().as_secs();
        let fault = self.fault.unwrap();
        let Evaluation { rules, alerts } = Evaluation::of(ALERTS.as_ref(), &self.scrapes);
        let firing: Vec<&Alert> = alerts.iter().filter(|alert| alert.firing).collect();
        let fired: BTreeSet<&str> = firing.iter().map(|alert| &*alert.name).collect();
        assert_eq!(fired, expected.iter().map(|expected| expected.name).collect(), "{firing:#?}");
        for Expected { name, labels, after } in expected {
            let rule = rules.iter().find(|rule| rule.name == *name).unwrap();
            let fired: Vec<_> = firing.iter().filter(|alert| alert.name == *name).collect();
            let bound = fault + *after + Duration::from_secs_f64(rule.for_seconds) + MINUTE;
            let (first, last) = (fired[0], fired[fired.len() - 1]);
            assert!(
                first.at > fault.as_secs() && first.at <= bound.as_secs(),
                "{fault:?}, {bound:?}: {first:#?}"
            );
            assert!(last.at < end, "it has not ended: {last:#?}");
            for alert in fired {
                let has =
                    |(label, value): &(&str, &str)| alert.labels.get(*label).is_some_and(|own| own == value);
                assert!(labels.iter().all(has), "{labels:?}: {alert:#?}");
                assert!(alert.is_complete(), "{alert:#?}");
            }
        }
    }
}
