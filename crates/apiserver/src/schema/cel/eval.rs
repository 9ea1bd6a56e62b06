//! The evaluation of expressions.
//!
//! The interpreter of the crate `cel` is not used: it has no limit of work, copies values, and takes a field of a scalar
//! for false.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};
use kube_cel::cel::objects::Key;

use super::fault::{Budget, Fault, Found, NO_OVERLOAD, error};
use super::library::Library;
use super::value::{Val, copied, text};

/// The variable in which a loop collects its result.
const RESULT: &str = "@result";

/// What it costs to make a list or a map, as in cel-go.
const LIST_COST: usize = 10;
const MAP_COST: usize = 30;

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
        self.library.step(self.budget)?;
        match &expression.expr {
            Expr::Literal(literal) => Ok(Val::Plain(plain(literal))),
            Expr::Ident(name) => {
                self.budget.spend(1)?;
                self.variable(name)
            }
            Expr::Select(select) => {
                if let Some(name) = type_named(expression) {
                    return Ok(Val::Type(name.into()));
                }
                let operand = self.value(&select.operand)?;
                self.budget.spend(usize::from(!select.test))?;
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
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Struct(_) | Expr::Unspecified => error(NO_OVERLOAD),
        }
    }

    fn list(&mut self, list: &'e ListExpr) -> Found<Val<'a>> {
        self.budget.spend(LIST_COST)?;
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            match (self.value(element)?, list.optional_indices.contains(&index)) {
                (Val::Optional(value), true) => items.extend(value.map(|value| (*value).clone())),
                (value, _) => items.push(value),
            }
        }
        Ok(Val::List(Rc::new(items)))
    }

    fn map(&mut self, map: &'e MapExpr) -> Found<Val<'a>> {
        self.budget.spend(MAP_COST)?;
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
        self.budget.spend(copied(Ok(Some(key))))?;
        let found = match operand {
            Val::Optional(None) => Ok(None),
            Val::Optional(Some(value)) => return self.field(&(**value).clone(), key),
            Val::Object(..) | Val::Map(_) => operand.find(key),
            Val::Array(..) | Val::List(_) | Val::Keyed(..) => match key.as_key() {
                Some(Key::Int(index)) => {
                    usize::try_from(index).ok().and_then(|index| operand.item(index)).transpose()
                }
                _ => error(NO_OVERLOAD),
            },
            _ => Ok(None),
        };
        self.budget.spend(copied(found.as_ref().map(Option::as_ref)))?;
        found
    }

    /// As [`Self::value`], for a key or a branch, where a variable costs nothing.
    fn key(&mut self, expression: &'e IdedExpr) -> Found<Val<'a>> {
        match &expression.expr {
            Expr::Ident(name) => self.variable(name),
            _ => self.value(expression),
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
                self.key(chosen)
            }
            (operators::LOGICAL_OR, [left, right]) => self.either(left, right, true),
            (operators::LOGICAL_AND, [left, right]) => self.either(left, right, false),
            (operators::LOGICAL_NOT, [operand]) => {
                let flag = self.flag(operand)?;
                self.budget.spend(1)?;
                Ok(Val::Plain(Plain::Bool(!flag)))
            }
            (operators::NOT_STRICTLY_FALSE, [operand]) => {
                let flag = self.flag(operand);
                self.budget.spend(1)?;
                match flag {
                    Err(Fault::Exceeded) => Err(Fault::Exceeded),
                    flag => Ok(Val::Plain(Plain::Bool(flag.unwrap_or(true)))),
                }
            }
            (operators::NEGATE, [operand]) => {
                let value = self.value(operand)?;
                self.budget.spend(1)?;
                Self::negate(&value)
            }
            (operators::INDEX, [operand, key]) => self.index(operand, key),
            (operators::OPT_INDEX | operators::OPT_SELECT, [operand, key]) => {
                let (operand, key) = (self.value(operand)?, self.key(key)?);
                self.budget.spend(1)?;
                Ok(Val::Optional(self.field(&operand, &key)?.map(Rc::new)))
            }
            (_, [left, right]) if call.target.is_none() && !name.starts_with(char::is_alphanumeric) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.operator(name, left, right)
            }
            _ => self.function(call),
        }
    }

    fn index(&mut self, operand: &'e IdedExpr, key: &'e IdedExpr) -> Found<Val<'a>> {
        let (operand, key) = (self.value(operand)?, self.key(key)?);
        self.budget.spend(1)?;
        match (self.field(&operand, &key)?, &operand) {
            (found, Val::Optional(_)) => Ok(Val::Optional(found.map(Rc::new))),
            (Some(found), _) => Ok(found),
            (None, Val::Array(..) | Val::List(_) | Val::Keyed(..)) => {
                error(format!("index out of bounds: {}", key_text(&key)))
            }
            (None, _) => error(format!("no such key: {}", key_text(&key))),
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

    /// The macros with one variable, which the parser has expanded.
    fn comprehension(&mut self, loops: &'e ComprehensionExpr) -> Found<Val<'a>> {
        let range = self.value(&loops.iter_range)?;
        let keys = range.keys();
        let Some(length) = range.length() else { return error(NO_OVERLOAD) };
        let length = keys.as_ref().map_or(length, Vec::len);
        self.budget.spend(keys.as_ref().map_or(0, |_| length / 10))?;
        let base = self.variables.len();
        let mut collected = self.value(&loops.accu_init);
        for index in 0..length {
            let item = match &keys {
                Some(keys) => keys.get(index).cloned().map(Ok),
                None => range.item(index),
            };
            let Some(item) = item else { continue };
            self.budget.spend(copied(item.as_ref().map(Some)))?;
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
            if matches!(collected, Err(Fault::Exceeded)) {
                break;
            }
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
        // the other value is not evaluated
        if let ("or" | "orValue", Val::Optional(Some(value)), [_]) = (name, &target, call.args.as_slice()) {
            return Ok(if name == "or" { target.clone() } else { (**value).clone() });
        }
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

/// A key in a message.
fn key_text(key: &Val<'_>) -> String {
    match key {
        Val::Plain(Plain::Float(number)) => crate::causes::float_text(*number),
        key => key.as_key().map(|key| key.to_string()).unwrap_or_default(),
    }
}
