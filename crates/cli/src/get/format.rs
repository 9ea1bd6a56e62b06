//! Output formats of `kinformer get`.

use std::str::FromStr;

use super::columns::Columns;
use super::template::Template;

/// An output format, named as in kubectl.
#[derive(Clone, Debug)]
pub(crate) enum GetFormat {
    /// A table, with more columns if wide.
    Table {
        wide: bool,
    },
    /// The objects as the server has sent them, in one line.
    Json,
    Yaml,
    /// A line `kind/name` for each object.
    Name,
    JsonPath(Template),
    /// A table of fields.
    CustomColumns(Columns),
}

impl FromStr for GetFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Table { wide: false }),
            "wide" => Ok(Self::Table { wide: true }),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            _ => match text.split_once('=') {
                Some(("jsonpath", template)) => template.parse().map(Self::JsonPath),
                Some(("custom-columns", columns)) => columns.parse().map(Self::CustomColumns),
                _ => Err("expected json, yaml, name, wide, jsonpath=TEMPLATE, such as \
                          jsonpath={.items[*].metadata.name}, or custom-columns=TITLE:FIELD.PATH,..., such as \
                          custom-columns=NAME:.metadata.name"
                    .into()),
            },
        }
    }
}
