//! Random objects.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::super::kubectl::compare;

/// A kind whose objects are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ConfigMap,
    Deployment,
    Role,
    Service,
    ServiceAccount,
    Widget,
}

pub(super) const KINDS: [Kind; 6] =
    [Kind::ConfigMap, Kind::Deployment, Kind::Role, Kind::Service, Kind::ServiceAccount, Kind::Widget];

/// The definition of widgets, with each type of lists and maps.
pub(super) fn widgets() -> Value {
    let text = json!({"type": "string"});
    let map = |keys: &[&str], items: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    let spec = json!({
        "name": text, "count": {"type": "integer"}, "replicas": {"type": "integer"}, "flag": {"type": "boolean"},
        "amount": {"x-kubernetes-int-or-string": true},
        "args": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"},
        "plain": {"type": "array", "items": text},
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "ports": map(&["port", "protocol"], json!({
            "type": "object", "required": ["port"],
            "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text},
        })),
        "containers": map(&["name"], json!({
            "type": "object", "required": ["name"],
            "properties": {
                "name": text, "image": text, "args": {"type": "array", "items": text},
                "env": map(&["name"], json!({
                    "type": "object", "required": ["name"], "properties": {"name": text, "value": text},
                })),
            },
        })),
        "labels": {"type": "object", "additionalProperties": text},
        "selector": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
        "nested": {"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b": text, "c": {"type": "integer"}}}, "d": text,
        }},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    });
    let condition = json!({
        "type": "object", "required": ["type"], "properties": {"type": text, "status": text, "reason": text},
    });
    let status = json!({"replicas": {"type": "integer"}, "conditions": map(&["type"], condition)});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": spec}, "status": {"type": "object", "properties": status},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.answers.example.com"},
        "spec": {
            "group": "answers.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                }},
            }],
        },
    })
}

impl Kind {
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::ConfigMap | Self::Service | Self::ServiceAccount => "v1",
            Self::Deployment => "apps/v1",
            Self::Role => "rbac.authorization.k8s.io/v1",
            Self::Widget => "answers.example.com/v1",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Deployment => "deployments",
            Self::Role => "roles",
            Self::Service => "services",
            Self::ServiceAccount => "serviceaccounts",
            Self::Widget => "widgets",
        }
    }

    /// The path of the objects in a namespace.
    pub(super) fn path(self, namespace: &str) -> String {
        let version = self.api_version();
        let root = if version == "v1" { "api" } else { "apis" };
        format!("/{root}/{version}/namespaces/{namespace}/{}", self.plural())
    }

    /// Members that only kube-apiserver adds.
    pub(super) fn defaults(self) -> &'static [&'static str] {
        match self {
            Self::Deployment | Self::Service => compare::DEFAULTS,
            // An empty list of a type is null, if the type does not leave it out.
            Self::Role => &["rules"],
            Self::ConfigMap | Self::ServiceAccount | Self::Widget => &[],
        }
    }

    /// Whether an object without its content is invalid.
    pub(super) fn needs_content(self) -> bool {
        matches!(self, Self::Deployment | Self::Service)
    }

    /// A random configuration of an object. Each configuration has what validation requires.
    pub(super) fn object(self, rng: &mut Rng, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version(), "kind": format!("{self:?}"), "metadata": metadata(rng, name),
        });
        let content = match self {
            Self::ConfigMap => {
                json!({"data": texts(rng), "binaryData": members(rng, |_| json!("eA=="), &["u", "v"])})
            }
            Self::Deployment => json!({"spec": deployment(rng)}),
            Self::Role => json!({"rules": rules(rng)}),
            Self::Service => json!({"spec": {
                "clusterIP": "None", "selector": texts(rng), "ports": ports(rng, "port", |port, protocol| {
                    json!({"name": format!("{protocol}-{port}").to_lowercase(), "targetPort": port})
                }),
            }}),
            Self::ServiceAccount => json!({
                "automountServiceAccountToken": rng.bool(), "secrets": names(rng), "imagePullSecrets": names(rng),
            }),
            Self::Widget => json!({"spec": widget(rng)}),
        };
        for (name, value) in content.as_object().unwrap() {
            if rng.u8(..5) > 0 || (self.needs_content() && name == "spec") {
                object[name] = value.clone();
            }
        }
        object
    }

    /// Random changes of an object, by members.
    pub(super) fn changes(self, rng: &mut Rng) -> Value {
        let mut changes = json!({"metadata": {"labels": {letter(rng): nullable(rng)}}});
        if rng.bool() {
            changes["metadata"]["annotations"] = json!({letter(rng): nullable(rng)});
        }
        match self {
            Self::ConfigMap => changes["data"] = json!({letter(rng): nullable(rng)}),
            Self::Deployment => changes["spec"] = json!({"minReadySeconds": rng.u8(1..9), "paused": true}),
            Self::Role => changes["rules"] = rules(rng),
            Self::Service => {
                let ports = json!([{"name": "tcp-80", "port": 80, "protocol": "TCP", "targetPort": 80}]);
                let selector = json!({letter(rng): nullable(rng)});
                changes["spec"] = json!({"clusterIP": "None", "ports": ports, "selector": selector});
            }
            Self::ServiceAccount => changes["secrets"] = names(rng),
            Self::Widget => changes["spec"] = widget(rng),
        }
        changes
    }
}

/// A random status of a widget.
pub(super) fn status(rng: &mut Rng) -> Value {
    let conditions = unique(rng, |rng, name| json!({"type": name, "status": letter(rng)}));
    if rng.bool() {
        json!({"conditions": conditions})
    } else {
        json!({"conditions": conditions, "replicas": rng.u8(..5)})
    }
}

fn metadata(rng: &mut Rng, name: &str) -> Value {
    let mut metadata = json!({"name": name});
    for part in ["labels", "annotations"] {
        if rng.bool() {
            metadata[part] = texts(rng);
        }
    }
    if rng.u8(..6) == 0 {
        metadata["finalizers"] = unique(rng, |_, name| json!(format!("example.com/{name}")));
    }
    metadata
}

fn rules(rng: &mut Rng) -> Value {
    some(rng, |rng| json!({"apiGroups": [""], "resources": [letter(rng)], "verbs": ["get", "list"]}))
}

fn deployment(rng: &mut Rng) -> Value {
    let containers = unique(rng, container);
    let mut containers = containers.as_array().unwrap().clone();
    containers.insert(0, container(rng, "app"));
    let mut spec = json!({
        // Without it, kube-apiserver adds the default after each apply.
        "replicas": rng.u8(1..5), "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}},
    });
    if rng.bool() {
        spec["template"]["spec"]["nodeSelector"] = texts(rng);
    }
    if rng.bool() {
        spec["template"]["spec"]["volumes"] = unique(rng, |_, name| json!({"name": name, "emptyDir": {}}));
    }
    spec
}

fn container(rng: &mut Rng, name: &str) -> Value {
    let mut container = json!({"name": name, "image": format!("image:{}", rng.u8(1..3))});
    if rng.bool() {
        container["env"] = unique(rng, |rng, name| json!({"name": name, "value": letter(rng)}));
    }
    if rng.bool() {
        container["ports"] = ports(rng, "containerPort", |_, _| json!({}));
    }
    if rng.bool() {
        container["args"] = some(rng, |rng| json!(letter(rng)));
    }
    container
}

fn widget(rng: &mut Rng) -> Value {
    let mut spec = Map::new();
    for _ in 0..rng.u8(1..6) {
        let (name, value) = match rng.u8(..15) {
            0 => ("name", json!(letter(rng))),
            1 => ("count", json!(rng.u8(..3))),
            2 => ("flag", json!(rng.bool())),
            3 => ("amount", if rng.bool() { json!(1) } else { json!("10%") }),
            4 => ("args", some(rng, |rng| json!(letter(rng)))),
            5 => ("plain", some(rng, |rng| json!(letter(rng)))),
            6 => ("tags", unique(rng, |_, name| json!(name))),
            7 => ("ports", ports(rng, "port", |_, _| json!({"name": "n"}))),
            8 => ("containers", unique(rng, container_of_widget)),
            9 => ("labels", texts(rng)),
            10 => ("selector", texts(rng)),
            11 => ("nested", json!({"a": {"b": letter(rng)}})),
            12 => ("nested", json!({"a": {"c": rng.u8(..3)}, "d": letter(rng)})),
            13 => ("free", json!({letter(rng): {letter(rng): [letter(rng), rng.u8(..3)]}, "x": letter(rng)})),
            _ => ("replicas", json!(rng.u8(..4))),
        };
        spec.insert(name.to_owned(), value);
    }
    Value::Object(spec)
}

fn container_of_widget(rng: &mut Rng, name: &str) -> Value {
    let mut container = json!({"name": name});
    if rng.bool() {
        container["image"] = json!(letter(rng));
    }
    if rng.bool() {
        container["env"] = unique(rng, |rng, name| json!({"name": name, "value": letter(rng)}));
    }
    container
}

fn ports(rng: &mut Rng, key: &str, more: impl Fn(u16, &str) -> Value) -> Value {
    let mut ports = Vec::new();
    for port in [80, 443, 8080] {
        if ports.is_empty() || rng.bool() {
            // Explicit, because an update owns the defaults of schemas.
            let protocol = ["TCP", "TCP", "UDP"][rng.usize(..3)];
            let mut item = more(port, protocol);
            item[key] = json!(port);
            item["protocol"] = json!(protocol);
            ports.push(item);
        }
    }
    Value::Array(ports)
}

/// Objects with a name each.
fn names(rng: &mut Rng) -> Value {
    unique(rng, |_, name| json!({"name": name}))
}

/// A list of up to three items with different names.
fn unique(rng: &mut Rng, item: impl Fn(&mut Rng, &str) -> Value) -> Value {
    let mut names = ["x", "y", "z"];
    rng.shuffle(&mut names);
    let count = rng.usize(1..=3);
    names[..count].iter().map(|name| item(rng, name)).collect()
}

/// A list of one to three items.
fn some(rng: &mut Rng, item: impl Fn(&mut Rng) -> Value) -> Value {
    let count = rng.usize(1..=3);
    (0..count).map(|_| item(rng)).collect()
}

fn texts(rng: &mut Rng) -> Value {
    members(rng, |rng| json!(letter(rng)), &["p", "q", "r"])
}

fn members(rng: &mut Rng, value: impl Fn(&mut Rng) -> Value, names: &[&str]) -> Value {
    let mut members = Map::new();
    for name in names {
        if members.is_empty() || rng.bool() {
            members.insert((*name).to_owned(), value(rng));
        }
    }
    Value::Object(members)
}

fn nullable(rng: &mut Rng) -> Value {
    if rng.bool() { Value::Null } else { json!(letter(rng)) }
}

fn letter(rng: &mut Rng) -> &'static str {
    ["x", "y", "z"][rng.usize(..3)]
}
