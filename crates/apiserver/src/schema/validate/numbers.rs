//! The rules of numbers.

use serde_json::Number;

use super::super::structural::{Bound, Rules, Structural};
use super::Validator;
use super::equality::{is_whole, to_int};
use super::outcome::{Error, Kind, Outcome};
use crate::causes::float_text;

/// A number as Go decodes it.
#[derive(Clone, Copy)]
enum Given {
    Int(i64),
    Float(f64),
}

impl Given {
    fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    fn as_float(self) -> f64 {
        match self {
            Self::Int(int) => int_as_float(int),
            Self::Float(float) => float,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "Go converts in the same way")]
fn int_as_float(int: i64) -> f64 {
    int as f64
}

/// The range of the type and the format of a node.
#[derive(Clone, Copy)]
struct Range<'a> {
    declared: &'a str,
    format: &'a str,
}

impl Range<'_> {
    /// Returns the error for a number that the type cannot have.
    fn error(self, given: Given, what: &str, path: &str) -> Option<Error> {
        let Self { declared, format } = self;
        let fits = match (declared, given) {
            ("integer", Given::Int(int)) => format != "int32" || i32::try_from(int).is_ok(),
            ("integer", Given::Float(float)) => {
                float.fract() == 0.0
                    && if format == "int32" {
                        (-2_147_483_648.0..2_147_483_648.0).contains(&float)
                    } else {
                        (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float)
                    }
            }
            _ => format != "float" || given.as_float().abs() <= f64::from(f32::MAX),
        };
        if fits {
            return None;
        }
        let of = match format {
            "" => format!("{declared} (default format)"),
            _ => format!("{declared} with format {format}"),
        };
        Some(Error::plain(format!("{what} value must be of type {of} in {path}")))
    }
}

impl Validator {
    pub(super) fn number(&self, schema: &Structural, number: &Number) -> Outcome {
        let mut outcome = Outcome::default();
        let path = self.path.text();
        let given = Given::of(number);
        let declared = match self.one_type(schema) {
            declared @ ("integer" | "number") => declared,
            _ => "",
        };
        let format = match (declared, self.format(schema)) {
            ("integer", format @ ("int32" | "int64")) | ("number", format @ ("float" | "double")) => format,
            _ => "",
        };
        let range = Range { declared, format };
        if let Some(error) = range.error(given, "Checked", path) {
            outcome.add(error);
        }
        if let Some(rules) = schema.rules.as_deref() {
            multiple(rules, range, given, path, &mut outcome);
            let minimum = ("Minimum boundary", "greater", rules.minimum);
            let maximum = ("Maximum boundary", "less", rules.maximum);
            for (what, side, bound) in [minimum, maximum] {
                let Some(bound) = bound else { continue };
                limit(bound, (what, side), range, given, path, &mut outcome);
            }
        }
        outcome.count();
        outcome
    }
}

/// A rule that its own type cannot have is checked with floats.
fn multiple(rules: &Rules, range: Range<'_>, given: Given, path: &str, outcome: &mut Outcome) {
    let Some(factor) = rules.multiple_of else { return };
    let range_error = range.error(Given::Float(factor), "MultipleOf", path);
    let not_positive = |factor: &str| {
        let text = format!("factor MultipleOf declared for {path} must be positive: {factor}");
        Error::new(path, text, Kind::Invalid(factor.to_owned()))
    };
    let not_multiple = |factor: &str, given: String| {
        let text = format!("{path} in body should be a multiple of {factor}");
        Error::new(path, text, Kind::Invalid(given))
    };
    let error = match given {
        Given::Int(int) if range_error.is_none() => {
            let factor = to_int(factor);
            let text = factor.to_string();
            if factor <= 0 {
                Some(not_positive(&text))
            } else {
                (int % factor != 0).then(|| not_multiple(&text, int.to_string()))
            }
        }
        _ => {
            let (float, text) = (given.as_float(), float_text(factor));
            let times = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
            if factor <= 0.0 {
                Some(not_positive(&text))
            } else {
                (!is_whole(times)).then(|| not_multiple(&text, float_text(float)))
            }
        }
    };
    range_error.into_iter().chain(error).for_each(|error| outcome.add(error));
}

fn limit(
    bound: Bound,
    (what, side): (&str, &str),
    range: Range<'_>,
    given: Given,
    path: &str,
    outcome: &mut Outcome,
) {
    let range_error = range.error(Given::Float(bound.value), what, path);
    let is_beyond = |order: Option<std::cmp::Ordering>| match (order, side) {
        (None, _) => false,
        (Some(order), "less") => order.is_gt() || bound.is_exclusive && order.is_eq(),
        (Some(order), _) => order.is_lt() || bound.is_exclusive && order.is_eq(),
    };
    let (is_broken, limit, value) = match given {
        Given::Int(int) if range_error.is_none() => {
            let limit = to_int(bound.value);
            (is_beyond(Some(int.cmp(&limit))), limit.to_string(), int.to_string())
        }
        _ => {
            let float = given.as_float();
            (is_beyond(float.partial_cmp(&bound.value)), float_text(bound.value), float_text(float))
        }
    };
    range_error.into_iter().for_each(|error| outcome.add(error));
    if is_broken {
        let or_equal = if bound.is_exclusive { "" } else { " or equal to" };
        let text = format!("{path} in body should be {side} than{or_equal} {limit}");
        outcome.add(Error::new(path, text, Kind::Invalid(value)));
    }
}
