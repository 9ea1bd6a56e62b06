//! JSON patch (RFC 6902) as kube-apiserver applies it, which differs from the RFC: a test for null of a missing member
//! passes, a missing member can be replaced and copied, and an index can be negative.
//!
//! Follows Kubernetes 1.37 (`gopkg.in/evanphx/json-patch.v4`, `jsonPatcher`).

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::status::Status;

use super::node::Node;

/// The limit of Kubernetes.
const MAX_OPERATIONS: usize = 10_000;
/// The total size in bytes of JSON that the `copy` operations of one patch may copy. The limit of Kubernetes.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// The total number of list items that the operations of one patch may move to make or take room.
const MAX_MOVED: usize = 20_000_000;
/// How many names a pointer may have. No object is deeper.
const MAX_NAMES: usize = 128;
/// How deep the document may become.
const MAX_DEPTH: usize = 400;

/// The fields of an operation that are texts.
const TEXTS: [&str; 3] = ["op", "path", "from"];

/// The operations of a patch.
#[derive(Debug)]
pub(crate) struct Operations {
    all: Vec<Operation>,
    /// The first field of another type than text.
    mistyped: Option<Status>,
    /// The fields that an operation does not have.
    unknown: Vec<String>,
}

#[derive(Debug, Default)]
struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Option<Box<RawValue>>,
}

impl Operations {
    /// # Errors
    /// 400 for a body that is no list of objects, 413 for too many operations.
    pub(super) fn decode(body: &[u8]) -> Result<Self, Status> {
        let wrong = |value: &str, expected: &str| {
            Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {value} into Go value of type {expected}"
            ))
        };
        let mut found = Self { all: Vec::new(), mistyped: None, unknown: Vec::new() };
        let body: &RawValue = serde_json::from_slice(body).map_err(|_| invalid_json())?;
        if body.get() == "null" {
            return Ok(found);
        }
        let list: Vec<&RawValue> =
            serde_json::from_str(body.get()).map_err(|_| wrong(type_of(body), "[]handlers.jsonPatchOp"))?;
        for (number, text) in list.iter().enumerate() {
            let fields: Option<BTreeMap<String, &RawValue>> =
                serde_json::from_str(text.get()).map_err(|_| wrong(type_of(text), "handlers.jsonPatchOp"))?;
            let operation = found.operation(number, &fields.unwrap_or_default());
            found.all.push(operation);
        }
        if found.all.len() > MAX_OPERATIONS {
            let message = format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                found.all.len()
            );
            return Err(Status::new(413, "RequestEntityTooLarge", message));
        }
        Ok(found)
    }

    fn operation(&mut self, number: usize, fields: &BTreeMap<String, &RawValue>) -> Operation {
        for (name, value) in fields {
            if TEXTS.contains(&name.as_str()) && !matches!(type_of(value), "string" | "null") {
                self.mistyped.get_or_insert_with(|| {
                    Status::bad_request(format!(
                        "error decoding patch: json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type \
                         string",
                        type_of(value)
                    ))
                });
            } else if !TEXTS.contains(&name.as_str()) && name != "value" {
                self.unknown.push(format!("json patch unknown field \"[{number}].{name}\""));
            }
        }
        let text = |name: &str| fields.get(name).and_then(|text| serde_json::from_str(text.get()).ok());
        let value = fields.get("value").map(|value| (*value).to_owned());
        Operation { op: text("op"), path: text("path"), from: text("from"), value }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// # Errors
    /// 400 for a field of another type than text.
    pub(crate) fn check_types(&self) -> Result<(), Status> {
        self.mistyped.clone().map_or(Ok(()), Err)
    }

    /// Returns what is wrong with the patch, which is applied all the same.
    pub(crate) fn unknown_fields(&self) -> &[String] {
        &self.unknown
    }

    /// Returns the patched object, which may be another value.
    ///
    /// # Errors
    /// 422 for an operation that fails, 413 for operations that move too much.
    pub(super) fn apply(&self, object: Map<String, Value>) -> Result<Value, Status> {
        let mut document = Document { root: Node::of(object), copied: 0, moved: 0, depth: MAX_NAMES };
        for operation in &self.all {
            document.apply(operation)?;
        }
        document.root.into_value().map_err(|_| refused())
    }
}

/// The type of a JSON value in the messages of Go.
fn type_of(value: &RawValue) -> &'static str {
    match value.get().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'n') => "null",
        _ => "number",
    }
}

pub(super) fn invalid_json() -> Status {
    Status::bad_request("invalid JSON patch")
}

fn refused() -> Status {
    Status::rejected_request()
}

/// The names of a pointer; `None` if it has none. What precedes the first slash is ignored.
fn names(pointer: &str) -> Option<Vec<String>> {
    let decoded =
        |name: &str| name.split("~1").map(|part| part.replace("~0", "~")).collect::<Vec<_>>().join("/");
    let names: Vec<String> = pointer.split('/').skip(1).take(MAX_NAMES + 1).map(decoded).collect();
    (1..=MAX_NAMES).contains(&names.len()).then_some(names)
}

/// The index of an item; negative ones count from `end`, which is then the first after the last.
fn index(name: &str, end: usize) -> Result<usize, Status> {
    let index: i64 = name.parse().map_err(|_| refused())?;
    let distance = usize::try_from(index.unsigned_abs()).map_err(|_| refused())?;
    if index < 0 { end.checked_sub(distance).ok_or_else(refused) } else { Ok(distance) }
}

/// A map or a list, with the name of a member or an item of it.
struct Place<'a> {
    container: &'a mut Node,
    name: String,
}

impl Place<'_> {
    /// # Errors
    /// 422 for an item that does not exist.
    fn get(&self) -> Result<&Node, Status> {
        match &*self.container {
            Node::Map(members) => Ok(members.get(&self.name).unwrap_or(&Node::Missing)),
            Node::List(items) => items.get(index(&self.name, items.len())?).ok_or_else(refused),
            _ => Err(refused()),
        }
    }

    fn set(self, value: Node) -> Result<(), Status> {
        match self.container {
            Node::Map(members) => {
                members.insert(self.name, value);
            }
            Node::List(items) => {
                let index = index(&self.name, items.len())?;
                *items.get_mut(index).ok_or_else(refused)? = value;
            }
            _ => return Err(refused()),
        }
        Ok(())
    }

    fn add(self, value: Node) -> Result<(), Status> {
        match self.container {
            Node::Map(members) => {
                members.insert(self.name, value);
            }
            Node::List(items) if self.name == "-" => items.push(value),
            Node::List(items) => {
                let index = index(&self.name, items.len() + 1)?;
                if index > items.len() {
                    return Err(refused());
                }
                items.insert(index, value);
            }
            _ => return Err(refused()),
        }
        Ok(())
    }

    fn remove(self) -> Result<Node, Status> {
        match self.container {
            Node::Map(members) => members.remove(&self.name).ok_or_else(refused),
            Node::List(items) => {
                let index = index(&self.name, items.len())?;
                if index < items.len() { Ok(items.remove(index)) } else { Err(refused()) }
            }
            _ => Err(refused()),
        }
    }

    fn items(&self) -> usize {
        if let Node::List(items) = &*self.container { items.len() } else { 0 }
    }
}

/// The object while it is patched.
struct Document {
    root: Node,
    copied: usize,
    moved: usize,
    /// The document is at most so deep.
    depth: usize,
}

impl Document {
    fn apply(&mut self, operation: &Operation) -> Result<(), Status> {
        let path = || operation.path.as_deref().ok_or_else(refused);
        let value = || operation.value.as_deref().map_or(Node::Missing, Node::given);
        match operation.op.as_deref() {
            Some("add") => self.add(path()?, value()),
            Some("remove") => self.remove(path()?).map(drop),
            Some("replace") => match path()? {
                "" => self.replace_all(value()),
                path => {
                    let place = self.place(path)?;
                    place.get()?;
                    place.set(value())
                }
            },
            Some("move") => {
                let from = operation.from.as_deref().ok_or_else(refused)?;
                let moved = self.remove(from)?;
                self.deepen(from, path()?, &moved)?;
                self.add(path()?, moved)
            }
            Some("copy") => {
                let copy = self.copy(operation.from.as_deref().ok_or_else(refused)?)?;
                self.add(path()?, copy)
            }
            Some("test") => self.test(path()?, operation.value.as_deref()),
            _ => Err(refused()),
        }
    }

    fn place(&mut self, pointer: &str) -> Result<Place<'_>, Status> {
        let mut names = names(pointer).ok_or_else(refused)?;
        let last = names.pop().unwrap_or_default();
        let mut container = &mut self.root;
        for name in names {
            let next = match container {
                Node::Map(members) => members.get_mut(&name),
                Node::List(items) => {
                    let index = index(&name, items.len())?;
                    items.get_mut(index)
                }
                _ => None,
            };
            container = next.ok_or_else(refused)?;
            container.open();
        }
        Ok(Place { container, name: last })
    }

    /// # Errors
    /// 413 for too many items.
    fn count_moved(&mut self, items: usize) -> Result<(), Status> {
        self.moved = self.moved.saturating_add(items);
        if self.moved <= MAX_MOVED {
            return Ok(());
        }
        let message = format!("The operations of the JSON patch move more than {MAX_MOVED} items of lists");
        Err(Status::new(413, "RequestEntityTooLarge", message))
    }

    fn add(&mut self, path: &str, value: Node) -> Result<(), Status> {
        let items = self.place(path)?.items();
        self.count_moved(items)?;
        self.place(path)?.add(value)
    }

    fn remove(&mut self, path: &str) -> Result<Node, Status> {
        let items = self.place(path)?.items();
        self.count_moved(items)?;
        self.place(path)?.remove()
    }

    fn replace_all(&mut self, mut value: Node) -> Result<(), Status> {
        value.open();
        if !matches!(value, Node::Map(_) | Node::List(_)) {
            return Err(refused());
        }
        self.root = value;
        Ok(())
    }

    /// # Errors
    /// 422 if all copies are too large.
    fn copy(&mut self, from: &str) -> Result<Node, Status> {
        let text = match self.place(from)?.get()? {
            Node::Missing => return Ok(Node::Missing),
            node => node.text(),
        };
        self.copied = self.copied.saturating_add(text.len());
        if self.copied > MAX_COPIED {
            return Err(refused());
        }
        let text = RawValue::from_string(text).map_err(|_| refused())?;
        Ok(Node::given(&text))
    }

    fn test(&mut self, path: &str, value: Option<&RawValue>) -> Result<(), Status> {
        let expected = value.map(Node::given);
        let passes = if path.is_empty() {
            expected.is_some_and(|expected| self.root.equals(&expected))
        } else {
            match (self.place(path)?.get()?, expected) {
                (Node::Missing, expected) => matches!(expected, None | Some(Node::Null)),
                (_, None) => false,
                (present, Some(expected)) => present.equals(&expected),
            }
        };
        if passes { Ok(()) } else { Err(refused()) }
    }

    /// Notes that a value is moved, to keep the document from becoming too deep for the stack.
    fn deepen(&mut self, from: &str, path: &str, moved: &Node) -> Result<(), Status> {
        let names = |pointer: &str| pointer.matches('/').count();
        self.depth = self.depth.saturating_add(names(path).saturating_sub(names(from)));
        if self.depth > MAX_DEPTH {
            let depth = self.root.depth().max(names(path).saturating_add(moved.depth()));
            self.depth = depth.max(MAX_NAMES);
        }
        if self.depth > MAX_DEPTH { Err(refused()) } else { Ok(()) }
    }
}
