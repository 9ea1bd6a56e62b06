//! The formats of the line printer.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "one format is counted")]
pub(crate) enum Format {
    Text,
    Json,
    Wide,
}
