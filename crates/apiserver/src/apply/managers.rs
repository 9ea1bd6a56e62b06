//! The managers of an object's fields: `metadata.managedFields`.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::fields::FieldSet;
use super::value::quoted;
use crate::order;

/// How many entries of updates an object has at most. Follows Kubernetes 1.37 (`DefaultMaxUpdateManagers`).
const MAX_UPDATE_MANAGERS: usize = 10;
/// The manager of the oldest updates of an object with more entries.
const OLDEST: &str = "ancient-changes";

/// The fields of a manager, in the API version in which it wrote them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VersionedSet {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    pub(super) is_applied: bool,
}

pub(super) type Managers = BTreeMap<ManagerId, VersionedSet>;

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What identifies an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Empty for appliers, which have one entry for all versions.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl ManagerId {
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: manager.into(),
            operation,
            api_version: api_version.into(),
            subresource: subresource.into(),
        }
    }

    /// The order of managers in messages: that of their identifiers, which are JSON texts.
    pub(super) fn cmp_in_messages(&self, other: &Self) -> std::cmp::Ordering {
        fn parts(id: &ManagerId) -> (&str, Operation, &str, bool, &str) {
            (&id.manager, id.operation, &id.api_version, id.subresource.is_empty(), &id.subresource)
        }
        parts(self).cmp(&parts(other))
    }

    /// The manager in messages. Follows Kubernetes 1.37 (`printManager`).
    pub(super) fn text(&self) -> String {
        let mut text = quoted(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", quoted(&self.subresource)));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// Returns why the value of `managedFields` cannot be used.
pub(crate) fn entries_fault(entries: Option<&Value>) -> Option<String> {
    Managed::decode(entries).err()
}

/// An entry as Go prints it.
fn printed(entry: &Value) -> String {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or("");
    let time = match text("time") {
        "" => "<nil>".to_owned(),
        time => time.replace('T', " ").replace('Z', " +0000 UTC"),
    };
    let fields = match entry.get("fieldsV1") {
        Some(Value::String(packed)) => packed.clone(),
        fields => fields.map(Value::to_string).unwrap_or_default(),
    };
    let [manager, operation, version, of, subresource] =
        ["manager", "operation", "apiVersion", "fieldsType", "subresource"].map(text);
    format!("{{{manager} {operation} {version} {time} {of} {fields} {subresource}}}")
}

/// The decoded entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managed {
    pub(super) managers: Managers,
    pub(super) times: HashMap<ManagerId, String>,
}

impl Managed {
    /// Parses the value of `managedFields`.
    ///
    /// # Errors
    /// The first invalid entry. Follows Kubernetes 1.37 (`DecodeManagedFields`).
    pub(super) fn decode(entries: Option<&Value>) -> Result<Self, String> {
        let mut managed = Self::default();
        let entries = entries.and_then(Value::as_array);
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or("");
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".into()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".into());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => {
                    return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}"));
                }
            }
            let set = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => {
                    let set = match fields {
                        Value::String(packed) => FieldSet::parse_text(packed),
                        fields => FieldSet::parse(fields),
                    };
                    set.map_err(|error| {
                        let entry = printed(entry);
                        format!("error decoding versioned set from {entry}: error decoding set: {error}")
                    })?
                }
            };
            let id = ManagerId {
                manager: text("manager").into(),
                operation,
                api_version: if operation == Operation::Apply { "" } else { api_version }.into(),
                subresource: text("subresource").into(),
            };
            if !text("time").is_empty() {
                managed.times.insert(id.clone(), text("time").into());
            }
            let is_applied = operation == Operation::Apply;
            managed.managers.insert(id, VersionedSet { set, api_version: api_version.into(), is_applied });
        }
        Ok(managed)
    }

    /// The value of `managedFields`, with packed sets; `None` without entries.
    pub(super) fn encode(&self) -> Option<Value> {
        let mut entries: Vec<_> = self.managers.iter().collect();
        order::sort_by_key(&mut entries, |(id, versioned)| {
            (id.operation, self.seconds(id), &id.manager, &versioned.api_version, &id.subresource)
        });
        let entries: Vec<Value> = entries.into_iter().map(|(id, set)| self.entry(id, set)).collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    fn entry(&self, id: &ManagerId, versioned: &VersionedSet) -> Value {
        let mut entry = Map::new();
        let mut put = |field: &str, text: &str| {
            if !text.is_empty() {
                entry.insert(field.into(), text.into());
            }
        };
        put("manager", &id.manager);
        put("operation", id.operation.name());
        put("apiVersion", &versioned.api_version);
        put("time", self.times.get(id).map_or("", String::as_str));
        put("fieldsType", "FieldsV1");
        put("subresource", &id.subresource);
        entry.insert("fieldsV1".into(), Value::String(versioned.set.to_text()));
        Value::Object(entry)
    }

    fn seconds(&self, id: &ManagerId) -> i64 {
        let time = self.times.get(id).and_then(|time| time.parse::<jiff::Timestamp>().ok());
        time.map_or(0, jiff::Timestamp::as_second)
    }

    /// Merges the entries of the oldest updates of each version until there are few.
    ///
    /// Follows Kubernetes 1.37 (`capManagersManager`).
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<ManagerId> = self
            .managers
            .iter()
            .filter(|(_, versioned)| !versioned.is_applied)
            .map(|(id, _)| id.clone())
            .collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        order::sort_by_key(&mut updaters, |id| (self.seconds(id), id.clone()));
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                break;
            }
            let Some(versioned) = self.managers.get(&id).cloned() else { continue };
            let version = versioned.api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            let bucket = ManagerId::new(OLDEST, Operation::Update, &version, "");
            if !self.managers.contains_key(&bucket)
                && let Some(set) = self.managers.remove(first)
            {
                self.managers.insert(bucket.clone(), set);
            }
            let present = self.managers.get(&bucket).map(|bucket| bucket.set.clone()).unwrap_or_default();
            let set = versioned.set.clone().union(&present);
            self.managers.remove(&id);
            self.managers.insert(bucket.clone(), VersionedSet { set, ..versioned });
            count -= 1;
            match self.times.get(&id).cloned() {
                Some(time) => self.times.insert(bucket, time),
                None => self.times.remove(&bucket),
            };
        }
    }
}

/// Whether a client asks to forget all managers: an empty list, or a list of one empty entry.
pub(super) fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Whether two values of `managedFields` differ only in the times of their entries.
pub(crate) fn is_same_but_times(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_array(), b.as_array()) else { return a == b };
    let is_same = |one: &Value, other: &Value| match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let rest = |(name, _): &(&String, &Value)| *name != "time";
            one.iter().filter(rest).eq(other.iter().filter(rest))
        }
        _ => one == other,
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
}
