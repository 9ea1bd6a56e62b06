//! Tables: the output of `kubectl get`.

mod cluster;
mod columns;
mod layout;
mod path;
mod view;

use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::registry::{Column, Resource};
use crate::status::Status;
use crate::storage::Stored;

use view::View;

/// How much of the object a row includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// # Errors
    /// 400 for any other value.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Whether a table has column definitions: in a watch, only the first one does.
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

fn described(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

fn of_column(column: &Column) -> Value {
    described(&column.name, &column.kind, &column.format, &column.description, column.priority)
}

/// Builds the table of some objects of a resource. Parses every object.
pub(crate) fn of<'a>(
    resource: &Resource,
    objects: impl IntoIterator<Item = &'a Stored>,
    include: IncludeObject,
    clock: &Clock,
) -> Table {
    let layout = columns::layout_of(resource);
    let definition =
        |name: &str, kind: &str, format: &str, priority| described(name, kind, format, name, priority);
    let custom = resource.kind.columns.as_deref().unwrap_or_default();
    let shows_age = custom.is_empty();
    let definitions =
        match layout {
            Some(layout) => layout
                .columns
                .iter()
                .map(|(name, kind, priority)| {
                    let format = if *name == "Name" { "name" } else { "" };
                    definition(name, kind, format, *priority)
                })
                .collect(),
            None => std::iter::once(definition("Name", "string", "name", 0))
                .chain(custom.iter().map(of_column))
                .chain(shows_age.then(|| {
                    definition(if resource.kind.custom { "Age" } else { "Created At" }, "date", "", 0)
                }))
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
