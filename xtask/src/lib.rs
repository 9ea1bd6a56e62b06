//! Documentation tests of the examples in the README and in the guide. The tasks are in `main.rs`.

/// The README.
#[cfg_attr(doctest, doc = include_str!("../../README.md"))]
pub mod readme {}

/// The guide.
#[cfg_attr(doctest, doc = include_str!("../../docs/informers.md"))]
pub mod informers {}

/// The guide to tests.
#[cfg_attr(doctest, doc = include_str!("../../docs/testing.md"))]
pub mod testing {}

/// The page about error messages.
#[cfg_attr(doctest, doc = include_str!("../../docs/troubleshooting.md"))]
pub mod troubleshooting {}

#[cfg(test)]
mod tests {
    /// The guide shows the program of the example.
    #[test]
    fn documented_program_is_the_example() {
        let example = include_str!("../../crates/kinformer/examples/factory.rs");
        let program = example.find("use ").map(|start| example[start..].trim_end()).unwrap_or_default();
        assert!(program.contains("fn main"));
        assert!(
            include_str!("../../docs/informers.md").contains(program),
            "docs/informers.md shows another program"
        );
    }

    /// The first program of the README, which `ci` runs outside the workspace, fits on the first screen.
    #[test]
    fn first_program_is_short() {
        let (_, program) = include_str!("../../README.md").split_once("```rust\n").unwrap();
        let (program, _) = program.split_once("```").unwrap();
        let (_, body) = program.split_once("async fn main()").unwrap();
        assert!(!body.contains("\nfn ") && body.trim_end().ends_with('}'), "main is the last function");
        let lines = body.lines().skip(1).filter(|line| *line != "}").count();
        assert!((1..=10).contains(&lines), "main has {lines} lines");
    }
}
