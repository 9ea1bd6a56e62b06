//! Values of flags.

use std::time::Duration;

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; expected a duration such as 10s or 2m"))
}
