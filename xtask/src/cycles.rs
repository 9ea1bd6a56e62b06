//! Import cycles: no file may import, directly or indirectly, from a file that imports from it.
//!
//! The check follows the paths in `use` and in code. A name counts for the file that defines it, regardless of
//! re-exports, so neither a re-export nor a `mod` line creates a cycle. Method calls on a type whose `impl` is in
//! another file than its definition are not detected, since they name no path; nor are paths that a macro builds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::files::File;
use crate::imports::{Import, Module, Outline, Path, outline};

/// Returns the cycles between these files.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let edges = edges(files);
    let cycles = groups(&edges).into_iter().filter_map(|group| shortest_cycle(&edges, &group));
    cycles.map(|cycle| describe(&edges, &cycle)).collect()
}

/// The imported files of each file, with the first line of each import.
type Edges<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;

fn edges(files: &[File]) -> Edges<'_> {
    let files: BTreeMap<&str, &File> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut edges = Edges::new();
    for root in files.keys().filter(|path| is_root(path)) {
        for (from, to, line) in Tree::new(root, &files).edges() {
            let first = edges.entry(from).or_default().entry(to).or_insert(line);
            *first = line.min(*first);
        }
    }
    edges
}

/// Whether this file is the root of a library or program.
fn is_root(path: &str) -> bool {
    let Some((_, path)) = path.split_once("/src/") else { return false };
    match path.strip_prefix("bin/").map(|program| program.split('/').collect::<Vec<_>>()) {
        Some(program) => matches!(*program, [_] | [_, "main.rs"]),
        None => matches!(path, "lib.rs" | "main.rs"),
    }
}

/// All modules of a library or program, by their paths from its root.
struct Tree<'a> {
    modules: BTreeMap<Module, Node<'a>>,
    outlines: Vec<(Module, &'a str, Outline)>,
}

#[derive(Default)]
struct Node<'a> {
    file: &'a str,
    /// By the imported name.
    imports: BTreeMap<String, Vec<String>>,
    /// The modules with glob imports.
    globs: Vec<Vec<String>>,
}

/// The target of a path.
enum Place {
    Module(Module),
    /// An item of this module.
    Item(Module),
    /// An item of another crate.
    Elsewhere,
}

/// The longest chain of re-exports to follow; longer ones are cyclic, or name a crate of the same name.
const MAX_HOPS: usize = 16;

impl<'a> Tree<'a> {
    fn new(root: &'a str, files: &BTreeMap<&'a str, &'a File>) -> Self {
        let mut tree = Self { modules: BTreeMap::new(), outlines: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut open = vec![(Module::new(), root)];
        while let Some((module, path)) = open.pop() {
            let Some(file) = files.get(path) else { continue };
            let outline = outline(&file.text);
            for child in &outline.files {
                let child = [module.as_slice(), child].concat();
                let stem = format!("{folder}/{}", child.join("/"));
                let found = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
                let found = found.iter().find_map(|path| files.get_key_value(path.as_str()));
                open.extend(found.map(|(path, _)| (child, *path)));
            }
            tree.add(&module, path, &outline);
            tree.outlines.push((module, path, outline));
        }
        tree
    }

    fn add(&mut self, module: &Module, file: &'a str, outline: &Outline) {
        let full = |inner: &Module| [module.as_slice(), inner].concat();
        let inline = outline.inline.iter().map(full);
        for module in inline.chain([module.clone()]) {
            self.modules.insert(module, Node { file, ..Node::default() });
        }
        for Import { path, name, .. } in &outline.imports {
            let Some(node) = self.modules.get_mut(&full(&path.module)) else { continue };
            match name {
                Some(name) => _ = node.imports.insert(name.clone(), path.segments.clone()),
                None => node.globs.push(path.segments.clone()),
            }
        }
    }

    /// Returns which file imports from which other file, and in which line.
    fn edges(&self) -> Vec<(&'a str, &'a str, usize)> {
        let mut edges = Vec::new();
        for (module, file, outline) in &self.outlines {
            // A re-export is not a dependency of this file.
            let is_used = |import: &&Import| {
                !import.is_public || import.name.as_ref().is_some_and(|name| outline.names.contains(name))
            };
            let imports = outline.imports.iter().filter(is_used).map(|import| &import.path);
            for Path { module: inner, segments, line } in imports.chain(&outline.paths) {
                let from = [module.as_slice(), inner].concat();
                if let Some(to) = self.file(self.find(&from, segments, 0))
                    && to != *file
                {
                    edges.push((*file, to, *line));
                }
            }
        }
        edges
    }

    fn file(&self, place: Place) -> Option<&'a str> {
        match place {
            Place::Module(module) | Place::Item(module) => self.modules.get(&module).map(|node| node.file),
            Place::Elsewhere => None,
        }
    }

    /// Resolves a path from a module. A path that starts with a local item or a name of the prelude resolves to
    /// nothing of this crate either.
    fn find(&self, from: &[String], segments: &[String], hops: usize) -> Place {
        let (mut module, mut rest) = (from.to_vec(), segments);
        let mut is_ours = false;
        while let Some((first, behind)) = rest.split_first() {
            match first.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => _ = module.pop(),
                _ => break,
            }
            (rest, is_ours) = (behind, true);
        }
        while let Some((name, behind)) = rest.split_first() {
            match self.named(&module, name, hops) {
                Some(Place::Module(next)) => module = next,
                Some(place) => return place,
                None if is_ours => return Place::Item(module),
                None => return Place::Elsewhere,
            }
            (rest, is_ours) = (behind, true);
        }
        Place::Module(module)
    }

    /// Resolves a name in a module to a module or an import.
    fn named(&self, module: &[String], name: &str, hops: usize) -> Option<Place> {
        let child = [module, &[name.to_owned()]].concat();
        if self.modules.contains_key(&child) {
            return Some(Place::Module(child));
        }
        if hops > MAX_HOPS {
            return Some(Place::Elsewhere);
        }
        let node = self.modules.get(module)?;
        if let Some(path) = node.imports.get(name) {
            return Some(self.find(module, path, hops + 1));
        }
        node.globs.iter().find_map(|path| match self.find(module, path, hops + 1) {
            Place::Module(other) if other != module => self.named(&other, name, hops + 1),
            _ => None,
        })
    }
}

/// Returns the files that are reachable from a file, each with its predecessor on a shortest path.
fn reached<'a>(edges: &Edges<'a>, from: &'a str) -> BTreeMap<&'a str, &'a str> {
    let mut before = BTreeMap::new();
    let mut open = VecDeque::from([from]);
    while let Some(file) = open.pop_front() {
        for next in edges.get(file).into_iter().flat_map(BTreeMap::keys) {
            if !before.contains_key(next) {
                before.insert(*next, file);
                open.push_back(next);
            }
        }
    }
    before
}

/// Returns the sets of files that are mutually reachable.
fn groups<'a>(edges: &Edges<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, _> = edges.keys().map(|file| (*file, reached(edges, file))).collect();
    let both = |a: &str, b: &str| reached.get(a).is_some_and(|files| files.contains_key(b));
    let mut groups: Vec<BTreeSet<&str>> = Vec::new();
    for file in edges.keys().filter(|file| both(file, file)) {
        let group =
            groups.iter_mut().find(|group| group.iter().all(|other| both(file, other) && both(other, file)));
        match group {
            Some(group) => _ = group.insert(file),
            None => groups.push(BTreeSet::from([*file])),
        }
    }
    groups
}

/// Returns a shortest cycle in a set, with each file once.
fn shortest_cycle<'a>(edges: &Edges<'a>, group: &BTreeSet<&'a str>) -> Option<Vec<&'a str>> {
    let cycle = |start: &&'a str| {
        let before = reached(edges, start);
        let mut cycle = Vec::new();
        let mut file = *before.get(start)?;
        while file != *start {
            cycle.push(file);
            file = before.get(file)?;
        }
        cycle.push(start);
        cycle.reverse();
        Some(cycle)
    };
    group.iter().filter_map(cycle).min_by_key(Vec::len)
}

/// Formats a cycle as `a.rs -> b.rs -> a.rs`, with the lines of its imports.
fn describe(edges: &Edges<'_>, cycle: &[&str]) -> String {
    let short = |path: &str| path.split_once("/src/").map_or(path, |(_, short)| short).to_owned();
    let next = cycle.iter().cycle().skip(1);
    let imports: Vec<(&str, usize)> = cycle
        .iter()
        .zip(next)
        .map(|(from, to)| (*from, edges.get(from).and_then(|to_line| to_line.get(to)).copied().unwrap_or(1)))
        .collect();
    let names: Vec<String> = cycle.iter().chain(cycle.first()).map(|path| short(path)).collect();
    let lines: Vec<String> = imports.iter().map(|(path, line)| format!("{}:{line}", short(path))).collect();
    let place = imports.first().map(|(path, line)| format!("{path}:{line}")).unwrap_or_default();
    format!(
        "{place}: {} is an import cycle ({}); move the shared items to a file below both",
        names.join(" -> "),
        lines.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of a crate with these files.
    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let file =
            |(path, text): &(&str, &str)| File { path: format!("crates/x/src/{path}"), text: (*text).into() };
        problems(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn cycle_of_two_files_is_reported_with_lines() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "//! A.\nuse crate::b::B;\n"),
            ("b.rs", "fn f() {\n    super::a::g();\n}\n"),
        ];
        let expected = "crates/x/src/a.rs:2: a.rs -> b.rs -> a.rs is an import cycle (a.rs:2, b.rs:2); \
                        move the shared items to a file below both";
        assert_eq!(cycles(&files), [expected]);
        assert_eq!(cycles(&files[..2]), [""; 0], "b.rs is missing");
    }

    #[test]
    fn cycle_of_three_files_is_reported_once() {
        let mut files = vec![
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c;\nuse crate::d::D;"),
            ("c.rs", "use super::a::A;"),
            ("d.rs", "struct D;"),
        ];
        let found = cycles(&files);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains(" a.rs -> b.rs -> c.rs -> a.rs "), "{found:?}");
        files[4].1 = "use crate::b::B;";
        let found = cycles(&files);
        assert!(
            found.len() == 1 && found[0].contains(" b.rs -> d.rs -> b.rs "),
            "the shorter one: {found:?}"
        );
    }

    #[test]
    fn separate_cycles_are_both_reported() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("a.rs", "use crate::b::B;\nuse crate::c::C;"),
            ("b.rs", "use crate::a::A;"),
            ("c.rs", "use crate::d::D;"),
            ("d.rs", "use crate::c::C;"),
        ];
        assert_eq!(cycles(&files).len(), 2);
    }

    #[test]
    fn a_name_counts_for_the_file_that_defines_it() {
        let mut files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::{deep::B as C, *};\n"),
            ("a.rs", "use crate::C;\nstruct A;"),
            ("b/mod.rs", "pub mod deep;\npub use deep::D;\n"),
            ("b/deep.rs", "struct B;\nstruct D(crate::A);"),
        ];
        let found = cycles(&files);
        assert!(found.len() == 1 && found[0].contains(" a.rs -> b/deep.rs -> a.rs "), "{found:?}");
        files[1].1 = "use crate::D;\nstruct A;";
        assert_eq!(cycles(&files), found, "through a re-export of everything");
        files[3].1 = "struct B;\nstruct D;";
        assert_eq!(cycles(&files), [""; 0]);
        files[2].1 = "use crate::A;\npub mod deep;\npub use deep::D;\n";
        assert_eq!(cycles(&files), [""; 0], "the re-exporting file imports, but nothing imports from it");
    }

    #[test]
    fn parent_and_child_can_form_a_cycle() {
        let child = ("a/child.rs", "use super::A;\nstruct Child;");
        let root = ("lib.rs", "mod a;\npub use a::Child;");
        let parent = |text| cycles(&[root, ("a.rs", text), child]);
        assert_eq!(parent("mod child;\npub use child::Child;\nstruct A;"), [""; 0], "re-exports it only");
        for uses in [
            "mod child;\nuse child::Child;\nstruct A;",
            "mod child;\npub use child::Child;\nstruct A(Child);",
            "mod child;\nstruct A(child::Child);",
            "mod child;\nstruct A(self::child::Child);",
        ] {
            let found = parent(uses);
            assert!(
                found.len() == 1 && found[0].contains(" a.rs -> a/child.rs -> a.rs "),
                "{uses}: {found:?}"
            );
        }
    }

    #[test]
    fn modules_within_a_file_are_part_of_it() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "mod inner {\n    use super::super::b::B;\n    use super::A;\n}\nstruct A;"),
            ("b.rs", "use crate::a::inner::X;"),
        ];
        let found = cycles(&files);
        assert!(found.len() == 1 && found[0].contains("(a.rs:2, b.rs:1)"), "{found:?}");
    }

    #[test]
    fn imports_of_tests_form_no_cycle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n#[cfg(test)]\nuse crate::a::A;\n"),
        ];
        assert_eq!(cycles(&files), [""; 0]);
    }

    #[test]
    fn names_of_other_crates_are_not_files() {
        let files = [
            ("lib.rs", "mod serde;\nmod b;\n"),
            ("serde.rs", "use crate::b::B;"),
            ("b.rs", "use serde::Serialize;\nuse std::fmt;\nfn f() { serde::x(); B::new(); }"),
        ];
        assert_eq!(cycles(&files), [""; 0]);
    }

    #[test]
    fn programs_are_checked_beside_the_library() {
        let files = [
            ("lib.rs", ""),
            ("bin/p/main.rs", "mod a;\nuse a::A;"),
            ("bin/p/a.rs", "use crate::f;"),
            ("bin/q.rs", "fn main() {}"),
        ];
        let found = cycles(&files);
        assert!(
            found.len() == 1 && found[0].contains(" bin/p/a.rs -> bin/p/main.rs -> bin/p/a.rs "),
            "{found:?}"
        );
    }
}
