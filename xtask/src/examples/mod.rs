//! The example programs and their pages in `docs/examples`: each page links the code of its program, and shows its
//! output.
//!
//! A program of a published crate whose head says that it `ends by itself.` has a page. The output of a page may have
//! cargo's wildcards: `[..]` for any text within a line, and a line `...` for any number of lines. Only standard output is
//! compared; what a program writes to standard error is printed if it fails.

mod index;
mod output;
mod page;
mod programs;

use std::collections::BTreeMap;

use crate::contract::fail;
use crate::files;
use page::{Page, write_command};
use programs::Example;

/// The folder of the pages.
const PAGES: &str = "docs/examples";

/// The page with the list of all others.
const INDEX: &str = "README";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The examples; all of them without a name
    names: Vec<String>,
    /// Write links to the code, and the output, into the pages; wildcards of the output that still match stay
    #[arg(long)]
    write: bool,
}

/// Compares the pages with the programs, or writes them.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut examples = programs::find()?;
    let pages = pages()?;
    if let Some(name) = args.names.iter().find(|name| !examples.iter().any(|example| example.name == **name))
    {
        let names: Vec<_> = examples.iter().map(|example| example.name.as_str()).collect();
        return Err(format!("no example {name:?} ends by itself; there are {}", names.join(", ")));
    }
    if !args.names.is_empty() {
        examples.retain(|example| args.names.contains(&example.name));
    }
    let built = programs::build(&examples)?;
    let mut problems = match (args.write, args.names.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => all_problems(&examples, &pages)?,
        (false, false) => of_programs(&examples, &pages),
    };
    for example in &examples {
        let (output, seconds) = match programs::run(&example.name, &built, programs::TIME_LIMIT) {
            Ok(run) => run,
            Err(problem) => {
                println!("{:>6} {}: failed", "", example.name);
                problems.push(problem);
                continue;
            }
        };
        println!("{seconds:4.1} s {}", example.name);
        let path = path(&example.name);
        match pages.get(&example.name) {
            None => {} // reported with the other problems of pages
            Some(text) if args.write => {
                let page = Page { path: &path, text };
                files::write(&files::root().join(&path), &page.with(example, &output))?;
            }
            Some(text) => problems.extend(Page { path: &path, text }.output_problem(&example.name, &output)),
        }
    }
    if args.write {
        let pages = self::pages()?;
        problems.extend(match args.names.is_empty() {
            true => all_problems(&examples, &pages)?,
            false => of_programs(&examples, &pages),
        });
    }
    fail(problems)
}

/// Runs every example and compares it with its page.
pub(crate) fn check() -> Result<(), String> {
    run(&Args { names: Vec::new(), write: false })
}

/// Returns all problems of the pages that are found without a run.
pub(crate) fn page_problems() -> Result<Vec<String>, String> {
    all_problems(&programs::find()?, &pages()?)
}

/// The texts of the pages, by name.
type Pages = BTreeMap<String, String>;

fn path(name: &str) -> String {
    format!("{PAGES}/{name}.md")
}

fn pages() -> Result<Pages, String> {
    let mut pages = Pages::new();
    for path in files::below(&files::root().join(PAGES), |_| true)? {
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            pages.insert(name, files::read(&files::from_root(&path))?);
        }
    }
    Ok(pages)
}

/// Returns all problems that are found without a run.
fn all_problems(examples: &[Example], pages: &Pages) -> Result<Vec<String>, String> {
    let mut problems = programs::same_names(&programs::names()?);
    problems.extend(self::problems(examples, pages));
    Ok(problems)
}

/// Returns missing pages, and pages with other links.
fn of_programs(examples: &[Example], pages: &Pages) -> Vec<String> {
    let mut problems = Vec::new();
    for example in examples {
        let path = path(&example.name);
        match pages.get(&example.name) {
            Some(text) => problems.extend(Page { path: &path, text }.problems(example)),
            None => problems.push(missing_page(&path, example)),
        }
    }
    problems
}

/// Returns the problems of all pages, also pages without a program, and those of the index.
fn problems(examples: &[Example], pages: &Pages) -> Vec<String> {
    let mut problems = of_programs(examples, pages);
    let names = pages.keys().filter(|name| *name != INDEX);
    let mut ended = Vec::new();
    for name in names {
        match examples.iter().any(|example| example.name == *name) {
            true => ended.push(name.as_str()),
            false => problems.push(format!(
                "{}:1: there is no program {name} that ends by itself; remove the page",
                path(name)
            )),
        }
    }
    problems.extend(index::problems(&path(INDEX), pages.get(INDEX).map_or("", String::as_str), &ended));
    problems
}

fn missing_page(path: &str, example: &Example) -> String {
    format!(
        "{path}:1: there is no page for the example {}; write a title and two to six sentences, then run `{}`",
        example.name,
        write_command(&example.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use programs::example;

    fn complete(names: &[&str]) -> Pages {
        let mut pages = Pages::new();
        let mut index = "# Examples\n".to_owned();
        for name in names {
            let text = format!("# {name}\n\nOne thing. Another thing.\n");
            let page = Page { path: &path(name), text: &text }.with(&example(name), "one\n");
            pages.insert((*name).to_owned(), page);
            index.push_str(&format!("\n| [{name}]({name}.md) | text |"));
        }
        pages.insert(INDEX.into(), index);
        pages
    }

    #[track_caller]
    fn assert_problem(examples: &[Example], pages: &Pages, expected: &str) {
        let problems = problems(examples, pages);
        assert!(matches!(&*problems, [problem] if problem.contains(expected)), "{problems:#?}");
    }

    /// The pages in the repository link the code of their programs. `ci` runs the programs.
    #[test]
    fn pages_link_the_code_of_their_programs() {
        let problems = page_problems().unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn complete_pages_have_no_problem() {
        assert_eq!(problems(&[example("a"), example("b")], &complete(&["a", "b"])), [""; 0]);
    }

    #[test]
    fn a_program_without_a_page_is_reported() {
        assert_problem(
            &[example("a"), example("b")],
            &complete(&["a"]),
            "docs/examples/b.md:1: there is no page for the example b",
        );
    }

    #[test]
    fn a_page_without_a_program_is_reported() {
        let expected = "docs/examples/b.md:1: there is no program b that ends by itself";
        let mut pages = complete(&["a", "b"]);
        pages.insert(INDEX.into(), "| [a](a.md) |".into());
        assert_problem(&[example("a")], &pages, expected);
    }

    #[test]
    fn a_page_with_links_to_other_files_is_reported() {
        let mut moved = example("a");
        moved.files = vec!["crates/x/examples/a/main.rs".into()];
        assert_problem(&[moved], &complete(&["a"]), "docs/examples/a.md:11: the links are not those");
    }

    #[test]
    fn a_page_that_the_index_does_not_list_is_reported() {
        let mut pages = complete(&["a", "b"]);
        pages.insert(INDEX.into(), "| [a](a.md) |".into());
        assert_problem(
            &[example("a"), example("b")],
            &pages,
            "docs/examples/README.md:1: it has no link to b.md",
        );
    }
}
