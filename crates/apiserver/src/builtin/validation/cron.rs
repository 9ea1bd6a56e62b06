//! Schedules of cron jobs. Follows `robfig/cron` 3 (`ParseStandard`).

/// The least and the greatest number of a field, and the names of numbers.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const BOUNDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: &MONTHS },
    Bounds { min: 0, max: 6, names: &DAYS },
];

/// Returns why a text is not a schedule.
pub(super) fn fault(schedule: &str) -> Option<String> {
    let is_zone = ["TZ=", "CRON_TZ="].iter().any(|prefix| schedule.starts_with(prefix));
    let rest = if is_zone { schedule.split_once(' ').map_or("", |(_, rest)| rest.trim()) } else { schedule };
    if rest.starts_with('@') {
        return descriptor_fault(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != BOUNDS.len() {
        let list = fields.join(" ");
        return Some(format!("expected exactly 5 fields, found {}: [{list}]", fields.len()));
    }
    let ranges = fields.iter().zip(&BOUNDS).flat_map(|(field, bounds)| {
        field.split(',').filter(|range| !range.is_empty()).map(move |range| range_fault(range, bounds))
    });
    ranges.flatten().next()
}

fn descriptor_fault(text: &str) -> Option<String> {
    const KNOWN: [&str; 7] =
        ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    match text.strip_prefix("@every ") {
        Some(duration) => {
            duration_fault(duration).map(|why| format!("failed to parse duration {text}: time: {why}"))
        }
        None if KNOWN.contains(&text) => None,
        None => Some(format!("unrecognized descriptor: {text}")),
    }
}

/// Returns why a text is not a duration: numbers with units. Follows Go 1.26 (`time.ParseDuration`).
pub(crate) fn duration_fault(text: &str) -> Option<String> {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    fn digits(text: &str) -> (&str, &str) {
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
    }
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    let mut is_number = !rest.is_empty();
    while is_number && !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        is_number = !whole.is_empty() || !fraction.is_empty();
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if is_number && unit.is_empty() {
            return Some(format!("missing unit in duration {text:?}"));
        }
        if is_number && !UNITS.contains(&unit) {
            return Some(format!("unknown unit {unit:?} in duration {text:?}"));
        }
        rest = after;
    }
    (!is_number).then(|| format!("invalid duration {text:?}"))
}

fn range_fault(text: &str, bounds: &Bounds) -> Option<String> {
    parsed(text, bounds).err()
}

fn parsed(text: &str, bounds: &Bounds) -> Result<(), String> {
    let mut parts = text.split('/');
    let (range, step, more) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    let ends: Vec<&str> = range.split('-').collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [only] => {
            let number = named(only, bounds)?;
            (number, number)
        }
        [start, end] => (named(start, bounds)?, named(end, bounds)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    if more.is_some() {
        return Err(format!("too many slashes: {text}"));
    }
    let step = step.map_or(Ok(1), number)?;
    if parts_of(text) == 2 && ends.len() == 1 {
        end = bounds.max;
    }
    if start < bounds.min {
        Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.min))
    } else if end > bounds.max {
        Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.max))
    } else if start > end {
        Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {text}"))
    } else {
        Ok(())
    }
}

fn parts_of(text: &str) -> usize {
    text.split('/').count()
}

fn named(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let name = text.to_lowercase();
    match bounds.names.iter().position(|known| *known == name) {
        Some(place) => Ok(bounds.min.saturating_add(u64::try_from(place).unwrap_or(0))),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => {
            u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
        }
        Err(_) => {
            let why = "invalid syntax";
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: E-24c
    #[test]
    fn schedules() {
        for good in ["* * * * *", "*/5 0-3 1,15 jan-MAR mon", "@daily", "@every 1h30m", "0 0 ? * 7/1"] {
            let is_good = fault(good).is_none();
            assert_eq!(is_good, good != "0 0 ? * 7/1", "{good}");
        }
        assert_eq!(fault("* * * *").unwrap(), "expected exactly 5 fields, found 4: [* * * *]");
        assert_eq!(fault("60 * * * *").unwrap(), "end of range (60) above maximum (59): 60");
        assert_eq!(fault("@often").unwrap(), "unrecognized descriptor: @often");
        for bad in ["5", "1h30", "h", "1x", "1..5s", "-", ""] {
            assert!(fault(&format!("@every {bad}")).is_some(), "{bad}");
        }
        for good in ["1.5h", "0", "-1m", "10us", ".5s"] {
            assert_eq!(fault(&format!("@every {good}")), None);
        }
    }
}
