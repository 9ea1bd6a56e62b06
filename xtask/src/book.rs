//! The book: mdBook makes a site of `docs`, whose links are checked.

use std::collections::BTreeMap;
use std::path::Path;

use crate::contract::fail;
use crate::files;
use crate::links::resolved;

/// Where the site is written, as book.toml says.
const SITE: &str = "target/book";
/// The pages of the repository that are not in the book.
const REPOSITORY: &str = "https://github.com/kinformer/kinformer/blob/main";

/// Returns what to install, if mdBook is not there.
pub(crate) fn missing() -> Option<String> {
    let found = files::output("mdbook", &["--version"]).is_ok();
    (!found).then(|| "no mdbook: cargo install --locked mdbook".to_owned())
}

/// Builds the site. A warning of mdBook and a broken link are errors.
pub(crate) fn run() -> Result<(), String> {
    if let Some(missing) = missing() {
        return Err(missing);
    }
    files::empty_folder(SITE)?;
    let output =
        files::command("mdbook").arg("build").output().map_err(|error| format!("mdbook: {error}"))?;
    let log =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() || log.contains("WARN") || log.contains("ERROR") {
        return Err(format!("mdbook build:\n{log}"));
    }
    let mut site = Site::read(&files::root().join(SITE))?;
    site.correct();
    site.write()?;
    fail(site.problems())?;
    println!("book: {} pages in {SITE}", site.pages.len());
    Ok(())
}

/// The HTML of a site, by path, and the paths of its other files.
struct Site {
    pages: BTreeMap<String, String>,
    others: Vec<String>,
}

impl Site {
    fn read(folder: &Path) -> Result<Self, String> {
        let mut site = Self { pages: BTreeMap::new(), others: Vec::new() };
        for path in files::below(folder, |_| true)? {
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            // The first has links of the last page, the second of all pages, for a printer.
            if name.ends_with(".html") && name != "print.html" && name != "toc.html" && name != "404.html" {
                let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
                site.pages.insert(name, text);
            } else {
                site.others.push(name);
            }
        }
        Ok(site)
    }

    fn write(&self) -> Result<(), String> {
        let folder = files::root().join(SITE);
        self.pages.iter().try_for_each(|(name, text)| files::write(&folder.join(name), text))
    }

    /// Makes links to files outside of the book links to the repository, and those to a README links to its `index.html`.
    fn correct(&mut self) {
        for (name, text) in &mut self.pages {
            let source = format!("docs/{name}");
            *text = with_links(text, |link| {
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
                let target = resolved(&source, path)?;
                if target.starts_with("docs/") {
                    return path
                        .strip_suffix("README.html")
                        .map(|folder| format!("{folder}index.html{anchor}"));
                }
                // mdBook makes .html of each .md
                let target = target.strip_suffix(".html").map_or(target.clone(), |page| format!("{page}.md"));
                Some(format!("{REPOSITORY}/{target}{anchor}"))
            });
        }
    }

    /// Reports links without a page, and anchors without an element.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, text) in &self.pages {
            with_links(text, |link| {
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if path.is_empty() { Some(name.clone()) } else { resolved(name, path) };
                let found = target.is_some_and(|target| match self.pages.get(&target) {
                    Some(page) => anchor.is_empty() || page.contains(&format!("id=\"{anchor}\"")),
                    None => self.others.contains(&target),
                });
                if !found {
                    problems.push(format!("{SITE}/{name}: there is no {link}"));
                }
                None
            });
        }
        problems
    }
}

/// Calls a function for each relative link, and replaces those for which it returns another one.
fn with_links(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    const BEGIN: [&str; 2] = ["href=\"", "src=\""];
    let (mut rest, mut result) = (text, String::with_capacity(text.len()));
    while let Some(start) = BEGIN.iter().filter_map(|begin| Some(rest.find(begin)? + begin.len())).min() {
        let (before, after) = rest.split_at(start);
        let (link, after) = after.split_at(after.find('"').unwrap_or(after.len()));
        let is_relative = !link.is_empty() && !link.contains(':');
        let other = is_relative.then(|| replace(link)).flatten();
        result.push_str(before);
        result.push_str(other.as_deref().unwrap_or(link));
        rest = after;
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(pages: &[(&str, &str)]) -> Site {
        let pages = pages.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Site { pages, others: vec!["images/a.svg".into()] }
    }

    #[test]
    fn broken_links_of_the_site_are_reported() {
        let site = site(&[
            (
                "a.html",
                "<a href=\"b/c.html#x\">b</a><img src=\"images/a.svg\"><a href=\"https://x\"><a href=\"#y\">",
            ),
            ("b/c.html", "<h1 id=\"x\"></h1><a href=\"../a.html#no\"><a href=\"no.html\">"),
        ]);
        assert_eq!(
            site.problems(),
            [
                "target/book/a.html: there is no #y",
                "target/book/b/c.html: there is no ../a.html#no",
                "target/book/b/c.html: there is no no.html",
            ]
        );
    }

    #[test]
    fn links_are_corrected() {
        let links = ["../../README.html#x", "../../crates/a.rs", "d.html", "../README.html#y"];
        let mut site = site(&[("b/c.html", &links.map(|link| format!("<a href=\"{link}\">")).concat())]);
        site.correct();
        let corrected = [
            format!("{REPOSITORY}/README.md#x"),
            format!("{REPOSITORY}/crates/a.rs"),
            "d.html".into(),
            "../index.html#y".into(),
        ];
        assert_eq!(site.pages["b/c.html"], corrected.map(|link| format!("<a href=\"{link}\">")).concat());
    }
}
