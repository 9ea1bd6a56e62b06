//! Quantities in their canonical form. Follows Kubernetes 1.37 (`resource.Quantity`).

use std::cmp::Ordering;

/// The billionths of one.
const ONE: i128 = 1_000_000_000;
const MILLI: i128 = ONE / 1000;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity {
    nanos: i128,
    format: Format,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAQuantity {
    Form,
    Suffix,
    /// It is one, and too large for this server.
    TooLarge,
}

impl NotAQuantity {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Form | Self::TooLarge => {
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Suffix => "unable to parse quantity's suffix",
        }
    }
}

/// The parts of a text: sign, digits before and after the point, suffix.
struct Parts<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
        let split =
            |text: &'a str| text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let (whole, rest) = split(rest);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split);
        let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let digits = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        let is_form = !text.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_form.then_some(Self { is_negative: text.starts_with('-'), whole, fraction, suffix })
    }

    /// Returns base 2 or 10, the exponent, and the format.
    fn scale(&self) -> Option<(u32, i32, Format)> {
        if let Some((_, exponent)) = DECIMAL.iter().find(|(suffix, _)| *suffix == self.suffix) {
            return Some((10, *exponent, Format::Decimal));
        }
        if let Some((_, exponent)) = BINARY.iter().find(|(suffix, _)| *suffix == self.suffix) {
            return Some((2, i32::try_from(*exponent).ok()?, Format::Binary));
        }
        let exponent = self.suffix.strip_prefix(['e', 'E'])?;
        Some((10, exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?, Format::Exponent))
    }
}

impl Quantity {
    pub(super) fn parse(text: &str) -> Result<Self, NotAQuantity> {
        let parts = Parts::of(text).ok_or(NotAQuantity::Form)?;
        let (base, exponent, mut format) = parts.scale().ok_or(NotAQuantity::Suffix)?;
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let digits = if digits.is_empty() { "0" } else { &digits };
        let number: i128 = digits.parse().map_err(|_| NotAQuantity::TooLarge)?;
        let nanos = scaled(number, parts.fraction.len(), base, exponent).ok_or(NotAQuantity::TooLarge)?;
        if format == Format::Binary && nanos > 0 && nanos < ONE {
            format = Format::Decimal;
        }
        Ok(Self { nanos: if parts.is_negative { -nanos } else { nanos }, format })
    }

    pub(super) fn whole(number: i64) -> Self {
        Self { nanos: i128::from(number) * ONE, format: Format::Decimal }
    }

    #[cfg(feature = "cel")]
    pub(super) fn nanos(self) -> i128 {
        self.nanos
    }

    pub(super) fn signum(self) -> i128 {
        self.nanos.signum()
    }

    pub(super) fn is_whole(self) -> bool {
        self.nanos % ONE == 0
    }

    /// Whether it is a multiple of another one.
    pub(super) fn is_multiple_of(self, other: Self) -> bool {
        other.nanos > 0 && self.nanos % other.nanos == 0
    }

    /// The sum, in the format of the first one that is not zero. The greatest number if it is too large.
    pub(super) fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// Rounds up to thousandths, as resources are.
    fn in_thousandths(self) -> Result<Self, NotAQuantity> {
        let nanos = round_up(self.nanos.saturating_abs(), MILLI).ok_or(NotAQuantity::TooLarge)?;
        Ok(Self { nanos: nanos * self.nanos.signum(), ..self })
    }

    fn text(self) -> String {
        let is_binary =
            self.format == Format::Binary && self.nanos.abs() >= 1024 * ONE && self.nanos % ONE == 0;
        if self.nanos == 0 {
            return "0".to_owned();
        }
        if is_binary {
            let (mut number, mut suffix) = (self.nanos / ONE, "");
            for (name, _) in BINARY {
                if number % 1024 != 0 {
                    break;
                }
                number /= 1024;
                suffix = name;
            }
            return format!("{number}{suffix}");
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && exponent < 18 {
            number /= 1000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (Format::Exponent, 0) => number.to_string(),
            (Format::Exponent, exponent) => format!("{number}e{exponent}"),
            (_, exponent) => {
                let suffix = DECIMAL.iter().find(|(_, of)| *of == exponent).map_or("", |(suffix, _)| suffix);
                format!("{number}{suffix}")
            }
        }
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

/// Returns billionths, of a number with some digits after the point.
fn scaled(number: i128, places: usize, base: u32, exponent: i32) -> Option<i128> {
    let (decimal, binary) = if base == 10 { (exponent, 0) } else { (0, exponent) };
    let shift = decimal.checked_add(9)?.checked_sub(i32::try_from(places).ok()?)?;
    let number = number.checked_mul(1_i128.checked_shl(u32::try_from(binary).ok()?)?)?;
    let power = 10_i128.checked_pow(shift.unsigned_abs())?;
    if shift >= 0 { number.checked_mul(power) } else { round_up(number, power).map(|number| number / power) }
}

fn round_up(number: i128, step: i128) -> Option<i128> {
    match number % step {
        0 => Some(number),
        rest => (number - rest).checked_add(step),
    }
}

/// Whether a quantity is written as it was given, as Kubernetes does with most that are canonical.
fn is_kept(text: &str) -> bool {
    let Some(parts) = Parts::of(text) else { return false };
    let digits = parts.whole.len() + parts.fraction.len();
    match parts.scale() {
        Some((2, _, _)) => {
            let last = parts.whole.parse::<u64>().unwrap_or(0);
            parts.fraction.is_empty() && last % 8 != 0 && digits < 7
        }
        Some((10, exponent, _)) => {
            let shifted = format!("{}{}", parts.whole, parts.fraction);
            let places = i32::try_from(parts.fraction.len()).unwrap_or(0);
            digits < 19
                && exponent.checked_sub(places).is_some_and(|exponent| exponent % 3 == 0)
                && !shifted.ends_with("000")
                && !shifted.starts_with('0')
                && !shifted.is_empty()
        }
        _ => false,
    }
}

/// Returns the number and the power of ten of a quantity, if Go parses it without its large numbers.
#[cfg(feature = "cel")]
pub(super) fn form(text: &str) -> Option<(i64, i32)> {
    let parts = Parts::of(text)?;
    let (base, exponent, _) = parts.scale()?;
    let places = i32::try_from(parts.fraction.len()).ok()?;
    let digits = i32::try_from(parts.whole.len().max(1)).ok()?;
    let (factor, scale, precision) = match base {
        10 => (1, exponent, 18 - digits - places),
        _ if places > 0 => return None,
        _ => (1_i64.checked_shl(u32::try_from(exponent).ok()?)?, 0, 14 - digits - exponent * 3 / 10),
    };
    let number: i64 = format!("0{}{}", parts.whole, parts.fraction).parse().ok()?;
    let scale = scale.checked_sub(places).filter(|scale| precision >= 0 && *scale >= -9)?;
    number.checked_mul(if parts.is_negative { -factor } else { factor }).map(|number| (number, scale))
}

/// Returns the canonical form of a quantity of a resource, or of another one.
pub(super) fn canonical(text: &str, is_resource: bool) -> Result<String, NotAQuantity> {
    let text = text.trim();
    let quantity = Quantity::parse(text)?;
    let rounded = if is_resource { quantity.in_thousandths()? } else { quantity };
    Ok(if rounded == quantity && is_kept(text) { text.to_owned() } else { rounded.text() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // contract: E-24b
    #[test]
    fn large_quantities_are_kept() {
        for text in [
            "1e2147483647",
            "0.0000000001e-2147483648",
            "17014118346046923173168730371588410572.7n",
            "170141183460469231731687303715884105727n",
            "-170141183460469231731687303715884105727n",
        ] {
            for is_resource in [true, false] {
                assert!(
                    canonical(text, is_resource).map_or(true, |canonical| !canonical.is_empty()),
                    "{text}"
                );
            }
        }
    }

    proptest! {
        /// Any text has an answer. The canonical form of a quantity is its own, and has its value.
        // contract: E-24b
        #[test]
        fn canonical_forms_are_stable(
            text in "[-+]?[0-9]{0,40}(\\.[0-9]{0,40})?([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,11})?",
            is_resource: bool,
        ) {
            let Ok(form) = canonical(&text, is_resource) else { return Ok(()) };
            prop_assert_eq!(&canonical(&form, is_resource), &Ok(form.clone()));
            let quantity = Quantity::parse(&text).unwrap();
            let quantity = if is_resource { quantity.in_thousandths().unwrap() } else { quantity };
            prop_assert_eq!(Quantity::parse(&form).unwrap(), quantity);
        }
    }

    // contract: E-24b
    #[test]
    fn quantities_have_the_form_of_kubernetes() {
        for (given, expected) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("100Mi", "100Mi"),
            ("1.5Gi", "1536Mi"),
            ("0", "0"),
            ("0.0001", "1m"),
            ("1e3", "1e3"),
            ("2500", "2500"),
            ("10000", "10k"),
            ("-1", "-1"),
            ("512Ki", "512Ki"),
        ] {
            assert_eq!(canonical(given, true).as_deref(), Ok(expected), "{given}");
        }
        assert_eq!(canonical("x", true), Err(NotAQuantity::Form));
        assert_eq!(canonical("", true), Err(NotAQuantity::Form));
        assert_eq!(canonical("1Gb", true), Err(NotAQuantity::Form));
        assert_eq!(canonical("1mm", true), Err(NotAQuantity::Suffix));
    }
}
