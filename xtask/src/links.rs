//! Links of Markdown files to other files of the repository and to headings, and the table of contents of the book.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{self, File};

const SUMMARY: &str = "docs/SUMMARY.md";

/// Reports relative links without a file, anchors without a heading, and pages that the book leaves out.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let mut pages = files::prose()?;
    pages.retain(|file| file.path.ends_with(".md"));
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let exists = |path: &str| files::root().join(path).exists();
    let mut problems: Vec<String> = pages.iter().flat_map(|page| of_page(page, &anchors, exists)).collect();
    problems.extend(left_out(&pages));
    Ok(problems)
}

fn of_page(
    page: &File,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
    exists: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (line, target) in links(&page.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) =
            target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let path = if path.is_empty() { Some(page.path.clone()) } else { resolved(&page.path, path) };
        let Some(path) = path.filter(|path| exists(path)) else {
            problems.push(format!("{}:{line}: there is no file {target}; correct the link", page.path));
            continue;
        };
        let has = |anchor| anchors.get(path.as_str()).is_none_or(|known| known.contains(anchor));
        if anchor.is_some_and(|anchor| !has(anchor)) {
            problems.push(format!("{}:{line}: there is no heading {target}; correct the link", page.path));
        }
    }
    problems
}

/// Reports pages below `docs` that are not in the table of contents: mdBook leaves them out.
fn left_out(pages: &[File]) -> Vec<String> {
    let summary = pages.iter().find(|page| page.path == SUMMARY).map_or("", |page| page.text.as_str());
    let listed: BTreeSet<String> =
        links(summary).filter_map(|(_, target)| resolved(SUMMARY, target)).collect();
    let is_page = |path: &str| path.starts_with("docs/") && path != SUMMARY;
    pages
        .iter()
        .filter(|page| is_page(&page.path) && !listed.contains(&page.path))
        .map(|page| format!("{}:1: it is not in {SUMMARY}; add it", page.path))
        .collect()
}

/// The targets of links and images, with their line numbers, outside of code.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).flat_map(|(number, line)| {
        let pieces = line.split('`').step_by(2).collect::<Vec<_>>();
        // A link whose text is code is divided: its target is in a later piece.
        pieces.into_iter().flat_map(move |piece| {
            piece.split("](").skip(1).filter_map(move |rest| Some((number, rest.split(')').next()?)))
        })
    })
}

/// The numbered lines that are not in a block of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The anchors of the headings, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let anchor = anchor(line.trim_start_matches('#').trim());
        let is_free = |name: &String| !anchors.contains(name);
        let name = if is_free(&anchor) {
            Some(anchor)
        } else {
            (1..).map(|number| format!("{anchor}-{number}")).find(is_free)
        };
        anchors.extend(name);
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect::<String>().to_lowercase()
}

/// The path from the root of a target in a file, if it is within the root.
pub(crate) fn resolved(from: &str, target: &str) -> Option<String> {
    let mut path: Vec<&str> = from.split('/').collect();
    path.pop();
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(path.pop()?),
            segment => path.push(segment),
        }
    }
    Some(path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn broken_links_are_reported() {
        let text = "[a](b.md#two-words) [`b`](../b.rs) ![c](https://x/y) [d](#here)\n# Here\n```text\n[x](no.md)\n```\n\
                    `[x](no.md)` [e](no.md)\n[f](b.md#no) [g](../../b.md)\n";
        let anchors = BTreeMap::from([
            ("docs/a.md", anchors(text)),
            ("docs/b.md", anchors("# Two words\n## `Two` words\n")),
        ]);
        let exists = |path: &str| ["docs/a.md", "docs/b.md", "b.rs"].contains(&path);
        assert_eq!(
            of_page(&file("docs/a.md", text), &anchors, exists),
            [
                "docs/a.md:6: there is no file no.md; correct the link",
                "docs/a.md:7: there is no heading b.md#no; correct the link",
                "docs/a.md:7: there is no file ../../b.md; correct the link",
            ]
        );
        assert!(anchors["docs/b.md"].contains("two-words-1"));
    }

    #[test]
    fn anchors_have_no_punctuation() {
        assert_eq!(anchor("Controller::for_stream is missing"), "controllerfor_stream-is-missing");
        assert_eq!(anchor("Why is `x` not there?"), "why-is-x-not-there");
    }

    #[test]
    fn pages_that_the_book_leaves_out_are_reported() {
        let pages = [
            file(SUMMARY, "* [a](a.md)\n"),
            file("docs/a.md", ""),
            file("docs/x/b.md", ""),
            file("c.md", ""),
        ];
        assert_eq!(left_out(&pages), ["docs/x/b.md:1: it is not in docs/SUMMARY.md; add it"]);
    }
}
