//! `format` of texts.
//!
//! Follows cel-go (`ext/formatting.go`).

use kube_cel::cel::Value as Plain;

use super::english;
use super::fault::{Budget, Fault, Found, error};
use super::times;
use super::types::Type;
use super::value::Val;
use crate::apply::quoted;
use crate::causes::float_text;

/// How many digits after the point a number may be printed with.
const MAX_PRECISION: usize = 999;

/// A verb, and how many digits it prints after the point.
#[derive(Clone, Copy)]
pub(super) struct Clause {
    verb: char,
    precision: usize,
}

impl Clause {
    /// Takes the text before the next clause, and the clause; `None` at the end of the text.
    fn next(rest: &mut &str, out: &mut String) -> Option<Result<Self, String>> {
        loop {
            let Some((before, after)) = rest.split_once('%') else {
                out.push_str(std::mem::take(rest));
                return None;
            };
            out.push_str(before);
            *rest = after;
            match after.strip_prefix('%') {
                Some(after) => *rest = after,
                None => return Some(Self::parse(rest)),
            }
            out.push('%');
        }
    }

    fn parse(rest: &mut &str) -> Result<Self, String> {
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let parsed = precision(rest).map_err(|why| format!("error while parsing precision: {why}"));
        let parsed = parsed.and_then(|precision| match rest.chars().next() {
            Some(verb) if "sdfebxXo".contains(verb) => Ok(Self { verb, precision }),
            verb => Err(format!(
                "unrecognized formatting clause \"{}\"",
                verb.map(String::from).unwrap_or_default()
            )),
        });
        *rest = rest.get(1..).unwrap_or("");
        parsed.map_err(|why| format!("could not parse formatting clause: {why}"))
    }

    /// Whether it prints values of a type.
    pub(super) fn prints(self, of: &Type<'_>) -> bool {
        match self.verb {
            _ if of.is_any() => true,
            's' => match of {
                Type::Object(_) | Type::Optional(_) => false,
                Type::Named(name) => *name == "type",
                _ => true,
            },
            'd' | 'o' => matches!(of, Type::Int | Type::Uint),
            'b' => matches!(of, Type::Int | Type::Uint | Type::Bool),
            'x' | 'X' => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
            _ => matches!(of, Type::Double | Type::String),
        }
    }

    fn print(self, value: &Val<'_>, out: &mut String, budget: &mut Budget) -> Found<()> {
        if self.verb == 's' {
            return push(value, false, out, budget);
        }
        budget.spend(value.text_length() / 10 + 1)?;
        match value {
            Val::Plain(plain) => self.number(plain).map(|printed| out.push_str(&printed)),
            _ => None,
        }
        .ok_or_else(|| Fault::Error(self.refusal(&value.type_name())))
    }

    /// Prints a value that is not for `%s`.
    fn number(self, value: &Plain) -> Option<String> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Some(match (self.verb, value) {
            ('b', Plain::Bool(flag)) => u8::from(*flag).to_string(),
            ('e', value) => english::scientific(fractional(value)?, self.precision),
            ('f', value) => english::fixed(fractional(value)?, self.precision),
            ('x', Plain::String(text)) => hex(text.as_bytes()),
            ('x', Plain::Bytes(bytes)) => hex(bytes),
            ('X', value) => Self { verb: 'x', ..self }.number(value)?.to_uppercase(),
            (verb, Plain::Int(number)) => {
                let sign = if *number < 0 { "-" } else { "" };
                format!("{sign}{}", whole(verb, number.unsigned_abs()))
            }
            (verb, Plain::UInt(number)) => whole(verb, *number),
            _ => return None,
        })
    }

    /// Returns the error for a value of a type that it does not print.
    fn refusal(self, name: &str) -> String {
        let what = match self.verb {
            's' => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
                 and timestamps"
            }
            'b' => "only integers and bools can be formatted as binary",
            'd' => "decimal clause can only be used on integers",
            'e' => "scientific clause can only be used on doubles",
            'f' => "fixed-point clause can only be used on doubles",
            'o' => "octal clause can only be used on integers",
            _ => "only integers, byte buffers, and strings can be formatted as hex",
        };
        format!("error during formatting: {what}, was given {name}")
    }
}

fn whole(verb: char, number: u64) -> String {
    match verb {
        'b' => format!("{number:b}"),
        'o' => format!("{number:o}"),
        'x' => format!("{number:x}"),
        _ => number.to_string(),
    }
}

/// Takes the precision that a clause begins with.
fn precision(rest: &mut &str) -> Result<usize, String> {
    let Some(after) = rest.strip_prefix('.') else { return Ok(6) };
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (digits, after) = after.split_at_checked(digits).unwrap_or_default();
    if after.is_empty() {
        return Err("could not find end of precision specifier".to_owned());
    }
    *rest = after;
    let failed = |why| {
        format!("error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {why}")
    };
    match digits.parse() {
        Ok(number @ ..=MAX_PRECISION) => Ok(number),
        _ if digits.is_empty() => Err(failed("invalid syntax")),
        _ => Err(failed("value out of range")),
    }
}

/// Returns a text with values in place of its verbs.
///
/// # Errors
/// What is wrong with the text, or a value that a verb does not print.
pub(super) fn format(given: &str, values: &Val<'_>, budget: &mut Budget) -> Found<String> {
    budget.spend(given.len() / 10)?;
    let mut out = String::with_capacity(given.len());
    let (mut rest, mut index) = (given, 0);
    while let Some(clause) = Clause::next(&mut rest, &mut out) {
        let Some(value) = values.item(index).transpose()? else {
            return error(format!("index {index} out of range"));
        };
        clause.map_err(Fault::Error)?.print(&value, &mut out, budget)?;
        index += 1;
    }
    Ok(out)
}

/// Checks a text with a number of values. `unprinted` returns the name of the type of a value that a clause does not
/// print.
///
/// # Errors
/// What is wrong with the text or the values.
pub(super) fn check(
    given: &str,
    count: usize,
    mut unprinted: impl FnMut(usize, Clause) -> Option<String>,
) -> Result<(), String> {
    let (mut rest, mut index) = (given, 0);
    while let Some(clause) = Clause::next(&mut rest, &mut String::new()) {
        if index >= count {
            return Err(format!("index {index} out of range"));
        }
        let clause = clause?;
        if let Some(name) = unprinted(index, clause) {
            return Err(clause.refusal(&name));
        }
        index += 1;
    }
    if count > index {
        return Err(format!("too many arguments supplied to string.format (expected {index}, got {count})"));
    }
    Ok(())
}

/// Returns the number that `%f` and `%e` print; `None` for a value that they do not print.
fn fractional(value: &Plain) -> Option<f64> {
    match value {
        Plain::Float(number) => Some(*number),
        Plain::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Prints a value for `%s`, or as a part of another one.
fn push(value: &Val<'_>, is_part: bool, out: &mut String, budget: &mut Budget) -> Found<()> {
    budget.spend(1)?;
    match value {
        Val::Plain(plain) => {
            budget.spend(value.text_length() / 10)?;
            out.push_str(&scalar(plain, is_part)?);
        }
        Val::Type(name) => out.push_str(name),
        Val::Array(..) | Val::List(_) | Val::Keyed(..) => {
            out.push('[');
            for index in 0..value.length().unwrap_or_default() {
                if index > 0 {
                    out.push_str(", ");
                }
                let Some(item) = value.item(index).transpose()? else { continue };
                push(&item, true, out, budget)?;
            }
            out.push(']');
        }
        Val::Object(..) | Val::Map(_) => {
            let mut entries = Vec::new();
            for key in value.keys().unwrap_or_default() {
                let Some(value) = value.find(&key)? else { continue };
                let (mut name, mut text) = (String::new(), String::new());
                push(&key, true, &mut name, budget)?;
                push(&value, true, &mut text, budget)?;
                budget.spend(text.len() / 10)?;
                entries.push((name, text));
            }
            entries.sort();
            let entries: Vec<String> =
                entries.into_iter().map(|(name, text)| format!("{name}:{text}")).collect();
            out.push_str(&format!("{{{}}}", entries.join(", ")));
        }
        Val::Optional(_) | Val::Kept(_) => return not_printed(&value.type_name(), is_part),
    }
    Ok(())
}

fn scalar(value: &Plain, is_part: bool) -> Found<String> {
    Ok(match value {
        Plain::String(text) if is_part => quoted(text),
        Plain::String(text) => text.to_string(),
        Plain::Int(number) => number.to_string(),
        Plain::UInt(number) => number.to_string(),
        Plain::Float(number) if !number.is_finite() && is_part => quoted(&double(*number)),
        Plain::Float(number) if is_part => format!("{number:.6}"),
        Plain::Float(number) => double(*number),
        Plain::Bool(flag) => flag.to_string(),
        Plain::Null => "null".to_owned(),
        Plain::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if is_part => format!("b{}", quoted(text)),
            Ok(text) => text.to_owned(),
            Err(_) => return error("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Plain::Timestamp(_) | Plain::Duration(_) => {
            let text = times::text(value).unwrap_or_default();
            match (is_part, value) {
                (true, Plain::Duration(_)) => format!("duration({})", quoted(&text)),
                (true, _) => format!("timestamp({})", quoted(&text)),
                (false, _) => text,
            }
        }
        value => return not_printed(&Val::Plain(value.clone()).type_name(), is_part),
    })
}

/// A number as Go prints it.
pub(super) fn double(number: f64) -> String {
    match number {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        number => float_text(number),
    }
}

fn not_printed<T>(name: &str, is_part: bool) -> Found<T> {
    error(match is_part {
        true => format!("error during formatting: no formatting function for {name}"),
        false => Clause { verb: 's', precision: 0 }.refusal(name),
    })
}
