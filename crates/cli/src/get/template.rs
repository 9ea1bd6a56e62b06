//! kubectl's JSONPath templates: `{range .items[*]}{.metadata.name}{"\n"}{end}`.
//!
//! Paths are translated to RFC 9535, which `jsonpath_rust` evaluates.

use std::str::FromStr;

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

use crate::text::Line;

/// A template.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<Node>);

#[derive(Clone, Debug)]
enum Node {
    Text(String),
    Path(Path),
    Range(Path, Vec<Self>),
}

/// A path, such as `.metadata.labels.app\.kubernetes\.io/name` or `.spec.containers[?(@.name=="a")].image`.
#[derive(Clone, Debug)]
pub(crate) struct Path(JpQuery);

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A path alone.
        if text.starts_with(['.', '$']) {
            return text.parse().map(|path| Self(vec![Node::Path(path)]));
        }
        let mut open: Vec<(Path, Vec<Node>)> = Vec::new();
        let mut nodes = Vec::new();
        let mut rest = text;
        while let Some((before, from)) = rest.split_once('{') {
            if !before.is_empty() {
                nodes.push(Node::Text(before.to_owned()));
            }
            let end = end_of(from, '}').ok_or_else(|| format!("{text:?}: a {{ has no }}"))?;
            let (action, after) = from.split_at(end);
            rest = after.get(1..).unwrap_or("");
            match action.trim() {
                "end" => {
                    let (path, outer) = open.pop().ok_or("{end} without {range}")?;
                    let inner = std::mem::replace(&mut nodes, outer);
                    nodes.push(Node::Range(path, inner));
                }
                action => match action.strip_prefix("range ") {
                    Some(path) => open.push((path.parse()?, std::mem::take(&mut nodes))),
                    None if action.starts_with(['"', '\'']) => nodes.push(Node::Text(literal(action)?)),
                    None => nodes.push(Node::Path(action.parse()?)),
                },
            }
        }
        if !open.is_empty() {
            return Err("{range} without {end}".into());
        }
        if !rest.is_empty() {
            nodes.push(Node::Text(rest.to_owned()));
        }
        Ok(Self(nodes))
    }
}

impl Template {
    /// Returns the lines of the template. Line feeds and tabs of the template are kept; those of values are escaped.
    pub(crate) fn lines(&self, value: &Value) -> Vec<Line> {
        let mut lines = vec![Line::default()];
        write(&self.0, value, &mut lines);
        if lines.last().is_some_and(|last| last.as_str().is_empty()) {
            lines.pop();
        }
        lines
    }
}

fn write(nodes: &[Node], value: &Value, lines: &mut Vec<Line>) {
    for node in nodes {
        match node {
            Node::Text(text) => {
                for (index, part) in text.split('\n').enumerate() {
                    if index > 0 {
                        lines.push(Line::default());
                    }
                    append(lines, |line| line.then_with_tabs(part));
                }
            }
            Node::Path(path) => {
                for (index, found) in path.find(value).into_iter().enumerate() {
                    let space = if index > 0 { " " } else { "" };
                    append(lines, |line| match found {
                        Value::String(text) => line.then(format_args!("{space}{text}")),
                        other => line.then(format_args!("{space}{other}")),
                    });
                }
            }
            Node::Range(path, inner) => {
                path.find(value).into_iter().for_each(|found| write(inner, found, lines));
            }
        }
    }
}

fn append(lines: &mut Vec<Line>, add: impl FnOnce(Line) -> Line) {
    let line = lines.pop().unwrap_or_default();
    lines.push(add(line));
}

/// A quoted text with Go's common escapes.
fn literal(quoted: &str) -> Result<String, String> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or("");
    if quoted.len() < 2 || quoted.chars().next() != quoted.chars().last() {
        return Err(format!("{quoted} has no end"));
    }
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        match (char, if char == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => text.push('\n'),
            ('\\', Some('t')) => text.push('\t'),
            ('\\', Some(other)) => text.push(other),
            (char, _) => text.push(char),
        }
    }
    Ok(text)
}

/// The position of a character outside quotes and brackets.
pub(super) fn end_of(text: &str, end: char) -> Option<usize> {
    let (mut quote, mut escaped, mut depth) = (None, false, 0usize);
    for (index, char) in text.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            _ if char == '\\' => escaped = true,
            Some(open) if char == open => quote = None,
            Some(_) => {}
            None if char == end && depth == 0 => return Some(index),
            None if char == '"' || char == '\'' => quote = Some(char),
            None if char == '[' => depth += 1,
            None if char == ']' => depth = depth.saturating_sub(1),
            None => {}
        }
    }
    None
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let query = translate(text.trim_start_matches(['$', '@']), "$")?;
        parse_json_path(&query).map(Self).map_err(|_| format!("{text:?} is not a JSONPath"))
    }
}

impl Path {
    /// Returns the values at this path.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let found = js_path_process(&self.0, value).unwrap_or_default();
        found.into_iter().map(|found| found.val()).collect()
    }
}

/// Translates the steps after the root. kubectl's names may have hyphens, slashes and escaped dots.
fn translate(text: &str, root: &str) -> Result<String, String> {
    let mut query = root.to_owned();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = end_of(after, ']').ok_or_else(|| format!("{text:?}: a [ has no ]"))?;
            let (inner, after) = after.split_at(end);
            query.push_str(&format!("[{}]", selector(inner)?));
            rest = after.get(1..).unwrap_or("");
            continue;
        }
        let dots = rest.len() - rest.trim_start_matches('.').len();
        if dots > 1 {
            query.push_str("..");
        }
        rest = rest.get(dots..).unwrap_or("");
        let (name, after) = name(rest);
        match name.as_str() {
            "" if rest.is_empty() && dots == 1 && query == root => {}
            "" if after.starts_with('[') && dots > 0 => {}
            "" => return Err(format!("{text:?}: a '.' has no name")),
            "*" => query.push_str("[*]"),
            name => query.push_str(&format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))),
        }
        rest = after;
    }
    Ok(query)
}

/// The name at the beginning, without its escapes, and the rest.
fn name(text: &str) -> (String, &str) {
    let (mut name, mut escaped) = (String::new(), false);
    for (index, char) in text.char_indices() {
        match char {
            '.' | '[' if !escaped => return (name, text.get(index..).unwrap_or("")),
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            char => name.push(char),
        }
        escaped = false;
    }
    (name, "")
}

/// The inside of brackets. In a filter, the paths of `@` are translated.
fn selector(inner: &str) -> Result<String, String> {
    let Some(filter) = inner.trim().strip_prefix('?') else { return Ok(inner.to_owned()) };
    let (mut text, mut rest) = ("?".to_owned(), filter);
    while let Some(index) = end_of(rest, '@') {
        let (before, from) = rest.split_at(index);
        text.push_str(before);
        let path = from.get(1..).unwrap_or("");
        let end =
            path.find(|char: char| char.is_whitespace() || "=!<>)&|".contains(char)).unwrap_or(path.len());
        let (path, after) = path.split_at(end);
        text.push_str(&translate(path, "@")?);
        rest = after;
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(template: &str) -> String {
        let pod = |name: &str, ready: &str| {
            json!({"metadata": {"name": name, "labels": {"app.kubernetes.io/name": "x", "pod-hash": name}},
                "status": {"conditions": [{"type": "Other", "status": "?"}, {"type": "Ready", "status": ready}]}})
        };
        let list = json!({"kind": "List", "items": [pod("a", "True"), pod("b\n", "False")]});
        let template: Template = template.parse().unwrap_or_else(|error| panic!("{template}: {error}"));
        template.lines(&list).iter().map(Line::as_str).collect::<Vec<_>>().join("|")
    }

    // contract: T-07f
    #[test]
    fn templates_of_kubectl_are_evaluated() {
        for (template, text) in [
            ("{.kind}", "List"),
            (".items[0].metadata.name", "a"),
            ("{.items[*].metadata.name}", "a b\\n"),
            ("{.items[-1:].metadata.name} end", "b\\n end"),
            ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "x"),
            ("{.items[0].metadata.labels.pod-hash}", "a"),
            ("{.items[0].metadata.labels['pod-hash']}", "a"),
            ("{$.items[0]['metadata'].name}", "a"),
            ("{..labels.pod-hash}", "a b\\n"),
            ("{.items[*].status.conditions[?(@.type==\"Ready\")].status}", "True False"),
            ("{.items[?(@.metadata.labels.pod-hash == 'a')].metadata.name}", "a"),
            ("{range .items[*]}{@.metadata.name}{\"\\t\"}{.kind}x{\"\\n\"}{end}", "a\tx|b\\n\tx"),
            ("names: {.none}", "names: "),
            ("{.items[0].status.conditions[0]}", "{\"status\":\"?\",\"type\":\"Other\"}"),
        ] {
            assert_eq!(shown(template), text, "{template}");
        }
    }

    #[test]
    fn malformed_templates_are_errors() {
        for template in ["{.a", "{range .a}", "{end}", "{.a[}", "{\"a}", "{.a..}", "{.a[?(@.b=]}"] {
            assert!(template.parse::<Template>().is_err(), "{template}");
        }
    }
}
