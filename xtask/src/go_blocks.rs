//! The Go programs of the pages for those who come from client-go and controller-runtime: they compile.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::process::Command;

use crate::{e2e, files};

/// The module with whose dependencies they are compiled.
const MODULE: &str = "e2e/controller-runtime";
const PAGES: [&str; 2] = ["docs/coming-from-client-go.md", "docs/coming-from-controller-runtime.md"];

/// Compiles each Go block, unless these blocks have been compiled.
pub(crate) fn check() -> Result<(), String> {
    let mut blocks = Vec::new();
    for page in PAGES {
        let found = blocks_of(&files::read(page)?);
        if found.is_empty() {
            return Err(format!("{page} has no Go block"));
        }
        blocks.extend(found.into_iter().map(|(line, text)| (format!("{page}:{line}"), text)));
    }
    let mut hash = DefaultHasher::new();
    (&blocks, files::read(&format!("{MODULE}/go.mod"))?).hash(&mut hash);
    let compiled = e2e::cache()?.join(format!("go-blocks-{:016x}", hash.finish()));
    if compiled.exists() {
        return Ok(());
    }
    if let Some(missing) = e2e::missing() {
        return Err(missing);
    }
    // With the flags of the programs, whose dependencies are compiled already.
    println!("compiling the {} Go programs of the documentation ...", blocks.len());
    let folder = tempfile::tempdir().map_err(|error| format!("a temporary folder: {error}"))?;
    let overlay = overlay(folder.path(), &blocks)?;
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-overlay"]).arg(overlay).arg("./documentation/...");
    e2e::finish(go.current_dir(files::root().join(MODULE)))?;
    fs::write(&compiled, "").map_err(|error| format!("{}: {error}", compiled.display()))
}

/// Writes each block as a package, and the file that places the packages into the module. A compiler error names the page.
fn overlay(folder: &Path, blocks: &[(String, String)]) -> Result<std::path::PathBuf, String> {
    let mut replace = serde_json::Map::new();
    for (number, (place, text)) in blocks.iter().enumerate() {
        let file = folder.join(format!("{number}.go"));
        let (page, line) = place.rsplit_once(':').unwrap_or((place, "1"));
        let page = files::root().join(page);
        files::write(&file, &format!("package block\n\n//line {}:{line}\n{text}", page.display()))?;
        let virtual_file = files::root().join(MODULE).join(format!("documentation/block{number}/block.go"));
        replace.insert(virtual_file.display().to_string(), file.display().to_string().into());
    }
    let overlay = folder.join("overlay.json");
    files::write(&overlay, &serde_json::json!({"Replace": replace}).to_string())?;
    Ok(overlay)
}

/// The Go blocks of a page, each with the number of its first line.
fn blocks_of(page: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut is_go = false;
    for (line, number) in page.lines().zip(1..) {
        match line {
            "```go" => {
                is_go = true;
                blocks.push((number + 1, String::new()));
            }
            "```" => is_go = false,
            _ if is_go => blocks.iter_mut().rev().take(1).for_each(|(_, text)| {
                text.push_str(line);
                text.push('\n');
            }),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_lines() {
        let page =
            "a\n```go\nfunc a() {}\n```\n```rust\nfn b() {}\n```\n\n```go\nvar c int\n\nvar d int\n```\n";
        let expected = [(3, "func a() {}\n".to_owned()), (10, "var c int\n\nvar d int\n".to_owned())];
        assert_eq!(blocks_of(page), expected);
    }

    #[test]
    fn each_page_has_ten_pairs() {
        for page in PAGES {
            assert_eq!(blocks_of(&files::read(page).unwrap()).len(), 10, "{page}");
        }
    }

    #[test]
    fn blocks_are_packages_of_the_module() {
        let folder = tempfile::tempdir().unwrap();
        let overlay =
            overlay(folder.path(), &[("docs/a.md:7".to_owned(), "var c int\n".to_owned())]).unwrap();
        let replaced = fs::read_to_string(overlay).unwrap();
        assert!(replaced.contains("e2e/controller-runtime/documentation/block0/block.go"), "{replaced}");
        let text = fs::read_to_string(folder.path().join("0.go")).unwrap();
        assert!(text.starts_with("package block\n") && text.contains("docs/a.md:7\nvar c int"), "{text}");
    }
}
