//! Expressions over values without a schema, as admission has them.

mod evaluator;
mod scope;
#[cfg(test)]
mod tests;
mod variables;

pub(crate) use evaluator::{Evaluator, Failure, Output};
pub(crate) use scope::{Expected, Expression, Names, Scope, on_large_stack};
