//! `x-kubernetes-validations`: rules in CEL.
//!
//! The crate `cel` parses the rules, and `kube-cel` has most of the functions. The rules are checked for types and
//! evaluated here, as in cel-go, and their cost is estimated. An evaluation has the budget of kube-apiserver, and counts
//! its work in similar units, so that any rule ends soon.

mod calls;
mod checker;
mod compile;
mod costs;
mod english;
mod estimate;
mod eval;
pub(crate) mod expression;
mod fault;
mod formatting;
#[cfg(test)]
mod fuzz;
mod library;
mod lists;
mod literals;
mod macros;
mod named_formats;
mod names;
mod operators;
mod quantities;
mod rule;
mod shape;
mod signatures;
mod sums;
#[cfg(test)]
mod tests;
mod times;
mod types;
mod urls;
mod value;
mod walk;

pub(super) use compile::compile;
pub(super) use estimate::max_cardinality;
pub(super) use rule::Rule;
pub(super) use types::is_typed;
pub(super) use walk::{Subject, faults};
