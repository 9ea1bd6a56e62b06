//! The functions of expressions: those of the language, and those of Kubernetes from the crate `kube-cel`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::Value as Plain;

use super::super::formats::go_duration;
use super::super::pattern::Pattern;
use super::calls;
use super::costs;
use super::fault::{Budget, Fault, Found, NO_OVERLOAD, error};
use super::formatting::{self, double};
use super::named_formats;
use super::quantities;
use super::sums;
use super::times;
use super::urls;
use super::value::{Val, text};

/// How many patterns are kept.
const MAX_PATTERNS: usize = 32;
/// The most memory of a compiled pattern.
const PATTERN_BYTES: usize = 8 << 20;
/// How many steps that are free in cel-go cost one unit here, so that any evaluation ends.
pub(super) const FREE_STEPS: u64 = 32;

/// The functions, with the patterns that an evaluation has compiled.
#[derive(Default)]
pub(super) struct Library {
    patterns: RefCell<HashMap<String, Rc<Pattern>>>,
    steps: Cell<u64>,
}

impl Library {
    /// Counts a step of an evaluation.
    ///
    /// # Errors
    /// The budget is used up.
    pub(super) fn step(&self, budget: &mut Budget) -> Found<()> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        budget.spend(usize::from(steps.is_multiple_of(FREE_STEPS)))
    }

    /// Returns how many steps all evaluations had.
    #[cfg(test)]
    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Calls a function, or a method of a target.
    ///
    /// # Errors
    /// The error of the function, with the text that Go has for the functions of the language.
    pub(super) fn call<'a>(
        &self,
        name: &str,
        target: Option<&Val<'a>>,
        arguments: &[Val<'a>],
        budget: &mut Budget,
    ) -> Found<Val<'a>> {
        budget.spend(1)?;
        if let Some(result) = own(name, target, arguments, budget) {
            return result;
        }
        if let ("format", Some(Val::Plain(Plain::String(given))), [values]) = (name, target, arguments) {
            return formatting::format(given, values, budget).map(|given| text(&given));
        }
        let plain = |value: &Val<'a>, budget: &mut Budget| value.to_plain(budget);
        let target = target.map(|target| plain(target, budget)).transpose()?;
        let arguments = arguments.iter().map(|value| plain(value, budget)).collect::<Found<Vec<_>>>()?;
        costs::spend(name, target.as_ref(), &arguments, budget)?;
        if let Some(result) = self.language(name, target.as_ref(), &arguments, budget) {
            return result;
        }
        for call in [times::call, quantities::call, named_formats::call, urls::call] {
            if let Some(result) = call(name, target.as_ref(), &arguments) {
                return result.map(|result| Val::of_plain(&result));
            }
        }
        let range = range_fault(name, target.as_ref(), &arguments);
        let result = calls::of_kubernetes(name, target, arguments)
            .map_err(|fault| range.map_or(fault, Fault::Error))?;
        if let Plain::String(text) = &result {
            budget.spend(text.len() / 10)?;
        }
        Ok(Val::of_plain(&result))
    }

    /// The functions of the language for scalars; `None` for other functions and types.
    fn language<'a>(
        &self,
        name: &str,
        target: Option<&Plain>,
        arguments: &[Plain],
        budget: &mut Budget,
    ) -> Option<Found<Val<'a>>> {
        if let Some(Plain::String(given)) = target
            && let Some(result) = of_text(name, given, arguments)
        {
            return Some(result);
        }
        match (name, target, arguments) {
            ("size", Some(value), []) | ("size", None, [value]) => Some(match value {
                Plain::String(text) => Ok(Val::int(text.chars().count())),
                Plain::Bytes(bytes) => Ok(Val::int(bytes.len())),
                _ => error(NO_OVERLOAD),
            }),
            ("matches", Some(Plain::String(text)), [Plain::String(pattern)])
            | ("matches", None, [Plain::String(text), Plain::String(pattern)]) => Some(
                self.found(pattern, text, Some(1), budget)
                    .map(|found| Val::Plain(Plain::Bool(!found.is_empty()))),
            ),
            ("find", Some(Plain::String(given)), [Plain::String(pattern)]) => Some(
                self.found(pattern, given, Some(1), budget)
                    .map(|found| found.into_iter().next().unwrap_or_else(|| text(""))),
            ),
            ("findAll", Some(Plain::String(given)), [Plain::String(pattern), limit @ ..]) => {
                let limit = match limit {
                    [Plain::Int(limit)] => usize::try_from(*limit).ok(),
                    _ => None,
                };
                Some(self.found(pattern, given, limit, budget).map(|found| Val::List(Rc::new(found))))
            }
            (
                "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint",
                None,
                [value],
            ) => convert(name, value).map(|value| value.map(Val::Plain)),
            ("startsWith" | "endsWith" | "contains" | "matches", ..) => Some(error(NO_OVERLOAD)),
            _ => None,
        }
    }

    /// Returns a compiled pattern.
    fn pattern(&self, pattern: &str, budget: &mut Budget) -> Found<Rc<Pattern>> {
        let mut patterns = self.patterns.borrow_mut();
        if let Some(known) = patterns.get(pattern) {
            return Ok(known.clone());
        }
        if patterns.len() >= MAX_PATTERNS {
            patterns.clear();
        }
        budget.spend(costs::compilation(pattern))?;
        let compiled = Rc::new(Pattern::with_limit(pattern, PATTERN_BYTES));
        patterns.insert(pattern.to_owned(), compiled.clone());
        Ok(compiled)
    }

    /// Returns the parts of a text that a pattern matches.
    fn found<'a>(
        &self,
        pattern: &str,
        given: &str,
        limit: Option<usize>,
        budget: &mut Budget,
    ) -> Found<Vec<Val<'a>>> {
        budget.spend((given.len() / 10 + 1).saturating_mul(pattern.len() / 4 + 1))?;
        let compiled = self.pattern(pattern, budget)?;
        let Ok(regex) = compiled.regex() else {
            return error(format!("error parsing regexp: {}", compiled.fault().unwrap_or("")));
        };
        let found = regex.find_iter(given).take(limit.unwrap_or(usize::MAX));
        Ok(found.map(|part| text(part.as_str())).collect())
    }
}

/// The methods of texts that have no patterns; `None` for others.
fn of_text<'a>(name: &str, given: &Arc<String>, arguments: &[Plain]) -> Option<Found<Val<'a>>> {
    let flag = |flag| Some(Ok(Val::Plain(Plain::Bool(flag))));
    match (name, arguments) {
        ("startsWith", [Plain::String(part)]) => flag(given.starts_with(part.as_str())),
        ("endsWith", [Plain::String(part)]) => flag(given.ends_with(part.as_str())),
        ("contains", [Plain::String(part)]) => flag(given.contains(part.as_str())),
        // no separator and a negative number have no meaning in the library
        ("split", [Plain::String(separator)]) if separator.is_empty() => {
            let parts = given.chars().map(|c| text(c.encode_utf8(&mut [0; 4])));
            Some(Ok(Val::List(Rc::new(parts.collect()))))
        }
        ("replace", [Plain::String(from), Plain::String(to), Plain::Int(..0)]) => {
            Some(Ok(text(&given.replace(from.as_str(), to.as_str()))))
        }
        _ => None,
    }
}

/// The functions for values of all types.
fn own<'a>(
    name: &str,
    target: Option<&Val<'a>>,
    arguments: &[Val<'a>],
    budget: &mut Budget,
) -> Option<Found<Val<'a>>> {
    let some = |value: &Val<'a>| Val::Optional(Some(Rc::new(value.clone())));
    Some(Ok(match (name, target, arguments) {
        ("size", Some(value), []) | ("size", None, [value]) => Val::int(value.length()?),
        ("dyn", None, [value]) => value.clone(),
        ("type", None, [value]) => Val::Type(value.type_name().into()),
        ("optional.none", None, []) => Val::Optional(None),
        ("optional.of", None, [value]) => some(value),
        ("optional.ofNonZeroValue", None, [value]) => {
            let is_zero = match value {
                Val::Plain(value) => value.is_zero(),
                value => value.length() == Some(0),
            };
            if is_zero { Val::Optional(None) } else { some(value) }
        }
        ("hasValue", Some(Val::Optional(value)), []) => Val::Plain(Plain::Bool(value.is_some())),
        ("value", Some(Val::Optional(value)), []) => match value {
            Some(value) => (**value).clone(),
            None => return Some(error("optional.none() dereference")),
        },
        ("or", Some(value @ Val::Optional(inner)), [other]) => {
            if inner.is_some() {
                value.clone()
            } else {
                other.clone()
            }
        }
        ("orValue", Some(Val::Optional(inner)), [other]) => {
            inner.as_ref().map_or_else(|| other.clone(), |value| (**value).clone())
        }
        ("first" | "last", Some(list @ (Val::Array(..) | Val::List(_) | Val::Keyed(..))), []) => {
            let index = if name == "first" { 0 } else { list.length()?.saturating_sub(1) };
            match list.item(index).transpose() {
                Ok(item) => Val::Optional(item.map(Rc::new)),
                Err(fault) => return Some(Err(fault)),
            }
        }
        ("optional.unwrap", None, [list]) | ("unwrapOpt", Some(list), []) => {
            let length = list.length()?;
            return Some(budget.spend(length).and_then(|()| unwrapped(list, budget)));
        }
        ("sum" | "sum@uint" | "sum@double" | "sum@duration", Some(list), []) => {
            list.length()?;
            return Some(sums::sum(list, zero(name), budget));
        }
        ("string", None, [Val::Type(name)]) => text(name),
        _ => return None,
    }))
}

/// Returns the values of a list of optional values.
fn unwrapped<'a>(list: &Val<'a>, budget: &mut Budget) -> Found<Val<'a>> {
    let mut values = Vec::new();
    for item in list.items(budget)? {
        match item {
            Val::Optional(value) => values.extend(value.map(|value| (*value).clone())),
            _ => return error("value is not optional"),
        }
    }
    Ok(Val::List(Rc::new(values)))
}

/// Returns the sum of an empty list, whose type is in the name of the function.
fn zero(name: &str) -> Found<Plain> {
    match name {
        "sum" => Ok(Plain::Int(0)),
        "sum@uint" => Ok(Plain::UInt(0)),
        "sum@double" => Ok(Plain::Float(0.0)),
        _ => calls::duration(0),
    }
}

/// Conversions to a type; `None` for those of the library.
fn convert(name: &str, value: &Plain) -> Option<Found<Plain>> {
    Some(match (name, value) {
        ("int", Plain::Int(_))
        | ("uint", Plain::UInt(_))
        | ("double", Plain::Float(_))
        | ("bool", Plain::Bool(_)) => Ok(value.clone()),
        ("string", Plain::String(_))
        | ("bytes", Plain::Bytes(_))
        | ("duration", Plain::Duration(_))
        | ("timestamp", Plain::Timestamp(_)) => Ok(value.clone()),
        ("int" | "uint" | "double", value) => return number(name, value),
        ("string", value) => {
            return as_text(value).map(|text| text.map(|text| Plain::String(Arc::new(text))));
        }
        ("bool", Plain::String(given)) => match given.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Plain::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Plain::Bool(false)),
            _ => not_converted(name),
        },
        ("bytes", Plain::String(given)) => Ok(Plain::Bytes(Arc::new(given.as_bytes().to_vec()))),
        ("duration", Plain::String(given)) => match go_duration(given) {
            Some(length) => calls::duration(length),
            None => not_converted("google.protobuf.Duration"),
        },
        ("duration", Plain::Int(_)) => {
            error("type conversion error from 'int' to 'google.protobuf.Duration'")
        }
        ("timestamp", Plain::Int(seconds)) => times::of_seconds(*seconds),
        ("timestamp", Plain::String(_)) => calls::call(name, None, vec![value.clone()])
            .or_else(|_| not_converted("google.protobuf.Timestamp")),
        _ => return None,
    })
}

/// The error for a text that has no value of a type.
fn not_converted<T>(name: &str) -> Found<T> {
    error(format!("type conversion error from 'string' to '{name}'"))
}

/// Conversions to a number.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as in Go, after a check of the range"
)]
fn number(name: &str, value: &Plain) -> Option<Found<Plain>> {
    let parsed = |number: Option<Plain>| number.map_or_else(|| not_converted(name), Ok);
    let fits = |number: Option<Plain>, why: &str| number.map_or_else(|| error(why), Ok);
    let (signed, unsigned) = ("integer overflow", "unsigned integer overflow");
    Some(match (name, value) {
        ("int", Plain::UInt(number)) => fits(i64::try_from(*number).ok().map(Plain::Int), signed),
        ("int", Plain::Float(number)) => {
            fits((number.abs() < 9.223_372_036_854_775e18).then_some(Plain::Int(*number as i64)), signed)
        }
        ("int", Plain::String(given)) => parsed(given.parse().ok().map(Plain::Int)),
        ("int", Plain::Timestamp(time)) => Ok(Plain::Int(time.timestamp())),
        ("int", Plain::Duration(length)) => Ok(Plain::Int(length.num_nanoseconds().unwrap_or(i64::MAX))),
        ("uint", Plain::Int(number)) => fits(u64::try_from(*number).ok().map(Plain::UInt), unsigned),
        ("uint", Plain::Float(number)) => {
            let is_within = (0.0..1.844_674_407_370_955e19).contains(number);
            fits(is_within.then_some(Plain::UInt(*number as u64)), unsigned)
        }
        ("uint", Plain::String(given)) => parsed(given.parse().ok().map(Plain::UInt)),
        ("double", Plain::Int(number)) => Ok(Plain::Float(*number as f64)),
        ("double", Plain::UInt(number)) => Ok(Plain::Float(*number as f64)),
        ("double", Plain::String(given)) => parsed(given.parse().ok().map(Plain::Float)),
        _ => return None,
    })
}

/// Conversions to a text.
fn as_text(value: &Plain) -> Option<Found<String>> {
    Some(match value {
        Plain::Bool(flag) => Ok(flag.to_string()),
        Plain::Int(number) => Ok(number.to_string()),
        Plain::UInt(number) => Ok(number.to_string()),
        Plain::Float(number) => Ok(double(*number)),
        Plain::Bytes(bytes) => match String::from_utf8(bytes.to_vec()) {
            Ok(given) => Ok(given),
            Err(_) => error("invalid UTF-8 in bytes, cannot convert to string"),
        },
        value => return times::text(value).map(Ok),
    })
}

/// Returns what Go says of indexes of a text that are out of range, if the function fails.
fn range_fault(name: &str, target: Option<&Plain>, arguments: &[Plain]) -> Option<String> {
    let Some(Plain::String(text)) = target else { return None };
    let is_out = |at: &&i64| usize::try_from(**at).map_or(true, |at| at > text.chars().count());
    match (name, arguments) {
        ("substring", [Plain::Int(start), Plain::Int(end)]) if start > end => {
            Some(format!("invalid substring range. start: {start}, end: {end}"))
        }
        ("substring", [Plain::Int(start), Plain::Int(end)]) => {
            [start, end].into_iter().find(is_out).map(|at| format!("index out of range: {at}"))
        }
        ("charAt" | "substring", [Plain::Int(at)]) => Some(format!("index out of range: {at}")),
        _ => None,
    }
}
