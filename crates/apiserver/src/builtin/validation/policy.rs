//! Disruption budgets and network policies.

use serde_json::Value;

use super::super::check::{Check, Fields, Object, texts};
use super::super::names;
use super::{apps, labels, services};

pub(super) fn budget(c: &mut Check, object: &Object, _: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        if spec.has("minAvailable") && spec.has("maxUnavailable") {
            c.invalid("", spec, "minAvailable and maxUnavailable cannot be both set");
        }
        for field in ["minAvailable", "maxUnavailable"].into_iter().filter(|field| spec.has(field)) {
            apps::int_or_percent(c, field, spec.of(field));
            apps::at_most_all(c, field, spec.of(field));
        }
        labels::selector(c, "selector", spec.of("selector"));
        c.supported(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"]);
    });
}

pub(super) fn network_policy(c: &mut Check, object: &Object, _: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        labels::selector(c, "podSelector", spec.of("podSelector"));
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            c.each(direction, spec.items(direction), |c, rule| {
                c.each("ports", rule.items("ports"), port);
                c.each(peers, rule.items(peers), peer);
            });
        }
        let types = spec.items("policyTypes");
        if types.len() > 2 {
            return c.invalid(
                "policyTypes",
                spec.of("policyTypes"),
                "may not specify more than two policyTypes",
            );
        }
        for (index, kind) in texts(types).enumerate() {
            if !["Ingress", "Egress"].contains(&kind) {
                c.not_supported(&format!("policyTypes[{index}]"), kind, &["Ingress", "Egress"]);
            }
        }
    });
}

fn port(c: &mut Check, port: &Value) {
    c.supported(port, "protocol", &["TCP", "UDP", "SCTP"]);
    let (start, end) = (port.of("port"), port.int("endPort"));
    match (start.as_i64(), start.as_str()) {
        (Some(start), _) => {
            c.in_range("port", start, 1, 65535);
            if let Some(end) = end {
                if end < start {
                    c.invalid("endPort", end, "must be greater than or equal to `port`");
                }
                c.in_range("endPort", end, 1, 65535);
            }
        }
        (None, Some(name)) => {
            if let Some(end) = end {
                c.invalid("endPort", end, "may not be specified when `port` is non-numeric");
            }
            c.rules("port", name, names::port_name(name));
        }
        (None, None) => {
            if let Some(end) = end {
                c.invalid("endPort", end, "may not be specified when `port` is not specified");
            }
        }
    }
}

fn peer(c: &mut Check, peer: &Value) {
    for field in ["podSelector", "namespaceSelector"] {
        labels::selector(c, field, peer.of(field));
    }
    let block = peer.of("ipBlock");
    if !block.is_null() {
        c.enter("ipBlock", |c| address_block(c, block));
    }
    let has_selector = peer.has("podSelector") || peer.has("namespaceSelector");
    match (has_selector, block.is_null()) {
        (false, true) => c.required("", "must specify a peer"),
        (true, false) => c.forbidden("", "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn address_block(c: &mut Check, block: &Value) {
    let range = block.text("cidr");
    if range.is_empty() {
        return c.declared(|c| c.required("cidr", ""));
    }
    c.rules("cidr", range, services::cidr(range));
    let Some((address, length)) = names::cidr(range) else { return };
    for (index, except) in texts(block.items("except")).enumerate() {
        let field = format!("except[{index}]");
        c.rules(&field, except, services::cidr(except));
        let Some((inner, inner_length)) = names::cidr(except) else { continue };
        let shift = 128_u32.saturating_sub(u32::from(length));
        let prefix = |address| names::bits(address).checked_shr(shift).unwrap_or(0);
        let is_inside = address.is_ipv4() == inner.is_ipv4() && prefix(address) == prefix(inner);
        if !is_inside || length >= inner_length {
            c.invalid(&field, except, "must be a strict subset of `cidr`");
        }
    }
}
