//! Rows of the server's tables.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::resources::Served;

/// The body of an answer: a table, a list of objects, or an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Wire {
    kind: Option<String>,
    metadata: Metadata,
    column_definitions: Vec<Column>,
    rows: Vec<Row>,
    items: Option<Vec<Box<RawValue>>>,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next_page: String,
}

/// A column. Those with a priority are shown in wide tables only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) priority: i64,
}

/// A row, and its object or the metadata of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Row {
    pub(super) cells: Vec<Value>,
    pub(super) object: Value,
}

/// The rows of one resource.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

impl Wire {
    /// Parses a list or a table.
    ///
    /// # Errors
    /// The reason why it is neither.
    pub(super) fn of_list(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Parses an object, or a table of it.
    ///
    /// # Errors
    /// The reason why it is neither.
    pub(super) fn of_object(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Kind {
            kind: Option<String>,
        }
        let kind: Kind = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if kind.kind.as_deref() == Some("Table") {
            return Self::of_list(text);
        }
        let object = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self { items: Some(vec![object]), ..Self::default() })
    }

    pub(super) fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    /// The objects, as they were received. Those of a list are given the kind that most servers leave out.
    pub(super) fn into_objects(self, served: &Served) -> Vec<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Kind {
            kind: Option<serde::de::IgnoredAny>,
        }
        let items = self.items.unwrap_or_default().into_iter();
        items
            .map(|item| match serde_json::from_str(item.get()) {
                Ok(Kind { kind: None }) => with_kind(&item, served).unwrap_or(item),
                _ => item,
            })
            .collect()
    }
}

fn with_kind(item: &RawValue, served: &Served) -> Option<Box<RawValue>> {
    let fields = item.get().trim_start().strip_prefix('{')?;
    let comma = if fields.trim_start().starts_with('}') { "" } else { "," };
    let (api_version, kind) = (json!(served.resource.api_version), json!(served.resource.kind));
    RawValue::from_string(format!("{{\"apiVersion\":{api_version},\"kind\":{kind}{comma}{fields}")).ok()
}

impl Rows {
    /// Adds the rows of a table, or those of the objects of a server without tables.
    pub(super) fn extend(&mut self, wire: Wire) {
        let is_table = wire.kind.as_deref() == Some("Table");
        let columns = if is_table { wire.column_definitions } else { names_and_ages() };
        if !columns.is_empty() {
            self.columns = columns;
        }
        let items = wire.items.into_iter().flatten();
        let of_objects = items.filter_map(|item| serde_json::from_str(item.get()).ok()).map(Row::of_object);
        self.rows.extend(wire.rows.into_iter().chain(of_objects));
    }
}

fn names_and_ages() -> Vec<Column> {
    ["Name", "Age"].map(|name| Column { name: name.to_owned(), priority: 0 }).into()
}

impl Row {
    fn of_object(object: Value) -> Self {
        let text = |field: &str| object.pointer(field).and_then(Value::as_str);
        let created = text("/metadata/creationTimestamp").and_then(|time| time.parse().ok());
        let age = created.map_or_else(|| "<unknown>".to_owned(), |created| age(created, Timestamp::now()));
        Self { cells: vec![json!(text("/metadata/name").unwrap_or_default()), json!(age)], object }
    }

    /// A field of the metadata.
    pub(super) fn metadata(&self, field: &str) -> &str {
        self.object.get("metadata").and_then(|metadata| metadata.get(field)?.as_str()).unwrap_or_default()
    }

    /// The labels in one line, as kubectl shows them.
    pub(super) fn labels(&self) -> String {
        let labels = self.object.pointer("/metadata/labels").and_then(Value::as_object);
        let shown = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
        let labels: Vec<String> = labels.into_iter().flatten().map(shown).collect();
        if labels.is_empty() { "<none>".into() } else { labels.join(",") }
    }
}

/// The text of a cell. Text after a line feed is left out, as by kubectl.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match text.split_once(['\n', '\r', '\u{c}']) {
            Some((first, _)) => format!("{first}..."),
            None => text.clone(),
        },
        other => other.to_string(),
    }
}

/// Formats an age as kubectl does: two units at most, one where the first is large.
fn age(created: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(created.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |first: i64, unit: &str, second: i64, than: &str| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{than}"),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_without_a_table_have_a_name_and_an_age() {
        let list = json!({"kind": "ThingList", "items": [{"metadata": {"name": "a", "labels": {"x": "y", "z": ""}}}]});
        let mut rows = Rows::default();
        rows.extend(Wire::of_list(&list.to_string()).expect("a list"));
        let row = &rows.rows[0];
        assert_eq!(row.cells, [json!("a"), json!("<unknown>")]);
        assert_eq!((row.metadata("name"), row.labels().as_str()), ("a", "x=y,z="));
    }

    #[test]
    fn cells_are_one_line() {
        let cells = [json!("a\nb"), json!(7), json!(null), json!(true), json!("x")];
        assert_eq!(cells.each_ref().map(cell), ["a...", "7", "", "true", "x"]);
    }

    #[test]
    fn ages_are_formatted_as_by_kubectl() {
        let now: Timestamp = "2026-01-01T01:40:00Z".parse().expect("a time");
        let ages = [
            (0, "0s"),
            (119, "119s"),
            (150, "2m30s"),
            (600, "10m"),
            (10_800, "3h"),
            (172_800, "2d"),
            (864_000, "10d"),
        ];
        for (seconds, shown) in ages {
            let created = Timestamp::from_second(now.as_second() - seconds).expect("in range");
            assert_eq!(age(created, now), shown);
        }
    }
}
