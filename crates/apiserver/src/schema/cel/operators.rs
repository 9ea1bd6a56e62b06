//! The operators with one or two operands.

use std::sync::Arc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::common::ast::operators;

use super::eval::Evaluation;
use super::fault::{Fault, Found, NO_OVERLOAD, error};
use super::sums::computed;
use super::value::{Val, copied};

impl<'a> Evaluation<'_, 'a> {
    pub(super) fn operator(&mut self, name: &str, left: Val<'a>, right: Val<'a>) -> Found<Val<'a>> {
        let flag = |flag| Ok(Val::Plain(Plain::Bool(flag)));
        match name {
            operators::EQUALS | operators::NOT_EQUALS => {
                self.budget.spend(1)?;
                return flag(left.is_equal(&right, self.budget)? == (name == operators::EQUALS));
            }
            operators::IN => return flag(self.is_in(&left, &right)?),
            operators::ADD => match (&left, &right) {
                (
                    Val::Array(..) | Val::List(_) | Val::Keyed(..),
                    Val::Array(..) | Val::List(_) | Val::Keyed(..),
                ) => {
                    return self.concat(left, &right);
                }
                (Val::Plain(Plain::Bytes(one)), Val::Plain(Plain::Bytes(other))) => {
                    self.budget.spend((one.len() + other.len()) / 10)?;
                    return Ok(Val::Plain(Plain::Bytes(Arc::new(
                        [one.as_slice(), other.as_slice()].concat(),
                    ))));
                }
                (Val::Plain(Plain::String(one)), Val::Plain(Plain::String(other))) => {
                    self.budget.spend((one.len() + other.len()) / 10)?;
                }
                _ => {}
            },
            _ => {
                self.budget.spend(left.text_length().min(right.text_length()) / 10)?;
            }
        }
        self.budget.spend(1)?;
        let (Val::Plain(left), Val::Plain(right)) = (left, right) else { return error(NO_OVERLOAD) };
        let is_unsigned = matches!(left, Plain::UInt(_));
        let result = match name {
            operators::ADD => left + right,
            operators::SUBSTRACT => left - right,
            operators::MULTIPLY => left * right,
            operators::DIVIDE => left / right,
            operators::MODULO => left % right,
            _ => return flag(is_ordered(name, &left, &right)?),
        };
        computed(result, is_unsigned)
    }

    fn is_in(&mut self, value: &Val<'a>, container: &Val<'a>) -> Found<bool> {
        match container {
            Val::Object(..) | Val::Map(_) => {
                self.budget.spend(1)?;
                Ok(container.find(value)?.is_some())
            }
            Val::Array(..) | Val::List(_) | Val::Keyed(..) => {
                let length = container.length().unwrap_or_default();
                self.budget.spend(length)?;
                for index in 0..length {
                    let Some(item) = container.item(index).transpose()? else { continue };
                    self.budget.spend(copied(Ok(Some(&item))))?;
                    match item.is_equal(value, self.budget) {
                        Ok(true) => return Ok(true),
                        Err(Fault::Exceeded) => return Err(Fault::Exceeded),
                        Ok(false) | Err(Fault::Error(_)) => {}
                    }
                }
                Ok(false)
            }
            _ => error(NO_OVERLOAD),
        }
    }

    pub(super) fn negate(value: &Val<'a>) -> Found<Val<'a>> {
        match value {
            Val::Plain(Plain::Int(number)) => match number.checked_neg() {
                Some(number) => Ok(Val::Plain(Plain::Int(number))),
                None => error("integer overflow"),
            },
            Val::Plain(Plain::Float(number)) => Ok(Val::Plain(Plain::Float(-number))),
            Val::Plain(Plain::Duration(length)) => Ok(Val::Plain(Plain::Duration(-*length))),
            _ => error(NO_OVERLOAD),
        }
    }
}

fn is_ordered(name: &str, left: &Plain, right: &Plain) -> Found<bool> {
    let order = match (left, right) {
        (Plain::Bytes(one), Plain::Bytes(other)) => one.cmp(other),
        (Plain::Float(number), _) | (_, Plain::Float(number)) if number.is_nan() => {
            return error("NaN values cannot be ordered");
        }
        (Plain::Null, _) => return error(NO_OVERLOAD),
        _ => left.partial_cmp(right).ok_or_else(|| Fault::Error(NO_OVERLOAD.into()))?,
    };
    match name {
        operators::LESS => Ok(order.is_lt()),
        operators::LESS_EQUALS => Ok(order.is_le()),
        operators::GREATER => Ok(order.is_gt()),
        operators::GREATER_EQUALS => Ok(order.is_ge()),
        _ => error(NO_OVERLOAD),
    }
}
