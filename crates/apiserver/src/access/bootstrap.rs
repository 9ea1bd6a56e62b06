//! The roles and bindings that kube-apiserver creates when it starts.

use serde_json::{Map, Value, json};

use crate::api::{Api, DryRun, Part, Write};

const TEXT: &str = include_str!("bootstrap.txt");
const GROUP: &str = "rbac.authorization.k8s.io";
/// The manager of the objects.
const MANAGER: &str = "kube-apiserver";

/// An object of the text.
struct Bootstrap {
    plural: &'static str,
    namespace: &'static str,
    object: Map<String, Value>,
}

impl Api {
    /// Creates the roles and bindings that do not exist yet.
    pub(crate) fn create_bootstrap_roles(&self) {
        let registry = self.registry();
        for Bootstrap { plural, namespace, object } in objects() {
            let Some(resource) = registry.get(GROUP, "v1", plural) else { continue };
            let name = object.get("metadata").and_then(|metadata| metadata.get("name"));
            let key = Self::key(resource, namespace, name.and_then(Value::as_str).unwrap_or(""));
            if resource.store.get(&key).is_some() {
                continue;
            }
            let write = Write::of(Part::Object, DryRun::No, MANAGER);
            // A snapshot without the namespace gets no role in it.
            _ = self.create(resource, namespace, object, write);
        }
    }
}

fn list(text: &str) -> Vec<&str> {
    text.split(',').map(|part| if part == "core" { "" } else { part }).collect()
}

fn objects() -> Vec<Bootstrap> {
    let mut all: Vec<Bootstrap> = Vec::new();
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        if line.starts_with(' ') {
            let rules = all.last_mut().and_then(|last| last.object.get_mut("rules"));
            if let Some(Value::Array(rules)) = rules {
                rules.push(rule(&words));
            }
            continue;
        }
        all.extend(match words.as_slice() {
            ["clusterrole", name, aggregated @ ..] => Some(cluster_role(name, aggregated)),
            ["role", namespace, name] => Some(Bootstrap {
                plural: "roles",
                namespace,
                object: with_metadata(json!({"kind": "Role", "rules": []}), name, &[]),
            }),
            ["clusterrolebinding", name, subjects @ ..] => {
                let object = binding("ClusterRoleBinding", "ClusterRole", name, subjects);
                let object = with_metadata(object, name, &[]);
                Some(Bootstrap { plural: "clusterrolebindings", namespace: "", object })
            }
            ["rolebinding", namespace, name, role, subjects @ ..] => {
                let object = with_metadata(binding("RoleBinding", "Role", role, subjects), name, &[]);
                Some(Bootstrap { plural: "rolebindings", namespace, object })
            }
            _ => None,
        });
    }
    all
}

fn cluster_role(name: &str, aggregated: &[&str]) -> Bootstrap {
    let mut role = json!({"kind": "ClusterRole", "rules": []});
    if matches!(name, "admin" | "edit" | "view") {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        let rule = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        role = json!({"kind": "ClusterRole", "rules": null, "aggregationRule": rule});
    }
    Bootstrap { plural: "clusterroles", namespace: "", object: with_metadata(role, name, aggregated) }
}

fn with_metadata(object: Value, name: &str, aggregated: &[&str]) -> Map<String, Value> {
    let mut labels = Map::from_iter([("kubernetes.io/bootstrapping".to_owned(), "rbac-defaults".into())]);
    for to in aggregated {
        labels.insert(format!("rbac.authorization.k8s.io/aggregate-to-{to}"), "true".into());
    }
    let metadata = json!({"name": name, "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}});
    let mut object = object.as_object().cloned().unwrap_or_default();
    object.insert("apiVersion".into(), "rbac.authorization.k8s.io/v1".into());
    object.insert("metadata".into(), metadata);
    object
}

/// `VERBS GROUPS RESOURCES [NAMES]`, or `VERBS URLS`.
fn rule(words: &[&str]) -> Value {
    match words {
        [verbs, groups, resources] => {
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
        }
        [verbs, groups, resources, names] => json!({"verbs": list(verbs), "apiGroups": list(groups),
            "resources": list(resources), "resourceNames": list(names)}),
        [verbs, urls] => json!({"verbs": list(verbs), "nonResourceURLs": list(urls)}),
        _ => Value::Null,
    }
}

fn binding(kind: &str, role_kind: &str, role: &str, subjects: &[&str]) -> Value {
    let subject = |text: &&str| {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        match (kind, name.split_once(':')) {
            ("ServiceAccount", Some((namespace, name))) => {
                json!({"kind": kind, "namespace": namespace, "name": name})
            }
            _ => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
        }
    };
    let subjects: Vec<Value> = subjects.iter().map(subject).collect();
    let mut object = json!({"kind": kind, "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role}});
    if let (false, Some(object)) = (subjects.is_empty(), object.as_object_mut()) {
        object.insert("subjects".into(), subjects.into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_text_is_understood() {
        let all = objects();
        let count = |plural: &str| all.iter().filter(|one| one.plural == plural).count();
        let counts = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"].map(count);
        assert_eq!(counts, [73, 54, 7, 7]);
        let rules = all.iter().filter_map(|one| one.object.get("rules")?.as_array());
        assert_eq!(rules.clone().flatten().count(), 325 + 12);
        assert!(rules.flatten().all(Value::is_object));
    }
}
