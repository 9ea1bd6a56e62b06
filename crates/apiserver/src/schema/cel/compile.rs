//! The compilation of rules.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::parser::Parser;

use super::super::field_path;
use super::super::structural::{Additional, Structural};
use super::checker::{Checker, INSTANTIATION};
use super::estimate::max_cost;
use super::literals;
use super::rule::{Compiled, Rule};
use super::shape::Shape;
use super::types::Type;

/// How long an expression may be, in bytes, so that the parser ends soon.
const MAX_LENGTH: usize = 8 << 10;
/// How long all expressions of a schema may be.
const MAX_TOTAL: usize = 256 << 10;
/// How deep an expression may be. cel-go allows 250 levels of each kind of expression.
pub(super) const MAX_DEPTH: usize = 120;
/// The stack for the parser, which recurses for each operator.
pub(super) const STACK: usize = 256 << 20;

/// Compiles the rules of a schema.
pub(crate) fn compile(root: &mut Structural) {
    if !root.has_checks {
        return;
    }
    let compile_all = || {
        let (mut compiled, mut left) = (Vec::new(), MAX_TOTAL);
        gather(root, true, &mut compiled, &mut left);
        compiled
    };
    // the parser recurses deeply
    let compiled = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, compile_all);
        thread.ok().and_then(|thread| thread.join().ok())
    });
    let mut compiled = compiled.unwrap_or_default().into_iter();
    assign(root, &mut || compiled.next().unwrap_or_else(|| Compiled::failed("internal error")));
}

/// Compiles the rules of a node and those below it. `left` is how long the expressions may be.
fn gather(node: &Structural, is_root: bool, compiled: &mut Vec<Compiled>, left: &mut usize) {
    for rule in &node.validations {
        let rest = left.checked_sub(rule.text.len() + rule.message_expression.len());
        *left = rest.unwrap_or_default();
        let compile = || compiled_rule(rule, node, is_root || node.is_embedded);
        compiled.push(match rest {
            None => Compiled::failed(&format!(
                "the expressions of a schema exceed the limit of {MAX_TOTAL} bytes"
            )),
            // the parser is not known to be free of panics
            Some(_) => {
                catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| Compiled::failed("internal error"))
            }
        });
    }
    let children = node.properties().map(|(_, property)| property);
    let children = children.chain(node.items.as_deref()).chain(node.additional.schema());
    children.filter(|child| child.has_checks).for_each(|child| gather(child, false, compiled, left));
}

fn compiled_rule(rule: &Rule, schema: &Structural, is_root: bool) -> Compiled {
    let mut compiled = Compiled::empty();
    if rule.text.trim().is_empty() {
        return compiled;
    }
    let Some(own) = Type::of(schema, is_root) else {
        compiled.condition = Err("failed to convert to declType for CEL validation rules".into());
        return compiled;
    };
    let old = if rule.is_optional { Type::Optional(Box::new(own.clone())) } else { own.clone() };
    let variables = [("self", own), ("oldSelf", old)];
    let root = if is_root { Shape::of_root(schema) } else { Shape::of(schema) };
    let checked = |text: &str, expected: &Type<'_>, what: &str| {
        let mut expression = parse(text).map_err(|why| format!("compilation failed: {why}"))?;
        let mut checker = Checker::new(&variables);
        let result = checker.checked(&expression);
        let result = result.map_err(|why| format!("compilation failed: ERROR: <input>: {why}"))?;
        if result != *expected {
            return Err(format!("{what} must evaluate to a {expected}"));
        }
        let parts = checker.finish()?;
        let cost = max_cost(&expression, &parts.types, root);
        name_sums(&mut expression, &parts.sums);
        Ok((expression, cost))
    };
    match checked(&rule.text, &Type::Bool, "cel expression") {
        Ok((expression, cost)) => {
            compiled.cost = cost;
            compiled.uses_old = reads(&expression, "oldSelf");
            compiled.condition = Ok(Some(expression));
        }
        Err(why) => {
            let program = if why.starts_with(INSTANTIATION) { "program " } else { "" };
            compiled.condition = Err(format!("{program}{why}"));
            return compiled;
        }
    }
    if !rule.message_expression.is_empty() {
        compiled.message = match checked(&rule.message_expression, &Type::String, "messageExpression") {
            Err(why) if why.starts_with("compilation") || why.starts_with(INSTANTIATION) => {
                Err(format!("messageExpression {why}"))
            }
            Err(why) => Err(why),
            Ok((expression, cost)) => {
                compiled.message_cost = cost;
                Ok(Some(expression))
            }
        };
    }
    compiled.field_path = field_path::normalized(&rule.field_path, schema).unwrap_or_default();
    compiled
}

/// Sets the compiled rules, in the order of [`gather`].
fn assign(node: &mut Structural, next: &mut impl FnMut() -> Compiled) {
    for rule in &mut node.validations {
        rule.compiled = Some(Arc::new(next()));
    }
    node.properties_mut()
        .map(|(_, child)| child)
        .filter(|child| child.has_checks)
        .for_each(|child| assign(child, next));
    if let Some(child) = node.items.as_deref_mut().filter(|child| child.has_checks) {
        assign(child, next);
    }
    if let Additional::Schema(child) = &mut node.additional
        && child.has_checks
    {
        assign(child, next);
    }
}

/// Parses an expression.
///
/// # Errors
/// Why that is not possible.
pub(super) fn parse(text: &str) -> Result<IdedExpr, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!(
            "ERROR: <input>: expression of {} bytes exceeds the limit of {MAX_LENGTH}",
            text.len()
        ));
    }
    let text = &literals::normalized(text)?;
    if has_double_sign(&without_literals(text)) {
        return Err("ERROR: <input>: '!!' and '--' are not supported".into());
    }
    let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(250);
    let expression = parser.parse(text).map_err(|errors| errors.to_string())?;
    if is_deeper(&expression, MAX_DEPTH) {
        return Err(format!("ERROR: <input>: expression recursion limit exceeded: {MAX_DEPTH}"));
    }
    Ok(expression)
}

/// Whether an operand has two signs, which the parser takes for one.
fn has_double_sign(text: &str) -> bool {
    let is_operand = |c: char| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '}' | '\'');
    let minus = text
        .match_indices("--")
        .any(|(at, _)| !text.get(..at).is_some_and(|head| head.ends_with(is_operand)));
    text.contains("!!") || text.contains("---") || minus
}

/// Returns an expression, whose literals are normalized, without white space and the content of its texts.
fn without_literals(text: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => {
                quote = None;
                out.push('\'');
            }
            Some(_) => {}
            None if c == '\'' => quote = Some(c),
            None if c.is_whitespace() => {}
            None => out.push(c),
        }
    }
    out
}

/// Calls a function for each direct part of an expression.
pub(super) fn parts<'e>(expression: &'e IdedExpr, each: &mut dyn FnMut(&'e IdedExpr)) {
    match &expression.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|target| each(target));
            call.args.iter().for_each(each);
        }
        Expr::Comprehension(loops) => {
            [&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result]
                .into_iter()
                .for_each(each);
        }
        Expr::List(list) => list.elements.iter().for_each(each),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    each(&entry.key);
                    each(&entry.value);
                }
            }
        }
        Expr::Select(select) => each(&select.operand),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// Names the calls of `sum` by the types of their results.
fn name_sums(expression: &mut IdedExpr, sums: &HashMap<u64, &'static str>) {
    if sums.is_empty() {
        return;
    }
    if let Expr::Call(call) = &mut expression.expr
        && let Some(name) = sums.get(&expression.id)
    {
        call.func_name = (*name).to_owned();
    }
    let each = |part: &mut IdedExpr| name_sums(part, sums);
    match &mut expression.expr {
        Expr::Call(call) => {
            call.target.iter_mut().map(|target| &mut **target).chain(&mut call.args).for_each(each);
        }
        Expr::Comprehension(loops) => {
            let loops = &mut **loops;
            [
                &mut loops.iter_range,
                &mut loops.accu_init,
                &mut loops.loop_cond,
                &mut loops.loop_step,
                &mut loops.result,
            ]
            .into_iter()
            .for_each(each);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(each),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    name_sums(&mut entry.key, sums);
                    name_sums(&mut entry.value, sums);
                }
            }
        }
        Expr::Select(select) => name_sums(&mut select.operand, sums),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn is_deeper(expression: &IdedExpr, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    let mut deeper = false;
    parts(expression, &mut |part| deeper = deeper || is_deeper(part, depth));
    deeper
}

fn reads(expression: &IdedExpr, variable: &str) -> bool {
    let mut found = matches!(&expression.expr, Expr::Ident(name) if name == variable);
    parts(expression, &mut |part| found = found || reads(part, variable));
    found
}
