//! The resources of containers and pods, and the names of resources.

use serde_json::Value;

use super::super::super::check::{Check, Fields, Plain};
use super::super::super::names;
use super::super::super::quantity::Quantity;
use super::shared::Pod;

const OF_QUOTAS: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// Of the resources above, those that are counted.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

pub(in super::super) fn is_quota_resource(name: &str) -> bool {
    OF_QUOTAS.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// Whether the requests of a resource may be lower than its limits.
pub(in super::super) fn is_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Checks the name of a resource, which is the key of the field that is checked. Whether it is valid.
pub(in super::super) fn resource_name(c: &mut Check, field: &str, name: &str) -> bool {
    let before = c.count();
    c.rules(field, name, names::qualified_name(name));
    if c.count() == before && !name.contains('/') && !is_quota_resource(name) && name != "storage" {
        c.invalid(field, name, "must be a standard resource type or fully qualified");
    }
    c.count() == before
}

pub(in super::super) fn container_resource_name(c: &mut Check, field: &str, name: &str) {
    resource_name(c, field, name);
    if !name.contains('/') {
        if !["cpu", "memory", "ephemeral-storage"].contains(&name) && !is_huge_page(name) {
            c.invalid(field, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        c.invalid(field, name, "doesn't follow extended resource name standard");
    }
}

/// Checks the quantity of a resource, and returns it.
pub(in super::super) fn quantity_value(
    c: &mut Check,
    field: &str,
    name: &str,
    value: &Value,
) -> Option<Quantity> {
    let text = value.as_str().unwrap_or("");
    let quantity = Quantity::parse(text).ok()?;
    if quantity.signum() < 0 {
        c.invalid(field, text, "must be greater than or equal to 0");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !quantity.is_whole() {
        c.invalid(field, value, "must be an integer");
    }
    Some(quantity)
}

/// The requirements of a container.
pub(in super::super) fn requirements(c: &mut Check, resources: &Value, claims: &[&str]) {
    check(c, resources, container_resource_name);
    let names =
        resources.members("limits").chain(resources.members("requests")).map(|(name, _)| name.as_str());
    let names: Vec<&str> = names.collect();
    if names.iter().any(|name| is_huge_page(name))
        && !names.iter().any(|name| ["cpu", "memory"].contains(name))
    {
        c.forbidden("", "HugePages require cpu or memory");
    }
    c.each("claims", resources.items("claims"), |c, claim| match claim.text("name") {
        "" => c.required("", ""),
        name if claims.contains(&name) => {}
        name => {
            let of = "must be one of the names in pod.spec.resourceClaims";
            let list = if claims.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", claims.join(", "))
            };
            c.not_found("", name, &format!("{of}{list}"));
        }
    });
}

fn check(c: &mut Check, resources: &Value, check_name: fn(&mut Check, &str, &str)) {
    for (name, value) in resources.members("limits") {
        c.enter("limits", |c| {
            c.key(name, |c| {
                check_name(c, "", name);
                let limit = quantity_value(c, "", name, value);
                huge_pages(c, name, limit);
            });
        });
    }
    for (name, value) in resources.members("requests") {
        let mut request = None;
        c.enter("requests", |c| {
            c.key(name, |c| {
                check_name(c, "", name);
                request = quantity_value(c, "", name, value);
            });
        });
        let Some(request) = request else { continue };
        let limit = Quantity::parse(resources.of("limits").text(name)).ok();
        match limit {
            Some(limit) if request != limit && !is_overcommitted(name) => {
                let rule = format!("must be equal to {name} limit of {limit}");
                c.invalid("requests", value, &rule);
            }
            Some(limit) if request > limit => {
                let rule = format!("must be less than or equal to {name} limit of {limit}");
                c.invalid("requests", value, &rule);
            }
            None if !is_overcommitted(name) => {
                c.required("limits", "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        c.enter("requests", |c| c.key(name, |c| huge_pages(c, name, Some(request))));
    }
}

fn huge_pages(c: &mut Check, name: &str, quantity: Option<Quantity>) {
    let (Some(size), Some(quantity)) = (name.strip_prefix("hugepages-"), quantity) else { return };
    if !Quantity::parse(size).is_ok_and(|size| quantity.is_multiple_of(size)) {
        let rule = format!("{quantity} is not positive integer multiple of {name}");
        c.invalid("", &quantity.to_string(), &rule);
    }
}

/// The resources of a whole pod.
pub(super) fn pod_resources(c: &mut Check, pod: &Pod<'_>) {
    let resources = pod.spec.of("resources");
    if resources.is_null() {
        return;
    }
    c.enter("resources", |c| {
        if pod.os() == "windows" {
            return c.forbidden("", "may not be set for a windows pod");
        }
        if resources.has("claims") {
            c.forbidden("claims", "claims may not be set for Resources at pod-level");
        }
        check(c, resources, |c, field, name| {
            if resource_name(c, field, name) && !["cpu", "memory"].contains(&name) && !is_huge_page(name) {
                c.not_supported(field, name, &["cpu", "hugepages-", "memory"]);
            }
        });
        limits_of_containers(c, pod, resources);
    });
}

fn limits_of_containers(c: &mut Check, pod: &Pod<'_>, resources: &Value) {
    for (index, container) in pod.spec.items("containers").iter().enumerate() {
        for (name, limit) in container.of("resources").members("limits") {
            let limit = Quantity::parse(limit.as_str().unwrap_or("")).ok();
            let whole = Quantity::parse(resources.of("limits").text(name)).ok();
            if let (Some(limit), Some(whole)) = (limit, whole)
                && limit > whole
            {
                let rule = format!("must be less than or equal to pod limits of {whole}");
                let field = format!("containers[{index}][{name}].limits");
                c.invalid(&field, Plain(&format!("\"{limit}\"")), &rule);
            }
        }
    }
}
