//! The fields of an object that expressions can read.

use std::sync::LazyLock;

use serde_json::json;

use super::super::prune::is_meta;
use super::super::structural::Structural;

/// The schema of what every resource has.
static RESOURCE: LazyLock<Structural> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let metadata = json!({"type": "object", "properties": {"name": text(), "generateName": text()}});
    Structural::parse(&json!({"properties": {"apiVersion": text(), "kind": text(), "metadata": metadata}}))
});

/// The schema of an object, which may be a resource.
///
/// Follows Kubernetes 1.37 (`cel/model.WithTypeAndObjectMeta`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) schema: &'a Structural,
    is_root: bool,
    /// Whether expressions write the names of the fields as they are, without escapes.
    pub(super) has_plain_names: bool,
}

impl<'a> Shape<'a> {
    pub(super) fn of(schema: &'a Structural) -> Self {
        Self { schema, is_root: false, has_plain_names: false }
    }

    /// The shape of a variable of admission, such as `request`.
    pub(super) fn of_variable(schema: &'a Structural) -> Self {
        Self { schema, is_root: false, has_plain_names: true }
    }

    pub(super) fn of_root(schema: &'a Structural) -> Self {
        Self { schema, is_root: true, has_plain_names: false }
    }

    /// Whether both are one type: that of one schema, or one of the types of variables that have a name.
    pub(super) fn is_same(self, other: Self) -> bool {
        fn name(schema: &Structural) -> Option<&str> {
            let format = &*schema.rules.as_ref()?.format;
            format.starts_with("kubernetes.").then_some(format)
        }
        let (one, other) = (self.schema, other.schema);
        std::ptr::eq(one, other) || name(one).is_some_and(|one| name(other) == Some(one))
    }

    fn is_resource(self) -> bool {
        self.is_root || self.schema.is_embedded
    }

    /// Whether it has fields, and is not a map of any keys.
    pub(super) fn has_properties(self) -> bool {
        self.is_resource() || self.schema.properties().next().is_some()
    }

    pub(super) fn field(self, name: &str) -> Option<&'a Structural> {
        if self.is_resource() && is_meta(name) && !self.declares_metadata() {
            return RESOURCE.property(name);
        }
        match self.schema.property(name) {
            None if !self.has_properties() => self.schema.additional.schema(),
            property => property,
        }
    }

    fn declares_metadata(self) -> bool {
        let has = |schema: Option<&Structural>, name: &str, declared: &str| {
            schema.and_then(|schema| schema.property(name)).is_some_and(|of| of.declared.as_ref() == declared)
        };
        let metadata = self.schema.property("metadata");
        has(Some(self.schema), "kind", "string")
            && has(Some(self.schema), "apiVersion", "string")
            && has(Some(self.schema), "metadata", "object")
            && has(metadata, "name", "string")
            && has(metadata, "generateName", "string")
    }
}
