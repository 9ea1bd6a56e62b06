//! Formatting of times for JSON.

use super::reader::ProtobufProblem;

/// The precision of a time.
#[derive(Clone, Copy)]
pub(super) enum Precision {
    Seconds,
    /// With these microseconds.
    Micros(u32),
}

const DAY: i64 = 86_400;

/// Formats a time, given in seconds since 1970, as RFC 3339 in UTC, as Go's `Time` and `MicroTime` do.
pub(super) fn rfc3339(
    seconds: i64,
    precision: Precision,
    text: &mut [u8; 27],
) -> Result<&str, &'static ProtobufProblem> {
    let (day, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, date) = civil(day);
    if !(0..=9999).contains(&year) {
        return Err(&ProtobufProblem::Time);
    }
    let mut length = 0;
    let mut put = |value: i64, digits: u32, after: u8| {
        for digit in (0..digits).rev() {
            if let Some(place) = text.get_mut(length) {
                *place = b'0' + (value / 10_i64.pow(digit) % 10) as u8;
            }
            length += 1;
        }
        if let Some(place) = text.get_mut(length) {
            *place = after;
        }
        length += 1;
    };
    put(year, 4, b'-');
    put(month, 2, b'-');
    put(date, 2, b'T');
    put(second / 3600, 2, b':');
    put(second / 60 % 60, 2, b':');
    match precision {
        Precision::Seconds => put(second % 60, 2, b'Z'),
        Precision::Micros(micros) => {
            put(second % 60, 2, b'.');
            put(i64::from(micros), 6, b'Z');
        }
    }
    let written = text.get(..length).unwrap_or_default();
    std::str::from_utf8(written).map_err(|_| &ProtobufProblem::Time)
}

/// Returns the year, month and day of a day counted from 1970-01-01. Years begin in March here, so that the leap day is
/// the last day; 400 years always have the same length.
fn civil(day: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let from_march_0 = day + 719_468;
    let (era, day) = (from_march_0.div_euclid(ERA), from_march_0.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;
    use proptest::prelude::*;

    fn written(seconds: i64, precision: Precision) -> Result<String, &'static ProtobufProblem> {
        rfc3339(seconds, precision, &mut [0; 27]).map(str::to_owned)
    }

    proptest! {
        #[test]
        fn times_are_formatted_as_by_jiff(seconds in -62_167_219_200_i64..=253_370_764_800, micros in 0_u32..1_000_000) {
            let expected = Timestamp::new(seconds, 0).unwrap();
            prop_assert_eq!(written(seconds, Precision::Seconds), Ok(expected.to_string()));
            let expected = Timestamp::new(seconds, i32::try_from(micros).unwrap() * 1000).unwrap();
            prop_assert_eq!(written(seconds, Precision::Micros(micros)), Ok(format!("{expected:.6}")));
        }
    }

    #[test]
    fn years_beyond_0_to_9999_are_errors() {
        assert_eq!(written(253_402_300_799, Precision::Seconds).as_deref(), Ok("9999-12-31T23:59:59Z"));
        assert_eq!(written(-62_167_219_200, Precision::Seconds).as_deref(), Ok("0000-01-01T00:00:00Z"));
        for beyond in [253_402_300_800, -62_167_219_201, i64::MAX, i64::MIN] {
            assert_eq!(written(beyond, Precision::Seconds), Err(&ProtobufProblem::Time));
        }
    }
}
