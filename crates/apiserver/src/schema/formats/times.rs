//! Dates, times and durations.

/// `2006-01-02`, a day of the calendar.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_form = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    has_form && text.parse::<jiff::civil::Date>().is_ok()
}

/// A date and a time of RFC 3339, in which any character may precede the fraction.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

fn is_time(time: &str) -> bool {
    let pair = |text: &str, at: usize, max: u8| {
        let part = text.get(at..at + 2);
        part.is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
            && part.and_then(|part| part.parse::<u8>().ok()).is_some_and(|number| number <= max)
    };
    let (Some(clock), Some(mut rest)) = (time.get(..8), time.get(8..)) else { return false };
    let is_clock = clock.as_bytes().get(2) == Some(&b':')
        && clock.as_bytes().get(5) == Some(&b':')
        && pair(clock, 0, 23)
        && pair(clock, 3, 59)
        && pair(clock, 6, 59);
    let mut after = rest.chars();
    if after.next().is_some_and(|c| c != '\n') {
        let fraction = after.as_str();
        let end = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if end.len() < fraction.len() && is_zone(end) {
            rest = end;
        }
    }
    is_clock && is_zone(rest)
}

fn is_zone(text: &str) -> bool {
    let bytes = text.as_bytes();
    text == "z"
        || bytes.len() == 6
            && bytes.iter().enumerate().all(|(index, byte)| match index {
                0 => matches!(byte, b'+' | b'-'),
                3 => *byte == b':',
                _ => byte.is_ascii_digit(),
            })
}

/// The length of a duration of Go (`1h2.5m`), or of a text with a number and a unit in words (`3 days`), in nanoseconds.
pub(in super::super) fn nanoseconds(text: &str) -> Option<i64> {
    go_duration(text).or_else(|| in_words(text))
}

/// As [`nanoseconds`], for a duration of Go only.
pub(crate) fn go_duration(text: &str) -> Option<i64> {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    let mut nanoseconds = 0.0_f64;
    let mut any = false;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(unit_at);
        let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
        let next = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, after) = tail.split_at(next);
        let size = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        if !is_number {
            return None;
        }
        let padded = format!("0{number}0");
        nanoseconds += size
            * if number.contains('.') {
                padded.parse().unwrap_or(0.0)
            } else {
                number.parse().unwrap_or(0.0)
            };
        any = true;
        rest = after;
    }
    #[allow(clippy::cast_possible_truncation, reason = "within the range")]
    let size = (any && nanoseconds <= 9_223_372_036_854_775_807.0).then_some(nanoseconds as i64)?;
    Some(if text.starts_with('-') { size.saturating_neg() } else { size })
}

/// The sum of the numbers with a unit. Units in words may go on: `3 minutes`.
fn in_words(text: &str) -> Option<i64> {
    const UNITS: [(&[&str], &str, i64); 8] = [
        (&["ns"], "nano", 1),
        (&["us", "µs"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", 1_000_000_000),
        (&["m"], "min", 60_000_000_000),
        (&["h", "hr"], "hour", 3_600_000_000_000),
        (&["d"], "day", 86_400_000_000_000),
        (&["w", "wk"], "week", 604_800_000_000_000),
    ];
    let mut sum = None;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let from = rest.get(at..).unwrap_or("");
        let after = from.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = from.get(..from.len() - after.len()).unwrap_or("");
        let tail = after.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let end = tail.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(tail.len());
        let unit = tail.get(..end).unwrap_or("").to_lowercase();
        if !unit.is_empty() {
            let number: i64 = number.parse().ok()?;
            for (exact, start, size) in UNITS {
                if exact.contains(&unit.as_str()) || unit.starts_with(start) {
                    sum = Some(sum.unwrap_or(0_i64).wrapping_add(number.wrapping_mul(size)));
                }
            }
        }
        rest = tail.get(end..).unwrap_or("");
    }
    sum
}
