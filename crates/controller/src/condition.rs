//! Conditions of a status.
//!
//! ```
//! use kinformer_controller::condition::{self, Status};
//!
//! let mut conditions = Vec::new();
//! let is_changed = condition::set(&mut conditions, condition::new("Ready", Status::False, "Starting", "0 of 3 pods"));
//! assert!(is_changed && !condition::is_true(&conditions, "Ready"));
//! condition::set(&mut conditions, condition::new("Ready", Status::True, "Started", "3 of 3 pods"));
//! assert!(condition::is_true(&conditions, "Ready"));
//! ```
//!
//! Follows apimachinery 0.37 (`meta.SetStatusCondition` and the functions beside it).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl Status {
    /// Returns the status as it is written in a condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Creates a condition whose transition time is now, without an observed generation.
pub fn new(type_: &str, status: Status, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        last_transition_time: Time(Timestamp::now()),
        message: message.into(),
        observed_generation: None,
        reason: reason.to_owned(),
        status: status.as_str().to_owned(),
        type_: type_.to_owned(),
    }
}

/// Adds a condition, or replaces the one of the same type. Returns whether anything has changed, so that a controller
/// writes its status only then.
///
/// If the status of the condition stays the same, so does its transition time. Other conditions, and the order of all,
/// are unchanged.
///
/// ```
/// use kinformer_controller::condition::{self, Status};
///
/// let mut conditions = vec![condition::new("Ready", Status::True, "Started", "3 of 3 pods")];
/// let since = conditions[0].last_transition_time.clone();
/// assert!(condition::set(&mut conditions, condition::new("Ready", Status::True, "Started", "4 of 4 pods")));
/// assert_eq!(conditions[0].last_transition_time, since, "it has been ready all the time");
/// let same = conditions[0].clone();
/// assert!(!condition::set(&mut conditions, same), "there is nothing to write");
/// ```
#[doc(alias = "SetStatusCondition")]
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(existing) = conditions.iter_mut().find(|existing| existing.type_ == condition.type_) else {
        conditions.push(condition);
        return true;
    };
    if existing.status == condition.status {
        condition.last_transition_time = existing.last_transition_time.clone();
    }
    let is_changed = *existing != condition;
    *existing = condition;
    is_changed
}

/// Returns the condition of a type.
#[doc(alias = "FindStatusCondition")]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Removes the condition of a type. Returns whether there was one.
#[doc(alias = "RemoveStatusCondition")]
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// Whether there is a condition of this type with the status `True`.
#[doc(alias = "IsStatusConditionTrue")]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == Status::True.as_str())
}
