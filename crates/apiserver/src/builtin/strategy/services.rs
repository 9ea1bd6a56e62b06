//! The addresses and ports of services: their allocation, and what an update keeps and drops.
//!
//! They follow from the name of the service, so that they are the same in each run. Follows Kubernetes 1.37 (`Allocators`,
//! `patchAllocatedValues`, `normalizeClusterIPs` and `dropTypeDependentFields`).

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::{Value, json};

use super::super::check::{Fields, Object};
use super::super::service_type::{self, FIRST_NODE_PORT, NODE_PORTS, number};
use super::{copy, member};

pub(super) fn created(service: &mut Object) {
    let key = key(service);
    let spec = member(service, "spec");
    if !service_type::has_addresses(spec) {
        return;
    }
    let address = spec.text("clusterIP").to_owned();
    if !address.is_empty() && spec.items("clusterIPs").is_empty() {
        set_addresses(spec, &address);
    }
    allocate_address(spec, &key);
    families(spec);
    let mut numbers = Numbers::of(&key, spec, &Value::Null);
    if service_type::allocates_node_ports(spec) {
        // TCP and UDP on one port have one number
        let given = spec.items("ports").iter().rev();
        let given = given.filter_map(|port| Some((port.int("port")?, number(port, "nodePort")?)));
        let mut shared: HashMap<i64, i64> = given.collect();
        for_each_port(spec, |port| {
            let own = port.int("port").unwrap_or(0);
            let number = *shared.entry(own).or_insert_with(|| numbers.next(own));
            port.entry("nodePort").or_insert_with(|| number.into());
        });
    }
    health_port(spec, &mut numbers);
}

pub(super) fn updated(before: &Object, service: &mut Object) {
    let (key, old) = (key(service), before.of("spec"));
    let spec = member(service, "spec");
    keep_allocated(old, spec);
    normalize(old, spec);
    if service_type::has_addresses(spec) {
        allocate_address(spec, &key);
        families(spec);
    }
    let mut numbers = Numbers::of(&key, spec, old);
    if service_type::allocates_node_ports(spec) {
        for_each_port(spec, |port| {
            let own = port.int("port").unwrap_or(0);
            port.entry("nodePort").or_insert_with(|| numbers.next(own).into());
        });
    }
    health_port(spec, &mut numbers);
    drop_unused(old, spec);
    let has_balancer = service_type::is_balanced(spec);
    if !has_balancer && service.of("status").of("loadBalancer").has("ingress") {
        member(service, "status").insert("loadBalancer".into(), json!({}));
    }
}

fn key(service: &Object) -> String {
    let metadata = service.of("metadata");
    format!("{}/{}", metadata.text("namespace"), metadata.text("name"))
}

/// Calls a function with each port; a number of zero is removed before.
fn for_each_port(spec: &mut Object, mut call: impl FnMut(&mut Object)) {
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        if number(port, "nodePort").is_none() {
            port.remove("nodePort");
        }
        call(port);
    }
}

fn set_addresses(spec: &mut Object, address: &str) {
    spec.insert("clusterIPs".into(), json!([address]));
}

fn allocate_address(spec: &mut Object, key: &str) {
    if spec.text("clusterIP").is_empty() && spec.items("clusterIPs").is_empty() {
        let address = address(key);
        set_addresses(spec, &address);
        spec.insert("clusterIP".into(), address.into());
    }
}

/// An address of 10.96.0.0/12, above those that kube-apiserver keeps for static addresses.
fn address(key: &str) -> String {
    let offset = 0x0200 + hash(key) % (0x10_0000 - 0x0400);
    let address = 0x0a60_0000_u64 + offset;
    let byte = |shift: u32| (address >> shift) & 0xff;
    format!("{}.{}.{}.{}", byte(24), byte(16), byte(8), byte(0))
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn families(spec: &mut Object) {
    let is_headless = spec.text("clusterIP") == "None";
    if spec.items("ipFamilies").is_empty() {
        let is_v6 = spec.text("clusterIP").parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
        spec.insert("ipFamilies".into(), json!([if is_v6 { "IPv6" } else { "IPv4" }]));
    }
    let has_selector = spec.members("selector").next().is_some();
    let policy = if is_headless && !has_selector { "RequireDualStack" } else { "SingleStack" };
    spec.entry("ipFamilyPolicy").or_insert_with(|| policy.into());
    if spec.text("ipFamilyPolicy") == "RequireDualStack" && is_headless && !has_selector {
        spec.insert("ipFamilies".into(), json!(["IPv4", "IPv6"]));
    }
}

/// Allocates numbers of ports of the nodes, each once in a service.
struct Numbers<'a> {
    key: &'a str,
    taken: HashSet<i64>,
}

impl<'a> Numbers<'a> {
    /// The numbers of both states are taken.
    fn of(key: &'a str, spec: &Object, old: &Value) -> Self {
        let ports = spec.items("ports").iter().chain(old.items("ports"));
        let ports = ports.filter_map(|port| number(port, "nodePort"));
        let health = [number(spec, "healthCheckNodePort"), number(old, "healthCheckNodePort")];
        let taken = ports.chain(health.into_iter().flatten());
        Self { key, taken: taken.filter(|number| service_type::is_node_port(*number)).collect() }
    }

    /// Returns the first free number from the one on that follows from the name. If none is free, this one, which is then
    /// refused.
    fn next(&mut self, part: impl std::fmt::Display) -> i64 {
        let hash = hash(&format!("{}:{part}", self.key)) % NODE_PORTS.unsigned_abs();
        let first = i64::try_from(hash).unwrap_or(0);
        let mut all = (0..NODE_PORTS).map(|step| FIRST_NODE_PORT + (first + step) % NODE_PORTS);
        let is_full = i64::try_from(self.taken.len()).is_ok_and(|taken| taken >= NODE_PORTS);
        let free = if is_full { None } else { all.find(|number| !self.taken.contains(number)) };
        let number = free.unwrap_or(FIRST_NODE_PORT + first);
        self.taken.insert(number);
        number
    }
}

fn health_port(spec: &mut Object, numbers: &mut Numbers<'_>) {
    if service_type::needs_health_port(spec) && number(spec, "healthCheckNodePort").is_none() {
        spec.insert("healthCheckNodePort".into(), numbers.next("health").into());
    }
}

/// Keeps the allocated values that an update leaves out.
fn keep_allocated(old: &Value, spec: &mut Object) {
    if service_type::has_addresses(old) && service_type::has_addresses(spec) {
        if spec.text("clusterIP").is_empty() && old.has("clusterIP") {
            spec.insert("clusterIP".into(), old.of("clusterIP").clone());
        }
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let is_empty = spec.items(field).is_empty() && spec.text(field).is_empty();
            if is_empty && old.has(field) {
                spec.insert(field.into(), old.of(field).clone());
            }
        }
    }
    if service_type::allocates_node_ports(old) && service_type::allocates_node_ports(spec) {
        keep_numbers(old, spec);
    }
    let needs = service_type::needs_health_port(old) && service_type::needs_health_port(spec);
    if let Some(number) =
        number(old, "healthCheckNodePort").filter(|_| needs && number(spec, "healthCheckNodePort").is_none())
    {
        spec.insert("healthCheckNodePort".into(), number.into());
    }
}

/// Keeps the numbers of ports, by their names, that no other port has now.
fn keep_numbers(old: &Value, spec: &mut Object) {
    let given = spec.items("ports").iter().filter_map(|port| number(port, "nodePort"));
    let used: HashSet<i64> = given.collect();
    let by_name = old.items("ports").iter().map(|port| (port.text("name"), number(port, "nodePort")));
    let by_name: HashMap<&str, Option<i64>> = by_name.collect();
    for_each_port(spec, |port| {
        let kept = by_name.get(port.text("name")).copied().flatten();
        if let Some(number) = kept.filter(|number| !used.contains(number)) {
            port.entry("nodePort").or_insert_with(|| number.into());
        }
    });
}

/// An update of only one of the address and the addresses changes the other one.
fn normalize(old: &Value, spec: &mut Object) {
    let (was, now) = (old.text("clusterIP"), spec.text("clusterIP").to_owned());
    if was == now {
        if spec.items("clusterIPs").is_empty() {
            copy(old, spec, "clusterIPs");
        }
    } else if old.of("clusterIPs") == spec.of("clusterIPs") {
        if now.is_empty() {
            spec.remove("clusterIPs");
        } else {
            set_addresses(spec, &now);
        }
    }
}

/// Drops the fields that another type of service does not have, if they are those of the old one.
fn drop_unused(old: &Value, spec: &mut Object) {
    let has_addresses = (service_type::has_addresses(old), service_type::has_addresses(spec));
    let is_balanced = (service_type::is_balanced(old), service_type::is_balanced(spec));
    let needs_health_port = (service_type::needs_health_port(old), service_type::needs_health_port(spec));
    let is_external =
        (service_type::is_externally_accessible(old), service_type::is_externally_accessible(spec));
    let fields: [(&[&str], (bool, bool)); 7] = [
        (&["clusterIP", "clusterIPs"], has_addresses),
        (&["ipFamilies"], has_addresses),
        (&["ipFamilyPolicy"], has_addresses),
        (&["healthCheckNodePort"], needs_health_port),
        (&["allocateLoadBalancerNodePorts"], is_balanced),
        (&["loadBalancerClass"], is_balanced),
        (&["externalTrafficPolicy"], is_external),
    ];
    for (fields, needs) in fields {
        if needs == (true, false) && fields.iter().all(|field| spec.of(field) == old.of(field)) {
            fields.iter().for_each(|field| drop(spec.remove(*field)));
        }
    }
    let numbers = |ports: &[Value]| ports.iter().filter_map(|port| number(port, "nodePort")).collect();
    let (had, has): (HashSet<i64>, HashSet<i64>) =
        (numbers(old.items("ports")), numbers(spec.items("ports")));
    if service_type::has_node_ports(old) && !service_type::has_node_ports(spec) && had.is_superset(&has) {
        for_each_port(spec, |port| drop(port.remove("nodePort")));
    }
}
