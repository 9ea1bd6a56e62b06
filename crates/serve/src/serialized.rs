//! Times and durations in JSON.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::format::rfc3339;

pub(crate) fn time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    optional_time(&Some(*time), serializer)
}

/// `null` for times that have no form: before the year -9999, or after 9999.
pub(crate) fn optional_time<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.and_then(|time| Timestamp::try_from(time).ok()).map(rfc3339).serialize(serializer)
}

pub(crate) fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

pub(crate) fn optional_seconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}
