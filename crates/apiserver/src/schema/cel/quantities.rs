//! The functions of quantities.
//!
//! Follows Kubernetes 1.37 (`cel/library/quantity.go`, `resource.Quantity`).

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::objects::Opaque;

use super::fault::{Found, error};
use crate::builtin::{NotAQuantity, quantity_form, quantity_nanos};

/// The billionths of one.
const ONE: i128 = 1_000_000_000;

/// A quantity. Very large ones are equal.
#[derive(Clone, Copy, Debug)]
struct Quantity {
    nanos: i128,
    /// A number and its power of ten, if Go has the quantity in this form. Only such a quantity may be an integer.
    form: Option<(i64, i32)>,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Opaque for Quantity {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.Quantity"
    }
}

impl Quantity {
    fn parse(text: &str) -> Result<Self, NotAQuantity> {
        let nanos = match quantity_nanos(text) {
            Err(NotAQuantity::TooLarge) if text.starts_with('-') => i128::MIN,
            Err(NotAQuantity::TooLarge) => i128::MAX,
            parsed => parsed?,
        };
        Ok(Self { nanos, form: quantity_form(text) })
    }

    /// Returns the quantity of an argument.
    fn of(value: &Plain) -> Option<Self> {
        match value {
            Plain::Opaque(value) => value.downcast_ref::<Self>().copied(),
            Plain::Int(number) => Some(Self { nanos: i128::from(*number) * ONE, form: Some((*number, 0)) }),
            _ => None,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), form: sum(self.form, other.form) }
    }

    fn negated(self) -> Self {
        let form = self.form.and_then(|(number, scale)| Some((number.checked_neg()?, scale)));
        Self { nanos: self.nanos.saturating_neg(), form }
    }

    fn integer(self) -> Option<i64> {
        self.form.filter(|(_, scale)| *scale >= 0).and_then(|(number, scale)| scaled(number, scale))
    }

    #[allow(clippy::cast_precision_loss, reason = "as in Go")]
    fn float(self) -> f64 {
        match self.form {
            Some((number, scale)) => number as f64 * 10_f64.powi(scale),
            None => self.nanos as f64 / 1e9,
        }
    }

    fn value(self) -> Plain {
        Plain::Opaque(Arc::new(self))
    }
}

fn scaled(number: i64, power: i32) -> Option<i64> {
    10_i64.checked_pow(u32::try_from(power).ok()?).and_then(|factor| number.checked_mul(factor))
}

/// Adds two numbers with their powers of ten; `None` if Go leaves this form.
fn sum(one: Option<(i64, i32)>, other: Option<(i64, i32)>) -> Option<(i64, i32)> {
    match (one?, other?) {
        (one, (0, _)) => Some(one),
        ((0, _), other) => Some(other),
        ((one, scale), (other, other_scale)) => {
            let least = scale.min(other_scale);
            let sum = scaled(one, scale - least)?.checked_add(scaled(other, other_scale - least)?)?;
            Some((sum, least))
        }
    }
}

/// Calls a function of quantities; `None` for other functions.
pub(super) fn call(name: &str, target: Option<&Plain>, arguments: &[Plain]) -> Option<Found<Plain>> {
    match (name, target, arguments) {
        ("isQuantity", None, [Plain::String(given)]) => {
            return Some(Ok(Plain::Bool(Quantity::parse(given).is_ok())));
        }
        ("quantity", None, [Plain::String(given)]) => {
            let parsed = Quantity::parse(given).map(Quantity::value);
            return Some(parsed.or_else(|fault| error(fault.message())));
        }
        ("sign", None, [value @ Plain::Opaque(_)]) => {
            return Quantity::of(value).map(|of| Ok(Plain::Int(of.nanos.cmp(&0) as i64)));
        }
        _ => {}
    }
    let of = Quantity::of(target.filter(|target| matches!(target, Plain::Opaque(_)))?)?;
    let other = arguments.first().and_then(Quantity::of);
    let order = other.map(|other| of.nanos.cmp(&other.nanos));
    Some(Ok(match (name, other, order) {
        ("isInteger", None, _) => Plain::Bool(of.integer().is_some()),
        ("asInteger", None, _) => match of.integer() {
            Some(number) => Plain::Int(number),
            None => return Some(error("cannot convert value to integer")),
        },
        ("asApproximateFloat", None, _) => Plain::Float(of.float()),
        ("add", Some(other), _) => of.plus(other).value(),
        ("sub", Some(other), _) => of.plus(other.negated()).value(),
        ("isLessThan", _, Some(order)) => Plain::Bool(order == Ordering::Less),
        ("isGreaterThan", _, Some(order)) => Plain::Bool(order == Ordering::Greater),
        ("compareTo", _, Some(order)) => Plain::Int(order as i64),
        _ => return None,
    }))
}
