//! The macros that the parser does not expand: those with two variables, and those for optional values.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::common::ast::{Expr, IdedExpr};

use super::eval::Evaluation;
use super::fault::{Fault, Found, NO_OVERLOAD, error};
use super::value::Val;

impl<'e, 'a> Evaluation<'e, 'a> {
    /// Evaluates a macro; `None` for functions.
    pub(super) fn macros(
        &mut self,
        name: &str,
        target: &'e IdedExpr,
        arguments: &'e [IdedExpr],
    ) -> Option<Found<Val<'a>>> {
        Some(match (name, arguments) {
            ("all" | "exists" | "exists_one" | "existsOne", [first, second, each]) => {
                self.count(name, target, [first, second], each)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [first, second, each]) => {
                self.transform(name, target, [first, second], None, each)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [first, second, filter, each]) => {
                self.transform(name, target, [first, second], Some(filter), each)
            }
            ("optMap" | "optFlatMap", [variable, each]) => self.mapped(name, target, variable, each),
            ("sortBy", [variable, each]) => self.sorted(target, variable, each),
            _ => return None,
        })
    }

    fn mapped(
        &mut self,
        name: &str,
        target: &'e IdedExpr,
        variable: &'e IdedExpr,
        each: &'e IdedExpr,
    ) -> Found<Val<'a>> {
        let Val::Optional(value) = self.value(target)? else { return error(NO_OVERLOAD) };
        let Some(value) = value else { return Ok(Val::Optional(None)) };
        let result = self.with([(variable, (*value).clone())], |inner| inner.value(each))?;
        Ok(if name == "optMap" { Val::Optional(Some(Rc::new(result))) } else { result })
    }

    fn sorted(&mut self, target: &'e IdedExpr, variable: &'e IdedExpr, each: &'e IdedExpr) -> Found<Val<'a>> {
        let list = self.value(target)?;
        if !matches!(list, Val::Array(..) | Val::List(_) | Val::Keyed(..)) {
            return error(NO_OVERLOAD);
        }
        let mut sorted = Vec::new();
        for item in list.items(self.budget)? {
            let Val::Plain(key) = self.with([(variable, item.clone())], |inner| inner.value(each))? else {
                return error(NO_OVERLOAD);
            };
            if let Plain::String(text) = &key {
                self.budget.spend(text.len() / 10)?;
            }
            sorted.push((key, item));
        }
        self.budget.spend(sorted.len())?;
        sorted.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        Ok(Val::List(Rc::new(sorted.into_iter().map(|(_, item)| item).collect())))
    }

    /// Evaluates with more variables, whose names are given as expressions.
    fn with<const N: usize, T>(
        &mut self,
        variables: [(&'e IdedExpr, Val<'a>); N],
        evaluate: impl FnOnce(&mut Self) -> Found<T>,
    ) -> Found<T> {
        let base = self.variables.len();
        for (name, value) in variables {
            let Expr::Ident(name) = &name.expr else { return error(NO_OVERLOAD) };
            self.variables.push((name, Ok(value)));
        }
        let result = evaluate(self);
        self.variables.truncate(base);
        result
    }

    /// Returns the indexes of a list with the items, or the keys of a map with the values.
    fn pairs(&mut self, range: &'e IdedExpr) -> Found<(bool, Vec<(Val<'a>, Val<'a>)>)> {
        let range = self.value(range)?;
        let keys = match (range.keys(), range.length()) {
            (Some(keys), _) => keys,
            (None, Some(length)) => (0..length).map(Val::int).collect(),
            (None, None) => return error(NO_OVERLOAD),
        };
        self.budget.spend(keys.len())?;
        let mut pairs = Vec::with_capacity(keys.len());
        for key in keys {
            // a field that is null counts as missing
            if let Some(value) = self.field(&range, &key)? {
                pairs.push((key, value));
            }
        }
        Ok((range.keys().is_none(), pairs))
    }

    /// The macros with two variables that count.
    fn count(
        &mut self,
        name: &str,
        range: &'e IdedExpr,
        [first, second]: [&'e IdedExpr; 2],
        each: &'e IdedExpr,
    ) -> Found<Val<'a>> {
        let (mut count, mut failed) = (0, None);
        let (_, pairs) = self.pairs(range)?;
        let size = pairs.len();
        for (key, value) in pairs {
            match self.with([(first, key), (second, value)], |inner| inner.flag(each)) {
                Ok(flag) if flag != (name == "all") && matches!(name, "all" | "exists") => {
                    return Ok(Val::Plain(Plain::Bool(flag)));
                }
                Ok(flag) => count += usize::from(flag),
                Err(Fault::Exceeded) => return Err(Fault::Exceeded),
                Err(fault) if matches!(name, "all" | "exists") => failed = failed.or(Some(fault)),
                Err(fault) => return Err(fault),
            }
        }
        match failed {
            Some(fault) => Err(fault),
            None => Ok(Val::Plain(Plain::Bool(match name {
                "all" => count == size,
                "exists" => count > 0,
                _ => count == 1,
            }))),
        }
    }

    /// The macros with two variables that make a list or a map.
    fn transform(
        &mut self,
        name: &str,
        range: &'e IdedExpr,
        [first, second]: [&'e IdedExpr; 2],
        filter: Option<&'e IdedExpr>,
        each: &'e IdedExpr,
    ) -> Found<Val<'a>> {
        let (mut list, mut map) = (Vec::new(), BTreeMap::new());
        for (key, value) in self.pairs(range)?.1 {
            let place = key.as_key();
            let result = self.with([(first, key), (second, value)], |inner| {
                let is_chosen = filter.map_or(Ok(true), |filter| inner.flag(filter))?;
                if is_chosen { inner.value(each).map(Some) } else { Ok(None) }
            })?;
            match (name, result, place) {
                ("transformList", Some(result), _) => list.push(result),
                ("transformMap", Some(result), Some(place)) => {
                    map.insert(place, result);
                }
                (_, Some(Val::Map(entries)), _) => {
                    for (key, value) in entries.iter() {
                        if map.insert(key.clone(), value.clone()).is_some() {
                            return error(format!("insert failed: key {key} already exists"));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(if name == "transformList" { Val::List(Rc::new(list)) } else { Val::Map(Rc::new(map)) })
    }
}
