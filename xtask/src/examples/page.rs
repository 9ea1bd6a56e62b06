//! A page: a title, some sentences, the command, links to the code and the output of a program.

use super::output::{difference, with_wildcards};
use super::programs::Example;

/// The lines before the generated blocks, and the line after each.
const CODE: &str = "<!-- the code, by `cargo xtask examples --write` -->";
const OUTPUT: &str = "<!-- the output, by `cargo xtask examples --write` -->";
const END: &str = "<!-- end -->";

/// How many sentences say what the program shows.
const SENTENCES: std::ops::RangeInclusive<usize> = 2..=6;

/// The text of a page, and its path.
pub(super) struct Page<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl Page<'_> {
    /// Returns what is missing, and links that are not those of the program's files.
    pub(super) fn problems(&self, example: &Example) -> Vec<String> {
        let Self { path, text } = self;
        let name = &example.name;
        let mut problems = Vec::new();
        let mut problem = |line: usize, what: String| problems.push(format!("{path}:{line}: {what}"));
        if text.lines().next() != Some(&format!("# {name}")) {
            problem(1, format!("its first line is not the title `# {name}`; correct it"));
        }
        let sentences = sentences(text);
        if !SENTENCES.contains(&sentences) {
            problem(
                1,
                format!(
                    "{sentences} sentences before the command; write {SENTENCES:?}: what to pay attention to"
                ),
            );
        }
        let command = command(example);
        if !text.contains(&block(&command)) {
            problem(1, format!("it does not have the block `{command}`; run `{}`", write_command(name)));
        }
        match section(text, CODE) {
            None => problem(1, format!("it has no links to the code; run `{}`", write_command(name))),
            Some(Section { line, body, .. }) if body != links(example) => problem(
                line,
                format!(
                    "the links are not those of the program's files; run `{}`\n{}",
                    write_command(name),
                    difference(body, &links(example), [path, "the program"])
                ),
            ),
            Some(_) => {}
        }
        match section(text, OUTPUT) {
            None => problem(1, format!("it has no output; run `{}`", write_command(name))),
            Some(Section { line, body, .. }) if unfenced(body).trim().is_empty() => {
                problem(line, "the output is empty; let the program print what it shows".into());
            }
            Some(_) => {}
        }
        problems
    }

    /// Compares the output of a run with that of the page, whose wildcards match anything.
    pub(super) fn output_problem(&self, name: &str, output: &str) -> Option<String> {
        let Section { line, body, .. } = section(self.text, OUTPUT)?;
        let expected = unfenced(body);
        let actual = with_wildcards(output, expected);
        (actual != expected).then(|| {
            format!(
                "{}:{line}: {name} prints something else; correct the program, or run `{}`\n{}",
                self.path,
                write_command(name),
                difference(expected, &actual, [self.path, name])
            )
        })
    }

    /// Returns the page with the command, links to the code of the program, and the output of a run.
    pub(super) fn with(&self, example: &Example, output: &str) -> String {
        let expected = section(self.text, OUTPUT).map_or("", |section| unfenced(section.body));
        let mut output = with_wildcards(output, expected);
        if !output.ends_with('\n') {
            output.push('\n');
        }
        let mut text = self.text.to_owned();
        let block = block(&command(example));
        if !text.contains(&block) {
            text = format!("{}\n\n{block}", text.trim_end());
        }
        text = replaced(&text, CODE, &links(example), "Its code:\n\n");
        replaced(&text, OUTPUT, &fenced(&output), "It prints:\n\n")
    }
}

/// The command that writes a page.
pub(super) fn write_command(name: &str) -> String {
    format!("cargo xtask examples --write {name}")
}

/// The command that runs a program.
fn command(example: &Example) -> String {
    format!("cargo run -p {} --example {}", example.package, example.name)
}

fn block(command: &str) -> String {
    format!("```sh\n{command}\n```\n")
}

/// The links to the files of a program.
fn links(example: &Example) -> String {
    example.files.iter().map(|path| format!("* [{path}](../../{path})\n")).collect()
}

fn fenced(text: &str) -> String {
    format!("```text\n{text}```\n")
}

/// The contents of a fenced block.
fn unfenced(block: &str) -> &str {
    let contents = block.split_once('\n').map_or("", |(_, rest)| rest);
    contents.trim_end().strip_suffix("```").unwrap_or_default()
}

/// The text between a mark and the next [`END`], without these lines.
struct Section<'a> {
    before: &'a str,
    body: &'a str,
    after: &'a str,
    /// The number of the line with the mark.
    line: usize,
}

fn section<'a>(text: &'a str, mark: &str) -> Option<Section<'a>> {
    let (before, rest) = text.split_once(&format!("{mark}\n"))?;
    let (body, after) = rest.split_once(&format!("{END}\n"))?;
    Some(Section { before, body, after, line: before.lines().count() + 1 })
}

/// Replaces a section, or appends it below an introduction.
fn replaced(text: &str, mark: &str, body: &str, introduction: &str) -> String {
    match section(text, mark) {
        Some(Section { before, after, .. }) => format!("{before}{mark}\n{body}{END}\n{after}"),
        None => format!("{}\n\n{introduction}{mark}\n{body}{END}\n", text.trim_end()),
    }
}

/// Counts the sentences between the title and the first block.
fn sentences(text: &str) -> usize {
    let prose = text.split_once('\n').map_or("", |(_, rest)| rest);
    let prose = prose.split("```").next().unwrap_or_default();
    prose
        .split_whitespace()
        .filter(|word| word.trim_end_matches([')', '*', '`']).ends_with(['.', '?', '!']))
        .count()
}

#[cfg(test)]
mod tests {
    use super::super::programs::example;
    use super::*;

    const PROSE: &str = "# a\n\nOne thing. Another thing.\n";

    fn written(text: &str) -> String {
        Page { path: "a.md", text }.with(&example("a"), "one\nport 80\n")
    }

    #[track_caller]
    fn assert_problem(text: &str, expected: &str) {
        let problems = Page { path: "a.md", text }.problems(&example("a"));
        assert!(matches!(&*problems, [problem] if problem.contains(expected)), "{problems:#?}");
    }

    #[test]
    fn a_page_is_completed_and_then_stays() {
        let page = written(PROSE);
        assert_eq!(
            page,
            format!(
                "{PROSE}\n```sh\ncargo run -p x --example a\n```\n\nIts code:\n\n{CODE}\n\
                * [crates/x/examples/a.rs](../../crates/x/examples/a.rs)\n{END}\n\nIt prints:\n\n\
                {OUTPUT}\n```text\none\nport 80\n```\n{END}\n"
            )
        );
        assert_eq!(written(&page), page);
        assert_eq!(Page { path: "a.md", text: &page }.problems(&example("a")), [""; 0]);
        let more = format!("{page}\nMore text.\n");
        assert_eq!(written(&more), more);
    }

    #[test]
    fn incomplete_pages_are_reported() {
        let page = written(PROSE);
        assert_problem(&page.replacen("# a\n", "# b\n", 1), "a.md:1: its first line is not the title `# a`");
        assert_problem(&page.replacen("Another thing.", "", 1), "1 sentences before the command");
        assert_problem(
            &page.replacen("Another thing.", &"S. ".repeat(6), 1),
            "7 sentences before the command",
        );
        assert_problem(
            &page.replace("-p x --example a", "--example a"),
            "does not have the block `cargo run -p x --example a`",
        );
        assert_problem(&page.replace(CODE, ""), "it has no links to the code");
        assert_problem(&page.replace(OUTPUT, ""), "it has no output");
        assert_problem(&page.replace("one\nport 80\n", ""), "the output is empty");
    }

    #[test]
    fn another_output_is_reported_with_the_difference() {
        let page = written(PROSE);
        let problem = |output: &str| Page { path: "a.md", text: &page }.output_problem("a", output);
        assert_eq!(problem("one\nport 80\n"), None);
        let problem = problem("one\nport 81\n").unwrap();
        assert!(problem.starts_with("a.md:17: a prints something else"), "{problem}");
        assert!(
            problem.contains("--write a") && problem.contains("port 80") && problem.contains("port 81"),
            "{problem}"
        );
    }

    #[test]
    fn output_may_have_wildcards_which_stay() {
        let page = written(PROSE).replace("port 80", "port [..]");
        assert_eq!(Page { path: "a.md", text: &page }.output_problem("a", "one\nport 81\n"), None);
        assert_eq!(written(&page), page);
        assert!(Page { path: "a.md", text: &page }.output_problem("a", "two\nport 81\n").is_some());
    }

    #[test]
    fn every_file_of_a_program_is_linked() {
        let page = written(PROSE);
        let mut program = example("a");
        program.files.push("crates/x/examples/common/mod.rs".into());
        let problems = Page { path: "a.md", text: &page }.problems(&program);
        assert!(
            problems[0].starts_with("a.md:11: the links are not those of the program's files"),
            "{problems:#?}"
        );
        assert!(
            problems[0].contains("cargo xtask examples --write a") && problems[0].contains("common/mod.rs"),
            "{problems:#?}"
        );
        let page = Page { path: "a.md", text: &page }.with(&program, "one\nport 80\n");
        assert_eq!(Page { path: "a.md", text: &page }.problems(&program), [""; 0]);
        assert_problem(&page, "the links are not those of the program's files");
    }
}
