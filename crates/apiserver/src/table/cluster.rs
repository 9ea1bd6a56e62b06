//! The columns of cluster-level kinds: definitions, roles, limits, classes. Follows Kubernetes 1.37
//! (`printersinternal`, the table convertor of CustomResourceDefinitions).

use serde_json::Value;

use super::layout::{I, Layout, S, layout};
use super::view::View;

static DEFINITIONS: Layout = layout!(
    [
        ("Scope", S, 0),
        ("Versions", S, 0),
        ("Created At", "date", 0),
        ("Group", S, 1),
        ("Kind", S, 1),
        ("ShortNames", S, 1),
        ("Established", "boolean", 1)
    ],
    |v| {
        let is = |version: &Value, flag: &str| version.get(flag).and_then(Value::as_bool).unwrap_or(false);
        let versions = v.list("/spec/versions").iter().filter(|version| is(version, "served"));
        let mut versions: Vec<String> = versions
            .map(|version| {
                let stored = if is(version, "storage") { "(storage)" } else { "" };
                format!("{}{stored}", version.get("name").and_then(Value::as_str).unwrap_or(""))
            })
            .collect();
        versions.sort_unstable();
        let conditions = v.list("/status/conditions").iter();
        let is_established = |c: &&Value| c.get("type").is_some_and(|kind| kind == "Established");
        let established =
            conditions.filter(is_established).any(|c| c.get("status").is_some_and(|s| s == "True"));
        vec![
            v.name(),
            v.text("/spec/scope").into(),
            versions.join(",").into(),
            v.text("/metadata/creationTimestamp").into(),
            v.text("/spec/group").into(),
            v.text("/spec/names/kind").into(),
            texts(v.list("/spec/names/shortNames"), ",").into(),
            established.into(),
        ]
    }
);
static BINDINGS: Layout = layout!(
    [("Role", S, 0), ("Age", S, 0), ("Users", S, 1), ("Groups", S, 1), ("ServiceAccounts", S, 1)],
    |v| {
        let role = format!("{}/{}", v.text("/roleRef/kind"), v.text("/roleRef/name"));
        let subjects = |kind: &str| {
            let of_kind = v.list("/subjects").iter().filter(|s| s.get("kind").is_some_and(|k| k == kind));
            let names = of_kind.map(|subject| {
                let text = |member: &str| subject.get(member).and_then(Value::as_str).unwrap_or("");
                let namespace = text("namespace");
                if namespace.is_empty() {
                    text("name").into()
                } else {
                    format!("{namespace}/{}", text("name"))
                }
            });
            Value::from(names.collect::<Vec<_>>().join(", "))
        };
        vec![v.name(), role.into(), v.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
    }
);
static QUOTAS: Layout = layout!([("Request", S, 0), ("Limit", S, 0), ("Age", S, 0)], |v| {
    let amount = |amounts: &str, resource: &str| -> String {
        match v.value(amounts).get(resource) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => "0".into(),
        }
    };
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for resource in v.value("/status/hard").as_object().into_iter().flat_map(serde_json::Map::keys) {
        let (used, hard) = (amount("/status/used", resource), amount("/status/hard", resource));
        let list = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        list.push(format!("{resource}: {used}/{hard}"));
    }
    vec![v.name(), requests.join(", ").into(), limits.join(", ").into(), v.age()]
});
static BUDGETS: Layout = layout!(
    [("Min Available", S, 0), ("Max Unavailable", S, 0), ("Allowed Disruptions", I, 0), ("Age", S, 0)],
    |v| {
        let bound = |pointer: &str| match v.value(pointer) {
            Value::Null => "N/A".into(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        vec![
            v.name(),
            bound("/spec/minAvailable").into(),
            bound("/spec/maxUnavailable").into(),
            v.number("/status/disruptionsAllowed").into(),
            v.age(),
        ]
    }
);
static PRIORITIES: Layout = layout!(
    [("Value", I, 0), ("Global-Default", "boolean", 0), ("Age", S, 0), ("PreemptionPolicy", S, 0)],
    |v| {
        vec![
            v.name(),
            v.number("/value").into(),
            v.flag("/globalDefault").into(),
            v.age(),
            v.text_or("/preemptionPolicy", "PreemptLowerPriority"),
        ]
    }
);
static STORAGE_CLASSES: Layout = layout!(
    [
        ("Provisioner", S, 0),
        ("ReclaimPolicy", S, 0),
        ("VolumeBindingMode", S, 0),
        ("AllowVolumeExpansion", S, 0),
        ("Age", S, 0)
    ],
    |v| {
        vec![
            v.name(),
            v.text("/provisioner").into(),
            v.text_or("/reclaimPolicy", "Delete"),
            v.text_or("/volumeBindingMode", "Immediate"),
            v.flag("/allowVolumeExpansion").into(),
            v.age(),
        ]
    }
);
static INGRESS_CLASSES: Layout = layout!([("Controller", S, 0), ("Parameters", S, 0), ("Age", S, 0)], |v| {
    let parameters = match (v.text("/spec/parameters/kind"), v.text("/spec/parameters/apiGroup")) {
        ("", _) => "<none>".into(),
        (kind, "") => format!("{kind}/{}", v.text("/spec/parameters/name")),
        (kind, group) => format!("{kind}.{group}/{}", v.text("/spec/parameters/name")),
    };
    vec![v.name(), v.text("/spec/controller").into(), parameters.into(), v.age()]
});
static RUNTIME_CLASSES: Layout =
    layout!([("Handler", S, 0), ("Age", S, 0)], |v| vec![v.name(), v.text("/handler").into(), v.age()]);
static WEBHOOKS: Layout =
    layout!([("Webhooks", I, 0), ("Age", S, 0)], |v| vec![v.name(), v.count("/webhooks").into(), v.age()]);
static POLICIES: Layout = layout!([("Validations", I, 0), ("ParamKind", S, 0), ("Age", S, 0)], |v| {
    let param = match v.value("/spec/paramKind") {
        Value::Null => "<unset>".to_owned(),
        _ => format!("{}/{}", v.text("/spec/paramKind/apiVersion"), v.text("/spec/paramKind/kind")),
    };
    vec![v.name(), v.count("/spec/validations").into(), param.into(), v.age()]
});
static POLICY_BINDINGS: Layout = layout!([("PolicyName", S, 0), ("ParamRef", S, 0), ("Age", S, 0)], |v| {
    let param = match (v.text("/spec/paramRef/name"), v.text("/spec/paramRef/namespace")) {
        ("", _) if v.value("/spec/paramRef/selector").is_null() => "<unset>".to_owned(),
        ("", _) => selector_text(v),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    vec![v.name(), v.text("/spec/policyName").into(), param.into(), v.age()]
});

/// Returns the selector of parameters as Go prints it.
fn selector_text(v: &View<'_>) -> String {
    let labels = v.value("/spec/paramRef/selector/matchLabels").as_object().into_iter().flatten();
    let labels: String =
        labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or(""))).collect();
    let expressions = v.list("/spec/paramRef/selector/matchExpressions").iter().map(|expression| {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or("");
        let values = expression.get("values").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let (key, operator, values) = (text("key"), text("operator"), texts(values, " "));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        expressions.collect::<String>()
    )
}

/// Returns the columns of a kind of this module.
pub(super) fn layout_of(group: &str, plural: &str) -> Option<&'static Layout> {
    Some(match (group, plural) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => &DEFINITIONS,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &BINDINGS,
        ("", "resourcequotas") => &QUOTAS,
        ("policy", "poddisruptionbudgets") => &BUDGETS,
        ("scheduling.k8s.io", "priorityclasses") => &PRIORITIES,
        ("storage.k8s.io", "storageclasses") => &STORAGE_CLASSES,
        ("networking.k8s.io", "ingressclasses") => &INGRESS_CLASSES,
        ("node.k8s.io", "runtimeclasses") => &RUNTIME_CLASSES,
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => &WEBHOOKS,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => &POLICIES,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => &POLICY_BINDINGS,
        _ => return None,
    })
}

fn texts(values: &[Value], separator: &str) -> String {
    values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(separator)
}
