//! The functions of timestamps and durations.
//!
//! Those of the crate `cel` have the offset of a timestamp's text in place of UTC, and wrap for long durations.

use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use kube_cel::cel::Value as Plain;

use super::calls;
use super::fault::{Found, error};
use crate::time_zones;

/// The seconds from the year 1 to the year 9999, as cel-go has them.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Calls a function of timestamps or durations; `None` for other functions.
pub(super) fn call(name: &str, target: Option<&Plain>, arguments: &[Plain]) -> Option<Found<Plain>> {
    match (target?, arguments) {
        (Plain::Duration(length), []) => Some(Ok(Plain::Int(match name {
            "getHours" => length.num_hours(),
            "getMinutes" => length.num_minutes(),
            "getSeconds" => length.num_seconds(),
            "getMilliseconds" => length.num_milliseconds(),
            _ => return None,
        }))),
        (Plain::Timestamp(time), zone) => {
            let zone = match zone {
                [] => "UTC",
                [Plain::String(zone)] => zone,
                _ => return None,
            };
            Some(part(name, zone, (time.timestamp(), time.timestamp_subsec_millis()))?.map(Plain::Int))
        }
        _ => None,
    }
}

/// Returns a part of a time in a zone; `None` if there is no such part.
fn part(name: &str, zone: &str, (seconds, milliseconds): (i64, u32)) -> Option<Found<i64>> {
    let local = match offset(zone, seconds) {
        Ok(offset) => civil(seconds.saturating_add(offset)),
        Err(fault) => return Some(Err(fault)),
    };
    let Some(local) = local else { return Some(error("timestamp overflow")) };
    Some(Ok(match name {
        "getFullYear" => local.year().into(),
        "getMonth" => i64::from(local.month()) - 1,
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDate" => local.day().into(),
        "getDayOfWeek" => local.weekday().to_sunday_zero_offset().into(),
        "getHours" => local.hour().into(),
        "getMinutes" => local.minute().into(),
        "getSeconds" => local.second().into(),
        "getMilliseconds" => milliseconds.into(),
        _ => return None,
    }))
}

/// Returns how many seconds a zone is before UTC at a time.
fn offset(zone: &str, time: i64) -> Found<i64> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" => Ok(0),
            zone => match (time_zones::find(zone), Timestamp::from_second(time)) {
                (Some(zone), Ok(time)) => Ok(zone.to_offset(time).seconds().into()),
                _ => error(format!("unknown time zone {zone}")),
            },
        };
    };
    let number = |text: &str| text.parse::<i32>().map(i64::from);
    match (number(hours), number(minutes)) {
        (Ok(hours), Ok(minutes)) if zone.starts_with('-') => Ok(hours * 3600 - minutes * 60),
        (Ok(hours), Ok(minutes)) => Ok(hours * 3600 + minutes * 60),
        _ => error(format!("invalid time zone {zone}")),
    }
}

fn civil(seconds: i64) -> Option<DateTime> {
    DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Returns the timestamp of a number of seconds since 1970.
pub(super) fn of_seconds(seconds: i64) -> Found<Plain> {
    match civil(seconds).filter(|_| SECONDS.contains(&seconds)) {
        Some(time) => calls::call("timestamp", None, vec![Plain::String(Arc::new(format!("{time}Z")))]),
        None => error("timestamp overflow"),
    }
}

/// Returns a timestamp or a duration as a text; `None` for other values.
pub(super) fn text(value: &Plain) -> Option<String> {
    match value {
        #[allow(clippy::cast_precision_loss, reason = "as in Go")]
        Plain::Duration(length) => {
            Some(format!("{}s", length.num_nanoseconds().unwrap_or(i64::MAX) as f64 / 1e9))
        }
        Plain::Timestamp(time) => {
            let text = time.to_rfc3339().replace("+00:00", "Z");
            let Some((whole, rest)) = text.split_once('.') else { return Some(text) };
            let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            let fraction = rest.strip_suffix(zone).unwrap_or("").trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            Some(format!("{whole}{point}{fraction}{zone}"))
        }
        _ => None,
    }
}
