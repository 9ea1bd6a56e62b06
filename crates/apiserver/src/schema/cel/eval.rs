//! The evaluation of expressions.
//!
//! The interpreter of the crate `cel` is not used: it has no limit of work, copies values, and takes a field of a scalar
//! for false.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use kube_cel::cel::objects::Key;
use kube_cel::cel::{ExecutionError, Value as Plain};

use super::super::structural::ListKind;
use super::fault::{Budget, Fault, Found, NO_OVERLOAD, error};
use super::library::Library;
use super::value::{Val, text};

/// The variable in which a loop collects its result.
const RESULT: &str = "@result";

/// An evaluation of an expression.
pub(super) struct Evaluation<'e, 'a> {
    pub(super) variables: Vec<(&'e str, Found<Val<'a>>)>,
    pub(super) budget: &'e mut Budget,
    pub(super) library: &'e Library,
}

impl<'e, 'a> Evaluation<'e, 'a> {
    /// # Errors
    /// Why the expression has no value.
    pub(super) fn value(&mut self, expression: &'e IdedExpr) -> Found<Val<'a>> {
        self.budget.spend(1)?;
        match &expression.expr {
            Expr::Literal(literal) => Ok(Val::Plain(plain(literal))),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                if let Some(name) = type_named(expression) {
                    return Ok(Val::Type(name.into()));
                }
                let operand = self.value(&select.operand)?;
                let found = self.field(&operand, &text(&select.field))?;
                match (select.test, operand, found) {
                    (true, _, found) => Ok(Val::Plain(Plain::Bool(found.is_some()))),
                    (false, Val::Optional(_), found) => Ok(Val::Optional(found.map(Rc::new))),
                    (false, _, Some(found)) => Ok(found),
                    (false, _, None) => error(format!("no such key: {}", select.field)),
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    match (self.value(element)?, list.optional_indices.contains(&index)) {
                        (Val::Optional(value), true) => items.extend(value.map(|value| (*value).clone())),
                        (value, _) => items.push(value),
                    }
                }
                Ok(Val::List(Rc::new(items)))
            }
            Expr::Map(map) => {
                let mut entries = BTreeMap::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return error(NO_OVERLOAD) };
                    let key = self.value(&entry.key)?;
                    let Some(key) = key.as_key() else { return error("unsupported key type") };
                    match (self.value(&entry.value)?, entry.optional) {
                        (Val::Optional(value), true) => {
                            value.map(|value| entries.insert(key, (*value).clone()));
                        }
                        (value, _) => {
                            entries.insert(key, value);
                        }
                    }
                }
                Ok(Val::Map(Rc::new(entries)))
            }
            Expr::Struct(_) | Expr::Unspecified => error(NO_OVERLOAD),
        }
    }

    fn variable(&mut self, name: &str) -> Found<Val<'a>> {
        let known = self.variables.iter_mut().rev().find(|(known, _)| *known == name);
        match known {
            // the step of a loop reads its list once, and appends to it
            Some((_, list @ Ok(Val::List(_)))) if name == RESULT => {
                std::mem::replace(list, Ok(Val::Plain(Plain::Null)))
            }
            Some((_, value)) => value.clone(),
            None if is_type(name) => Ok(Val::Type(name.into())),
            None => error(format!("no such attribute(s): {name}")),
        }
    }

    fn has_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|(known, _)| *known == name)
    }

    /// Returns a field, the value of a key, or an item.
    pub(super) fn field(&mut self, operand: &Val<'a>, key: &Val<'a>) -> Found<Option<Val<'a>>> {
        match operand {
            Val::Optional(None) => Ok(None),
            Val::Optional(Some(value)) => self.field(&(**value).clone(), key),
            Val::Object(..) | Val::Map(_) => operand.find(key),
            Val::Array(..) | Val::List(_) => match key.as_key() {
                Some(Key::Int(index)) => {
                    usize::try_from(index).ok().and_then(|index| operand.item(index)).transpose()
                }
                _ => error(NO_OVERLOAD),
            },
            _ => Ok(None),
        }
    }

    pub(super) fn flag(&mut self, expression: &'e IdedExpr) -> Found<bool> {
        self.value(expression)?.as_bool().ok_or_else(|| Fault::Error(NO_OVERLOAD.into()))
    }

    fn call(&mut self, call: &'e CallExpr) -> Found<Val<'a>> {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, then, otherwise]) => {
                let chosen = if self.flag(condition)? { then } else { otherwise };
                self.value(chosen)
            }
            (operators::LOGICAL_OR, [left, right]) => self.either(left, right, true),
            (operators::LOGICAL_AND, [left, right]) => self.either(left, right, false),
            (operators::LOGICAL_NOT, [operand]) => Ok(Val::Plain(Plain::Bool(!self.flag(operand)?))),
            (operators::NOT_STRICTLY_FALSE, [operand]) => match self.flag(operand) {
                Err(Fault::Exceeded) => Err(Fault::Exceeded),
                flag => Ok(Val::Plain(Plain::Bool(flag.unwrap_or(true)))),
            },
            (operators::NEGATE, [operand]) => negate(&self.value(operand)?),
            (operators::INDEX, [operand, key]) => {
                let (operand, key) = (self.value(operand)?, self.value(key)?);
                match (self.field(&operand, &key)?, &operand) {
                    (found, Val::Optional(_)) => Ok(Val::Optional(found.map(Rc::new))),
                    (Some(found), _) => Ok(found),
                    (None, Val::Array(..) | Val::List(_)) => {
                        error(format!("index out of bounds: {}", shown(&key)))
                    }
                    (None, _) => error(format!("no such key: {}", shown(&key))),
                }
            }
            (operators::OPT_INDEX | operators::OPT_SELECT, [operand, key]) => {
                let (operand, key) = (self.value(operand)?, self.value(key)?);
                Ok(Val::Optional(self.field(&operand, &key)?.map(Rc::new)))
            }
            (_, [left, right]) if call.target.is_none() && !name.starts_with(char::is_alphanumeric) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.operator(name, left, right)
            }
            _ => self.function(call),
        }
    }

    /// `&&` and `||`: an error is left out if the other operand decides.
    fn either(&mut self, left: &'e IdedExpr, right: &'e IdedExpr, decides: bool) -> Found<Val<'a>> {
        let left = self.flag(left);
        if matches!(left, Err(Fault::Exceeded)) || matches!(left, Ok(flag) if flag == decides) {
            return left.map(|flag| Val::Plain(Plain::Bool(flag)));
        }
        match (left, self.flag(right)) {
            (_, Ok(flag)) if flag == decides => Ok(Val::Plain(Plain::Bool(decides))),
            (_, Err(Fault::Exceeded)) => Err(Fault::Exceeded),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            _ => Ok(Val::Plain(Plain::Bool(!decides))),
        }
    }

    fn operator(&mut self, name: &str, left: Val<'a>, right: Val<'a>) -> Found<Val<'a>> {
        let flag = |flag| Ok(Val::Plain(Plain::Bool(flag)));
        match name {
            operators::EQUALS => return flag(left.is_equal(&right, self.budget)?),
            operators::NOT_EQUALS => return flag(!left.is_equal(&right, self.budget)?),
            operators::IN => return flag(self.is_in(&left, &right)?),
            operators::ADD => match (&left, &right) {
                (Val::Array(..) | Val::List(_), Val::Array(..) | Val::List(_)) => {
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
            _ => {}
        }
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

    fn is_in(&mut self, value: &Val<'a>, container: &Val<'a>) -> Found<bool> {
        match container {
            Val::Object(..) | Val::Map(_) => Ok(container.find(value)?.is_some()),
            Val::Array(..) | Val::List(_) => {
                for index in 0..container.length().unwrap_or_default() {
                    if container
                        .item(index)
                        .transpose()?
                        .is_some_and(|item| matches!(item.is_equal(value, self.budget), Ok(true)))
                    {
                        return Ok(true);
                    }
                    self.budget.spend(1)?;
                }
                Ok(false)
            }
            _ => error(NO_OVERLOAD),
        }
    }

    /// Appends a list. Items that a set or a list with keys has already are replaced.
    fn concat(&mut self, left: Val<'a>, right: &Val<'a>) -> Found<Val<'a>> {
        let kind = match &left {
            Val::Array(_, schema) => schema.list.clone(),
            _ => ListKind::Atomic,
        };
        let mut items = match left {
            Val::List(items) => items,
            other => {
                self.budget.spend(other.length().unwrap_or_default())?;
                Rc::new(other.items().unwrap_or_default().into_iter().collect::<Found<Vec<_>>>()?)
            }
        };
        let list = Rc::make_mut(&mut items);
        for index in 0..right.length().unwrap_or_default() {
            self.budget.spend(1)?;
            let Some(item) = right.item(index).transpose()? else { continue };
            let mut place = None;
            if kind != ListKind::Atomic {
                for (index, known) in list.iter().enumerate() {
                    let is_same = match &kind {
                        ListKind::Map(keys) => {
                            let mut is_same = true;
                            for key in keys {
                                let key = text(&super::names::escape(key).unwrap_or_default());
                                is_same &= match (known.find(&key)?, item.find(&key)?) {
                                    (Some(one), Some(other)) => one.is_equal(&other, self.budget)?,
                                    (one, other) => one.is_none() && other.is_none(),
                                };
                            }
                            is_same
                        }
                        _ => known.is_equal(&item, self.budget)?,
                    };
                    if is_same {
                        place = Some(index);
                    }
                }
            }
            match place.and_then(|place| list.get_mut(place)) {
                Some(known) => *known = item,
                None => list.push(item),
            }
        }
        Ok(Val::List(items))
    }

    /// The macros with one variable, which the parser has expanded.
    fn comprehension(&mut self, loops: &'e ComprehensionExpr) -> Found<Val<'a>> {
        let range = self.value(&loops.iter_range)?;
        let items = match range.keys() {
            Some(keys) => keys.into_iter().map(Ok).collect(),
            None => range.items().ok_or_else(|| Fault::Error(NO_OVERLOAD.into()))?,
        };
        self.budget.spend(items.len())?;
        let base = self.variables.len();
        let mut collected = self.value(&loops.accu_init);
        for item in items {
            self.variables.push((loops.accu_var.as_str(), collected));
            let goes_on = self.flag(&loops.loop_cond);
            if !matches!(goes_on, Ok(true)) {
                collected = self.variables.pop().map_or(Ok(Val::TRUE), |(_, value)| value);
                if let Err(Fault::Exceeded) = goes_on {
                    collected = Err(Fault::Exceeded);
                }
                break;
            }
            self.variables.push((loops.iter_var.as_str(), item));
            collected = self.value(&loops.loop_step);
            self.variables.truncate(base);
        }
        if let Err(Fault::Exceeded) = collected {
            return collected;
        }
        self.variables.push((loops.accu_var.as_str(), collected));
        let result = self.value(&loops.result);
        self.variables.truncate(base);
        result
    }

    fn function(&mut self, call: &'e CallExpr) -> Found<Val<'a>> {
        let name = call.func_name.as_str();
        let Some(target) = call.target.as_deref() else {
            let arguments = self.values(&call.args)?;
            return self.called(name, None, &arguments);
        };
        if let Expr::Ident(namespace) = &target.expr
            && !self.has_variable(namespace)
        {
            let arguments = self.values(&call.args)?;
            return self.called(&format!("{namespace}.{name}"), None, &arguments);
        }
        if let Some(result) = self.macros(name, target, &call.args) {
            return result;
        }
        let target = self.value(target)?;
        let arguments = self.values(&call.args)?;
        self.called(name, Some(&target), &arguments)
    }

    fn called(&mut self, name: &str, target: Option<&Val<'a>>, arguments: &[Val<'a>]) -> Found<Val<'a>> {
        self.library.call(name, target, arguments, self.budget).map_err(|fault| match fault {
            Fault::Error(why) if why == NO_OVERLOAD && name != "size" => {
                let types: Vec<String> = target.into_iter().chain(arguments).map(Val::type_name).collect();
                Fault::Error(format!("{NO_OVERLOAD}: {name}({})", types.join(", ")))
            }
            Fault::Error(why) if why == NO_OVERLOAD => Fault::Error(format!("{NO_OVERLOAD}: {name}")),
            fault => fault,
        })
    }

    fn values(&mut self, expressions: &'e [IdedExpr]) -> Found<Vec<Val<'a>>> {
        expressions.iter().map(|expression| self.value(expression)).collect()
    }
}

fn plain(literal: &LiteralValue) -> Plain {
    match literal {
        LiteralValue::Boolean(flag) => Plain::Bool(*flag.inner()),
        LiteralValue::Bytes(bytes) => Plain::Bytes(Arc::new(bytes.inner().to_vec())),
        LiteralValue::Double(number) => Plain::Float(*number.inner()),
        LiteralValue::Int(number) => Plain::Int(*number.inner()),
        LiteralValue::Null => Plain::Null,
        LiteralValue::String(text) => Plain::String(Arc::new(text.inner().to_owned())),
        LiteralValue::UInt(number) => Plain::UInt(*number.inner()),
    }
}

/// Whether an identifier is the name of a type.
pub(super) fn is_type(name: &str) -> bool {
    matches!(
        name,
        "bool"
            | "bytes"
            | "double"
            | "int"
            | "list"
            | "map"
            | "null_type"
            | "string"
            | "type"
            | "uint"
            | "optional_type"
    )
}

/// Returns the name of a type that has dots.
pub(super) fn type_named(expression: &IdedExpr) -> Option<String> {
    fn path(expression: &IdedExpr) -> Option<String> {
        match &expression.expr {
            Expr::Ident(name) => Some(name.clone()),
            Expr::Select(select) => Some(format!("{}.{}", path(&select.operand)?, select.field)),
            _ => None,
        }
    }
    const NAMES: [&str; 7] = [
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.URL",
        "net.CIDR",
        "net.IP",
    ];
    path(expression).filter(|name| NAMES.contains(&name.as_str()))
}

fn negate<'a>(value: &Val<'a>) -> Found<Val<'a>> {
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

/// A key in a message.
fn shown(key: &Val<'_>) -> String {
    match key {
        Val::Plain(Plain::Float(number)) => crate::causes::float_text(*number),
        key => key.as_key().map(|key| key.to_string()).unwrap_or_default(),
    }
}
