//! Output of the objects that were found.

use std::cmp::Ordering;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::format::GetFormat;
use super::requests::Found;
use super::rows::{self, Column, Row, Rows};
use super::template::Path;
use crate::resources::Served;
use crate::table::Table;
use crate::text::{Line, Text};

/// Which columns a table has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) wide: bool,
    pub(super) namespaces: bool,
    /// Whether names have the kind before them: `pod/web-1`.
    pub(super) kinds: bool,
    pub(super) labels: bool,
    pub(super) headers: bool,
}

impl Layout {
    /// Formats rows. Columns are at least as wide as in the rows before, whose widths are updated.
    pub(super) fn lines(&self, served: &Served, rows: &Rows, widths: &mut Vec<u16>) -> Vec<Line> {
        let shown: Vec<usize> = (0..rows.columns.len())
            .filter(|index| self.wide || rows.columns.get(*index).is_some_and(|column| column.priority == 0))
            .collect();
        let titles = shown.iter().filter_map(|index| rows.columns.get(*index));
        let titles = titles.map(|column| column.name.to_uppercase());
        let (before, after) = (self.namespaces && served.namespaced, self.labels);
        let header = before.then(|| "NAMESPACE".to_owned()).into_iter().chain(titles);
        let mut table = Table::new(header.chain(after.then(|| "LABELS".to_owned())));
        let name_column = rows.columns.iter().position(|column| column.name.eq_ignore_ascii_case("name"));
        let prefix = if self.kinds { format!("{}/", served.kind_name()) } else { String::new() };
        for row in &rows.rows {
            let cells = shown.iter().map(|index| {
                let cell = row.cells.get(*index).map(rows::cell).unwrap_or_default();
                if name_column == Some(*index) { format!("{prefix}{cell}") } else { cell }
            });
            let namespace = before.then(|| row.metadata("namespace").to_owned());
            table.row(namespace.into_iter().chain(cells).chain(after.then(|| row.labels())));
        }
        table.at_least(widths);
        *widths = table.widths();
        table.lines().into_iter().skip(usize::from(!self.headers)).collect()
    }
}

/// The lines of `-o name`.
pub(super) fn names(served: &Served, objects: &[Box<RawValue>]) -> Vec<Line> {
    let kind = served.kind_name();
    let name = |object: &RawValue| {
        let object: Value = serde_json::from_str(object.get()).unwrap_or_default();
        Line::new(format_args!("{kind}/{}", name_of(&object)))
    };
    objects.iter().map(|object| name(object)).collect()
}

fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Formats one object, or a `List` of several, as JSON, YAML or by a template.
pub(super) fn objects(format: &GetFormat, objects: &[Box<RawValue>], alone: bool) -> Text {
    let mut text = Text::default();
    let json = match objects {
        [object] if alone => object.get().to_owned(),
        objects => {
            let items: Vec<&str> = objects.iter().map(|object| object.get()).collect();
            format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{}],\"metadata\":{{\"resourceVersion\":\"\"}}}}",
                items.join(",")
            )
        }
    };
    match format {
        GetFormat::Yaml => {
            let value: Value = serde_json::from_str(&json).unwrap_or_default();
            // Values of JSON are values of YAML.
            text.document(&serde_saphyr::to_string(&value).unwrap_or_default());
        }
        GetFormat::JsonPath(template) => {
            let value: Value = serde_json::from_str(&json).unwrap_or_default();
            template.lines(&value).iter().for_each(|line| text.push(line));
        }
        GetFormat::Table { .. } | GetFormat::Json | GetFormat::Name | GetFormat::CustomColumns(_) => {
            text.json_text(&json);
        }
    }
    text
}

/// Sorts by the first value at a path, as kubectl does: numbers by their value, texts with the numbers in them by theirs.
/// Objects without the field come first.
pub(super) fn sort(found: &mut Found, path: &Path) {
    let key = |object: &Value| path.find(object).first().map(|value| (*value).clone());
    match found {
        Found::Rows(rows) => rows.rows.sort_by_cached_key(|row: &Row| SortKey(key(&row.object))),
        Found::Objects(objects) => {
            objects.sort_by_cached_key(|object| {
                SortKey(serde_json::from_str(object.get()).ok().and_then(|object: Value| key(&object)))
            });
        }
    }
}

/// The value by which an object is sorted.
struct SortKey(Option<Value>);

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Some(Value::Number(one)), Some(Value::Number(other))) => {
                let number = |number: &serde_json::Number| number.as_f64().unwrap_or_default();
                number(one).total_cmp(&number(other))
            }
            (Some(Value::String(one)), Some(Value::String(other))) => natural(one, other),
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Less,
            (_, None) => Ordering::Greater,
            (Some(one), Some(other)) => one.to_string().cmp(&other.to_string()),
        }
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortKey {}

/// Compares texts; digits in them are compared as numbers.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let number =
            |text: &str| text.len() - text.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let (in_left, in_right) = (number(left), number(right));
        let (order, by, by_right) = if in_left > 0 && in_right > 0 {
            let (left, right) = (left.get(..in_left).unwrap_or(""), right.get(..in_right).unwrap_or(""));
            let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
            (left.len().cmp(&right.len()).then_with(|| left.cmp(right)), in_left, in_right)
        } else {
            let (left, right) = (left.chars().next(), right.chars().next());
            let length = |char: Option<char>| char.map_or(0, char::len_utf8);
            (left.cmp(&right), length(left), length(right))
        };
        if order.is_ne() || by == 0 {
            return order.then_with(|| one.cmp(other));
        }
        (left, right) = (left.get(by..).unwrap_or(""), right.get(by_right..).unwrap_or(""));
    }
}

/// The message about an empty result, in kubectl's words.
pub(super) fn nothing(namespace: Option<&str>) -> Line {
    match namespace {
        Some(namespace) => Line::new(format_args!("No resources found in {namespace} namespace.")),
        None => Line::new(format_args!("No resources found")),
    }
}

/// The row of a change. Only the first table of a watch has the columns, which are those of the list.
pub(super) fn row_of(change: &RawValue, columns: &[Column]) -> Option<Rows> {
    let mut rows = Rows { columns: columns.to_vec(), rows: Vec::new() };
    rows.extend(rows::Wire::of_object(change.get()).ok()?);
    Some(rows)
}

/// The message of a `Status`.
pub(super) fn status_message(object: &RawValue) -> String {
    let status: Value = serde_json::from_str(object.get()).unwrap_or_else(|_| json!({}));
    status.get("message").and_then(Value::as_str).unwrap_or("the watch failed").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: T-07e
    #[test]
    fn texts_are_sorted_by_the_numbers_in_them() {
        let mut names = ["p10", "p2", "p02", "q", "p", "10", "9"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, ["9", "10", "p", "p02", "p2", "p10", "q"]);
        let mut keys = [json!(10), json!(9.5), json!(null), json!(2)].map(|value| SortKey(Some(value)));
        keys[2].0 = None;
        keys.sort();
        assert_eq!(keys.map(|key| key.0), [None, Some(json!(2)), Some(json!(9.5)), Some(json!(10))]);
    }
}
