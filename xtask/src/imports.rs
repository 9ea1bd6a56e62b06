//! What a Rust file declares and names: its modules, its imports, and the paths in its code.

use std::collections::BTreeSet;

use crate::source;

/// A module by the names that lead to it.
pub(crate) type Module = Vec<String>;

/// The modules and paths of one file. Items that exist only in tests are left out.
#[derive(Default)]
pub(crate) struct Outline {
    /// The modules with a file of their own, from the module of this file.
    pub(crate) files: Vec<Module>,
    /// The modules within this file, from its own module, which is the empty one.
    pub(crate) inline: BTreeSet<Module>,
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<Path>,
    /// All names in the code outside of imports.
    pub(crate) names: BTreeSet<String>,
}

/// A path in the code.
pub(crate) struct Path {
    /// The module, from that of the file.
    pub(crate) module: Module,
    /// As it is written: it may begin with `crate`, `self` or `super`.
    pub(crate) segments: Vec<String>,
    /// From 1.
    pub(crate) line: usize,
}

/// A name that `use` brings into a module.
pub(crate) struct Import {
    pub(crate) path: Path,
    /// The name that it gets; none for all names of a module.
    pub(crate) name: Option<String>,
    /// Whether other modules can be meant to use it from here.
    pub(crate) is_public: bool,
}

/// Reads a file.
pub(crate) fn outline(text: &str) -> Outline {
    let mut reader = Reader { tokens: &tokens(text), ..Reader::default() };
    reader.read();
    reader.outline
}

/// A name, `::` or a character, with its line.
struct Token {
    text: String,
    line: usize,
}

impl Token {
    fn is_name(&self) -> bool {
        self.text.starts_with(is_name_character)
    }
}

fn is_name_character(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let code = (1..).zip(source::lines(text)).filter(|(_, line)| !line.in_test);
    for (number, line) in code {
        let mut rest = line.code.as_str();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                _ if is_name_character(first) => {
                    rest.find(|char| !is_name_character(char)).unwrap_or(rest.len())
                }
                _ if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            let (token, after) = rest.split_at(length);
            rest = match after.strip_prefix('#') {
                // The prefix of a name that would be a keyword without it.
                Some(name) if token == "r" && name.starts_with(is_name_character) => name,
                _ => after,
            };
            let is_prefix = token == "r" && rest.len() < after.len();
            if !is_prefix && !first.is_whitespace() {
                tokens.push(Token { text: token.to_owned(), line: number });
            }
        }
    }
    tokens
}

#[derive(Default)]
struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    outline: Outline,
    /// The inline module that is being read.
    module: Module,
    /// How many braces are open, and how many were when each of those modules began.
    depth: usize,
    outside: Vec<usize>,
}

impl Reader<'_> {
    fn token(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    fn is_name(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(Token::is_name)
    }

    fn read(&mut self) {
        let mut is_public = false;
        while self.at < self.tokens.len() {
            let was_public = std::mem::take(&mut is_public);
            match self.token(self.at) {
                "pub" => {
                    is_public = true;
                    self.skip_visibility();
                    continue;
                }
                "use" if self.token(self.at + 1) != "<" => {
                    self.at += 1;
                    self.import(Vec::new(), was_public);
                }
                "mod" if self.is_name(self.at + 1) => {
                    self.declaration();
                    continue;
                }
                "{" => self.depth += 1,
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.outside.pop_if(|outside| *outside == self.depth).is_some() {
                        self.module.pop();
                    }
                }
                _ if self.is_name(self.at) => self.path(),
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Passes `pub` and what is in parentheses behind it.
    fn skip_visibility(&mut self) {
        self.at += 1;
        if self.token(self.at) == "(" && matches!(self.token(self.at + 1), "crate" | "self" | "super" | "in")
        {
            while self.at < self.tokens.len() && self.token(self.at) != ")" {
                self.at += 1;
            }
            self.at += 1;
        }
    }

    /// `mod name;` or `mod name {`.
    fn declaration(&mut self) {
        let mut module = self.module.clone();
        module.push(self.token(self.at + 1).to_owned());
        if self.token(self.at + 2) == "{" {
            self.outline.inline.insert(module.clone());
            self.module = module;
            self.outside.push(self.depth);
        } else {
            self.outline.files.push(module);
        }
        self.at += 2;
    }

    /// A path, of which the name here is the first segment, and later the others.
    fn path(&mut self) {
        self.outline.names.insert(self.token(self.at).to_owned());
        let follows =
            |at: usize| at.checked_sub(1).is_some_and(|at| matches!(self.token(at), "::" | "." | "'"));
        if follows(self.at) || self.token(self.at + 1) != "::" {
            return;
        }
        let mut segments = vec![self.token(self.at).to_owned()];
        let mut at = self.at + 1;
        while self.token(at) == "::" && self.is_name(at + 1) {
            segments.push(self.token(at + 1).to_owned());
            at += 2;
        }
        let path = self.path_of(segments, self.at);
        self.outline.paths.push(path);
    }

    /// The path that has its line from this token.
    fn path_of(&self, segments: Vec<String>, at: usize) -> Path {
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        Path { module: self.module.clone(), segments, line }
    }

    /// The part of an import behind these segments. Ends before what ends it: a comma, a brace, a semicolon.
    fn import(&mut self, mut segments: Vec<String>, is_public: bool) {
        let mut name = segments.last().cloned();
        let start = self.at;
        loop {
            match self.token(self.at) {
                "{" => {
                    while !matches!(self.token(self.at), "}" | "") {
                        self.at += 1;
                        self.import(segments.clone(), is_public);
                    }
                    self.at += 1;
                    return;
                }
                "*" => name = None,
                "as" => {
                    self.at += 1;
                    name = Some(self.token(self.at).to_owned());
                }
                "self" if !segments.is_empty() => {}
                segment if self.is_name(self.at) => {
                    name = Some(segment.to_owned());
                    segments.push(segment.to_owned());
                }
                "::" => {}
                _ => break,
            }
            self.at += 1;
        }
        // Behind a last comma there is nothing.
        if self.at > start {
            let path = self.path_of(segments, self.at - 1);
            self.outline.imports.push(Import { path, name, is_public });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each import as `module: path as name`, with `pub` in front if it is public.
    fn imports(text: &str) -> Vec<String> {
        let line = |import: &Import| {
            let (module, path) = (import.path.module.join("::"), import.path.segments.join("::"));
            let name = import.name.as_deref().unwrap_or("*");
            let visibility = if import.is_public { "pub " } else { "" };
            format!("{visibility}{module}: {path} as {name}")
        };
        outline(text).imports.iter().map(line).collect()
    }

    fn paths(text: &str) -> Vec<(String, usize)> {
        let path = |path: &Path| (path.segments.join("::"), path.line);
        outline(text).paths.iter().map(path).collect()
    }

    #[test]
    fn imports_are_read_name_by_name() {
        assert_eq!(imports("use crate::a::B;"), [": crate::a::B as B"]);
        assert_eq!(imports("pub(crate) use a::B as C;"), ["pub : a::B as C"]);
        assert_eq!(imports("pub(in crate::x) use a::*;"), ["pub : a as *"]);
        assert_eq!(
            imports("use a::{self, b::{C, D as _}, super_e};\nuse ::f;"),
            [": a as a", ": a::b::C as C", ": a::b::D as _", ": a::super_e as super_e", ": f as f"],
        );
        assert_eq!(imports("use self::r#type::{\n    A,\n    B,\n};").len(), 2);
        assert_eq!(imports("fn f() -> impl Iterator + use<'a, T> {}"), [""; 0]);
        assert_eq!(imports("// use a::B;\nlet a = \"use a::B;\";"), [""; 0]);
        let lines = outline("use crate::{\n    a::A,\n    b::B,\n};\n").imports;
        assert_eq!(lines.iter().map(|import| import.path.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn paths_in_code_are_read_with_their_lines() {
        let text = "fn f(x: &crate::a::B) {\n    super::g::<u8>(x.h::<c::D>());\n    'a: loop {}\n}";
        let expected = [("crate::a::B".into(), 1), ("super::g".into(), 2), ("c::D".into(), 2)];
        assert_eq!(paths(text), expected);
        assert_eq!(paths("pub(in crate::a) struct A(pub crate::b::B);"), [("crate::b::B".into(), 1)]);
    }

    #[test]
    fn modules_are_files_or_inline() {
        let text = "mod a;\npub mod b {\n    mod c;\n    use super::A;\n    fn f() {}\n}\nuse b::B;\n";
        let outline = outline(text);
        assert_eq!(outline.files.concat(), ["a", "b", "c"]);
        assert_eq!(outline.inline, BTreeSet::from([vec!["b".to_owned()]]));
        assert_eq!(imports(text), ["b: super::A as A", ": b::B as B"]);
    }

    #[test]
    fn tests_import_and_declare_nothing() {
        let text = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more {\n    use super::a::B;\n}\n";
        let outline = outline(text);
        assert!(outline.files.is_empty() && outline.inline.is_empty() && outline.imports.is_empty());
    }

    #[test]
    fn names_are_those_outside_of_imports() {
        let names = outline("pub use a::{B, C};\nfn f() -> C {}").names;
        assert!(names.contains("C") && !names.contains("B"));
    }
}
