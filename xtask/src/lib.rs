//! Documentation tests of the examples in the README and in the guide. The tasks are in `main.rs`.

/// The README.
#[cfg_attr(doctest, doc = include_str!("../../README.md"))]
pub mod readme {}

/// The guide.
#[cfg_attr(doctest, doc = include_str!("../../docs/informers.md"))]
pub mod informers {}

/// The page about error messages.
#[cfg_attr(doctest, doc = include_str!("../../docs/troubleshooting.md"))]
pub mod troubleshooting {}

#[cfg(test)]
mod tests {
    /// README and guide show the program of the example.
    #[test]
    fn documented_program_is_the_example() {
        let example = include_str!("../../crates/kinformer/examples/factory.rs");
        let program = example.find("use ").map(|start| example[start..].trim_end()).unwrap_or_default();
        assert!(program.contains("fn main"));
        assert!(include_str!("../../README.md").contains(program), "README.md shows another program");
        assert!(
            include_str!("../../docs/informers.md").contains(program),
            "docs/informers.md shows another program"
        );
    }
}
