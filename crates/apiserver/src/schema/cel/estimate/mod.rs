//! The cost of an expression, estimated before its first evaluation.
//!
//! Follows cel-go (`checker.Cost`), with its differences between equal expressions.

mod calls;
mod macros;
mod place;
mod range;
#[cfg(test)]
mod tests;
mod value;

use std::collections::HashMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};

use super::shape::Shape;
use super::types::Type;
use place::{Place, Step};
use range::Range;
use value::{Entries, Estimate, LIST, MAP, ONE, ZERO, size_of_type};

pub(in crate::schema) use place::max_cardinality;

struct Local<'e, 's> {
    name: &'e str,
    size: Option<Range>,
    entries: Option<Entries>,
    place: Place<'s>,
}

struct Estimator<'e, 's> {
    types: &'e HashMap<u64, Type<'s>>,
    root: Shape<'s>,
    locals: Vec<Local<'e, 's>>,
}

/// Returns the most that an expression may cost. `types` are those of its parts by their identifiers.
pub(super) fn max_cost<'s>(expression: &IdedExpr, types: &HashMap<u64, Type<'s>>, root: Shape<'s>) -> u64 {
    Estimator { types, root, locals: Vec::new() }.estimate(expression).cost.max
}

impl<'e, 's> Estimator<'e, 's> {
    fn type_of(&self, expression: &IdedExpr) -> Type<'s> {
        self.types.get(&expression.id).cloned().unwrap_or(Type::Dyn)
    }

    /// An expression whose value has no place.
    fn made(&self, expression: &IdedExpr, cost: Range, size: Option<Range>) -> Estimate<'s> {
        let of = self.type_of(expression);
        let size = size.or_else(|| size_of_type(&of));
        Estimate { cost, size, entries: None, place: Place::Nowhere, of }
    }

    fn estimate(&mut self, expression: &'e IdedExpr) -> Estimate<'s> {
        match &expression.expr {
            Expr::Literal(literal) => self.made(expression, ZERO, Some(size_of_literal(literal))),
            Expr::Ident(name) => self.identifier(expression, name),
            Expr::Select(select) => {
                let operand = self.estimate(&select.operand);
                if select.test {
                    return self.made(expression, operand.cost, None);
                }
                let is_charged = matches!(operand.of, Type::Map(..) | Type::Object(_) | Type::Open);
                let cost = if is_charged { operand.cost.plus(ONE) } else { operand.cost };
                let place = operand.place.step(self.root, &Step::Field(&select.field));
                let of = self.type_of(expression);
                let size = place.size().or_else(|| size_of_type(&of));
                Estimate { cost, size, entries: None, place, of }
            }
            Expr::Call(call) => self.call(expression, call),
            Expr::Comprehension(loops) => self.comprehension(expression, loops),
            Expr::List(list) => {
                let (mut cost, mut value) = (LIST, if list.elements.is_empty() { ZERO } else { Range::NONE });
                for element in &list.elements {
                    let element = self.estimate(element);
                    cost = cost.plus(element.cost);
                    value = value.union(element.size());
                }
                let entries = Some(Entries { key: ONE, value, is_list: true });
                let size = Range::of_length(list.elements.len());
                Estimate { entries, ..self.made(expression, cost, Some(size)) }
            }
            Expr::Map(map) => {
                let none = if map.entries.is_empty() { ZERO } else { Range::NONE };
                let (mut cost, mut key, mut value) = (MAP, none, none);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let (name, item) = (self.estimate(&entry.key), self.estimate(&entry.value));
                    cost = cost.plus(name.cost).plus(item.cost);
                    (key, value) = (key.union(name.size()), value.union(item.size()));
                }
                let entries = Some(Entries { key, value, is_list: false });
                let size = Range::of_length(map.entries.len());
                Estimate { entries, ..self.made(expression, cost, Some(size)) }
            }
            Expr::Struct(_) | Expr::Unspecified => self.made(expression, ZERO, None),
        }
    }

    fn identifier(&self, expression: &IdedExpr, name: &str) -> Estimate<'s> {
        let of = self.type_of(expression);
        let (place, size, entries) = match self.locals.iter().rev().find(|local| local.name == name) {
            Some(local) => (local.place, local.size, local.entries),
            None => (Place::Node(self.root), None, None),
        };
        let size = place.size().or_else(|| size_of_type(&of)).or(size);
        Estimate { cost: ONE, size, entries, place, of }
    }

    fn comprehension(&mut self, expression: &IdedExpr, loops: &'e ComprehensionExpr) -> Estimate<'s> {
        let (range, init) = (self.estimate(&loops.iter_range), self.estimate(&loops.accu_init));
        self.push(&loops.accu_var, &init);
        self.push_item(&loops.iter_var, &range);
        let (condition, step) = (self.estimate(&loops.loop_cond), self.estimate(&loops.loop_step));
        self.locals.pop();
        let result = self.estimate(&loops.result);
        self.locals.pop();
        let rounds = range.size().times(step.cost.plus(condition.cost));
        let cost = range.cost.plus(init.cost).plus(result.cost).plus(rounds);
        match &loops.accu_init.expr {
            Expr::Literal(_) => self.made(expression, cost, init.size),
            Expr::List(_) | Expr::Map(_) => {
                Estimate { entries: step.entries, ..self.made(expression, cost, Some(range.size())) }
            }
            _ => self.made(expression, cost, None),
        }
    }

    fn push(&mut self, name: &'e str, value: &Estimate<'s>) {
        self.locals.push(Local { name, size: value.size, entries: value.entries, place: value.place });
    }

    /// Declares the variable of a loop: the items of a list, or the keys of a map.
    fn push_item(&mut self, name: &'e str, range: &Estimate<'s>) {
        let is_list = range.entries.map_or(matches!(range.of, Type::List(_)), |entries| entries.is_list);
        self.push_part(name, range, if is_list { &Step::Item } else { &Step::Key });
    }

    fn push_part(&mut self, name: &'e str, range: &Estimate<'s>, step: &Step<'_>) {
        let size =
            range.entries.map(|entries| if matches!(step, Step::Key) { entries.key } else { entries.value });
        self.locals.push(Local { name, size, entries: None, place: range.place.step(self.root, step) });
    }

    fn call(&mut self, expression: &'e IdedExpr, call: &'e CallExpr) -> Estimate<'s> {
        let name = call.func_name.as_str();
        let target = call.target.as_deref();
        let is_namespace = |target: &IdedExpr| {
            matches!(&target.expr, Expr::Ident(_)) && !self.types.contains_key(&target.id)
        };
        let namespace = target.filter(|target| is_namespace(target));
        if let (Some(target), None) = (target, namespace)
            && let Some(estimate) = self.macros(expression, name, target, &call.args)
        {
            return estimate;
        }
        let arguments: Vec<Estimate<'s>> = call.args.iter().map(|argument| self.estimate(argument)).collect();
        if let Some(estimate) = self.operator(expression, name, &arguments) {
            return estimate;
        }
        let full = match namespace.map(|target| &target.expr) {
            Some(Expr::Ident(namespace)) => format!("{namespace}.{name}"),
            _ => name.to_owned(),
        };
        let target = target.filter(|_| namespace.is_none()).map(|target| self.estimate(target));
        let literals: Vec<Option<i64>> = call.args.iter().map(literal).collect();
        let called = calls::Call {
            target: target.as_ref(),
            arguments: &arguments,
            literals: &literals,
            root: self.root,
        };
        let (own, size) = called.estimate(&full);
        let costs = target.iter().chain(&arguments).map(|part| part.cost);
        let made = self.made(expression, costs.fold(own, Range::plus), size);
        match (name, arguments.as_slice()) {
            (operators::ADD, [left, right]) => {
                Estimate { entries: Entries::union(left.entries, right.entries), ..made }
            }
            (operators::INDEX, [operand, _]) if !matches!(operand.of, Type::Optional(_)) => {
                let place = operand.place.step(self.root, &Step::Item);
                let size = operand.entries.map(|entries| entries.value).or_else(|| place.size());
                let size = size.or_else(|| size_of_type(&made.of));
                Estimate { place, size, ..made }
            }
            _ => made,
        }
    }

    /// Estimates an operator that need not evaluate all operands, or `dyn`; `None` for other functions.
    fn operator(
        &self,
        expression: &IdedExpr,
        name: &str,
        arguments: &[Estimate<'s>],
    ) -> Option<Estimate<'s>> {
        if let (operators::CONDITIONAL, [condition, then, otherwise]) = (name, arguments) {
            let cost = condition.cost.plus(then.cost.union(otherwise.cost));
            let entries = Entries::union(then.entries, otherwise.entries);
            return Some(Estimate {
                entries,
                ..self.made(expression, cost, Some(then.size().union(otherwise.size())))
            });
        }
        if let (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) = (name, arguments) {
            let cost = Range::new(left.cost.min, left.cost.plus(right.cost).max);
            return Some(self.made(expression, cost, None));
        }
        if let ("dyn", [argument]) = (name, arguments) {
            let made = self.made(expression, argument.cost.plus(ONE), argument.size);
            return Some(Estimate { entries: argument.entries, ..made });
        }
        None
    }
}

fn literal(expression: &IdedExpr) -> Option<i64> {
    match &expression.expr {
        Expr::Literal(LiteralValue::Int(number)) => Some(*number.inner()),
        _ => None,
    }
}

fn size_of_literal(literal: &LiteralValue) -> Range {
    match literal {
        LiteralValue::String(text) => Range::of_length(text.inner().chars().count()),
        LiteralValue::Bytes(bytes) => Range::of_length(bytes.inner().len()),
        _ => ONE,
    }
}
