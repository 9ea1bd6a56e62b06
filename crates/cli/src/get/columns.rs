//! kubectl's own columns: `NAME:.metadata.name,IMAGES:.spec.containers[*].image`.

use std::str::FromStr;

use serde_json::Value;
use serde_json::value::RawValue;

use super::template::{Path, end_of};
use crate::table::Table;
use crate::text::Line;

/// Columns: their titles and the paths of their values.
#[derive(Clone, Debug)]
pub(crate) struct Columns(Vec<(String, Path)>);

impl FromStr for Columns {
    type Err = String;

    /// Commas in brackets belong to a path.
    fn from_str(text: &str) -> Result<Self, String> {
        let (mut columns, mut rest) = (Vec::new(), Some(text));
        while let Some(text) = rest {
            let column = match end_of(text, ',') {
                Some(end) => {
                    rest = text.get(end + 1..);
                    text.get(..end).unwrap_or(text)
                }
                None => {
                    rest = None;
                    text
                }
            };
            let expected = || format!("{column:?}: expected TITLE:FIELD.PATH, such as NAME:.metadata.name");
            let (title, path) = column.split_once(':').ok_or_else(expected)?;
            if path.trim().is_empty() {
                return Err(expected());
            }
            columns.push((title.to_owned(), path.parse()?));
        }
        Ok(Self(columns))
    }
}

impl Columns {
    /// Formats objects. Columns are at least as wide as in the rows before, whose widths are updated.
    pub(super) fn lines(&self, objects: &[Box<RawValue>], headers: bool, widths: &mut Vec<u16>) -> Vec<Line> {
        let mut table = Table::new(self.0.iter().map(|(title, _)| title.as_str()));
        for object in objects {
            let object: Value = serde_json::from_str(object.get()).unwrap_or_default();
            table.row(self.0.iter().map(|(_, path)| cell(&path.find(&object))));
        }
        table.at_least(widths);
        *widths = table.widths();
        table.lines().into_iter().skip(usize::from(!headers)).collect()
    }
}

/// Follows kubectl 1.37 (`CustomColumnsPrinter`), but for objects and lists, which are JSON.
fn cell(values: &[&Value]) -> String {
    let text = |value: &&Value| match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match values {
        [] => "<none>".to_owned(),
        values => values.iter().map(text).collect::<Vec<_>>().join(","),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // contract: T-07m
    #[test]
    fn columns_are_those_of_kubectl() {
        let object = json!({"metadata": {"name": "a", "n": null}, "spec": {"list": [{"image": "x"}, {"image": "y"}], "n": 3}});
        let objects = [RawValue::from_string(object.to_string()).unwrap()];
        let rows = |columns: &str, headers| {
            let columns: Columns = columns.parse().unwrap();
            let lines = columns.lines(&objects, headers, &mut Vec::new());
            lines.iter().map(|line| line.as_str().to_owned()).collect::<Vec<_>>()
        };
        let columns = "NAME:.metadata.name,Images:{.spec.list[*].image},N:spec.n,No:.a.b,Nil:.metadata.n,L:.spec.list[0]";
        let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines = rows(columns, true);
        assert_eq!(row(&lines[0]), ["NAME", "Images", "N", "No", "Nil", "L"]);
        assert_eq!(row(&lines[1]), ["a", "x,y", "3", "<none>", "<nil>", "{\"image\":\"x\"}"]);
        assert_eq!(rows("I:.spec.list[?(@.image==\"x\")].image,N:.spec.n", false), ["x  3"]);
        for columns in ["", "NAME", "NAME:", "NAME:.metadata.name,", "A:.a[,B:.b"] {
            assert!(columns.parse::<Columns>().is_err(), "{columns}");
        }
    }
}
