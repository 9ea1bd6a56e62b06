//! Tables: what `kubectl get` shows.

mod cluster;
mod columns;
mod path;

use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::registry::{Column, Resource};
use crate::status::Status;
use crate::storage::Stored;

/// How much of its object a row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// # Errors
    /// 400 for any other word.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

/// Whether a table says what its columns are: within a watch only the first one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    Shown,
    Left,
}

pub(crate) struct Table {
    definitions: Value,
    rows: Vec<Value>,
}

impl Table {
    pub(crate) fn to_json(&self, metadata: Value, columns: Columns) -> Value {
        let definitions = match columns {
            Columns::Shown => self.definitions.clone(),
            Columns::Left => json!([]),
        };
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": definitions, "rows": self.rows})
    }
}

/// The table of some objects of a resource. Parses each of them.
pub(crate) fn of<'a>(
    resource: &Resource,
    objects: impl IntoIterator<Item = &'a Stored>,
    include: IncludeObject,
    clock: &Clock,
) -> Table {
    let layout = columns::layout_of(resource);
    let definition = |name: &str, kind: &str, format: &str, priority: i64| json!({"name": name, "type": kind, "format": format, "description": name, "priority": priority});
    let custom = resource.kind.columns.as_deref().unwrap_or_default();
    let shows_age = custom.is_empty();
    let definitions = match layout {
        Some(layout) => layout
            .columns
            .iter()
            .map(|(name, kind, priority)| {
                let format = if *name == "Name" { "name" } else { "" };
                definition(name, kind, format, *priority)
            })
            .collect(),
        None => std::iter::once(definition("Name", "string", "name", 0))
            .chain(custom.iter().map(|column| definition(&column.name, &column.kind, "", column.priority)))
            .chain(
                shows_age.then(|| {
                    definition(if resource.kind.custom { "Age" } else { "Created At" }, "date", "", 0)
                }),
            )
            .collect::<Vec<Value>>()
            .into(),
    };
    let rows = objects.into_iter().map(|stored| {
        let object = crate::api::Api::served(resource, stored);
        let cells = match layout {
            Some(layout) => (layout.cells)(&View { object: &object, clock }),
            None if resource.kind.custom => plain_cells(&object, custom, shows_age, clock),
            None => {
                let view = View { object: &object, clock };
                vec![view.name(), view.text("/metadata/creationTimestamp").into()]
            }
        };
        let mut row = Map::new();
        row.insert("cells".into(), cells.into());
        match include {
            IncludeObject::None => {}
            IncludeObject::Object => {
                row.insert("object".into(), Value::Object(object));
            }
            IncludeObject::Metadata => {
                let metadata = object.get("metadata").cloned().unwrap_or(Value::Null);
                let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata});
                row.insert("object".into(), partial);
            }
        }
        Value::Object(row)
    });
    Table { rows: rows.collect(), definitions }
}

fn plain_cells(object: &Map<String, Value>, custom: &[Column], shows_age: bool, clock: &Clock) -> Vec<Value> {
    let view = View { object, clock };
    let mut cells = vec![view.name()];
    for column in custom {
        let value = path::read(object, &column.path).cloned().unwrap_or(Value::Null);
        cells.push(match (column.kind.as_str(), &value) {
            ("date", Value::String(time)) => view.age_of(time),
            (_, Value::Object(_) | Value::Array(_)) => value.to_string().into(),
            _ => value,
        });
    }
    if shows_age {
        cells.push(if custom.is_empty() { view.age() } else { Value::Null });
    }
    cells
}

/// What the cells of a row are made from.
struct View<'a> {
    object: &'a Map<String, Value>,
    clock: &'a Clock,
}

impl View<'_> {
    /// The value at a path such as `/status/phase`.
    fn at(&self, pointer: &str) -> &Value {
        let mut parts = pointer.split('/').skip(1);
        let first = parts.next().and_then(|member| self.object.get(member));
        first
            .and_then(|value| parts.try_fold(value, |value, member| value.get(member)))
            .unwrap_or(&Value::Null)
    }

    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or("")
    }

    fn text_or(&self, pointer: &str, other: &str) -> Value {
        match self.text(pointer) {
            "" => other.into(),
            text => text.into(),
        }
    }

    fn number(&self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or(0)
    }

    fn flag(&self, pointer: &str) -> bool {
        self.at(pointer).as_bool().unwrap_or(false)
    }

    /// How long something took, or takes; empty before it has begun.
    fn between(&self, start: &str, end: &str) -> Value {
        let since = |time: &str| self.clock.seconds_since(time);
        let Some(started) = since(self.text(start)) else { return "".into() };
        human_duration(started - since(self.text(end)).unwrap_or(0)).into()
    }

    fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// The number of members of an object, or of elements of a list.
    fn count(&self, pointer: &str) -> i64 {
        let value = self.at(pointer);
        let count = value.as_object().map(Map::len).or_else(|| value.as_array().map(Vec::len));
        count.and_then(|count| i64::try_from(count).ok()).unwrap_or(0)
    }

    fn name(&self) -> Value {
        self.text("/metadata/name").into()
    }

    /// The phase, unless it is being deleted.
    fn phase(&self) -> Value {
        match self.text("/metadata/deletionTimestamp") {
            "" => self.text("/status/phase").into(),
            _ => "Terminating".into(),
        }
    }

    fn age(&self) -> Value {
        self.age_of(self.text("/metadata/creationTimestamp"))
    }

    fn age_of(&self, time: &str) -> Value {
        self.clock.seconds_since(time).map_or_else(|| "<unknown>".to_owned(), human_duration).into()
    }
}

/// `45s`, `3m20s`, `5h`, `2d3h`, `400d`: two units where the first is small.
/// Follows Kubernetes 1.37 (`duration.HumanDuration`).
fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".into(),
        -1..=0 => "0s".into(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (3600, "60m"),
            (4 * 3600 + 60, "4h1m"),
            (47 * 3600, "47h"),
            (3 * 86400 + 7200, "3d2h"),
            (400 * 86400, "400d"),
            (800 * 86400, "2y70d"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
