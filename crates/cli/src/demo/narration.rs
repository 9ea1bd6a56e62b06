//! One-line descriptions of events.

use std::fmt;

use anstyle::Style;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::{Added, Deleted, Event, Packed, Updated};
use serde::de::DeserializeOwned;

use crate::lines::EventKind;
use crate::text::Line;

/// The description of one event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EventLine {
    verb: EventKind,
    kind: &'static str,
    key: String,
    details: String,
}

/// Objects whose changes can be described.
pub(crate) trait Describe: DeserializeOwned + Send + Sync + 'static {
    /// The kind, as printed in a line.
    const KIND: &'static str;

    /// Describes the current state.
    fn state(&self) -> String;

    /// Describes the difference from the old state; `None` if nothing of interest changed.
    fn change(&self, old: &Self) -> Option<String>;
}

/// Describes an event; `None` for objects of the initial list and for updates without a change of interest.
pub(crate) fn line<T: Describe>(event: &Event<Packed<T>>) -> Option<EventLine> {
    let state = |object: &Packed<T>| match object.decode() {
        Ok(object) => object.state(),
        Err(error) => error.to_string(),
    };
    let (verb, details) = match event {
        Event::Added(Added { in_initial_list: true, .. }) => return None,
        Event::Added(Added { object, .. }) => (EventKind::Add, state(object)),
        Event::Updated(Updated { old, new, .. }) => {
            (EventKind::Update, new.decode().ok()?.change(&*old.decode().ok()?)?)
        }
        Event::Deleted(Deleted { tombstone, .. }) => {
            (EventKind::Delete, tombstone.object().map(state).unwrap_or_default())
        }
        // No namespace is left during the demo.
        Event::Left(_) => return None,
    };
    Some(EventLine { verb, kind: T::KIND, key: event.key().to_string(), details })
}

impl EventLine {
    /// Formats the line, with or without colours.
    pub(crate) fn render(&self, colours: bool) -> Line {
        let word = match self.verb {
            EventKind::Add => "add",
            EventKind::Update => "update",
            EventKind::Delete | EventKind::Leave => "delete",
        };
        let style = if colours { self.verb.style() } else { Style::new() };
        let Self { kind, key, details, .. } = self;
        let line = Line::default().styled(style, format_args!("{word:<6}"));
        line.then(format_args!("  {kind:<10}  {key:<34}  {details}")).trimmed()
    }
}

impl Describe for Pod {
    const KIND: &'static str = "pod";

    fn state(&self) -> String {
        let node = self.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
        format!("{} on {node}", condition(self))
    }

    fn change(&self, old: &Self) -> Option<String> {
        let (before, now) = (condition(old), condition(self));
        (before != now).then(|| match restarts(self) {
            0 => format!("{before} -> {now}"),
            restarts => format!("{before} -> {now}, {restarts} restarts"),
        })
    }
}

/// Returns `Running`, `Pending`, or the reason why the container is waiting.
pub(crate) fn condition(pod: &Pod) -> &str {
    let Some(status) = &pod.status else { return "unknown" };
    let waiting =
        || status.container_statuses.as_ref()?.first()?.state.as_ref()?.waiting.as_ref()?.reason.as_deref();
    match status.phase.as_deref().unwrap_or("unknown") {
        "Running" => waiting().unwrap_or("Running"),
        phase => phase,
    }
}

fn restarts(pod: &Pod) -> i32 {
    let first = || pod.status.as_ref()?.container_statuses.as_ref()?.first();
    first().map_or(0, |status| status.restart_count)
}

impl Describe for Deployment {
    const KIND: &'static str = "deployment";

    fn state(&self) -> String {
        format!("{} at {}", ready(self), tag(self))
    }

    fn change(&self, old: &Self) -> Option<String> {
        let mut parts = Vec::new();
        let mut part = |name: &str, before: String, now: String| {
            if before != now {
                parts.push(format!("{name} {before} -> {now}"));
            }
        };
        part("image", tag(old).to_owned(), tag(self).to_owned());
        part("replicas", Replicas(wanted(old)).to_string(), Replicas(wanted(self)).to_string());
        part("ready", ready(old), ready(self));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

struct Replicas(Option<i32>);

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("?"),
        }
    }
}

fn wanted(deployment: &Deployment) -> Option<i32> {
    deployment.spec.replicas
}

/// Returns the ready and the desired number of pods, as `2/3`.
pub(crate) fn ready(deployment: &Deployment) -> String {
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    format!("{ready}/{}", Replicas(wanted(deployment)))
}

/// Returns the tag of the image.
pub(crate) fn tag(deployment: &Deployment) -> &str {
    let image = || deployment.spec.template.spec.as_ref()?.containers.first()?.image.as_deref();
    image().and_then(|image| image.rsplit(':').next()).unwrap_or("?")
}

impl Describe for Node {
    const KIND: &'static str = "node";

    fn state(&self) -> String {
        if is_ready(self) { "ready".into() } else { "not ready".into() }
    }

    fn change(&self, old: &Self) -> Option<String> {
        let (before, now) = (old.state(), self.state());
        (before != now).then(|| format!("{before} -> {now}"))
    }
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use kinformer::Tombstone;
    use kinformer_wire::{FromWire, ObjectDecoder};
    use serde_json::Value;

    use super::*;
    use crate::demo::cluster::{self, Counts, Stage, WORKLOADS};

    fn packed<T: Describe>(object: &Value) -> Packed<T> {
        let object = Packed::from_wire(object.to_string().as_bytes(), &ObjectDecoder::json());
        let object: Packed<T> = object.expect("an object");
        object.decode().expect("of this type");
        object
    }

    fn pod(stage: Stage, restarts: u32) -> Packed<Pod> {
        let workload = &WORKLOADS[0];
        let name = "web-1".to_owned();
        packed(&cluster::pod(workload, &cluster::Pod { name, revision: 1, node: 2, ip: 1, stage, restarts }))
    }

    fn described<T: Describe>(event: &Event<Packed<T>>) -> Option<String> {
        line(event).map(|line| line.render(false).as_str().split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn change<T: Describe>(old: Packed<T>, new: Packed<T>) -> Option<String> {
        described(&Event::<Packed<T>>::updated(old, new))
    }

    #[test]
    fn pods_are_described_by_their_transitions() {
        let add = Event::<Packed<Pod>>::added(pod(Stage::Pending, 0));
        assert_eq!(described(&add).as_deref(), Some("add pod shop/web-1 Pending on node-3"));
        assert_eq!(described(&add.in_initial_list()), None);
        let started = change(pod(Stage::Pending, 0), pod(Stage::Running, 0));
        assert_eq!(started.as_deref(), Some("update pod shop/web-1 Pending -> Running"));
        let crashed = change(pod(Stage::Running, 0), pod(Stage::Crashed, 1));
        assert_eq!(crashed.as_deref(), Some("update pod shop/web-1 Running -> CrashLoopBackOff, 1 restarts"));
        assert_eq!(change(pod(Stage::Running, 0), pod(Stage::Running, 0)), None);
        let gone = Event::<Packed<Pod>>::deleted(Tombstone::FinalState(pod(Stage::Running, 0)));
        assert_eq!(described(&gone).as_deref(), Some("delete pod shop/web-1 Running on node-3"));
    }

    #[test]
    fn deployment_and_node_changes_are_described() {
        let deployment = |revision, wanted, ready| -> Packed<Deployment> {
            let counts = Counts { wanted, there: wanted, of_this_revision: wanted, ready };
            packed(&cluster::deployment(&WORKLOADS[0], revision, counts))
        };
        assert_eq!(
            change(deployment(1, 3, 3), deployment(2, 4, 3)).as_deref(),
            Some("update deployment shop/web image 1.1.0 -> 1.2.0, replicas 3 -> 4, ready 3/3 -> 3/4")
        );
        assert_eq!(change(deployment(1, 3, 3), deployment(1, 3, 3)), None);
        let node = |ready| -> Packed<Node> { packed(&cluster::node(0, ready)) };
        assert_eq!(change(node(true), node(false)).as_deref(), Some("update node node-1 ready -> not ready"));
        assert_eq!(change(node(true), node(true)), None);
    }

    #[test]
    fn colours_are_optional() {
        let line = line(&Event::<Packed<Pod>>::added(pod(Stage::Pending, 0))).expect("described");
        assert!(line.render(true).as_str().contains('\u{1b}'));
        assert!(!line.render(false).as_str().contains('\u{1b}'));
    }
}
