//! The public items of our crates, by path.

use std::collections::BTreeMap;

use super::crates::{Item, Module};
use super::table::{OURS, Row};
use crate::packages;

/// Our crates by name.
pub(super) struct Api(BTreeMap<String, Module>);

impl Api {
    pub(super) fn read() -> Result<Self, String> {
        let mut crates = BTreeMap::new();
        for package in packages::published()? {
            let Some(library) = package.targets.iter().find(|target| target.is_lib()) else { continue };
            let name = package.name.replace('-', "_");
            crates.insert(name, Module::of_crate(library.src_path.as_std_path())?);
        }
        Ok(Self(crates))
    }

    /// Returns the counterparts of a row that do not exist, or lack the alias.
    pub(super) fn problems(&self, row: &Row) -> Vec<String> {
        let mut problems = Vec::new();
        for path in &row.ours {
            let found = self.items(path);
            let has = |alias| found.iter().any(|item| item.aliases.iter().any(|known| known == alias));
            let own = path.rsplit("::").next().unwrap_or(path);
            let line = row.line;
            match row.alias() {
                _ if found.is_empty() => {
                    problems.push(format!("{OURS}:{line}: there is no {path}; correct it"))
                }
                Some(alias) if !same(alias, own) && !has(alias) => {
                    problems
                        .push(format!("{OURS}:{line}: {path} has no #[doc(alias = \"{alias}\")]; add it"));
                }
                _ => {}
            }
        }
        problems
    }

    /// The public items that a path may name. A path of another crate's item is followed to its definition.
    pub(super) fn items(&self, path: &str) -> Vec<&Item> {
        let segments: Vec<&str> = path.split("::").collect();
        let Some((root, mut rest)) = segments.split_first() else { return Vec::new() };
        let Some(mut module) = self.0.get(*root) else { return Vec::new() };
        let whole = module;
        while let [name, below @ ..] = rest
            && !below.is_empty()
            && let Some(child) = module.children.get(*name)
        {
            (module, rest) = (child, below);
        }
        let found = self.in_module(module, rest);
        // A module may export what another one defines.
        if found.is_empty() { self.in_module(whole, rest) } else { found }
    }

    /// The items of a module, and of those below it, with this name.
    fn in_module<'a>(&'a self, module: &'a Module, path: &[&str]) -> Vec<&'a Item> {
        let name = path.join("::");
        let mut found: Vec<&Item> = module.items.iter().filter(|item| item.name == name).collect();
        for reexport in &module.reexports {
            let [first, members @ ..] = path else { continue };
            if *first != reexport.name {
                continue;
            }
            let target = reexport.path.iter().map(String::as_str).chain(members.iter().copied());
            found.extend(self.items(&target.collect::<Vec<_>>().join("::")));
        }
        if found.is_empty() {
            found.extend(module.children.values().flat_map(|child| self.in_module(child, path)));
        }
        found
    }
}

/// Whether the search of rustdoc finds one by the other: it ignores case and underscores.
fn same(alias: &str, name: &str) -> bool {
    alias.replace('_', "").eq_ignore_ascii_case(&name.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_their_paths() {
        let api = Api::read().unwrap();
        for path in [
            "kinformer_core::Delta::Added",
            "kinformer::generic::Delta",
            "kinformer::InformerError::NotSynced",
            "kinformer::Packed::from_value",
            "kinformer_controller::finalizer::remove",
            "kinformer_workqueue::Bucket::per_second",
        ] {
            assert!(!api.items(path).is_empty(), "{path}");
        }
        for path in
            ["kinformer::Gone", "kinformer_gone::Delta", "kinformer::Informer::gone", "std::mem::swap"]
        {
            let row = Row::parse(7, &format!("Name | {path} |")).unwrap();
            let problem = format!("docs/names/ours.txt:7: there is no {path}; correct it");
            assert_eq!(api.problems(&row), [problem]);
        }
    }

    #[test]
    fn a_counterpart_has_the_name_as_an_alias() {
        let api = Api::read().unwrap();
        let problems = |row: &str| api.problems(&Row::parse(7, row).unwrap());
        assert_eq!(problems("RequeueAfter | kinformer_controller::Action::requeue_after |"), [""; 0]);
        assert_eq!(problems("AddEventHandler | kinformer::Informer::handler |"), [""; 0]);
        assert_eq!(
            problems("NoSuchAlias | kinformer::Informer::handler |"),
            [
                "docs/names/ours.txt:7: kinformer::Informer::handler has no #[doc(alias = \"NoSuchAlias\")]; add it"
            ]
        );
    }
}
