//! Sums of numbers and durations.

use kube_cel::cel::{ExecutionError, Value as Plain};

use super::fault::{Budget, Found, NO_OVERLOAD, error};
use super::value::Val;

/// Returns the result of an operator.
pub(super) fn computed<'a>(result: Result<Plain, ExecutionError>, is_unsigned: bool) -> Found<Val<'a>> {
    result.map(Val::Plain).or_else(|fault| {
        error(match fault {
            ExecutionError::Overflow(..) if is_unsigned => "unsigned integer overflow",
            ExecutionError::Overflow(..) => "integer overflow",
            ExecutionError::DivisionByZero(_) => "division by zero",
            ExecutionError::RemainderByZero(_) => "modulus by zero",
            _ => NO_OVERLOAD,
        })
    })
}

/// Adds the items of a list; `zero` is the sum of none.
pub(super) fn sum<'a>(list: &Val<'a>, zero: Found<Plain>, budget: &mut Budget) -> Found<Val<'a>> {
    let mut total = None;
    for item in list.items(budget)? {
        budget.spend(1)?;
        let Val::Plain(item) = item else { return error(NO_OVERLOAD) };
        let is_unsigned = matches!(item, Plain::UInt(_));
        total = Some(match total {
            None => Val::Plain(item),
            Some(Val::Plain(total)) => computed(total + item, is_unsigned)?,
            Some(_) => return error(NO_OVERLOAD),
        });
    }
    total.map_or_else(|| zero.map(Val::Plain), Ok)
}
