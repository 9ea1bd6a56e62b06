//! The list of all pages, in the order in which to read them.

/// Returns the pages without a link, links without a page, and repeated links.
pub(super) fn problems(path: &str, text: &str, pages: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut linked = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some(name) = target.strip_suffix(".md").filter(|name| !name.contains('/')) else { continue };
            if !pages.contains(&name) {
                problems.push(format!("{path}:{line}: there is no page {target}; correct the link"));
            } else if linked.contains(&name) {
                problems.push(format!("{path}:{line}: another link to {target}; remove one"));
            }
            linked.push(name);
        }
    }
    let missing = pages.iter().filter(|page| !linked.contains(page));
    problems
        .extend(missing.map(|page| format!("{path}:1: it has no link to {page}.md; add one to the table")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_pages_are_compared() {
        let text = "See [a](a.md).\n| [b](b.md) | [the code](../../crates/x.rs), [guide](../guide.md) |\n";
        assert_eq!(problems("i.md", text, &["a", "b"]), [""; 0]);
        assert_eq!(
            problems("i.md", text, &["a", "b", "c"]),
            ["i.md:1: it has no link to c.md; add one to the table"]
        );
        assert_eq!(problems("i.md", text, &["a"]), ["i.md:2: there is no page b.md; correct the link"]);
        let twice = format!("{text}[a](a.md)\n");
        assert_eq!(problems("i.md", &twice, &["a", "b"]), ["i.md:3: another link to a.md; remove one"]);
    }
}
