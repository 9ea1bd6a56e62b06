//! `format` of texts.
//!
//! Follows cel-go (`ext/formatting.go`). The crate `kube-cel` prints integers; the other values are printed here.

use std::sync::Arc;

use kube_cel::cel::Value as Plain;

use super::calls;
use super::english;
use super::fault::{Budget, Found, NO_OVERLOAD, error};
use super::times;
use super::value::Val;
use crate::apply::quoted;
use crate::causes::float_text;

/// How many digits after the point a number may be printed with.
const MAX_PRECISION: usize = 999;

/// Returns a text with values in place of its verbs.
///
/// # Errors
/// What is wrong with the text, or a value that a verb does not print.
pub(super) fn format(given: &str, values: &Val<'_>, budget: &mut Budget) -> Found<String> {
    budget.spend(given.len() / 10)?;
    let mut out = String::with_capacity(given.len());
    let (mut rest, mut index) = (given, 0);
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let precision = precision(after)?;
        let Some(verb) = after.get(precision.len()..).and_then(|rest| rest.chars().next()) else {
            return error("could not parse formatting clause: unexpected end of string");
        };
        let Some(value) = values.item(index).transpose()? else {
            return error(format!("index {index} out of range"));
        };
        if verb == 's' {
            push(&value, false, &mut out, budget)?;
        } else if let ('e' | 'f', Some(number)) = (verb, fractional(&value)) {
            let digits = precision.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or(6);
            let print = if verb == 'e' { english::scientific } else { english::fixed };
            out.push_str(&print(number, digits));
        } else {
            let clause = format!("%{precision}{verb}");
            let value = Plain::List(Arc::new(vec![value.to_plain(budget)?]));
            let printed = calls::call("format", Some(Plain::String(Arc::new(clause))), vec![value])?;
            let Plain::String(printed) = printed else { return error(NO_OVERLOAD) };
            out.push_str(&printed);
        }
        index += 1;
        rest = after.get(precision.len() + verb.len_utf8()..).unwrap_or("");
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the number that `%f` and `%e` print; `None` for a value that they do not print.
fn fractional(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Plain(Plain::Float(number)) => Some(*number),
        Val::Plain(Plain::String(text)) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the precision that a verb begins with: `.3`, or nothing.
fn precision(text: &str) -> Found<&str> {
    let Some(after) = text.strip_prefix('.') else { return Ok("") };
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match after.get(..digits).and_then(|digits| digits.parse::<usize>().ok()) {
        Some(..=MAX_PRECISION) => Ok(text.get(..=digits).unwrap_or("")),
        _ => error("precision is not a number, or too large"),
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
        Val::Type(name) if is_part => out.push_str(&format!("type({name})")),
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
        Val::Optional(_) | Val::Kept(_) => return not_printed(&value.type_name()),
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
        value => return not_printed(&Val::Plain(value.clone()).type_name()),
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

fn not_printed<T>(name: &str) -> Found<T> {
    error(format!(
        "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
         types, durations, and timestamps, was given {name}"
    ))
}
