//! Expressions that are compiled, and what they can read.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use super::super::checker::Checker;
use super::super::compile::{STACK, parse, parts};
use super::super::shape::Shape;
use super::super::types::Type;
use super::variables::{EMPTY, NAMESPACE, REQUEST};

/// What an expression may evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Any,
    Bool,
    Text,
    TextOrNull,
}

impl Expected {
    /// # Errors
    /// Why a type is not this one.
    fn check(self, of: &Type<'_>) -> Result<(), String> {
        let is_null = matches!(of, Type::Null);
        let shown = if is_null { "null_type".to_owned() } else { of.to_string() };
        match self {
            Self::Any => Ok(()),
            Self::Bool if *of == Type::Bool => Ok(()),
            Self::Text | Self::TextOrNull if *of == Type::String => Ok(()),
            Self::TextOrNull if is_null => Ok(()),
            Self::Bool => Err(format!("must evaluate to bool but got {shown}")),
            Self::Text => Err(format!("must evaluate to string but got {shown}")),
            Self::TextOrNull => Err(format!("must evaluate to one of [string null_type] but got {shown}")),
        }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(super) text: Box<str>,
    pub(super) tree: IdedExpr,
    /// The indexes of the variables that it reads.
    pub(super) reads: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: Box<str>,
    /// The identifier in compiled expressions.
    pub(super) identifier: Box<str>,
    of: Type<'static>,
    pub(super) expression: Result<Expression, String>,
}

/// Which names expressions can read, apart from those that all of them can.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names {
    pub(crate) has_params: bool,
    pub(crate) has_variables: bool,
}

/// What expressions can read.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    names: Names,
    pub(super) variables: Vec<Variable>,
}

impl Scope {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, variables: Vec::new() }
    }

    /// Compiles an expression. The stack must be that of [`on_large_stack`].
    ///
    /// # Errors
    /// What is wrong with it, in the words of kube-apiserver.
    pub(crate) fn compile(&self, text: &str, expected: Expected) -> Result<Expression, String> {
        // the parser is not known to be free of panics
        catch_unwind(AssertUnwindSafe(|| self.checked(text, expected)))
            .unwrap_or_else(|_| Err("compilation failed: internal error".into()))
            .map(|(expression, _)| expression)
    }

    /// Adds a variable, which later expressions can read, also if it does not compile.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub(crate) fn declare(&mut self, name: &str, text: &str) -> Result<(), String> {
        let checked = catch_unwind(AssertUnwindSafe(|| self.checked(text, Expected::Any)))
            .unwrap_or_else(|_| Err("compilation failed: internal error".into()));
        let result = checked.as_ref().map(drop).map_err(Clone::clone);
        let (expression, of) = match checked {
            Ok((expression, of)) => (Ok(expression), of),
            Err(why) => (Err(why), Type::Dyn),
        };
        let identifier = format!("variables.{name}").into();
        self.variables.push(Variable { name: name.into(), identifier, of, expression });
        result
    }

    fn checked(&self, text: &str, expected: Expected) -> Result<(Expression, Type<'static>), String> {
        let failed = |why: String| format!("compilation failed: {why}");
        let mut tree = parse(text).map_err(failed)?;
        if reads_authorizer(&tree) {
            return Err(failed("kinformer-apiserver does not evaluate 'authorizer'".into()));
        }
        let mut reads = Vec::new();
        if self.names.has_variables {
            self.resolve(&mut tree, &mut reads);
        }
        let (of, constants) = {
            let mut known = vec![
                ("object", Type::Dyn),
                ("oldObject", Type::Dyn),
                ("namespaceObject", Type::Object(Shape::of_variable(&NAMESPACE))),
                ("request", Type::Object(Shape::of_variable(&REQUEST))),
            ];
            known.extend(self.names.has_params.then_some(("params", Type::Dyn)));
            known.extend(
                self.names.has_variables.then(|| ("variables", Type::Object(Shape::of_variable(&EMPTY)))),
            );
            known.extend(self.variables.iter().map(|variable| (&*variable.identifier, variable.of.clone())));
            let mut checker = Checker::new(&known);
            let of = checker.checked(&tree).map_err(|why| failed(format!("ERROR: <input>: {why}")))?;
            (of, checker.finish())
        };
        expected.check(&of)?;
        constants.map_err(|why| format!("program {why}"))?;
        Ok((Expression { text: text.into(), tree, reads }, of))
    }

    /// Replaces the fields of `variables` by identifiers.
    fn resolve(&self, tree: &mut IdedExpr, reads: &mut Vec<usize>) {
        if let Expr::Select(select) = &tree.expr
            && matches!(&select.operand.expr, Expr::Ident(name) if name == "variables")
        {
            let found = self.variables.iter().rposition(|variable| *variable.name == *select.field);
            let Some((index, variable)) = found.and_then(|at| Some((at, self.variables.get(at)?))) else {
                return;
            };
            if select.test {
                tree.expr = Expr::Literal(LiteralValue::Boolean(true.into()));
            } else {
                reads.push(index);
                tree.expr = Expr::Ident(variable.identifier.clone().into_string());
            }
            return;
        }
        match &mut tree.expr {
            Expr::Call(call) => {
                call.target.iter_mut().for_each(|target| self.resolve(target, reads));
                call.args.iter_mut().for_each(|argument| self.resolve(argument, reads));
            }
            Expr::Comprehension(loops) => {
                let loops = loops.as_mut();
                for part in [
                    &mut loops.iter_range,
                    &mut loops.accu_init,
                    &mut loops.loop_cond,
                    &mut loops.loop_step,
                    &mut loops.result,
                ] {
                    self.resolve(part, reads);
                }
            }
            Expr::List(list) => list.elements.iter_mut().for_each(|element| self.resolve(element, reads)),
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.resolve(&mut entry.key, reads);
                        self.resolve(&mut entry.value, reads);
                    }
                }
            }
            Expr::Select(select) => self.resolve(&mut select.operand, reads),
            Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }
}

fn reads_authorizer(tree: &IdedExpr) -> bool {
    let mut found = matches!(&tree.expr, Expr::Ident(name) if name == "authorizer");
    parts(tree, &mut |part| found = found || reads_authorizer(part));
    found
}

/// Runs a function with the stack that the parser needs; `None` if it cannot be run.
pub(crate) fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        thread.ok().and_then(|thread| thread.join().ok())
    })
}
