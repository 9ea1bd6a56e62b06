//! The endpoints of services.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::super::check::{Check, Fields, Object, texts};
use super::super::names;
use super::labels;

pub(super) fn endpoints(c: &mut Check, object: &Object, before: Option<&Object>) {
    if before.is_some_and(|before| before.of("subsets") == object.of("subsets")) {
        return;
    }
    c.each("subsets", object.items("subsets"), |c, subset| {
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| subset.items(list).is_empty()) {
            c.required("", "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            c.each(list, subset.items(list), address);
        }
        let ports = subset.items("ports");
        c.each("ports", ports, |c, port| {
            let name = port.text("name");
            if !name.is_empty() {
                c.rules("name", name, names::label(name));
            } else if ports.len() > 1 {
                c.required("name", "");
            }
            c.in_range("port", port.int("port").unwrap_or(0), 1, 65535);
            c.one_of("protocol", port.text("protocol"), &["SCTP", "TCP", "UDP"]);
            app_protocol(c, port);
        });
    });
}

fn app_protocol(c: &mut Check, port: &Value) {
    if let Some(protocol) = port.of("appProtocol").as_str() {
        c.rules("appProtocol", protocol, names::qualified_name(protocol));
    }
}

fn address(c: &mut Check, address: &Value) {
    let ip = address.text("ip");
    c.rules("ip", ip, names::address(ip));
    let host = address.text("hostname");
    if !host.is_empty() {
        c.rules("hostname", host, names::label(host));
    }
    if let Some(node) = address.of("nodeName").as_str() {
        c.rules("nodeName", node, names::subdomain(node));
    }
    c.rules("ip", ip, names::endpoint_address(ip));
}

pub(super) fn slice(c: &mut Check, object: &Object, before: Option<&Object>) {
    const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    let kind = object.text("addressType");
    c.declared(|c| c.one_of("addressType", kind, &TYPES));
    let mut seen = HashSet::new();
    let ports = object.items("ports");
    if ports.len() > 20_000 {
        c.too_many("ports", ports.len(), 20_000);
    }
    c.each("ports", ports, |c, port| {
        let name = port.text("name");
        if !name.is_empty() {
            c.rules("name", name, names::label(name));
        }
        if !seen.insert(name) {
            c.duplicate("name", name);
        }
        c.one_of("protocol", port.text("protocol"), &["SCTP", "TCP", "UDP"]);
        app_protocol(c, port);
    });
    if before.is_none_or(|before| before.of("endpoints") != object.of("endpoints")) {
        let endpoints = object.items("endpoints");
        if endpoints.len() > 1000 {
            c.too_many("endpoints", endpoints.len(), 1000);
        }
        c.each("endpoints", endpoints, |c, of| endpoint(c, of, kind));
    }
    if let Some(before) = before {
        c.declared_immutable("addressType", before.of("addressType"), object.of("addressType"));
    }
}

fn endpoint(c: &mut Check, endpoint: &Value, kind: &str) {
    let addresses = endpoint.items("addresses");
    c.declared(|c| match addresses.len() {
        0 => c.required("addresses", ""),
        1..=100 => {}
        count => c.too_many("addresses", count, 100),
    });
    for (index, address) in texts(addresses).enumerate() {
        let field = format!("addresses[{index}]");
        match kind {
            "IPv4" | "IPv6" => match names::address(address) {
                Some(rule) => c.invalid(&field, address, &rule),
                None => {
                    let is_v4 = address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
                    if is_v4 != (kind == "IPv4") {
                        c.invalid("addresses", address, &format!("must be an {kind} address"));
                    }
                    c.rules(&field, address, names::endpoint_address(address));
                }
            },
            "FQDN" => domain_name(c, &field, address),
            _ => {}
        }
    }
    if let Some(node) = endpoint.of("nodeName").as_str() {
        c.rules("nodeName", node, names::subdomain(node));
    }
    labels::labels(c, "deprecatedTopology", endpoint.of("deprecatedTopology"));
    if let Some(host) = endpoint.of("hostname").as_str() {
        c.rules("hostname", host, names::label(host));
    }
    let hints = endpoint.of("hints");
    c.enter("hints", |c| {
        c.each("forZones", hints.items("forZones"), |c, zone| {
            let name = zone.text("name");
            c.rules("name", name, names::label_value(name));
        });
        c.each("forNodes", hints.items("forNodes"), |c, node| {
            let name = node.text("name");
            c.rules("name", name, names::subdomain(name));
        });
    });
}

fn domain_name(c: &mut Check, field: &str, name: &str) {
    if name.is_empty() {
        return c.required(field, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let broken = names::subdomain(name);
    if !broken.is_empty() {
        c.invalid(field, name, &broken.join(","));
    } else if !name.contains('.') {
        c.invalid(field, name, "should be a domain with at least two segments separated by dots");
    }
}
