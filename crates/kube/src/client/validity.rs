//! The validity dates of a certificate. rustls does not check them for a certificate that it refuses for another
//! reason.

use std::time::Duration;

use jiff::civil::DateTime;
use rustls::pki_types::UnixTime;
use rustls::{CertificateError, Error};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// The tag `[0]` of the version.
const VERSION: u8 = 0xa0;

/// Checks that a certificate in DER is valid now.
///
/// # Errors
/// [`CertificateError::Expired`], [`CertificateError::NotValidYet`], or [`CertificateError::BadEncoding`] if the dates
/// cannot be read.
pub(super) fn check(certificate: &[u8], now: UnixTime) -> Result<(), Error> {
    let (from, until) = dates(certificate).ok_or(CertificateError::BadEncoding)?;
    if now < from {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > until {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// Returns the first and last valid time. RFC 5280, 4.1: `validity` is the fifth field of the signed part, whose first
/// field may be missing.
fn dates(certificate: &[u8]) -> Option<(UnixTime, UnixTime)> {
    let (certificate, _) = value(certificate, SEQUENCE)?;
    let (mut rest, _) = value(certificate, SEQUENCE)?;
    if let Some((_, behind)) = value(rest, VERSION) {
        rest = behind;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        (_, rest) = value(rest, tag)?;
    }
    let (validity, _) = value(rest, SEQUENCE)?;
    let (from, rest) = time(validity)?;
    let (until, _) = time(rest)?;
    Some((from, until))
}

/// Returns the content of the first element of the input, and the rest of the input.
fn value(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = input.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let number =
                |number: usize, digit: &u8| number.checked_mul(256)?.checked_add(usize::from(*digit));
            (digits.iter().try_fold(0, number)?, rest)
        }
        _ => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(length)).flatten()
}

/// Parses a time. RFC 5280, 4.1.2.5: `YYMMDDHHMMSSZ` until 2049 and `YYYYMMDDHHMMSSZ` from 2050.
fn time(input: &[u8]) -> Option<(UnixTime, &[u8])> {
    let ((text, rest), short) = match value(input, UTC_TIME) {
        Some(found) => (found, true),
        None => (value(input, GENERALIZED_TIME)?, false),
    };
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) || text.len() != if short { 12 } else { 14 } {
        return None;
    }
    let (year, text) = text.split_at_checked(if short { 2 } else { 4 })?;
    let year: i16 = year.parse().ok()?;
    let year = match (short, year) {
        (true, 0..=49) => 2000 + year,
        (true, _) => 1900 + year,
        (false, _) => year,
    };
    let mut rest_of_date =
        text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok()?.parse::<i8>().ok());
    let mut next = || rest_of_date.next().flatten();
    let date = DateTime::new(year, next()?, next()?, next()?, next()?, next()?, 0).ok()?;
    // Dates before 1970 are treated as 1970.
    let since = Duration::try_from(date.duration_since(EPOCH)).unwrap_or_default();
    Some((UnixTime::since_unix_epoch(since), rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// Checks a certificate that is valid from the day `from` to the day `until` at noon of the day `now`.
    fn checked(from: (i32, u8, u8), until: (i32, u8, u8), now: (i16, i8, i8)) -> Result<(), Error> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let noon = DateTime::constant(now.0, now.1, now.2, 12, 0, 0, 0).duration_since(EPOCH);
        check(certificate.der(), UnixTime::since_unix_epoch(Duration::try_from(noon).expect("after 1970")))
    }

    // contract: L-23e
    #[test]
    fn certificate_is_valid_between_its_dates() {
        // Both forms of a time, before and after the year 2050, in which the form changes.
        let spans =
            [((2020, 2, 29), (2049, 12, 31)), ((1999, 1, 1), (2050, 1, 1)), ((2051, 3, 1), (9999, 12, 31))];
        for (from, until) in spans {
            let day = |date: (i32, u8, u8), day: i8| (date.0 as i16, date.1 as i8, day);
            assert_eq!(checked(from, until, day(from, from.2 as i8)), Ok(()));
            if until.2 > 1 {
                assert_eq!(checked(from, until, day(until, until.2 as i8 - 1)), Ok(()));
            }
            if until.0 < 9999 {
                let expired = Err(CertificateError::Expired.into());
                assert_eq!(checked(from, until, day(until, until.2 as i8)), expired);
            }
            let early = (from.0 as i16 - 1, 12, 31);
            assert_eq!(checked(from, until, early), Err(CertificateError::NotValidYet.into()));
        }
    }

    #[test]
    fn invalid_certificate_has_no_dates() {
        let params = CertificateParams::new(vec!["a.example".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").der().to_vec();
        let before_dates = certificate.windows(2).position(|two| two == [UTC_TIME, 13]).expect("dates");
        for end in 0..before_dates + 15 {
            let bad =
                check(&certificate[..end], UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000)));
            assert_eq!(bad, Err(CertificateError::BadEncoding.into()), "{end}");
        }
        for (byte, value) in [(before_dates + 2, b'x'), (before_dates + 4, b'9'), (before_dates + 14, b'+')] {
            let mut bad = certificate.clone();
            bad[byte] = value;
            let bad = check(&bad, UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000)));
            assert_eq!(bad, Err(CertificateError::BadEncoding.into()), "{byte}");
        }
    }
}
