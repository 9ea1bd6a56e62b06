//! Rules that apply only to the deletion of pods.

use serde_json::Value;

use crate::clock::Clock;

use super::delete_options::DeleteOptions;
use super::deletion::Grace;
use super::{Object, metadata, rewrite};

/// The grace period of a pod that sets none. Kubernetes stores it in every pod.
const DEFAULT_GRACE: i64 = 30;

/// Returns the grace period of a deletion, and marks the pod with it. A period that runs can only be shortened.
///
/// Follows Kubernetes 1.37 (`BeforeDelete` and `podStrategy.CheckGracefulDelete`).
pub(super) fn grace(pod: &mut Object, options: &DeleteOptions, clock: &Clock) -> Grace {
    // Negative values are treated as one second.
    let wanted = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if metadata::is_terminating(pod) {
        return shorten(pod, wanted, clock);
    }
    let text = |part: &str, field: &str| {
        pod.get(part).and_then(|part| part.get(field)).and_then(Value::as_str).unwrap_or("")
    };
    let ends_at_once =
        text("spec", "nodeName").is_empty() || matches!(text("status", "phase"), "Failed" | "Succeeded");
    let own = pod.get("spec").and_then(|spec| spec.get("terminationGracePeriodSeconds"));
    let own = own.and_then(Value::as_i64).unwrap_or(DEFAULT_GRACE);
    let seconds = match wanted.unwrap_or(own) {
        _ if ends_at_once => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds,
    };
    mark(pod, clock.rfc3339_after(seconds), seconds);
    if metadata::of(pod).contains_key("generation") {
        rewrite::bump_generation(pod);
    }
    Grace::Seconds(seconds)
}

/// Shortens the grace period of a terminating pod.
fn shorten(pod: &mut Object, wanted: Option<i64>, clock: &Clock) -> Grace {
    let running = running_grace(pod);
    if running == 0 {
        return Grace::None;
    }
    let Some(wanted) = wanted.filter(|wanted| *wanted < running) else { return Grace::Pending };
    let over = clock.seconds_since(metadata::text(pod, "deletionTimestamp")).unwrap_or(0);
    // The end moves back by the difference, but not into the past: the kubelet must see at least one second.
    let late = over.saturating_add(running.saturating_sub(wanted));
    if late > 0 {
        let seconds = wanted.min(1);
        mark(pod, clock.rfc3339(), seconds);
        return Grace::Seconds(seconds);
    }
    mark(pod, clock.rfc3339_after(late.saturating_neg()), wanted);
    Grace::Seconds(wanted)
}

fn mark(pod: &mut Object, time: String, seconds: i64) {
    let metadata = metadata::of(pod);
    metadata.insert("deletionTimestamp".into(), time.into());
    metadata.insert("deletionGracePeriodSeconds".into(), seconds.into());
}

/// The seconds of the grace period; 0 if it is over.
fn running_grace(pod: &Object) -> i64 {
    let seconds = pod.get("metadata").and_then(|metadata| metadata.get("deletionGracePeriodSeconds"));
    match seconds.and_then(Value::as_i64).unwrap_or(0) {
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

/// Whether a pod waits for the end of its grace period.
pub(super) fn has_grace(pod: &Object) -> bool {
    metadata::is_terminating(pod) && running_grace(pod) > 0
}
