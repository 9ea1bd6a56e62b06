//! Fractional numbers in English, with separators, as `%f` and `%e` of `format` print them.
//!
//! Follows `golang.org/x/text/message`, which cel-go uses.

const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/// Prints a number with a number of digits after the point: `1,234.50`.
pub(super) fn fixed(number: f64, precision: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text;
    }
    let text = format!("{:.precision$}", number.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::from(sign(number));
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Prints a number with an exponent: `1.23×10⁰³`.
pub(super) fn scientific(number: f64, precision: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text;
    }
    let text = format!("{:.precision$e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (minus, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
    let raised = |digit: char| digit.to_digit(10).and_then(|digit| DIGITS.get(usize::try_from(digit).ok()?));
    let exponent: String = format!("{exponent:0>2}").chars().filter_map(raised).collect();
    format!("{}{mantissa}×10{minus}{exponent}", sign(number))
}

fn sign(number: f64) -> &'static str {
    if number.is_sign_negative() { "-" } else { "" }
}

fn not_finite(number: f64) -> Option<String> {
    match number {
        number if number.is_nan() => Some("NaN".to_owned()),
        number if number.is_infinite() => Some(format!("{}∞", sign(number))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: E-26a
    #[test]
    fn numbers_are_printed_in_english() {
        for (number, precision, expected) in [
            (0.0, 0, "0"),
            (999.5, 1, "999.5"),
            (1234.5, 2, "1,234.50"),
            (-1_234_567.0, 0, "-1,234,567"),
            (f64::INFINITY, 3, "∞"),
            (f64::NEG_INFINITY, 3, "-∞"),
            (f64::NAN, 3, "NaN"),
        ] {
            assert_eq!(fixed(number, precision), expected);
        }
        for (number, precision, expected) in
            [(1_052.032_911_275, 6, "1.052033×10⁰³"), (2.5, 6, "2.500000×10⁰⁰"), (-0.00012, 1, "-1.2×10⁻⁰⁴")]
        {
            assert_eq!(scientific(number, precision), expected);
        }
    }
}
