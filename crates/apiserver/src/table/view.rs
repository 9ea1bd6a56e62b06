//! Path-based access to an object for computing cells.

use serde_json::{Map, Value};

use crate::clock::Clock;

/// The object of a row.
pub(super) struct View<'a> {
    pub(super) object: &'a Map<String, Value>,
    pub(super) clock: &'a Clock,
}

impl View<'_> {
    /// Returns the value at a path such as `/status/phase`.
    pub(super) fn value(&self, pointer: &str) -> &Value {
        let mut parts = pointer.split('/').skip(1);
        let first = parts.next().and_then(|member| self.object.get(member));
        first
            .and_then(|value| parts.try_fold(value, |value, member| value.get(member)))
            .unwrap_or(&Value::Null)
    }

    pub(super) fn text(&self, pointer: &str) -> &str {
        self.value(pointer).as_str().unwrap_or("")
    }

    pub(super) fn text_or(&self, pointer: &str, other: &str) -> Value {
        match self.text(pointer) {
            "" => other.into(),
            text => text.into(),
        }
    }

    pub(super) fn number(&self, pointer: &str) -> i64 {
        self.value(pointer).as_i64().unwrap_or(0)
    }

    pub(super) fn flag(&self, pointer: &str) -> bool {
        self.value(pointer).as_bool().unwrap_or(false)
    }

    /// Formats a duration up to its end or until now; empty if it has not started.
    pub(super) fn between(&self, start: &str, end: &str) -> Value {
        let since = |time: &str| self.clock.seconds_since(time);
        let Some(started) = since(self.text(start)) else { return "".into() };
        human_duration(started - since(self.text(end)).unwrap_or(0)).into()
    }

    pub(super) fn list(&self, pointer: &str) -> &[Value] {
        self.value(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the number of fields of an object, or of elements of a list.
    pub(super) fn count(&self, pointer: &str) -> i64 {
        let value = self.value(pointer);
        let count = value.as_object().map(Map::len).or_else(|| value.as_array().map(Vec::len));
        count.and_then(|count| i64::try_from(count).ok()).unwrap_or(0)
    }

    pub(super) fn name(&self) -> Value {
        self.text("/metadata/name").into()
    }

    /// Returns the phase, or `Terminating`.
    pub(super) fn phase(&self) -> Value {
        match self.text("/metadata/deletionTimestamp") {
            "" => self.text("/status/phase").into(),
            _ => "Terminating".into(),
        }
    }

    pub(super) fn age(&self) -> Value {
        self.age_of(self.text("/metadata/creationTimestamp"))
    }

    pub(super) fn age_of(&self, time: &str) -> Value {
        self.clock.seconds_since(time).map_or_else(|| "<unknown>".to_owned(), human_duration).into()
    }
}

/// `45s`, `3m20s`, `5h`, `2d3h`, `400d`: two units where the first is small. Follows Kubernetes 1.37
/// (`duration.HumanDuration`).
fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".into(),
        -1..=0 => "0s".into(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (3600, "60m"),
            (4 * 3600 + 60, "4h1m"),
            (47 * 3600, "47h"),
            (3 * 86400 + 7200, "3d2h"),
            (400 * 86400, "400d"),
            (800 * 86400, "2y70d"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
