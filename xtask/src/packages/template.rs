//! The template of a controller, as `cargo generate` makes a crate of it outside the workspace.

use std::fs;
use std::path::Path;

use super::program::cargo_in;
use crate::files::{self, run, write};

/// The folder of the template.
const TEMPLATE: &str = "crates/controller/template";
/// The name of the crate that is made of it.
const NAME: &str = "my-controller";
/// Where the template has its dependencies from, and the packages that are checked instead.
const SOURCES: (&str, &str) = ("git = \"https://github.com/kinformer/kinformer\"", "version = \"0.1.0\"");

/// Makes a crate of the template in the workspace of packages, and runs its tests.
pub(super) fn check(workspace: &Path) -> Result<(), String> {
    let template = files::root().join(TEMPLATE);
    for path in files::below(&template, |_| true)? {
        let relative = path.strip_prefix(&template).map_err(|error| error.to_string())?;
        let relative = relative.to_string_lossy();
        let Some(target) = target(&relative) else { continue };
        let target = workspace.join(NAME).join(target);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        write(&target, &generated(&text).map_err(|problem| format!("{relative}: {problem}"))?)?;
    }
    println!("testing {TEMPLATE}");
    run(cargo_in(workspace).args(["test", "--quiet", "--package", NAME]))
}

/// The path of a file in the crate; `None` for those of the template itself.
fn target(path: &str) -> Option<&str> {
    match path {
        "README.md" | "cargo-generate.toml" => None,
        path => Some(path.strip_suffix(".liquid").unwrap_or(path)),
    }
}

/// The contents of a file in the crate.
fn generated(text: &str) -> Result<String, String> {
    let text = text.replace("{{project-name}}", NAME).replace("{{crate_name}}", &NAME.replace('-', "_"));
    let text = text.replace(SOURCES.0, SOURCES.1);
    // Formats of Rust are not placeholders.
    match text.split_once("{{") {
        Some((_, rest)) => {
            Err(format!("an unknown placeholder: {{{{{}", rest.lines().next().unwrap_or_default()))
        }
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        assert_eq!(generated("{{project-name}} {{crate_name}}").unwrap(), "my-controller my_controller");
        assert_eq!(generated(SOURCES.0).unwrap(), SOURCES.1);
        assert!(generated("{{author}}").unwrap_err().contains("author"));
        assert_eq!(target("Cargo.toml.liquid"), Some("Cargo.toml"));
        assert_eq!(target("README.md"), None);
    }
}
