//! Sets of fields that were recorded with another schema.

use super::fields::{FieldSet, Node};
use super::path::PathElement;
use super::schema::{ListKind, Schema, TypeRef};

/// Returns the set with containers that have become atomic as one field.
///
/// Follows structured-merge-diff 6.4 (`ReconcileFieldSetWithSchema`).
pub(super) fn reconcile(schema: &Schema, of: TypeRef, set: FieldSet) -> FieldSet {
    let mut changed = Changed::default();
    changed.node(schema, of, Some(&set), false, &mut Vec::new());
    if changed.atomic.is_empty() {
        return set;
    }
    set.recursive_difference(&changed.atomic).union(&changed.atomic)
}

#[derive(Default)]
struct Changed {
    /// The containers that are atomic now.
    atomic: FieldSet,
}

impl Changed {
    /// `is_leaf`: the field is in the set, and no field below it is.
    fn node(
        &mut self,
        schema: &Schema,
        of: TypeRef,
        set: Option<&FieldSet>,
        is_leaf: bool,
        path: &mut Vec<PathElement>,
    ) {
        let Some(atom) = schema.atom(of) else { return };
        if let Some(map) = &atom.map {
            if map.is_deduced() {
                return;
            }
            if !is_leaf && map.is_atomic {
                if set.is_some_and(|set| !set.is_empty()) {
                    self.atomic.insert(path);
                }
                return;
            }
            for (element, node) in set.into_iter().flat_map(FieldSet::nodes) {
                let of = match element {
                    PathElement::Field(name) => map.type_of(name),
                    _ => map.element,
                };
                if let Some(of) = of {
                    self.below(schema, of, element, node, path);
                }
            }
        } else if atom.scalar.is_none()
            && let Some(list) = &atom.list
        {
            if !is_leaf && list.kind == ListKind::Atomic {
                self.atomic.insert(path);
                return;
            }
            for (element, node) in set.into_iter().flat_map(FieldSet::nodes) {
                if let Some(of) = list.element {
                    self.below(schema, of, element, node, path);
                }
            }
        }
    }

    fn below(
        &mut self,
        schema: &Schema,
        of: TypeRef,
        element: &PathElement,
        node: &Node,
        path: &mut Vec<PathElement>,
    ) {
        let children = (!node.children.is_empty()).then_some(&node.children);
        path.push(element.clone());
        self.node(schema, of, children, node.is_member && children.is_none(), path);
        path.pop();
    }
}
