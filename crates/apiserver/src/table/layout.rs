//! The columns of a kind and the function that computes its cells.

use serde_json::Value;

use super::view::View;

/// The columns of a kind (name, type, priority) and the function that computes its cells.
pub(super) struct Layout {
    pub(super) columns: &'static [(&'static str, &'static str, i64)],
    pub(super) cells: fn(&View<'_>) -> Vec<Value>,
}

pub(super) const S: &str = "string";
pub(super) const I: &str = "integer";

macro_rules! layout {
    ([$($column:expr),* $(,)?], $cells:expr) => {
        Layout { columns: &[("Name", S, 0), $($column),*], cells: $cells }
    };
}
pub(super) use layout;
