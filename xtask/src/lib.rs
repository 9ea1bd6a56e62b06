//! The pages whose Rust blocks are documentation tests: the README and the book. The tasks are in `main.rs`.

/// Makes the Rust blocks of each page documentation tests of a module.
macro_rules! pages {
    ($($module:ident: $path:literal,)*) => {
        $(
            #[doc = $path]
            #[cfg_attr(doctest, doc = include_str!(concat!("../../", $path)))]
            pub mod $module {}
        )*
        #[cfg(test)]
        const PAGES: &[(&str, &str)] = &[$(($path, include_str!(concat!("../../", $path)))),*];
    };
}

// Those of docs/examples have no Rust.
pages! {
    readme: "README.md",
    front: "docs/README.md",
    architecture: "docs/architecture.md",
    beyond_one_process: "docs/beyond-one-process.md",
    cache: "docs/cache.md",
    client_go: "docs/coming-from-client-go.md",
    compared: "docs/compared.md",
    concepts: "docs/concepts.md",
    contract: "docs/contract.md",
    controller: "docs/controller.md",
    controller_runtime: "docs/coming-from-controller-runtime.md",
    informers: "docs/informers.md",
    known_as: "docs/known-as.md",
    kubeconfigs: "docs/kubeconfigs.md",
    kube_rs: "docs/coming-from-kube-rs.md",
    life_of_an_event: "docs/life-of-an-event.md",
    names: "docs/names.md",
    observability: "docs/observability.md",
    performance: "docs/performance.md",
    permissions: "docs/permissions.md",
    ports: "docs/ports.md",
    program: "docs/program.md",
    recipes: "docs/recipes.md",
    reliability: "docs/reliability.md",
    serve: "docs/serve.md",
    serve_page: "docs/serve-page.md",
    start: "docs/start.md",
    testing: "docs/testing.md",
    troubleshooting: "docs/troubleshooting.md",
    tutorial: "docs/tutorial.md",
    versions: "docs/versions.md",
    workqueue: "docs/workqueue.md",
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::PAGES;

    fn page(path: &str) -> &'static str {
        PAGES.iter().find(|(name, _)| *name == path).unwrap().1
    }

    /// The code of a file from the first `use` on.
    fn program(code: &str) -> &str {
        code[code.find("\nuse ").unwrap()..].trim()
    }

    /// Each page of the book is a module above, so that no Rust block is left out.
    #[test]
    fn every_page_is_tested() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let files = docs.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut pages: Vec<String> = files
            .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
            .map(|name| format!("docs/{name}"))
            .collect();
        pages.push("README.md".to_owned());
        pages.sort();
        let mut listed: Vec<&str> = PAGES.iter().map(|(path, _)| *path).collect();
        listed.sort_unstable();
        assert_eq!(listed, pages, "the list in xtask/src/lib.rs");
        for example in docs.join("examples").read_dir().unwrap() {
            let text = std::fs::read_to_string(example.unwrap().path()).unwrap();
            assert!(!text.contains("```rust"), "pages of examples link their code");
        }
    }

    /// A block that is not compiled has the reason in a comment directly above.
    #[test]
    fn blocks_that_are_not_compiled_have_a_reason() {
        for (path, text) in PAGES {
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2).filter(|pair| pair[1].starts_with("```rust,ignore")) {
                assert!(
                    pair[0].starts_with("<!-- not compiled: "),
                    "{path}: {:?} above an ignored block",
                    pair[0]
                );
            }
        }
    }

    /// Pages show programs that are compiled and run elsewhere.
    #[test]
    fn shown_programs_are_those_that_run() {
        for (path, code) in [
            ("docs/informers.md", include_str!("../../crates/kinformer/examples/factory.rs")),
            ("README.md", include_str!("../tests/readme.rs")),
        ] {
            assert!(page(path).contains(program(code)), "{path} shows another program");
        }
    }

    /// The first program of the README, which `ci` runs outside the workspace, is short, and the README itself, too.
    #[test]
    fn the_readme_is_short() {
        let readme = page("README.md");
        let (_, program) = readme.split_once("```rust\n").unwrap();
        let (program, _) = program.split_once("```").unwrap();
        let (_, body) = program.split_once("async fn main()").unwrap();
        assert!(!body.contains("\nfn ") && body.trim_end().ends_with('}'), "main is the last function");
        let lines = body.lines().skip(1).filter(|line| *line != "}").count();
        assert!((1..=10).contains(&lines), "main has {lines} lines");
        assert!(readme.lines().count() <= 150, "the README has {} lines", readme.lines().count());
    }
}
