//! The field that a rule in CEL reports: `.spec.replicas`, `.labels['a.b']`.

use super::structural::Structural;

/// Returns a path in the form of an error: `.spec.labels[a.b]`; `None` if the schema has no such field.
///
/// Follows Kubernetes 1.37 (`cel.ValidFieldPath`).
pub(super) fn normalized(path: &str, schema: &Structural) -> Option<String> {
    let mut out = String::new();
    let (mut rest, mut node) = (path, schema);
    while !rest.is_empty() {
        let name = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            rest = after.get(end..)?;
            after.get(..end).filter(|name| !name.is_empty())?.to_owned()
        } else {
            let (name, after) = quoted(rest.strip_prefix("['")?)?;
            rest = after.strip_prefix(']')?;
            name
        };
        if node.properties().next().is_some() {
            node = node.property(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else {
            node = node.additional.schema()?;
            out.push_str(&format!("[{name}]"));
        }
    }
    Some(out)
}

/// Reads a text up to its quote. Returns what is after it, too.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '\'' => return Some((name, characters.as_str())),
            '\\' => name.push(match characters.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                c @ ('\'' | '\\') => c,
                _ => return None,
            }),
            c => name.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_need_a_field() {
        let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let schema =
            Structural::parse(&json!({"properties": {"a": {"properties": {"b.c": {}, "labels": labels}}}}));
        for (path, expected) in [
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            ("['a'].labels['x\\'y']", Some("a.labels[x'y]")),
            (".a.labels.x", Some("a.labels[x]")),
            (".a.b", None),
            ("a", None),
            (".a.", None),
            (".a.labels.", None),
            (".a['labels", None),
            (".a[0]", None),
        ] {
            assert_eq!(normalized(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
