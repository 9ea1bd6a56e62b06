//! Damaged responses: their parts are intact, but one of them is not what it should be.

use serde_json::{Value, json};

use super::encoding::Encoding;
use super::faults::Damage;
use super::request::Query;

impl Damage {
    /// Appends a damaged event.
    pub(crate) fn of_event(self, out: &mut Vec<u8>, encoding: Encoding, name: &str, mut object: Value) {
        let start = out.len();
        if self == Self::Name {
            rename(Some(&mut object));
        }
        encoding.event(out, name, &object);
        if self == Self::Event {
            encoding.truncate(out, start);
        }
    }

    /// Damages a list. Returns whether an item has lost its name.
    pub(crate) fn of_list(self, query: &Query, list: &mut Value) -> bool {
        let is_relist =
            query.number("resourceVersion").is_ok_and(|version| version.is_some_and(|version| version > 0));
        match self {
            Self::Name => {
                let item = list
                    .pointer_mut("/items")
                    .and_then(Value::as_array_mut)
                    .and_then(|items| items.first_mut());
                let is_damaged = item.is_some();
                rename(item);
                return is_damaged;
            }
            Self::Kind => {
                let metadata = json!({"resourceVersion": list.pointer("/metadata/resourceVersion")});
                *list = json!({
                    "kind": "WidgetList", "apiVersion": "simulation.example/v1", "metadata": metadata, "items": [],
                });
            }
            Self::Version if is_relist => {
                if let Some(list) = list.as_object_mut() {
                    list.insert("metadata".into(), json!({}));
                    list.insert("items".into(), json!([]));
                }
            }
            Self::Version | Self::Event => {}
        }
        false
    }
}

fn rename(object: Option<&mut Value>) {
    if let Some(name) = object.and_then(|object| object.pointer_mut("/metadata/name")) {
        *name = json!(7);
    }
}
