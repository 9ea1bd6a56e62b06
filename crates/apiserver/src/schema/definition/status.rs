//! The rules of the status of a definition.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::causes::invalid;
use crate::status::Cause;

use super::node::Node;

/// Returns what is wrong with the versions in which objects may be stored.
///
/// Follows Kubernetes 1.37 (`ValidateCustomResourceDefinitionStoredVersions`), in the order of the list.
pub(super) fn stored_version_faults(spec: Node<'_>, status: Option<Node<'_>>) -> Vec<Cause> {
    let path = "status.storedVersions";
    let empty = Map::new();
    let status = status.unwrap_or(Node(&empty));
    let listed: Value = status.texts("storedVersions").collect();
    let mut left: BTreeMap<usize, &str> = BTreeMap::new();
    for (index, name) in status.texts("storedVersions").enumerate() {
        left.retain(|_, other| *other != name);
        left.insert(index, name);
    }
    if left.is_empty() {
        return vec![invalid(path, &listed, "must have at least one stored version")];
    }
    let mut found = Vec::new();
    for (_, version) in spec.listed("versions") {
        let name = version.text("name");
        if version.flag("storage") && !left.values().any(|stored| *stored == name) {
            found.push(invalid(path, &listed, &format!("must have the storage version {name}")));
        }
        left.retain(|_, stored| *stored != name);
    }
    found.extend(left.into_iter().map(|(index, name)| {
        let rule = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until \
             a storage migration ensures no data remains persisted in {name} and removes {name} from \
             status.storedVersions"
        );
        invalid(&format!("{path}[{index}]"), &name.into(), &rule)
    }));
    found
}
