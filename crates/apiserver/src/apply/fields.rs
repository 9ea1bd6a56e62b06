//! Sets of fields, and their form in `fieldsV1`.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::path::{PathElement, PathError};
use super::schema::{Schema, TypeRef};
use crate::order;

/// A set of fields. A field may be in the set, or only have fields below it that are.
///
/// Follows structured-merge-diff 6.4 (`fieldpath.Set`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FieldSet {
    /// Sorted by element.
    nodes: Vec<(PathElement, Node)>,
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

    fn extend(&mut self, other: Self) {
        self.is_member |= other.is_member;
        self.children.extend(other.children);
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
            let path: Vec<_> = path.iter().map(|name| PathElement::Field((*name).into())).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a field, but not its parents. The empty path adds nothing.
    pub(super) fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let mut node = Node::default();
        if rest.is_empty() {
            node.is_member = true;
        } else {
            node.children.insert(rest);
        }
        self.add(first.clone(), node);
    }

    /// Adds what is in a node to that of an element. O(1) if the element is after all others.
    pub(super) fn add(&mut self, element: PathElement, node: Node) {
        if node.is_empty() {
            return;
        }
        if self.nodes.last().is_none_or(|(last, _)| *last < element) {
            self.nodes.push((element, node));
            return;
        }
        match self.nodes.binary_search_by(|(other, _)| other.cmp(&element)) {
            Ok(index) => {
                if let Some((_, present)) = self.nodes.get_mut(index) {
                    present.extend(node);
                }
            }
            Err(index) => self.nodes.insert(index, (element, node)),
        }
    }

    /// Merges two sets in O(n).
    fn extend(&mut self, other: Self) {
        if other.nodes.is_empty() {
            return;
        }
        if self.nodes.is_empty() {
            *self = other;
            return;
        }
        let capacity = self.nodes.len() + other.nodes.len();
        let mut left =
            std::mem::replace(&mut self.nodes, Vec::with_capacity(capacity)).into_iter().peekable();
        let mut right = other.nodes.into_iter().peekable();
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.cmp(b),
            };
            let mut next = if order.is_gt() { right.next() } else { left.next() };
            if order.is_eq()
                && let (Some((_, node)), Some((_, other))) = (&mut next, right.next())
            {
                node.extend(other);
            }
            self.nodes.extend(next);
        }
        self.nodes.shrink_to_fit();
    }

    /// The part of the set in one field of the object.
    pub(super) fn below_name(mut self, name: &str) -> Self {
        self.nodes.retain(|(element, _)| matches!(element, PathElement::Field(field) if **field == *name));
        self
    }

    /// Whether the set has no field.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.iter().all(|(_, node)| node.is_empty())
    }

    pub(super) fn get(&self, element: &PathElement) -> Option<&Node> {
        self.find(|other| other.cmp(element))
    }

    /// The node of a field of a map.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.find(|other| match other {
            PathElement::Field(other) => other.as_ref().cmp(name),
            _ => Ordering::Greater,
        })
    }

    fn find(&self, order: impl Fn(&PathElement) -> Ordering) -> Option<&Node> {
        let index = self.nodes.binary_search_by(|(element, _)| order(element)).ok()?;
        self.nodes.get(index).map(|(_, node)| node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.nodes.iter().map(|(element, node)| (element, node))
    }

    pub(super) fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first)
            .is_some_and(|node| if rest.is_empty() { node.is_member } else { node.children.has(rest) })
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.extend(other.clone());
        self
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        let mut others = other.nodes.iter().peekable();
        for (element, node) in &self.nodes {
            while others.next_if(|(other, _)| other < element).is_some() {}
            if let Some((_, with)) = others.next_if(|(other, _)| other == element) {
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
        let mut out = Self { nodes: Vec::with_capacity(self.nodes.len()) };
        let mut others = other.nodes.iter().peekable();
        for (element, node) in &self.nodes {
            while others.next_if(|(other, _)| other < element).is_some() {}
            let left = match others.next_if(|(other, _)| other == element) {
                None => node.clone(),
                Some((_, gone)) if gone.is_member && below == Below::Removed => continue,
                Some((_, gone)) => Node {
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
            out.nodes.push((element.clone(), Node { is_member, children }));
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
        for (element, _) in self.nodes().filter(|(_, node)| node.is_member) {
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

    /// A set of elements in any order.
    pub(super) fn of_unsorted(mut nodes: Vec<(PathElement, Node)>) -> Self {
        // keys are sorted as text
        if !nodes.is_sorted_by(|(a, _), (b, _)| a < b) {
            order::sort_by(&mut nodes, |(a, _), (b, _)| a.cmp(b));
            let mut set = Self { nodes: Vec::with_capacity(nodes.len()) };
            nodes.into_iter().for_each(|(element, node)| set.add(element, node));
            return set;
        }
        Self { nodes }
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
        let mut nodes = Vec::with_capacity(map.len());
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
            nodes.push((element, Node { is_member, children }));
        }
        Ok(Self::of_unsorted(nodes))
    }
}

/// What a difference does with fields below a field that it removes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Kept,
    Removed,
}
