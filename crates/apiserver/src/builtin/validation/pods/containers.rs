//! Containers, init containers, and their ports.

use std::collections::HashSet;

use serde_json::Value;

use super::super::super::check::{Check, Fields};
use super::super::super::names;
use super::shared::{Pod, pull_policy};
use super::{environment, probes, resources, security, volumes};

pub(super) fn containers(c: &mut Check, pod: &Pod<'_>) {
    let list = pod.spec.items("containers");
    if list.is_empty() {
        return c.required("containers", "");
    }
    let mut seen = HashSet::new();
    c.each("containers", list, |c, container| {
        common(c, container, pod);
        if !seen.insert(container.text("name")) {
            c.duplicate("name", container.text("name"));
        }
        probes::lifecycle(c, container, pod);
        probes::probes(c, container, pod);
        restart_policy(c, container);
    });
    host_port_conflicts(c, "containers", list);
}

pub(super) fn init_containers(c: &mut Check, pod: &Pod<'_>) {
    let list = pod.spec.items("initContainers");
    let containers = pod.spec.items("containers");
    let mut seen: HashSet<&str> = containers.iter().map(|container| container.text("name")).collect();
    c.enter("initContainers", |c| {
        for (index, container) in list.iter().enumerate() {
            c.index(index, |c| {
                common(c, container, pod);
                init_restart_policy(c, container);
                if !seen.insert(container.text("name")) {
                    c.duplicate("name", container.text("name"));
                }
            });
            host_port_conflicts(c, "", std::slice::from_ref(container));
            c.index(index, |c| of_init_containers(c, container, pod));
        }
    });
}

fn of_init_containers(c: &mut Check, container: &Value, pod: &Pod<'_>) {
    if container.text("restartPolicy") == "Always" {
        probes::lifecycle(c, container, pod);
        return probes::probes(c, container, pod);
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container.has(field) {
            c.forbidden(field, "may not be set for init containers without restartPolicy=Always");
        }
    }
    c.each("resizePolicy", container.items("resizePolicy"), |c, policy| {
        if policy.text("restartPolicy") == "RestartContainer" {
            let rule = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            c.invalid("restartPolicy", policy.text("restartPolicy"), rule);
        }
    });
}

fn common(c: &mut Check, container: &Value, pod: &Pod<'_>) {
    let name = container.text("name");
    if name.is_empty() {
        c.required("name", "");
    } else {
        c.rules("name", name, names::label(name));
    }
    if container.text("image").is_empty() {
        c.required("image", "");
    }
    let policy = container.text("terminationMessagePolicy");
    c.one_of("terminationMessagePolicy", policy, &["File", "FallbackToLogsOnError"]);
    ports(c, container.items("ports"));
    environment::variables(c, container.items("env"));
    environment::sources(c, container.items("envFrom"));
    volumes::mounts(c, container, pod);
    volumes::devices(c, container, pod);
    pull_policy(c, "imagePullPolicy", container.text("imagePullPolicy"));
    c.enter("resources", |c| resources::requirements(c, container.of("resources"), &pod.claims));
    resize_policy(c, container, pod);
    security::context(c, container.of("securityContext"), pod);
}

fn ports(c: &mut Check, ports: &[Value]) {
    let mut seen = HashSet::new();
    c.each("ports", ports, |c, port| {
        let name = port.text("name");
        if !name.is_empty() {
            let broken = names::port_name(name);
            if broken.is_empty() && !seen.insert(name) {
                c.duplicate("name", name);
            }
            c.rules("name", name, broken);
        }
        match port.int("containerPort").unwrap_or(0) {
            0 => c.required("containerPort", ""),
            number => c.in_range("containerPort", number, 1, 65535),
        }
        match port.int("hostPort").unwrap_or(0) {
            0 => {}
            number => c.in_range("hostPort", number, 1, 65535),
        }
        c.one_of("protocol", port.text("protocol"), &["SCTP", "TCP", "UDP"]);
    });
}

fn host_port_conflicts(c: &mut Check, field: &str, containers: &[Value]) {
    let mut seen = HashSet::new();
    c.enter(field, |c| {
        for (place, container) in containers.iter().enumerate() {
            let ports = container.items("ports").iter().enumerate();
            for (index, port) in ports {
                let number = port.int("hostPort").unwrap_or(0);
                if number == 0 {
                    continue;
                }
                let text = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
                if !seen.insert(text.clone()) {
                    c.duplicate(&format!("[{}].ports[{index}].hostPort", place), &text);
                }
            }
        }
    });
}

fn resize_policy(c: &mut Check, container: &Value, pod: &Pod<'_>) {
    let is_never = pod.spec.text("restartPolicy") == "Never";
    let mut seen = HashSet::new();
    c.enter("resizePolicy", |c| {
        for (index, policy) in container.items("resizePolicy").iter().enumerate() {
            let (name, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
            if !seen.insert(name) {
                c.duplicate(&format!("[{index}]"), name);
            }
            c.one_of("", name, &["cpu", "memory"]);
            c.one_of("", restart, &["NotRequired", "RestartContainer"]);
            if is_never && restart != "NotRequired" {
                c.invalid("", restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
            }
        }
    });
}

fn init_restart_policy(c: &mut Check, container: &Value) {
    let has_rules = !container.items("restartPolicyRules").is_empty();
    match container.has("restartPolicy") {
        false if has_rules => {
            c.required("restartPolicy", "must specify restartPolicy when restart rules are used");
        }
        false => {}
        true => restart_policy(c, container),
    }
}

fn restart_policy(c: &mut Check, container: &Value) {
    let rules = container.items("restartPolicyRules");
    if container.has("restartPolicy") {
        c.supported(container, "restartPolicy", &["Always", "Never", "OnFailure"]);
    } else if !rules.is_empty() {
        c.required("restartPolicy", "must specify restartPolicy when restart rules are used");
    }
    if rules.len() > 20 {
        c.too_many("restartPolicyRules", rules.len(), 20);
    }
    c.each("restartPolicyRules", rules, |c, rule| {
        let action = rule.text("action");
        let actions = ["Restart", "RestartAllContainers"];
        if !actions.contains(&action) {
            c.not_supported("action", action, &actions);
        }
        let codes = rule.of("exitCodes");
        if codes.is_null() {
            return c.required("exitCodes", "must be specified");
        }
        let operator = codes.text("operator");
        if !["In", "NotIn"].contains(&operator) {
            c.not_supported("exitCodes.operator", operator, &["In", "NotIn"]);
        }
        if codes.items("values").len() > 255 {
            c.too_many("exitCodes.values", codes.items("values").len(), 255);
        }
    });
}
