//! Output formats of `kinformer get`.

use std::str::FromStr;

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
            _ => match text.strip_prefix("jsonpath=") {
                Some(template) => template.parse().map(Self::JsonPath),
                None => Err("expected json, yaml, name, wide or jsonpath=TEMPLATE, such as \
                             jsonpath={.items[*].metadata.name}"
                    .into()),
            },
        }
    }
}
