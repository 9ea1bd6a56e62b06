//! The objects of a request in the version of a rule.

use crate::registry::Resource;

use super::attributes::{Attributes, Object};
use super::invocation::Invocation;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the version of the request to that of the webhook.
    Forth,
    Back,
}

/// Returns a request as a webhook sees it.
pub(super) fn shown(invocation: &Invocation, attributes: &Attributes) -> Attributes {
    let in_version = |object: &Option<Object>| {
        object.clone().map(|object| in_version(invocation, attributes, object, Direction::Forth))
    };
    Attributes {
        object: in_version(&attributes.object),
        old: in_version(&attributes.old),
        ..attributes.clone()
    }
}

pub(super) fn in_version(
    invocation: &Invocation,
    attributes: &Attributes,
    mut object: Object,
    direction: Direction,
) -> Object {
    let (own, other): (&Resource, &Resource) = (attributes.resource(), &invocation.resource);
    if attributes.asked.kind == invocation.kind {
        return object;
    }
    let (from, to) = if direction == Direction::Forth { (own, other) } else { (other, own) };
    let api_version = to.kind.api_version();
    if !from.kind.custom {
        if let Some(conversion) = from.conversion {
            conversion.to_stored(&mut object, &api_version);
        }
        if let Some(conversion) = to.conversion {
            conversion.to_served(&mut object, &api_version);
        }
    }
    object.insert("apiVersion".into(), api_version.into());
    object
}
