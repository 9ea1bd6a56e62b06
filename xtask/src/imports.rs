//! The modules, imports and paths of a Rust file.

use std::collections::BTreeSet;

use crate::source;

/// The path of a module.
pub(crate) type Module = Vec<String>;

/// The modules and paths of one file. Test-only items are skipped.
#[derive(Default)]
pub(crate) struct Outline {
    /// The child modules with their own files, relative to the module of this file.
    pub(crate) files: Vec<Module>,
    /// The inline modules, relative to the module of this file, which is the empty path.
    pub(crate) inline: BTreeSet<Module>,
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<Path>,
    /// All names in the code outside imports.
    pub(crate) names: BTreeSet<String>,
}

/// A path in the code.
pub(crate) struct Path {
    /// The enclosing module, relative to the module of the file.
    pub(crate) module: Module,
    /// The segments as written: the first may be `crate`, `self` or `super`.
    pub(crate) segments: Vec<String>,
    /// The line number, starting at 1.
    pub(crate) line: usize,
}

/// A name that `use` imports into a module.
pub(crate) struct Import {
    pub(crate) path: Path,
    /// The imported name; `None` for a glob.
    pub(crate) name: Option<String>,
    /// Whether other modules can use the name from here.
    pub(crate) is_public: bool,
}

/// Parses a file.
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
                // The prefix of a raw identifier.
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
    position: usize,
    outline: Outline,
    /// The current inline module.
    module: Module,
    /// The number of open braces, and its value at the start of each of these modules.
    depth: usize,
    outside: Vec<usize>,
}

impl Reader<'_> {
    fn token(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &token.text)
    }

    fn is_name(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(Token::is_name)
    }

    fn read(&mut self) {
        let mut is_public = false;
        while self.position < self.tokens.len() {
            let was_public = std::mem::take(&mut is_public);
            match self.token(self.position) {
                "pub" => {
                    is_public = true;
                    self.skip_visibility();
                    continue;
                }
                "use" if self.token(self.position + 1) != "<" => {
                    self.position += 1;
                    self.import(Vec::new(), was_public);
                }
                "mod" if self.is_name(self.position + 1) => {
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
                _ if self.is_name(self.position) => self.path(),
                _ => {}
            }
            self.position += 1;
        }
    }

    /// Skips `pub` and its parentheses.
    fn skip_visibility(&mut self) {
        self.position += 1;
        if self.token(self.position) == "("
            && matches!(self.token(self.position + 1), "crate" | "self" | "super" | "in")
        {
            while self.position < self.tokens.len() && self.token(self.position) != ")" {
                self.position += 1;
            }
            self.position += 1;
        }
    }

    /// Parses `mod name;` or `mod name {`.
    fn declaration(&mut self) {
        let mut module = self.module.clone();
        module.push(self.token(self.position + 1).to_owned());
        if self.token(self.position + 2) == "{" {
            self.outline.inline.insert(module.clone());
            self.module = module;
            self.outside.push(self.depth);
        } else {
            self.outline.files.push(module);
        }
        self.position += 2;
    }

    /// Parses a path whose first segment is the current name.
    fn path(&mut self) {
        self.outline.names.insert(self.token(self.position).to_owned());
        let follows = |index: usize| {
            index.checked_sub(1).is_some_and(|before| matches!(self.token(before), "::" | "." | "'"))
        };
        if follows(self.position) || self.token(self.position + 1) != "::" {
            return;
        }
        let mut segments = vec![self.token(self.position).to_owned()];
        let mut index = self.position + 1;
        while self.token(index) == "::" && self.is_name(index + 1) {
            segments.push(self.token(index + 1).to_owned());
            index += 2;
        }
        let path = self.path_of(segments, self.position);
        self.outline.paths.push(path);
    }

    /// Creates a path with the line of this token.
    fn path_of(&self, segments: Vec<String>, index: usize) -> Path {
        let line = self.tokens.get(index).map_or(0, |token| token.line);
        Path { module: self.module.clone(), segments, line }
    }

    /// Parses the rest of an import after these segments, up to a comma, a brace or a semicolon.
    fn import(&mut self, mut segments: Vec<String>, is_public: bool) {
        let mut name = segments.last().cloned();
        let start = self.position;
        loop {
            match self.token(self.position) {
                "{" => {
                    while !matches!(self.token(self.position), "}" | "") {
                        self.position += 1;
                        self.import(segments.clone(), is_public);
                    }
                    self.position += 1;
                    return;
                }
                "*" => name = None,
                "as" => {
                    self.position += 1;
                    name = Some(self.token(self.position).to_owned());
                }
                "self" if !segments.is_empty() => {}
                segment if self.is_name(self.position) => {
                    name = Some(segment.to_owned());
                    segments.push(segment.to_owned());
                }
                "::" => {}
                _ => break,
            }
            self.position += 1;
        }
        // Nothing follows a trailing comma.
        if self.position > start {
            let path = self.path_of(segments, self.position - 1);
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
