//! The subset of JSONPath that printer columns use.

use serde_json::{Map, Value};

/// Evaluates `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.spec.hosts[0]`. `None` for missing
/// values and for any other syntax.
pub(super) fn read<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut parts = split(path.trim_start_matches('.')).into_iter();
    let first = parts.next()?;
    let (member, index) = first.split_once('[').map_or((first.as_str(), None), |(m, i)| (m, Some(i)));
    let mut value = object.get(&member.replace("\\.", "."))?;
    if let Some(index) = index {
        value = element(value, index)?;
    }
    for part in parts {
        let (member, index) = part.split_once('[').map_or((part.as_str(), None), |(m, i)| (m, Some(i)));
        value = value.get(member.replace("\\.", "."))?;
        if let Some(index) = index {
            value = element(value, index)?;
        }
    }
    Some(value)
}

/// Splits at the dots that are outside brackets and not escaped.
fn split(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut escaped) = (0usize, false);
    for c in path.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == '.' && depth == 0 && !escaped {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(c);
        }
        escaped = c == '\\';
    }
    parts
}

fn element<'a>(value: &'a Value, index: &str) -> Option<&'a Value> {
    let index = index.trim_end_matches(']');
    if let Ok(index) = index.parse::<usize>() {
        return value.get(index);
    }
    if let Some(member) = index.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return value.get(member);
    }
    let condition = index.strip_prefix("?(@.")?.strip_suffix(')')?;
    let (member, wanted) = condition.split_once("==")?;
    let wanted = wanted.trim().trim_matches(['"', '\'']);
    value
        .as_array()?
        .iter()
        .find(|element| element.get(member.trim()).and_then(Value::as_str) == Some(wanted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn printer_column_paths_are_evaluated() {
        let object = json!({"spec": {"a": 1, "hosts": ["x", "y"]}, "metadata": {"labels": {"a.b/c": "l"}},
            "status": {"conditions": [{"type": "A", "status": "no"}, {"type": "Ready", "status": "yes"}]}});
        let object = object.as_object().unwrap();
        let read = |path: &str| super::read(object, path).cloned();
        assert_eq!(read(".spec.a"), Some(json!(1)));
        assert_eq!(read(".spec.hosts[1]"), Some(json!("y")));
        assert_eq!(read(r#".status.conditions[?(@.type=="Ready")].status"#), Some(json!("yes")));
        assert_eq!(read(r".metadata.labels.a\.b/c"), Some(json!("l")));
        for none in ["", ".", ".x", ".spec.a.b", ".spec.hosts[9]", ".spec[", ".status.conditions[?(x)].y"] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
