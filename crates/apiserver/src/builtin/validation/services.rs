//! Services.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::Value;

use super::super::check::{Check, Fields, Object, Plain, texts};
use super::super::names;
use super::super::service_type::{self, number};
use super::{labels, pods};

const HEADLESS: &str = "None";
const NOT_IN_RANGE: &str = "provided port is not in the valid range. The range of valid ports is 30000-32767";

pub(super) fn service(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    let faults = c.count();
    c.enter("spec", |c| cluster_addresses(c, spec, before.map(|before| before.of("spec"))));
    // a dry run allocates nothing
    if c.count() == faults && !c.is_dry_run {
        c.enter("spec", |c| allocated_ports(c, spec, before.map(|before| before.of("spec"))));
    }
    // the allocation comes before all other checks
    if c.count() > faults {
        return;
    }
    if let Some(before) = before {
        let old = before.of("spec");
        c.enter("spec", |c| changes(c, old, spec));
    }
    c.enter("spec", |c| service_spec(c, spec, before.map(|before| before.of("spec"))));
}

fn is_headless(spec: &Value) -> bool {
    spec.items("clusterIPs").first().is_some_and(|first| first == HEADLESS)
}

fn service_spec(c: &mut Check, spec: &Value, before: Option<&Value>) {
    let (kind, ports) = (spec.text("type"), spec.items("ports"));
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        c.required("ports", "");
    }
    of_type(c, spec, kind);
    let mut seen = HashSet::new();
    c.each("ports", ports, |c, of| port(c, of, ports.len() > 1, &mut seen));
    labels::labels(c, "selector", spec.of("selector"));
    let affinity = spec.text("sessionAffinity");
    c.one_of("sessionAffinity", affinity, &["ClientIP", "None"]);
    if affinity == "ClientIP" {
        let seconds = spec.of("sessionAffinityConfig").of("clientIP").int("timeoutSeconds").unwrap_or(0);
        if seconds <= 0 || seconds > 86_400 {
            let rule = "must be greater than 0 and less than 86400";
            c.invalid("sessionAffinityConfig.clientIP.timeoutSeconds", seconds, rule);
        }
    }
    let old: &[Value] = before.map_or(&[], |before| before.items("externalIPs"));
    let old: HashSet<&str> = texts(old).collect();
    c.each("externalIPs", spec.items("externalIPs"), |c, address| {
        let text = address.as_str().unwrap_or("");
        let rule = names::address(text).filter(|_| !old.contains(text));
        c.rules("", text, rule.or_else(|| names::endpoint_address(text)));
    });
    c.one_of("type", kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    numbers(c, ports, kind);
    source_ranges(c, spec, kind);
    if spec.has("allocateLoadBalancerNodePorts") && kind != "LoadBalancer" {
        c.forbidden("allocateLoadBalancerNodePorts", "may only be used when `type` is 'LoadBalancer'");
    }
    load_balancer_class(c, spec, kind);
    policies(c, spec);
}

fn of_type(c: &mut Check, spec: &Value, kind: &str) {
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let rule = format!("may not be set to 'None' for {kind} services");
            c.invalid("clusterIPs[0]", HEADLESS, &rule);
        }
        "ExternalName" => {
            for (field, is_given) in [
                ("clusterIPs", !spec.items("clusterIPs").is_empty()),
                ("ipFamilies", !spec.items("ipFamilies").is_empty()),
                ("ipFamilyPolicy", spec.has("ipFamilyPolicy")),
            ] {
                if is_given {
                    c.forbidden(field, "may not be set for ExternalName services");
                }
            }
            let name = spec.text("externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => c.required("externalName", ""),
                name => c.rules("externalName", name, names::subdomain(name)),
            }
        }
        _ => {}
    }
}

fn port<'a>(c: &mut Check, port: &'a Value, needs_name: bool, seen: &mut HashSet<&'a str>) {
    let name = port.text("name");
    if !name.is_empty() {
        c.rules("name", name, names::label(name));
        if !seen.insert(name) {
            c.duplicate("name", name);
        }
    } else if needs_name {
        c.required("name", "");
    }
    c.in_range("port", port.int("port").unwrap_or(0), 1, 65535);
    c.one_of("protocol", port.text("protocol"), &["SCTP", "TCP", "UDP"]);
    pods::port(c, "targetPort", port.of("targetPort"));
    if let Some(protocol) = port.of("appProtocol").as_str() {
        c.rules("appProtocol", protocol, names::qualified_name(protocol));
    }
}

fn cluster_addresses(c: &mut Check, spec: &Value, before: Option<&Value>) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let (address, addresses) = (spec.text("clusterIP"), spec.items("clusterIPs"));
    let first = addresses.first().and_then(Value::as_str);
    match (address, first) {
        ("", Some(_)) => {
            let rule = "must be empty when `clusterIP` is not specified";
            c.invalid("clusterIPs", spec.of("clusterIPs"), rule);
        }
        ("", None) => {}
        (_, None) => c.required("clusterIPs", ""),
        (address, Some(first)) if address != first => {
            c.invalid("clusterIPs", spec.of("clusterIPs"), "first value must match `clusterIP`");
        }
        _ => {}
    }
    let mut seen = HashSet::new();
    c.each("ipFamilies", spec.items("ipFamilies"), |c, family| {
        let family = family.as_str().unwrap_or("");
        if !["IPv4", "IPv6"].contains(&family) {
            c.not_supported("", family, &["IPv4", "IPv6"]);
        }
        if !seen.insert(family) {
            c.duplicate("", family);
        }
    });
    c.supported(spec, "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    let faults = c.count();
    let old: &[Value] = before.map_or(&[], |before| before.items("clusterIPs"));
    let old: HashSet<&str> = texts(old).collect();
    for (index, text) in texts(addresses).enumerate() {
        if index == 0 && text == HEADLESS {
            if addresses.len() > 1 {
                c.invalid("clusterIPs", spec.of("clusterIPs"), "'None' must be the first and only value");
            }
        } else if !old.contains(text) {
            c.rules(&format!("clusterIPs[{index}]"), text, names::address(text));
        }
    }
    if c.count() == faults {
        families(c, spec);
    }
}

fn families(c: &mut Check, spec: &Value) {
    let addresses = spec.items("clusterIPs");
    if addresses.len() > 2 {
        c.invalid("clusterIPs", spec.of("clusterIPs"), "may only hold up to 2 values");
    }
    let is_v6 = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
    let count = texts(addresses).filter(|address| is_v6(address)).count();
    if addresses.len() > 1 && (count == 0 || count == addresses.len()) {
        let rule = "may specify no more than one IP for each IP family";
        c.invalid("clusterIPs", spec.of("clusterIPs"), rule);
    }
    if is_headless(spec) {
        return;
    }
    for (index, (address, family)) in texts(addresses).zip(texts(spec.items("ipFamilies"))).enumerate() {
        let expected = if is_v6(address) { "IPv6" } else { "IPv4" };
        if ["IPv4", "IPv6"].contains(&family) && family != expected {
            let rule = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            c.invalid(&format!("clusterIPs[{index}]"), address, &rule);
        }
    }
}

/// The first number of a port that cannot be allocated. Ports with equal numbers share theirs when they are created.
fn allocated_ports(c: &mut Check, spec: &Value, before: Option<&Value>) {
    if !service_type::has_node_ports(spec) {
        return;
    }
    let old: &[Value] = before.map_or(&[], |before| before.items("ports"));
    let mut taken: HashSet<i64> = old.iter().filter_map(|port| number(port, "nodePort")).collect();
    let mut shared: HashMap<i64, i64> = HashMap::new();
    for (index, port) in spec.items("ports").iter().enumerate() {
        let Some(number) = number(port, "nodePort") else { continue };
        let is_shared = shared.insert(port.int("port").unwrap_or(0), number) == Some(number);
        let is_new = taken.insert(number);
        let rule = match (before, is_new) {
            (_, true) if !service_type::is_node_port(number) => NOT_IN_RANGE,
            (None, false) if !is_shared => "provided port is already allocated",
            _ => continue,
        };
        return c.invalid(&format!("ports[{index}].nodePort"), number, rule);
    }
}

/// The numbers of ports: each at most once.
fn numbers(c: &mut Check, ports: &[Value], kind: &str) {
    let number = |port: &Value| number(port, "nodePort");
    if kind == "ClusterIP" {
        c.each("ports", ports, |c, port| {
            if number(port).is_some() {
                c.forbidden("nodePort", "may not be used when `type` is 'ClusterIP'");
            }
        });
    }
    let mut seen = HashSet::new();
    c.each("ports", ports, |c, port| {
        if let Some(number) = number(port)
            && !seen.insert((port.text("protocol"), number))
        {
            c.duplicate("nodePort", number);
        }
    });
    let mut seen = HashSet::new();
    c.each("ports", ports, |c, port| {
        if !seen.insert((port.text("protocol"), port.int("port"))) {
            // the key of the internal type
            let text = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                port.of("protocol"),
                port.int("port").unwrap_or(0)
            );
            c.duplicate("", Plain(&text));
        }
    });
}

fn source_ranges(c: &mut Check, spec: &Value, kind: &str) {
    let ranges = spec.items("loadBalancerSourceRanges");
    if ranges.is_empty() {
        return;
    }
    let field = "LoadBalancerSourceRanges";
    if kind != "LoadBalancer" {
        c.forbidden(field, "may only be used when `type` is 'LoadBalancer'");
    }
    for (index, range) in texts(ranges).enumerate() {
        let range = range.trim();
        c.rules(&format!("{field}[{index}]"), range, cidr(range));
    }
}

/// The rule that a CIDR breaks.
pub(super) fn cidr(text: &str) -> Option<String> {
    let Some((address, length)) = names::cidr(text) else {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned());
    };
    let host = names::bits(address).checked_shl(u32::from(length)).unwrap_or(0);
    (host != 0).then(|| "must not have bits set beyond the prefix length".to_owned())
}

fn load_balancer_class(c: &mut Check, spec: &Value, kind: &str) {
    let Some(class) = spec.of("loadBalancerClass").as_str() else { return };
    if kind == "LoadBalancer" {
        c.rules("loadBalancerClass", class, names::qualified_name(class));
    } else {
        c.forbidden("loadBalancerClass", "may only be used when `type` is 'LoadBalancer'");
    }
}

fn policies(c: &mut Check, spec: &Value) {
    let policy = spec.text("externalTrafficPolicy");
    if service_type::is_externally_accessible(spec) {
        c.one_of("externalTrafficPolicy", policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        c.invalid("externalTrafficPolicy", policy, "may only be set for externally-accessible services");
    }
    if let Some(number) = number(spec, "healthCheckNodePort") {
        if !service_type::needs_health_port(spec) {
            let rule = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            c.invalid("healthCheckNodePort", number, rule);
        } else if !service_type::is_node_port(number) {
            // kube-apiserver fails with the status 500
            c.invalid("healthCheckNodePort", number, NOT_IN_RANGE);
        }
    }
    c.supported(spec, "internalTrafficPolicy", &["Cluster", "Local"]);
    c.supported(spec, "trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

/// The addresses and the families of a service stay.
fn changes(c: &mut Check, old: &Value, new: &Value) {
    let is_external = |spec: &Value| spec.text("type") == "ExternalName";
    if !is_external(old) && !is_external(new) {
        let (old, now) = (old.items("clusterIPs"), new.items("clusterIPs"));
        if let (Some(first), Some(other)) = (old.first(), now.first())
            && first != other
            && first != ""
        {
            c.invalid("clusterIPs[0]", new.of("clusterIPs"), "may not change once set");
        }
    }
    if !is_external(old) && !is_external(new) {
        let (old, now) = (old.items("ipFamilies"), new.items("ipFamilies"));
        if let (Some(first), Some(other)) = (old.first(), now.first())
            && first != other
        {
            c.invalid("ipFamilies[0]", new.of("ipFamilies"), "may not change once set");
        }
    }
    let is_balanced = |spec: &Value| service_type::is_balanced(spec);
    if is_balanced(old) && is_balanced(new) && old.of("loadBalancerClass") != new.of("loadBalancerClass") {
        c.invalid("loadBalancerClass", new.of("loadBalancerClass"), "may not change once set");
    }
    let field = "healthCheckNodePort";
    let needs_port = service_type::needs_health_port(old) && service_type::needs_health_port(new);
    if needs_port && number(old, field).is_some_and(|old| number(new, field) != Some(old)) {
        c.forbidden(field, "field is immutable");
    }
}
