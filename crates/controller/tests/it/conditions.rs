//! Conditions of a status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kinformer_controller::condition::{self, Status};

fn dated(seconds: i64, type_: &str, status: Status, reason: &str) -> Condition {
    let last_transition_time = Time(Timestamp::from_second(seconds).unwrap());
    Condition { last_transition_time, ..condition::new(type_, status, reason, "message") }
}

fn transition(conditions: &[Condition], type_: &str) -> i64 {
    condition::find(conditions, type_).unwrap().last_transition_time.0.as_second()
}

/// The transition time changes with the status only. The other fields, the other conditions and the order do as expected.
// contract: K-11a
#[test]
fn transition_time_follows_the_status() {
    let mut conditions =
        vec![dated(1, "Ready", Status::False, "Starting"), dated(2, "Synced", Status::True, "Written")];
    let mut same_status = dated(10, "Ready", Status::False, "Crashed");
    same_status.observed_generation = Some(7);
    condition::set(&mut conditions, same_status);
    let ready = condition::find(&conditions, "Ready").unwrap();
    assert_eq!((ready.reason.as_str(), ready.observed_generation), ("Crashed", Some(7)));
    assert_eq!(transition(&conditions, "Ready"), 1);

    condition::set(&mut conditions, dated(20, "Ready", Status::Unknown, "Lost"));
    assert_eq!(transition(&conditions, "Ready"), 20);
    condition::set(&mut conditions, dated(30, "Ready", Status::True, "Started"));
    assert_eq!(transition(&conditions, "Ready"), 30);

    assert_eq!(conditions[1], dated(2, "Synced", Status::True, "Written"));
    let types: Vec<_> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, ["Ready", "Synced"]);
}

/// A controller knows whether it has to write the status.
// contract: K-11b
#[test]
fn changes_are_returned() {
    let mut conditions = Vec::new();
    assert!(condition::set(&mut conditions, dated(1, "Ready", Status::True, "Started")));
    assert!(
        !condition::set(&mut conditions, dated(9, "Ready", Status::True, "Started")),
        "only the time is new"
    );
    assert!(condition::set(&mut conditions, dated(9, "Ready", Status::True, "Restarted")));
    assert!(condition::set(&mut conditions, dated(9, "Ready", Status::False, "Restarted")));
    assert!(!condition::remove(&mut conditions, "Synced"));
    assert!(condition::remove(&mut conditions, "Ready"));
    assert!(conditions.is_empty());
}

/// Only the status `True` is true.
// contract: K-11c
#[test]
fn only_true_is_true() {
    let conditions = [
        dated(1, "Ready", Status::True, "A"),
        dated(1, "Synced", Status::False, "A"),
        dated(1, "Degraded", Status::Unknown, "A"),
    ];
    let is_true =
        ["Ready", "Synced", "Degraded", "Missing"].map(|type_| condition::is_true(&conditions, type_));
    assert_eq!(is_true, [true, false, false, false]);
}
