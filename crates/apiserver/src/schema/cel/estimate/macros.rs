//! The macros that the parser does not expand, estimated as their expansions in cel-go.

use kube_cel::cel::common::ast::{Expr, IdedExpr};

use super::super::types::Type;
use super::Estimator;
use super::place::Step;
use super::range::Range;
use super::value::{Entries, Estimate, LIST, MAP, ONE, TRAVERSAL, ZERO};

impl<'e, 's> Estimator<'e, 's> {
    /// Estimates a macro; `None` for functions.
    pub(super) fn macros(
        &mut self,
        expression: &IdedExpr,
        name: &str,
        target: &'e IdedExpr,
        arguments: &'e [IdedExpr],
    ) -> Option<Estimate<'s>> {
        let variable = |argument: &'e IdedExpr| match &argument.expr {
            Expr::Ident(name) => name.as_str(),
            _ => "",
        };
        Some(match (name, arguments) {
            ("all" | "exists" | "exists_one" | "existsOne", [first, second, each]) => {
                let range = self.estimate(target);
                let each = self.each(&range, [variable(first), variable(second)], each);
                self.count(expression, name, &range, each.cost)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [first, second, rest @ .., each]) => {
                let range = self.estimate(target);
                let names = [variable(first), variable(second)];
                let filter = rest.first().map(|filter| self.each(&range, names, filter).cost);
                let each = self.each(&range, names, each);
                self.transform(expression, name, &range, filter, &each)
            }
            ("optMap" | "optFlatMap", [name_of_value, each]) => {
                let target = self.estimate(target);
                let value =
                    Estimate { cost: target.cost.plus(ONE), size: None, entries: None, ..target.clone() };
                self.push(variable(name_of_value), &value);
                let each = self.estimate(each);
                self.locals.pop();
                let bound = LIST.plus(value.cost).plus(each.cost);
                let bound = if name == "optMap" { bound.plus(ONE) } else { bound };
                let cost = target.cost.plus(ONE).plus(bound.union(ONE));
                self.made(expression, cost, None)
            }
            ("sortBy", [item, key]) => {
                let target = self.estimate(target);
                self.push_item(variable(item), &target);
                let key = self.estimate(key);
                self.locals.pop();
                let rounds = target.size().times(LIST.plus(ONE).plus(ONE).plus(key.cost));
                let mapped = LIST.plus(ONE).plus(ONE).plus(rounds);
                let is_text = matches!(key.of, Type::String | Type::Bytes);
                let factor = if is_text { 2.0 + TRAVERSAL } else { 2.0 };
                let sorted = target.size().times(target.size()).by(factor).plus(ONE).plus(LIST);
                let cost = LIST.plus(target.cost).plus(ONE).plus(mapped).plus(sorted);
                self.made(expression, cost, Some(target.size().times(target.size())))
            }
            _ => return None,
        })
    }

    /// Estimates the body of a macro with two variables.
    fn each(&mut self, range: &Estimate<'s>, names: [&'e str; 2], body: &'e IdedExpr) -> Estimate<'s> {
        let [first, second] = names;
        self.push_part(first, range, &Step::Key);
        self.push_part(second, range, &Step::Item);
        let body = self.estimate(body);
        self.locals.truncate(self.locals.len().saturating_sub(2));
        body
    }

    fn count(&self, expression: &IdedExpr, name: &str, range: &Estimate<'s>, each: Range) -> Estimate<'s> {
        let two = ONE.plus(ONE);
        let (round, result) = match name {
            "all" => (Range::new(1, each.max.saturating_add(1)).plus(two), ONE),
            "exists" => (Range::new(1, each.max.saturating_add(1)).plus(two).plus(ONE), ONE),
            _ => (each.plus(ONE.union(two)), two),
        };
        let cost = range.cost.plus(result).plus(range.size().times(round));
        self.made(expression, cost, Some(ONE))
    }

    fn transform(
        &self,
        expression: &IdedExpr,
        name: &str,
        range: &Estimate<'s>,
        filter: Option<Range>,
        each: &Estimate<'s>,
    ) -> Estimate<'s> {
        let (init, step) = match name {
            "transformList" => (LIST, LIST.plus(ONE).plus(ONE).plus(each.cost)),
            "transformMap" => (MAP, ONE.plus(ONE).plus(ONE).plus(each.cost)),
            _ => (MAP, ONE.plus(ONE).plus(each.cost)),
        };
        let step = filter.map_or(step, |filter| filter.plus(step.union(ONE)));
        let cost = range.cost.plus(init).plus(ONE).plus(range.size().times(step));
        let value = ZERO.union(each.size());
        let entries = (name == "transformList").then_some(Entries { key: ONE, value, is_list: true });
        Estimate { entries, ..self.made(expression, cost, Some(range.size())) }
    }
}
