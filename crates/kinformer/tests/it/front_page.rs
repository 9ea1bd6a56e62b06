//! The front page of the documentation.

/// The names in the lists of `pub use` of a file, but those of hidden ones.
fn exported(file: &str) -> Vec<String> {
    let code: Vec<&str> = file.lines().filter(|line| !line.starts_with("//")).collect();
    let code = code.join(" ");
    let uses = code.split("pub use ").skip(1).filter_map(|item| item.split(';').next());
    let lists = uses.filter(|item| !item.contains("internal::")).filter_map(|item| item.split_once("::{"));
    let names = lists.flat_map(|(_, list)| list.trim_end_matches('}').split(','));
    let words = names
        .filter(|path| !path.contains('*'))
        .map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter_map(|mut words| words.rfind(|word| !word.is_empty())).map(str::to_owned).collect()
}

/// Each item of the crate is in a group of its front page.
#[test]
fn the_front_page_groups_all_items() {
    let front = include_str!("../../src/items.md");
    let mut names = exported(include_str!("../../src/lib.rs"));
    names.extend(exported(include_str!("../../src/layers.rs")));
    for known in ["Scope", "CacheSync", "CoreError", "NAMESPACE_INDEX"] {
        assert!(names.iter().any(|name| name == known), "{known}: {names:?}");
    }
    let missing: Vec<String> =
        names.into_iter().filter(|name| !front.contains(&format!("[`{name}`]"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
