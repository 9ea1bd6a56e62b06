//! Which objects an informer holds now: its scope may change while it runs.

use kinformer::Informer;
use kinformer::kube_core::DynamicObject;
use serde::Serialize;

/// Which objects an informer holds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Selection {
    /// The names of the parts, separated by commas; empty for all objects.
    scope: String,
    /// The namespaces that are requested by their names; none for all.
    namespaces: Vec<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    shard: Option<Shard>,
}

/// A shard: the objects whose value of a field has a hash in one of the ranges.
#[derive(Debug, Serialize)]
struct Shard {
    field: String,
    ranges: Vec<HashRange>,
}

/// Hashes from one to another, which is not included, as in `shardSelector`.
#[derive(Debug, Serialize)]
struct HashRange {
    from: String,
    to: String,
}

impl Selection {
    /// Reads the selection. The selectors are those of the first namespace.
    pub(crate) fn of(informer: &Informer<DynamicObject>) -> Self {
        let selection = informer.selection();
        let namespaces: Vec<String> = selection.namespaces().map(|name| name.to_string()).collect();
        let first = namespaces.first().map(String::as_str).unwrap_or_default();
        let shard = selection.shard().map(|shard| Shard {
            field: shard.field().to_string(),
            ranges: shard
                .ranges()
                .iter()
                .map(|range| HashRange {
                    from: format!("0x{:016x}", range.start),
                    to: format!("0x{:016x}", range.end),
                })
                .collect(),
        });
        Self {
            scope: selection.scope(),
            label_selector: selection.label_selector(first).map(|selector| selector.to_string()),
            field_selector: selection.field_selector(first).map(|selector| selector.to_string()),
            shard,
            namespaces,
        }
    }
}
