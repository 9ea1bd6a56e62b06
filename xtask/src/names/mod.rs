//! The names of client-go, controller-runtime and kube-runtime, with what does the same here, or why nothing does.
//!
//! The names are generated (`upstream.tsv`), the counterparts are written by hand (`ours.txt`). Each counterpart has the name as
//! an alias, so that the search of rustdoc finds it.

mod api;
pub(crate) mod crates;
pub(crate) mod search;
mod table;

use api::Api;
pub(crate) use table::{PAGE, Table, UPSTREAM};

/// Returns names without a counterpart or a reason, counterparts that do not exist, and missing aliases.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let table = Table::read()?;
    let api = Api::read()?;
    let mut problems = table.problems();
    problems.extend(table.rows().flat_map(|(_, row)| api.problems(row)));
    Ok(problems)
}
