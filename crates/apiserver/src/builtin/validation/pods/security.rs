//! Security contexts.

use serde_json::Value;

use super::super::super::check::{Check, Fields};
use super::shared::{self, Pod};

const MAX_ID: i64 = i32::MAX as i64;

fn id(c: &mut Check, context: &Value, field: &str) {
    if let Some(id) = context.int(field) {
        c.in_range(field, id, 0, MAX_ID);
    }
}

pub(super) fn pod_context(c: &mut Check, spec: &Value) {
    let context = spec.of("securityContext");
    c.enter("securityContext", |c| {
        for field in ["fsGroup", "runAsUser", "runAsGroup"] {
            id(c, context, field);
        }
        c.each("supplementalGroups", context.items("supplementalGroups"), |c, group| {
            c.in_range("", group.as_i64().unwrap_or(0), 0, MAX_ID);
        });
        sysctls(c, spec, context.items("sysctls"));
        c.supported(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
        profile(c, context, "seccompProfile", "seccomp");
        profile(c, context, "appArmorProfile", "AppArmor");
        c.supported(context, "supplementalGroupsPolicy", &["Merge", "Strict"]);
        c.supported(context, "seLinuxChangePolicy", &["MountOption", "Recursive"]);
    });
}

fn sysctls(c: &mut Check, spec: &Value, list: &[Value]) {
    let mut seen = Vec::new();
    c.each("sysctls", list, |c, sysctl| {
        let name = sysctl.text("name");
        let is_part = |part: &str| {
            let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            is_end(part.chars().next())
                && is_end(part.chars().next_back())
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
        };
        if name.is_empty() {
            c.required("name", "");
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_part) {
            let form = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            let rule = format!("must have at most 253 characters and match regex {form}");
            c.invalid("name", name, &rule);
        } else if seen.contains(&name) {
            c.duplicate("name", name);
        }
        if spec.flag("hostNetwork") && name.starts_with("net.") {
            c.invalid("name", name, "may not be specified when 'hostNetwork' is true");
        }
        seen.push(name);
    });
}

/// A profile of seccomp or AppArmor.
fn profile(c: &mut Check, context: &Value, field: &str, system: &str) {
    let profile = context.of(field);
    if profile.is_null() {
        return;
    }
    let types = ["Localhost", "RuntimeDefault", "Unconfined"];
    c.enter(field, |c| {
        let (kind, own) = (profile.text("type"), profile.of("localhostProfile"));
        match kind {
            "" => c.required("type", &format!("type is required when {field} is set")),
            kind => c.one_of("type", kind, &types),
        }
        match (kind, own.as_str()) {
            ("Localhost", None) => {
                c.required("localhostProfile", &format!("must be set when {system} type is Localhost"));
            }
            ("Localhost", Some(path)) if system == "seccomp" => {
                shared::descending_path(c, "localhostProfile", path);
            }
            ("Localhost", Some(path)) if path.trim() != path => {
                c.invalid("localhostProfile", path, "must not be padded with whitespace");
            }
            ("Localhost", Some("")) => {
                c.required("localhostProfile", &format!("must be set when {system} type is Localhost"));
            }
            ("Localhost", Some(_)) | (_, None) => {}
            (_, Some(_)) if system == "seccomp" => {
                c.invalid("localhostProfile", profile, "can only be set when seccomp type is Localhost");
            }
            ("RuntimeDefault" | "Unconfined", Some(_)) => {
                c.invalid("localhostProfile", own, "can only be set when AppArmor type is Localhost");
            }
            _ => {}
        }
    });
}

/// The context of a container.
pub(super) fn context(c: &mut Check, context: &Value, pod: &Pod<'_>) {
    if context.is_null() {
        return;
    }
    c.enter("securityContext", |c| {
        id(c, context, "runAsUser");
        id(c, context, "runAsGroup");
        c.supported(context, "procMount", &["Default", "Unmasked"]);
        if context.text("procMount") == "Unmasked" && pod.has_host_users() {
            c.invalid("procMount", context.of("procMount"), "`hostUsers` must be false to use `Unmasked`");
        }
        profile(c, context, "seccompProfile", "seccomp");
        if context.of("allowPrivilegeEscalation") == false {
            if context.flag("privileged") {
                let rule = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
                c.invalid("", context, rule);
            }
            let added = context.of("capabilities").items("add");
            for _ in added.iter().filter(|capability| **capability == "CAP_SYS_ADMIN") {
                let rule =
                    "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
                c.invalid("", context, rule);
            }
        }
        profile(c, context, "appArmorProfile", "AppArmor");
    });
}
