//! Nodes.

use super::super::check::{Check, Fields, NULL, Object, texts};
use super::{pods, services};

pub(super) fn node(c: &mut Check, object: &Object, before: Option<&Object>) {
    let (spec, status) = (object.of("spec"), object.of("status"));
    pods::taints(c, "metadata.taints", spec.items("taints"));
    for list in ["capacity", "allocatable"] {
        for (name, quantity) in status.members(list) {
            pods::quantity_value(c, &format!("status.{list}.{name}"), name, quantity);
        }
    }
    for (index, range) in texts(spec.items("podCIDRs")).enumerate() {
        c.rules(&format!("spec.podCIDRs[{index}]"), range, services::cidr(range));
    }
    let Some(before) = before else { return };
    let old = before.of("spec");
    if !old.items("podCIDRs").is_empty() && old.of("podCIDRs") != spec.of("podCIDRs") {
        let rule = "node updates may not change podCIDR except from \"\" to valid";
        c.forbidden("spec.podCIDRs", rule);
    }
    let (id, new) = (old.text("providerID"), spec.text("providerID"));
    if !id.is_empty() && id != new {
        let word = if new.is_empty() { "cleared" } else { "modified" };
        c.declared(|c| c.invalid("spec.providerID", &NULL, &format!("field cannot be {word} once set")));
    }
    if old.of("externalID") != spec.of("externalID") {
        c.forbidden("spec.externalID", "may not be updated");
    }
}
