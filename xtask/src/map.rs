//! The map in `docs/architecture.md`: it lists every crate, every name in it exists, and every dependency points
//! down.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Metadata, Package};

pub(crate) const MAP: &str = "docs/architecture.md";
const INVARIANT: &str = "**Architecture Invariant:**";
const NOT_BUILT: &str = "## Not built yet";

/// A crate of the workspace and its dependencies within the workspace.
pub(crate) struct Crate {
    name: String,
    folder: String,
    needs: Vec<(String, DependencyKind)>,
}

impl Crate {
    pub(crate) fn of(metadata: &Metadata) -> Vec<Self> {
        let packages = metadata.workspace_packages();
        let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
        let own = |package: &&Package| {
            let folder =
                package.manifest_path.parent().and_then(|p| p.strip_prefix(&metadata.workspace_root).ok());
            let needs = package.dependencies.iter().filter(|need| ours.contains(need.name.as_str()));
            Self {
                name: package.name.to_string(),
                folder: folder.map(ToString::to_string).unwrap_or_default(),
                needs: needs.map(|need| (need.name.clone(), need.kind)).collect(),
            }
        };
        packages.iter().map(own).collect()
    }
}

/// A row of the crate table.
struct Row {
    line: usize,
    folder: String,
    package: String,
    /// The folder names of the crates that it may depend on.
    needs: Vec<String>,
}

/// The section of a crate.
struct Section {
    line: usize,
    name: String,
    has_invariant: bool,
}

#[derive(Default)]
pub(crate) struct Map {
    rows: Vec<Row>,
    sections: Vec<Section>,
    /// Folders that are listed as not built yet.
    not_built: Vec<(usize, String)>,
}

impl Map {
    /// Parses rows such as ``| `crates/store` | `kinformer-store` | `core` | what lives there |``, sections that
    /// start with `### store`, and the folders listed under [`NOT_BUILT`].
    pub(crate) fn parse(text: &str) -> Self {
        let mut map = Self::default();
        let mut not_built = false;
        for (line, text) in (1..).zip(text.lines()) {
            if text.starts_with("## ") {
                not_built = text == NOT_BUILT;
            }
            if not_built {
                let folders = quoted(text).filter(|name| name.starts_with("crates/"));
                map.not_built.extend(folders.map(|folder| (line, folder)));
            } else if let Some(name) = text.strip_prefix("### ") {
                map.sections.push(Section { line, name: name.trim().to_owned(), has_invariant: false });
            } else if text.starts_with(INVARIANT)
                && let Some(section) = map.sections.last_mut()
            {
                section.has_invariant = true;
            } else if text.starts_with("| `") {
                let cells: Vec<&str> = text.trim_matches('|').split('|').collect();
                if let [folder, package, needs, ..] = cells.as_slice()
                    && let (Some(folder), Some(package)) = (quoted(folder).next(), quoted(package).next())
                {
                    map.rows.push(Row { line, folder, package, needs: quoted(needs).collect() });
                }
            }
        }
        map
    }

    /// Returns the statements of the map that are not true for these crates.
    pub(crate) fn problems(&self, crates: &[Crate]) -> Vec<String> {
        let mut problems = self.rows_problems(crates);
        problems.extend(self.sections_problems());
        for (line, folder) in &self.not_built {
            if crates.iter().any(|own| own.folder == *folder) {
                problems.push(format!("{MAP}:{line}: {folder} exists; give it a row and a section"));
            }
        }
        problems.extend(crates.iter().flat_map(|own| self.crate_problems(own)));
        problems
    }

    fn rows_problems(&self, crates: &[Crate]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut above = BTreeSet::new();
        for Row { line, folder, package, needs } in &self.rows {
            if !crates.iter().any(|own| own.name == *package && own.folder == *folder) {
                problems
                    .push(format!("{MAP}:{line}: there is no crate {package} in {folder}; remove the row"));
            }
            for needed in needs.iter().filter(|needed| !above.contains(needed.as_str())) {
                problems.push(format!(
                    "{MAP}:{line}: {package} needs {needed}, which has no row above; every edge points down"
                ));
            }
            if !above.insert(last_part(folder)) {
                problems.push(format!("{MAP}:{line}: {folder} has two rows; remove one"));
            }
        }
        problems
    }

    fn sections_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for Section { line, name, has_invariant } in &self.sections {
            if !self.rows.iter().any(|row| last_part(&row.folder) == name) {
                problems.push(format!("{MAP}:{line}: {name} is not a crate of the map; remove the section"));
            }
            if !has_invariant {
                problems.push(format!("{MAP}:{line}: no line of {name} starts with {INVARIANT}; write one"));
            }
        }
        for Row { line, folder, .. } in &self.rows {
            if !self.sections.iter().any(|section| section.name == last_part(folder)) {
                problems.push(format!("{MAP}:{line}: {folder} has no section; write one"));
            }
        }
        problems
    }

    fn crate_problems(&self, own: &Crate) -> Vec<String> {
        let Some(row) = self.rows.iter().find(|row| row.package == own.name) else {
            return vec![format!("{MAP}:1: {} in {} is not on the map; add a row", own.name, own.folder)];
        };
        let mut problems = Vec::new();
        for (needed, kind) in &own.needs {
            // Dev-dependencies are not restricted.
            if *kind == DependencyKind::Development {
                continue;
            }
            let manifest = format!("{}/Cargo.toml:1", own.folder);
            let name = needed.strip_prefix("kinformer-").unwrap_or(needed);
            if row.needs.iter().any(|allowed| allowed == name) {
                continue;
            }
            if name == "testing" {
                problems.push(format!("{manifest}: {needed} is for tests; make it a dev-dependency"));
            } else {
                problems.push(format!(
                    "{manifest}: it needs {needed}, which {MAP}:{} does not allow; remove the dependency, or change the map",
                    row.line
                ));
            }
        }
        problems
    }
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn last_part(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
| folder | package | needs | what |
|---|---|---|---|
| `crates/core` | `kinformer-core` | - | x |
| `crates/store` | `kinformer-store` | `core` | x |
### core
**Architecture Invariant:** x
### store
**Architecture Invariant:** x
## Not built yet
`crates/cache` and `cargo`
";

    fn own(name: &str, needs: &[(&str, DependencyKind)]) -> Crate {
        let folder = format!("crates/{}", name.strip_prefix("kinformer-").unwrap_or(name));
        let needs = needs.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Crate { name: name.into(), folder, needs }
    }

    fn store_with(needed: &str, kind: DependencyKind) -> String {
        let crates = [own("kinformer-core", &[]), own("kinformer-store", &[(needed, kind)])];
        Map::parse(TEXT).problems(&crates).join("\n")
    }

    fn with_text(from: &str, to: &str) -> String {
        let crates = [own("kinformer-core", &[]), own("kinformer-store", &[])];
        Map::parse(&TEXT.replacen(from, to, 1)).problems(&crates).join("\n")
    }

    #[test]
    fn only_the_dependencies_of_the_map_are_allowed() {
        use DependencyKind::{Build, Development, Normal};
        for allowed in [("kinformer-core", Normal), ("kinformer-testing", Development), ("x", Development)] {
            assert_eq!(store_with(allowed.0, allowed.1), "");
        }
        for kind in [Normal, Build] {
            let problem = store_with("kinformer-reflector", kind);
            assert!(problem.contains("crates/store/Cargo.toml:1: it needs kinformer-reflector"), "{problem}");
            assert!(store_with("kinformer-testing", kind).contains("make it a dev-dependency"));
        }
    }

    #[test]
    fn false_statements_of_the_map_are_reported() {
        assert_eq!(with_text("", ""), "");
        for (from, to, problem) in [
            (
                "| `crates/core` | `kinformer-core` |",
                "| `crates/base` | `kinformer-core` |",
                "there is no crate",
            ),
            (
                "| `crates/core` | `kinformer-core` | - | x |\n",
                "",
                "kinformer-core in crates/core is not on the map",
            ),
            (
                "| `kinformer-core` | - |",
                "| `kinformer-core` | `store` |",
                ":3: kinformer-core needs store, which has no row above",
            ),
            ("| `core` |", "| `core`, `processor` |", "needs processor, which has no row above"),
            (
                "### core\n",
                "### core\n**Architecture Invariant:** x\n### old\n",
                "old is not a crate of the map",
            ),
            ("### store\n**Architecture Invariant:** x\n", "### store\n", "no line of store starts with"),
            ("### store\n", "", "crates/store has no section"),
            ("`crates/cache`", "`crates/store`", "crates/store exists; give it a row"),
            ("|---|", "| `crates/core` | `kinformer-core` | - | x |\n|---|", "crates/core has two rows"),
        ] {
            let problems = with_text(from, to);
            assert!(problems.contains(problem), "{problem}: {problems}");
        }
    }
}
