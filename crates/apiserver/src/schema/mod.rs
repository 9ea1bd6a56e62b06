//! Schemas of custom resources: they are pruned, defaulted and validated as by kube-apiserver.
//!
//! This module knows the objects and the causes of errors, but not the API. `x-kubernetes-validations` (CEL) needs the
//! feature `cel`; without it these rules are not evaluated.

#[cfg(feature = "cel")]
mod cel;
mod defaulting;
pub(crate) mod definition;
mod field_path;
mod formats;
mod identifiers;
#[cfg(test)]
mod laws;
mod list_kind;
mod object_meta;
mod pattern;
mod prune;
mod published;
pub(crate) mod scale;
mod structural;
mod trail;
mod validate;
mod violations;

use std::hash::{Hash, Hasher};

#[cfg(feature = "cel")]
pub(crate) use cel::expression;
use serde_json::{Map, Value};

use crate::status::Cause;

pub(crate) use formats::go_duration;
pub(crate) use identifiers::is_identifier;
pub(crate) use published::{meta_definitions, published_list};

use defaulting::{remove_nulls, set_defaults};
use object_meta::Malformed;
pub(crate) use object_meta::{annotation_faults, label_faults};
use structural::Structural;
use validate::{Purpose, validate, validate_root};
use violations::Violations;

/// The schema of one version of a custom resource.
#[derive(Debug)]
pub(crate) struct VersionSchema {
    root: Structural,
    source: Value,
}

/// The paths of the scale subresource, in the fields of an object.
#[derive(Clone, Copy)]
pub(crate) struct Scale<'a> {
    pub(crate) spec_replicas: &'a [String],
    pub(crate) status_replicas: &'a [String],
    pub(crate) selector: Option<&'a [String]>,
}

/// What a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Object,
    Status,
}

/// Whether the defaults are set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defaults {
    Set,
    Keep,
}

impl VersionSchema {
    /// Parses an `openAPIV3Schema` that a definition may have.
    pub(crate) fn parse(schema: &Value) -> Self {
        let mut root = Structural::parse(schema);
        definition::prune_defaults(&mut root);
        #[cfg(feature = "cel")]
        cel::compile(&mut root);
        Self { root, source: schema.clone() }
    }

    /// Returns the schema as OpenAPI v3 publishes it.
    pub(crate) fn published(&self) -> Map<String, Value> {
        published::published(&self.source)
    }

    /// Adds the schema to a hash.
    pub(crate) fn hash(&self, hasher: &mut impl Hasher) {
        self.source.hash(hasher);
    }

    /// Whether two schemas were parsed from equal ones.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.source == other.source
    }

    /// Removes the fields that the schema does not have and the nulls that it does not allow, and sets the defaults. Returns
    /// the paths of the removed fields, apart from those of the metadata of the object itself.
    ///
    /// Follows Kubernetes 1.37 (`unstructuredSchemaCoercer`, `unstructuredDefaulter`).
    ///
    /// # Errors
    /// An embedded resource whose metadata has values of wrong types.
    pub(crate) fn decode(&self, object: &mut Map<String, Value>) -> Result<Vec<String>, Cause> {
        self.coerce(object, Defaults::Set, Malformed::Refused)
    }

    fn coerce(
        &self,
        object: &mut Map<String, Value>,
        defaults: Defaults,
        malformed: Malformed,
    ) -> Result<Vec<String>, Cause> {
        let metadata = object.remove("metadata");
        let mut removed = prune::prune(object, &self.root);
        remove_nulls(object, &self.root);
        let coerced = object_meta::coerce(object, &self.root, malformed);
        if coerced.is_ok() && defaults == Defaults::Set {
            set_defaults(object, &self.root);
        }
        if let Some(mut metadata) = metadata {
            if let Value::Object(metadata) = &mut metadata {
                object_meta::restrict(metadata);
            }
            object.insert("metadata".into(), metadata);
        }
        removed.extend(coerced?);
        Ok(removed)
    }

    /// Sets the defaults. The result of server-side apply is not pruned: it has no unknown fields, and its nulls are errors.
    pub(crate) fn set_defaults(&self, object: &mut Map<String, Value>) {
        set_defaults(object, &self.root);
    }

    /// Brings an object that was stored with another schema into the form of this one, as [`Self::decode`] does. Malformed
    /// metadata of embedded resources is removed.
    ///
    /// Follows Kubernetes 1.37 (`crdConversionRESTOptionsGetter`).
    pub(crate) fn complete(&self, object: &mut Map<String, Value>) {
        let _ = self.coerce(object, Defaults::Set, Malformed::Dropped);
    }

    /// As [`Self::complete`], without defaults.
    pub(crate) fn restrict(&self, object: &mut Map<String, Value>) {
        let _ = self.coerce(object, Defaults::Keep, Malformed::Dropped);
    }

    /// Returns what is wrong with an object. Parts that are as before the write are not checked. `known` is what is already
    /// known to be wrong.
    ///
    /// Follows Kubernetes 1.37 (`customResourceStrategy`, `statusStrategy`).
    pub(crate) fn faults(
        &self,
        object: &Value,
        before: Option<&Map<String, Value>>,
        changed: Changed,
        scale: Option<Scale<'_>>,
        known: &[Cause],
    ) -> Violations {
        let causes = self.schema_faults(object, before, changed, scale);
        #[cfg_attr(not(feature = "cel"), expect(unused_mut, reason = "only the rules add to it"))]
        let mut found = Violations { causes, warnings: Vec::new() };
        #[cfg(feature = "cel")]
        self.check_rules(object, before, known, &mut found);
        #[cfg(not(feature = "cel"))]
        let _ = known;
        found
    }

    /// Evaluates the rules in CEL, unless an error may be the reason for their failure.
    #[cfg(feature = "cel")]
    fn check_rules(
        &self,
        object: &Value,
        before: Option<&Map<String, Value>>,
        known: &[Cause],
        found: &mut Violations,
    ) {
        const BLOCKING: [&str; 5] = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        if !self.root.has_checks {
            return;
        }
        if known.iter().chain(&found.causes).any(|cause| BLOCKING.contains(&cause.reason)) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            found.causes.push(crate::causes::invalid_text("", "null", why));
            return;
        }
        let old = before.map(validate::correlated::Old::Fields);
        let failed = cel::faults("", cel::Subject { value: object, old, is_object: true }, &self.root);
        found.causes.extend(failed.causes);
        found.warnings = failed.warnings;
    }

    fn schema_faults(
        &self,
        object: &Value,
        before: Option<&Map<String, Value>>,
        changed: Changed,
        scale: Option<Scale<'_>>,
    ) -> Vec<Cause> {
        let Some(fields) = object.as_object() else { return Vec::new() };
        let mut found = match changed {
            Changed::Object => validate_root(object, before, &self.root),
            Changed::Status => self.status_faults(fields, before),
        };
        if let Some(scale) = scale {
            if changed == Changed::Object {
                found.extend(scale::count_fault(fields, scale.spec_replicas));
            }
            found.extend(scale::count_fault(fields, scale.status_replicas));
            found.extend(scale.selector.and_then(|path| scale::selector_fault(fields, path)));
        }
        if changed == Changed::Object {
            found.extend(object_meta::faults("", object, &self.root));
        }
        let had_duplicates =
            || before.is_some_and(|before| !list_kind::duplicates(before, &self.root).is_empty());
        let duplicates = list_kind::duplicates(fields, &self.root);
        if !duplicates.is_empty() && !had_duplicates() {
            found.extend(duplicates);
        }
        found
    }

    fn status_faults(&self, object: &Map<String, Value>, before: Option<&Map<String, Value>>) -> Vec<Cause> {
        let (Some(status), Some(schema)) = (object.get("status"), self.root.property("status")) else {
            return Vec::new();
        };
        let before = before.and_then(|before| before.get("status"));
        validate("status", status, before, schema, Purpose::Object)
    }
}
