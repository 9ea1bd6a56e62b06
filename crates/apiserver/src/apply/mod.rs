//! Server-side apply: which manager owns which fields of an object, and how an applied object is merged.
//!
//! Pure functions over JSON values. They follow structured-merge-diff 6.4, and `managedfields` of apimachinery 1.37:
//! the chain of field managers there is [`FieldManager`] here.

#[cfg(test)]
mod cases;
mod compare;
mod custom;
mod fields;
mod filter;
mod form;
mod last_applied;
mod managers;
mod merge;
mod packed;
mod path;
mod problem;
#[cfg(test)]
mod properties;
mod reconcile;
mod remove;
mod scale;
mod schema;
mod set_text;
#[cfg(test)]
mod tables;
mod to_set;
mod unknown;
mod unset;
mod update;
mod validate;
mod value;

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::order;
use fields::FieldSet;
use managers::{Managed, ManagerId, Operation};
use path::path_text;
use update::{Conflict, UpdateError, Updater};
use validate::Duplicates;

pub(crate) use custom::schema_of_definition;
pub(crate) use filter::Filter;
pub(crate) use managers::{entries_fault, is_same_but_times};
pub(crate) use packed::{is_packed, pack_with, refuse_packed, unpack};
pub(crate) use scale::ScaleManagers;
pub(crate) use schema::Schema;
pub(crate) use unknown::unknown_fields;
pub(crate) use unset::drop_unset;
pub(crate) use update::{Conflicts, Versions};
pub(crate) use value::{go_json, go_text, go_type, is_printable, quoted};

/// The manager of what an object has before it is applied for the first time.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Fields that no manager owns. Follows Kubernetes 1.37 (`stripMetaManager`).
static NOT_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_names(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The field of the entries, which are no part of the objects that are compared.
static ENTRIES: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_names(&[&["metadata", "managedFields"]]));

/// Why an object was not applied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ApplyError {
    /// Other managers own the fields: the message, and for each field its message and path.
    Conflicts { message: String, causes: Vec<(String, String)> },
    /// The request is invalid.
    BadRequest(String),
    /// The applied object does not fit its type.
    Failed(String),
}

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// The time in RFC 3339.
    pub(crate) now: &'a str,
}

/// Records who owns the fields of an object, and merges applied objects.
pub(crate) struct FieldManager<'a> {
    pub(crate) versions: &'a dyn Versions,
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'static str,
    pub(crate) filter: Filter,
}

impl FieldManager<'_> {
    /// Sets `managedFields` of an object that is created or updated. `live` is empty for a new object, and has packed
    /// entries.
    ///
    /// The entries stay those of `live` if the objects do not fit their type, as in Kubernetes.
    pub(crate) fn record(&self, live: &Value, new: &mut Value, writer: Writer<'_>) {
        let mut given = remove_entries(new);
        if let Some(given) = &mut given {
            packed::pack(given);
        }
        let kept = entries_of(live);
        let entries = match self.recorded(live, new, given.as_ref(), writer) {
            Ok(Recorded::Same) | Err(_) => kept.cloned(),
            Ok(Recorded::Entries(entries)) => entries,
        };
        set_entries(new, entries);
    }

    /// As [`Self::record`], for an object that need not have its type.
    pub(crate) fn record_if_typed(&self, live: &Value, new: &mut Value, writer: Writer<'_>) {
        let schema = self.versions.schema();
        let of = schema.of_kind(self.api_version, self.kind);
        // packed entries do not have their type
        let given = remove_entries(new);
        let fits = of.is_some_and(|of| validate::validate(schema, of, new, Duplicates::Allowed).is_empty());
        if fits {
            set_entries(new, given);
            self.record(live, new, writer);
        } else {
            set_entries(new, entries_of(live).cloned());
        }
    }

    fn recorded(
        &self,
        live: &Value,
        new: &Value,
        given: Option<&Value>,
        writer: Writer<'_>,
    ) -> Result<Recorded, UpdateError> {
        let kept = entries_of(live);
        let given = given.filter(|given| self.subresource.is_empty() && kept != Some(*given));
        let managed = match given {
            Some(given) if managers::is_reset(given) => Some(Managed::default()),
            Some(given) => Managed::decode(Some(given)).ok().filter(|given| !given.managers.is_empty()),
            None => None,
        };
        let is_new = text(live, "uid").is_empty();
        if !is_new && managed.as_ref().map_or(kept.is_none(), |managed| managed.managers.is_empty()) {
            return Ok(Recorded::Entries(None));
        }
        let mut compared = self.updater().difference(live, new)?;
        compared.removed = compared.removed.difference(&ENTRIES);
        if managed.is_none() && compared.is_empty() && self.are_current(kept) {
            return Ok(Recorded::Same);
        }
        let mut managed = managed.unwrap_or_else(|| Managed::decode(kept).unwrap_or_default());
        if managed.managers.is_empty() && !is_new {
            return Ok(Recorded::Entries(None));
        }
        self.update(live, new, &mut managed, writer, compared)?;
        Ok(Recorded::Entries(managed.encode()))
    }

    /// Whether entries stay as they are if the object does: their versions exist, and their types have not changed.
    fn are_current(&self, entries: Option<&Value>) -> bool {
        let schema = self.versions.schema();
        let mut entries = entries.and_then(Value::as_array).into_iter().flatten();
        schema.is_builtin()
            && entries.all(|entry| {
                let version = entry.get("apiVersion").and_then(Value::as_str);
                version.is_some_and(|version| schema.of_kind(version, self.kind).is_some())
            })
    }

    fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: &mut Managed,
        writer: Writer<'_>,
        compared: compare::Comparison,
    ) -> Result<(), UpdateError> {
        // a name that no request can have
        let current = ManagerId::new("\0", Operation::Update, self.api_version, self.subresource);
        let managers = std::mem::take(&mut managed.managers);
        managed.managers = self.updater().update(live, new, compared, managers, &current)?;
        strip(managed, &current);
        if let Some(mut versioned) = managed.managers.remove(&current) {
            let id = self.id(writer.manager, Operation::Update);
            if let Some(previous) = managed.managers.remove(&id) {
                versioned.set = versioned.set.union(&previous.set);
            }
            managed.managers.insert(id.clone(), versioned);
            managed.times.insert(id, writer.now.to_owned());
        }
        managed.cap();
        Ok(())
    }

    /// Merges an applied object into the current one, which is empty for a new object, and sets `managedFields`.
    ///
    /// # Errors
    /// An applied object of another type, or with fields that its type does not have; fields that other managers own,
    /// unless they are taken by force. Follows Kubernetes 1.37 (`FieldManager.Apply`).
    pub(crate) fn apply(
        &self,
        mut live: Value,
        applied: &Value,
        writer: Writer<'_>,
        conflicts: Conflicts,
    ) -> Result<Value, ApplyError> {
        let failed = ApplyError::Failed;
        let mut managed = Managed::decode(entries_of(&live))
            .map_err(|error| failed(format!("failed to decode managed fields: {error}")))?;
        remove_entries(&mut live);
        self.check_type(applied)?;
        if managed.managers.is_empty() {
            self.adopt(&live, &mut managed, writer)?;
        }
        self.check_applied(applied)?;
        self.check_live(&live, "failed to create typed live object", "")?;
        let (object, managers) = self.merged(&live, applied, &managed, writer, conflicts)?;
        managed.managers = managers;
        let id = self.id(writer.manager, Operation::Apply);
        strip(&mut managed, &id);
        let mut object = match object {
            Some(object) => {
                managed.times.insert(id, writer.now.to_owned());
                object
            }
            None => live,
        };
        if writer.manager == last_applied::KUBECTL {
            last_applied::update(&mut object, applied);
        }
        set_entries(&mut object, managed.encode());
        Ok(object)
    }

    /// Records everything that an object without managers has.
    fn adopt(&self, live: &Value, managed: &mut Managed, writer: Writer<'_>) -> Result<(), ApplyError> {
        let empty = Value::Object(Map::new());
        let writer = Writer { manager: BEFORE_FIRST_APPLY, ..writer };
        let failed = "failed to create manager for existing fields: failed to convert new object";
        self.check_live(live, failed, " to smd typed")?;
        let compared = self.updater().difference(&empty, live);
        let adopted = compared.and_then(|compared| self.update(&empty, live, managed, writer, compared));
        adopted.map_err(|error| match self.error(error) {
            ApplyError::Failed(error) => {
                ApplyError::Failed(format!("failed to create manager for existing fields: {error}"))
            }
            error => error,
        })
    }

    fn merged(
        &self,
        live: &Value,
        applied: &Value,
        managed: &Managed,
        writer: Writer<'_>,
        conflicts: Conflicts,
    ) -> Result<(Option<Value>, managers::Managers), ApplyError> {
        let id = self.id(writer.manager, Operation::Apply);
        let apply = |conflicts| self.updater().apply(live, applied, managed.managers.clone(), &id, conflicts);
        match apply(conflicts) {
            Err(UpdateError::Conflicts(found)) if writer.manager == last_applied::KUBECTL => {
                let schema = self.versions.schema();
                let of = schema.of_kind(self.api_version, self.kind);
                let owned = of.and_then(|of| last_applied::owned(schema, of, self.api_version, live));
                let Some(owned) = owned else { return Err(self.error(UpdateError::Conflicts(found))) };
                let left: Vec<Conflict> =
                    found.into_iter().filter(|conflict| !owned.has(&conflict.path)).collect();
                if left.is_empty() { apply(Conflicts::Forced) } else { Err(UpdateError::Conflicts(left)) }
            }
            result => result,
        }
        .map_err(|error| self.error(error))
    }

    fn check_type(&self, applied: &Value) -> Result<(), ApplyError> {
        let given = |field: &str| applied.get(field).and_then(Value::as_str).unwrap_or("");
        if (given("apiVersion"), given("kind")) == (self.api_version, self.kind) {
            return Ok(());
        }
        Err(ApplyError::BadRequest(format!("invalid object type: {}", type_text(applied))))
    }

    fn check_applied(&self, applied: &Value) -> Result<(), ApplyError> {
        if entries_of(applied).is_some_and(Value::is_array) {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
        }
        let schema = self.versions.schema();
        let problem = match schema.of_kind(self.api_version, self.kind) {
            Some(of) => {
                let problems = validate::validate(schema, of, applied, Duplicates::Refused);
                if problems.is_empty() {
                    return Ok(());
                }
                problems.to_string()
            }
            None => format!("no corresponding type for {}", type_text(applied)),
        };
        Err(ApplyError::Failed(format!(
            "failed to create typed patch object ({}): {problem}",
            subject(applied)
        )))
    }

    /// # Errors
    /// An object that does not have its type. Only custom resources may be such: they may be stored in another version.
    fn check_live(&self, live: &Value, before: &str, after: &str) -> Result<(), ApplyError> {
        let schema = self.versions.schema();
        if schema.is_builtin() || live.as_object().is_none_or(Map::is_empty) {
            return Ok(());
        }
        let Some(of) = schema.of_kind(self.api_version, self.kind) else { return Ok(()) };
        let problems = validate::validate(schema, of, live, Duplicates::Allowed);
        if problems.is_empty() {
            return Ok(());
        }
        Err(ApplyError::Failed(format!("{before} ({}){after}: {problems}", subject(live))))
    }

    fn updater(&self) -> Updater<'_> {
        Updater {
            versions: self.versions,
            kind: self.kind,
            api_version: self.api_version,
            filter: &self.filter,
        }
    }

    fn id(&self, manager: &str, operation: Operation) -> ManagerId {
        ManagerId::new(manager, operation, self.api_version, self.subresource)
    }

    fn error(&self, error: UpdateError) -> ApplyError {
        let conflicts = match error {
            UpdateError::Failed(error) => return ApplyError::Failed(error),
            UpdateError::Conflicts(conflicts) => conflicts,
        };
        let causes = conflicts.iter().map(|conflict| {
            (format!("conflict with {}", conflict.manager.text()), path_text(&conflict.path))
        });
        ApplyError::Conflicts { message: conflict_message(&conflicts), causes: causes.collect() }
    }
}

/// What a write does to the entries.
enum Recorded {
    Same,
    Entries(Option<Value>),
}

/// Follows Kubernetes 1.37 (`getConflictMessage`).
fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [Conflict { manager, path }] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            manager.text(),
            path_text(path)
        );
    }
    let mut lines = Vec::new();
    let mut last = None;
    let mut sorted: Vec<&Conflict> = conflicts.iter().collect();
    order::sort_by(&mut sorted, |a, b| a.manager.cmp_in_messages(&b.manager));
    for Conflict { manager, path } in sorted {
        if last != Some(manager) {
            lines.push(format!("conflicts with {}:", manager.text()));
            last = Some(manager);
        }
        lines.push(format!("- {}", path_text(path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

fn strip(managed: &mut Managed, id: &ManagerId) {
    if let Some(versioned) = managed.managers.get_mut(id) {
        versioned.set = versioned.set.difference(&NOT_OWNED);
        if versioned.set.is_empty() {
            managed.managers.remove(id);
        }
    }
}

fn entries_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields").filter(|entries| !entries.is_null())
}

fn remove_entries(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut)?;
    metadata.remove("managedFields").filter(|entries| !entries.is_null())
}

fn set_entries(object: &mut Value, entries: Option<Value>) {
    if let (Some(entries), Some(metadata)) =
        (entries, object.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("managedFields".into(), entries);
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// The name and the type of an object in messages.
fn subject(object: &Value) -> String {
    format!("{}/{}; {}", text(object, "namespace"), text(object, "name"), type_text(object))
}

/// The type of an object in messages: `apps/v1, Kind=Deployment`.
fn type_text(object: &Value) -> String {
    let given = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or("");
    let (group, version) = given("apiVersion").split_once('/').unwrap_or(("", given("apiVersion")));
    format!("{group}/{version}, Kind={}", given("kind"))
}
