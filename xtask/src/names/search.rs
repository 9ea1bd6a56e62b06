//! Whether the search of rustdoc finds the counterparts by the names of other projects. It runs in Node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::api::Api;
use super::table::{OURS, Table};
use crate::files;

/// Asks the search, whose scripts it takes from the documentation.
const SCRIPT: &str = include_str!("search.js");

/// Returns the counterparts that the search of a folder of documentation does not find, which has all published libraries with all
/// features.
pub(crate) fn problems(documentation: &Path) -> Result<Vec<String>, String> {
    let (table, api) = (Table::read()?, Api::read()?);
    let names: BTreeSet<&str> = table.rows().filter_map(|(_, row)| row.alias()).collect();
    let folder = documentation.display().to_string();
    let arguments: Vec<&str> = ["-e", SCRIPT, &folder].into_iter().chain(names).collect();
    Ok(not_found(&table, &api, &files::output("node", &arguments)?))
}

/// Compares the answers, each a line with the name and the results.
fn not_found(table: &Table, api: &Api, answers: &str) -> Vec<String> {
    let answers: BTreeMap<&str, BTreeSet<&str>> = answers
        .lines()
        .map(|line| (line.split('\t').next().unwrap_or(line), line.split('\t').skip(1).collect()))
        .collect();
    let mut problems = Vec::new();
    for (_, row) in table.rows() {
        let Some(alias) = row.alias() else { continue };
        let found = answers.get(alias).cloned().unwrap_or_default();
        for path in &row.ours {
            // An item may have another name where it is exported.
            let is_exported = |found: &&str| path.ends_with(&format!("::{found}"));
            let is_found = |name: &str| found.contains(name) || found.iter().any(is_exported);
            if !api.items(path).iter().any(|item| is_found(&item.name)) {
                problems
                    .push(format!("{OURS}:{}: the search of rustdoc finds no {path} for {alias}", row.line));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counterparts_that_are_not_found_are_reported() {
        let rows = "# other\nPrependReactor | kinformer_apiserver::Fault |\nIsStopped | kinformer::InformerError::Stopped |\n";
        let (table, api) = (Table::parse("", rows).unwrap(), Api::read().unwrap());
        let problem = |row: &str| format!("docs/names/ours.txt:{row}");
        let fault =
            problem("2: the search of rustdoc finds no kinformer_apiserver::Fault for PrependReactor");
        let stopped =
            problem("3: the search of rustdoc finds no kinformer::InformerError::Stopped for IsStopped");
        let of = |answers: &str| not_found(&table, &api, answers);
        assert_eq!(of("PrependReactor\tFault\nIsStopped\tError::Stopped\n"), [""; 0]);
        assert_eq!(of("PrependReactor\tFault\nIsStopped\tInformerError::Stopped\n"), [""; 0]);
        assert_eq!(of("PrependReactor\tFaults\nIsStopped\n"), [fault.clone(), stopped.clone()]);
        assert_eq!(of(""), [fault, stopped]);
    }
}
