//! Sets of fields, and their form in `fieldsV1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::{PathElement, PathError};
use super::schema::{Schema, TypeRef};

/// A set of fields. A field may be in the set, or only have fields below it that are.
///
/// Follows structured-merge-diff 6.4 (`fieldpath.Set`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

/// A field in a set, and the set of the fields below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) is_member: bool,
    pub(super) children: FieldSet,
}

impl Node {
    pub(super) fn member() -> Self {
        Self { is_member: true, children: FieldSet::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }
}

impl FieldSet {
    /// A set of one field.
    pub(super) fn of_path(path: &[PathElement]) -> Self {
        let mut set = Self::default();
        set.insert(path);
        set
    }

    /// A set of fields of maps.
    pub(super) fn of_names(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| PathElement::Field((*name).to_owned())).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a field, but not its parents. The empty path adds nothing.
    pub(super) fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.nodes.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.is_member = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// Adds what is in a node to that of an element.
    pub(super) fn add(&mut self, element: PathElement, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.nodes.entry(element) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(node);
            }
            std::collections::btree_map::Entry::Occupied(mut place) => {
                let present = place.get_mut();
                present.is_member |= node.is_member;
                present.children.extend(node.children);
            }
        }
    }

    fn extend(&mut self, other: Self) {
        for (element, node) in other.nodes {
            self.add(element, node);
        }
    }

    /// The part of the set in one field of the object.
    pub(super) fn below_name(mut self, name: &str) -> Self {
        self.nodes.retain(|element, _| matches!(element, PathElement::Field(field) if field == name));
        self
    }

    /// Whether the set has no field.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.values().all(Node::is_empty)
    }

    pub(super) fn get(&self, element: &PathElement) -> Option<&Node> {
        self.nodes.get(element)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.nodes.iter()
    }

    pub(super) fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.nodes
            .get(first)
            .is_some_and(|node| if rest.is_empty() { node.is_member } else { node.children.has(rest) })
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.extend(other.clone());
        self
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for (element, node) in &self.nodes {
            if let Some(with) = other.nodes.get(element) {
                let both = Node {
                    is_member: node.is_member && with.is_member,
                    children: node.children.intersection(&with.children),
                };
                out.add(element.clone(), both);
            }
        }
        out
    }

    /// The fields of this set that are not in the other one.
    pub(super) fn difference(&self, other: &Self) -> Self {
        self.without(other, Below::Kept)
    }

    /// The fields of this set that are not in the other one, nor below a field of the other one.
    pub(super) fn recursive_difference(&self, other: &Self) -> Self {
        self.without(other, Below::Removed)
    }

    fn without(&self, other: &Self, below: Below) -> Self {
        let mut out = Self::default();
        for (element, node) in &self.nodes {
            let left = match other.nodes.get(element) {
                None => node.clone(),
                Some(gone) if gone.is_member && below == Below::Removed => continue,
                Some(gone) => Node {
                    is_member: node.is_member && !gone.is_member,
                    children: node.children.without(&gone.children, below),
                },
            };
            out.add(element.clone(), left);
        }
        out
    }

    /// The set with the declared fields of structs that have fields of the set below them.
    pub(super) fn with_named_fields(&self, schema: &Schema, of: Option<TypeRef>) -> Self {
        let atom = of.and_then(|of| schema.atom(of));
        let map = atom.and_then(|atom| atom.map.as_ref());
        let mut out = Self::default();
        for (element, node) in &self.nodes {
            let (is_named, below) = match element {
                PathElement::Field(name) => {
                    let field = map.and_then(|map| map.field(name));
                    (field.is_some(), field.map_or(map.and_then(|map| map.element), |field| Some(field.of)))
                }
                PathElement::Key(_) => {
                    (false, atom.and_then(|atom| atom.list.as_ref()).and_then(|list| list.element))
                }
                PathElement::Value(_) | PathElement::Index(_) => (false, None),
            };
            let children = node.children.with_named_fields(schema, below);
            let is_member = node.is_member || is_named && !node.children.nodes.is_empty();
            out.nodes.insert(element.clone(), Node { is_member, children });
        }
        out
    }

    /// Every field in the set: the fields of a level before those below them.
    pub(super) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Vec<PathElement>>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.is_member) {
            let mut path = prefix.clone();
            path.push(element.clone());
            out.push(path);
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.children.collect(prefix, out);
            prefix.pop();
        }
    }

    /// The value of `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        Value::Object(self.to_map(false))
    }

    fn to_map(&self, with_self: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if with_self && !self.nodes.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, node) in self.nodes.iter().filter(|(_, node)| !node.is_empty()) {
            map.insert(element.to_key(), Value::Object(node.children.to_map(node.is_member)));
        }
        map
    }

    /// Parses a value of `fieldsV1`.
    ///
    /// # Errors
    /// A key that is no path element, or a value that is no object.
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let Value::Object(map) = value else { return Err(format!("expected an object, got {value}")) };
        Self::parse_map(map)
    }

    fn parse_map(map: &Map<String, Value>) -> Result<Self, String> {
        let mut set = Self::default();
        for (key, value) in map.iter().filter(|(key, _)| *key != ".") {
            let element = match PathElement::parse(key) {
                Ok(element) => element,
                Err(PathError::UnknownType) => continue,
                Err(error) => return Err(error.to_string()),
            };
            let children = match value {
                Value::Null => Self::default(),
                value => Self::parse(value)?,
            };
            let is_listed = value.get(".").is_some();
            let is_member = is_listed || children.nodes.is_empty();
            set.add(element, Node { is_member, children });
        }
        Ok(set)
    }
}

/// What a difference does with fields below a field that it removes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Kept,
    Removed,
}
