//! Strategic merge patch: lists of named elements are merged by key instead of replaced.
//!
//! The merge keys are those of the Kubernetes types (the struct tags `patchStrategy` and `patchMergeKey` of
//! `k8s.io/api` 1.37), found by the name of the list. As in Kubernetes, lists without a merge key are replaced.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::apply::go_text;
use crate::order;
use crate::status::Status;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// The merge keys of a list; the first one that an element has is used.
fn merge_keys(list: &str) -> &'static [&'static str] {
    match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "secrets"
        | "resourceClaims"
        | "webhooks"
        | "matchConditions"
        | "validations"
        | "variables" => &["name"],
        "conditions" | "addresses" => &["type"],
        "ports" => &["containerPort", "port"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        "hostAliases" | "podIPs" => &["ip"],
        "topologySpreadConstraints" => &["topologyKey"],
        "ownerReferences" => &["uid"],
        _ => &[],
    }
}

/// Lists of plain values that are merged as sets.
fn is_set(list: &str) -> bool {
    matches!(list, "finalizers")
}

/// Merges `patch` into `object`.
///
/// # Errors
/// 400 and 500 for an invalid directive, 500 for an element without the merge key of its list; `object` is then partly
/// merged and must not be used.
pub(super) fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Status> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or("").to_owned();
    Merge { kind: &kind }.map(object, patch)
}

/// Follows Kubernetes 1.37 (`strategicpatch.mergeMap`).
struct Merge<'a> {
    kind: &'a str,
}

impl Merge<'_> {
    fn merge_keys(&self, list: &str) -> &'static [&'static str] {
        if list == "ports" && self.kind == "EndpointSlice" { &[] } else { merge_keys(list) }
    }

    fn map(&self, object: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Status> {
        match patch.get(PATCH) {
            None => {}
            Some(directive) if directive == "replace" => {
                *object = order::object(patch.iter().filter(|(name, _)| *name != PATCH).map(own));
                return Ok(());
            }
            Some(directive) if directive == "delete" => {
                object.clear();
                return Ok(());
            }
            Some(directive) => return Err(unknown_directive(directive, patch)),
        }
        retain_keys(object, patch)?;
        for (name, value) in patch {
            if let (Some(list), Value::Array(gone)) = (name.strip_prefix(DELETE_FROM_LIST), value) {
                let gone: HashSet<&Value> = gone.iter().collect();
                if let Some(Value::Array(values)) = object.get_mut(list) {
                    values.retain(|value| !gone.contains(value));
                }
            }
        }
        let mut orders = Vec::new();
        for (name, value) in patch {
            if let (Some(list), Value::Array(order)) = (name.strip_prefix(ELEMENT_ORDER), value) {
                let original = object.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
                orders.push((list, order, original));
            }
        }
        for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
            self.field(object, name, value)?;
        }
        for (list, order, original) in orders {
            if let Some(Value::Array(elements)) = object.get_mut(list) {
                *elements = in_order(std::mem::take(elements), order, &original, self.merge_keys(list));
            }
        }
        Ok(())
    }

    fn field(&self, object: &mut Map<String, Value>, name: &str, value: &Value) -> Result<(), Status> {
        match (object.get_mut(name), value) {
            (_, Value::Null) => {
                object.remove(name);
            }
            (Some(Value::Object(present)), Value::Object(patch)) => self.map(present, patch)?,
            (Some(Value::Array(present)), Value::Array(patch)) => {
                *present = self.list(std::mem::take(present), name, patch)?;
            }
            // What has a directive is dropped: there is nothing that it is about.
            (_, value) => match without_directives(value) {
                Some(value) => {
                    object.insert(name.to_owned(), value);
                }
                None => {
                    object.remove(name);
                }
            },
        }
        Ok(())
    }

    fn list(&self, present: Vec<Value>, name: &str, patch: &[Value]) -> Result<Vec<Value>, Status> {
        let keys = self.merge_keys(name);
        if is_set(name) {
            let mut known: HashSet<&Value> = present.iter().collect();
            let added = patch.iter().filter(|value| known.insert(value)).cloned();
            let merged = present.iter().cloned().chain(added).collect();
            return Ok(in_order(merged, patch, &present, keys));
        }
        if keys.is_empty() || (present.is_empty() && patch.is_empty()) {
            return Ok(patch.to_vec());
        }
        let mut replaces = false;
        for element in patch {
            let Value::Object(element) = element else {
                return Err(failed("list element types are not identical".to_owned()));
            };
            let directive = element.get(PATCH);
            match directive.map(|directive| directive.as_str()) {
                Some(Some("replace")) => replaces = true,
                Some(Some("merge")) => {
                    return Err(failed("merging lists cannot yet be specified in the patch".to_owned()));
                }
                None | Some(Some("delete")) if keys.iter().any(|key| element.contains_key(*key)) => {}
                None | Some(Some("delete")) => {
                    let (element, key) =
                        (go_text(&Value::Object(element.clone())), keys.first().unwrap_or(&""));
                    return Err(failed(format!("map: {element} does not contain declared merge key: {key}")));
                }
                Some(_) => {
                    return Err(unknown_directive(directive.unwrap_or(&Value::Null), element));
                }
            }
        }
        if replaces {
            return Ok(patch.iter().filter(|element| element.get(PATCH).is_none()).cloned().collect());
        }
        let merged = self.elements(present.clone(), patch, keys)?;
        Ok(in_order(merged, patch, &present, keys))
    }

    fn elements(&self, present: Vec<Value>, patch: &[Value], keys: &[&str]) -> Result<Vec<Value>, Status> {
        let mut merged: Vec<Option<Value>> = present.into_iter().map(Some).collect();
        let mut places: HashMap<(String, Value), BTreeSet<usize>> = HashMap::new();
        let note = |places: &mut HashMap<(String, Value), BTreeSet<usize>>, place, element: &Value| {
            for (key, value) in values_of(element, keys) {
                places.entry((key.to_owned(), value.clone())).or_default().insert(place);
            }
        };
        for (place, element) in merged.iter().flatten().enumerate() {
            note(&mut places, place, element);
        }
        for element in patch {
            let Value::Object(element) = element else { continue };
            let Some((key, value)) = keys.iter().find_map(|key| Some((*key, element.get(*key)?))) else {
                continue;
            };
            let named = (key.to_owned(), value.clone());
            // Where an element had this value; a merge may have changed it.
            let is_same = |place: &usize| {
                let other = merged.get(*place).and_then(Option::as_ref);
                other.is_some_and(|other| other.get(key) == Some(value))
            };
            if element.get(PATCH).and_then(Value::as_str) == Some("delete") {
                let gone: Vec<usize> =
                    places.remove(&named).into_iter().flatten().filter(|place| is_same(place)).collect();
                for place in gone {
                    if let Some(element) = merged.get_mut(place) {
                        *element = None;
                    }
                }
                continue;
            }
            let found = places.get(&named).and_then(|places| places.iter().copied().find(is_same));
            let place = found.unwrap_or(merged.len());
            if found.is_none() {
                merged.push(Some(Value::Object(Map::new())));
            }
            if let Some(Some(Value::Object(target))) = merged.get_mut(place) {
                self.map(target, element)?;
            }
            if let Some(Some(target)) = merged.get(place) {
                note(&mut places, place, target);
            }
        }
        Ok(merged.into_iter().flatten().collect())
    }
}

fn retain_keys(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Status> {
    let Some(keep) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let wrong = || Status::bad_request("invalid patch format of retainKeys");
    let keep: HashSet<&Value> = keep.as_array().ok_or_else(wrong)?.iter().collect();
    let is_kept = |name: &str| keep.contains(&Value::from(name));
    if patch.iter().any(|(name, value)| !value.is_null() && !name.starts_with('$') && !is_kept(name)) {
        return Err(wrong());
    }
    object.retain(|name, _| is_kept(name));
    Ok(())
}

fn own((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

/// Returns a new value without nulls and without what has a directive. Follows Kubernetes 1.37 (`removeDirectives`).
fn without_directives(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Object(members) if members.contains_key(PATCH) => return None,
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(order::object(
                members.filter_map(|(name, value)| Some((name.clone(), without_directives(value)?))),
            ))
        }
        Value::Array(items) => items.iter().filter_map(without_directives).collect(),
        plain => plain.clone(),
    })
}

fn failed(message: String) -> Status {
    Status::new(500, "", message)
}

fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> Status {
    let (directive, patch) = (go_text(directive), go_text(&Value::Object(patch.clone())));
    failed(format!("unknown patch type: {directive} in map: {patch}"))
}

/// The merge keys that an element has, with their values.
fn values_of<'a>(element: &'a Value, keys: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a Value)> {
    keys.iter().filter_map(|key| Some((*key, element.get(key)?)))
}

/// Where elements are in a list: the first place of an equal one, or of one with the same value of a merge key.
struct Places<'a> {
    equal: HashMap<&'a Value, usize>,
    named: HashMap<(&'a str, &'a Value), usize>,
    keys: &'a [&'a str],
}

impl<'a> Places<'a> {
    fn of(list: &'a [Value], keys: &'a [&'a str]) -> Self {
        let (mut equal, mut named) = (HashMap::new(), HashMap::new());
        for (place, element) in list.iter().enumerate() {
            equal.entry(element).or_insert(place);
            for value in values_of(element, keys) {
                named.entry(value).or_insert(place);
            }
        }
        Self { equal, named, keys }
    }

    fn get(&self, element: &Value) -> Option<usize> {
        let named = values_of(element, self.keys).filter_map(|(key, value)| self.named.get(&(key, value)));
        named.chain(self.equal.get(element)).min().copied()
    }
}

/// Sorts the elements that `order` names into that order. The other elements keep their places from `original`; new
/// elements come before elements that the patch does not name. Follows Kubernetes 1.37 (`normalizeElementOrder`).
fn in_order(merged: Vec<Value>, order: &[Value], original: &[Value], keys: &[&str]) -> Vec<Value> {
    let (places, original) = (Places::of(order, keys), Places::of(original, keys));
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|value| places.get(value).is_some());
    order::sort_by_key(&mut named, |value| places.get(value));
    order::sort_by_key(&mut rest, |value| original.get(value));
    let mut named = named.into_iter().peekable();
    let mut rest = rest.into_iter().peekable();
    let mut all = Vec::new();
    loop {
        let stays_before = match (rest.peek(), named.peek()) {
            (None, None) => return all,
            (Some(rest), Some(named)) => {
                original.get(named).is_some_and(|place| original.get(rest).is_some_and(|rest| rest < place))
            }
            (rest, _) => rest.is_some(),
        };
        all.extend(if stays_before { rest.next() } else { named.next() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(object: Value, patch: Value) -> Value {
        let mut object = object.as_object().unwrap().clone();
        merge(&mut object, patch.as_object().unwrap()).unwrap();
        Value::Object(object)
    }

    // contract: E-01d
    #[test]
    fn containers_are_merged_by_name() {
        let object = json!({"spec": {"containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"name": "b", "image": "1"}]}});
        let patch = json!({"spec": {"containers": [
            {"name": "a", "image": "2", "env": [{"name": "X", "value": "3"}, {"$patch": "delete", "name": "Y"}]},
            {"name": "c", "image": "9"}]}});
        assert_eq!(
            merged(object, patch),
            json!({"spec": {"containers": [
                {"name": "a", "image": "2", "env": [{"name": "X", "value": "3"}]},
                {"name": "c", "image": "9"}, {"name": "b", "image": "1"}]}})
        );
    }

    /// Lists without a merge key are replaced, and nulls remove fields.
    #[test]
    fn lists_without_a_key_are_replaced() {
        let object = json!({"args": ["a", "b"], "gone": 1, "m": {"x": 1, "y": 2}});
        let patch = json!({"args": ["c"], "gone": null, "m": {"x": null, "z": 3}});
        assert_eq!(merged(object, patch), json!({"args": ["c"], "m": {"y": 2, "z": 3}}));
    }

    /// Values of a merge key that occur twice, are changed by the patch, or are deleted and added again.
    #[test]
    fn elements_are_found_by_their_current_keys() {
        let object = json!({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 1, "name": "b"},
            {"port": 3}, {"containerPort": 4, "port": 5}]});
        let patch = json!({"ports": [{"containerPort": 1, "name": "c"}, {"port": 3, "containerPort": 6},
            {"containerPort": 6, "name": "d"}, {"containerPort": 4, "$patch": "delete"}, {"containerPort": 4, "name": "e"}]});
        assert_eq!(
            merged(object, patch),
            json!({"ports": [{"containerPort": 1, "name": "c"}, {"containerPort": 1, "name": "b"},
                {"port": 3}, {"containerPort": 6, "port": 3, "name": "d"}, {"containerPort": 4, "name": "e"}]})
        );
    }

    /// Takes minutes if each element is searched for in a list.
    // contract: E-01k
    #[test]
    fn merge_of_long_lists_is_not_quadratic() {
        let names: Vec<Value> = (0..50_000).map(|number| json!({"name": format!("n{number}")})).collect();
        let object = json!({"containers": names, "finalizers": names});
        let reversed: Vec<Value> = names.iter().rev().cloned().collect();
        let patch = json!({"containers": reversed, "$setElementOrder/containers": reversed,
            "finalizers": reversed, "$deleteFromPrimitiveList/finalizers": names});
        assert_eq!(merged(object, patch), json!({"containers": reversed, "finalizers": reversed}));
    }

    #[test]
    fn patch_directives_are_applied() {
        let object = json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"strategy": {"x": 1, "type": "A"},
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}]}});
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
            "spec": {"strategy": {"$retainKeys": ["type"], "type": "B"},
                "$setElementOrder/volumes": [{"name": "w"}, {"name": "v"}],
                "volumes": [{"name": "v", "emptyDir": null, "hostPath": {"path": "/"}}]}});
        assert_eq!(
            merged(object, patch),
            json!({"metadata": {"finalizers": ["c", "b"]}, "spec": {"strategy": {"type": "B"},
                "volumes": [{"name": "w"}, {"name": "v", "hostPath": {"path": "/"}}]}})
        );
    }

    // The results of kube-apiserver 1.37.1.
    #[test]
    fn new_elements_precede_unnamed_ones() {
        let names = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
        for (before, patch, after) in [
            (&["app", "side"][..], &["extra"][..], &["extra", "app", "side"][..]),
            (&["a", "b", "c"], &["c", "x"], &["a", "b", "c", "x"]),
            (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        ] {
            let patched = merged(json!({"containers": names(before)}), json!({"containers": names(patch)}));
            assert_eq!(patched, json!({"containers": names(after)}), "{before:?} {patch:?}");
        }
    }

    #[test]
    fn ports_have_two_keys() {
        let object = json!({"ports": [{"port": 80, "targetPort": 1}]});
        assert_eq!(
            merged(object, json!({"ports": [{"port": 80, "targetPort": 2}, {"port": 81}]})),
            json!({"ports": [{"port": 80, "targetPort": 2}, {"port": 81}]})
        );
    }

    fn refusal(object: Value, patch: Value) -> (u16, String) {
        let mut object = object.as_object().unwrap().clone();
        let status = merge(&mut object, patch.as_object().unwrap()).unwrap_err();
        (status.code(), status.message().to_owned())
    }

    // The messages of kube-apiserver 1.37.1.
    // contract: E-01s
    #[test]
    fn invalid_directives_and_elements_without_a_key_are_refused() {
        let object = json!({"containers": [{"name": "a"}], "ports": [{"port": 1}]});
        for (patch, code, message) in [
            (json!({"$patch": "explode"}), 500, "unknown patch type: explode in map: map[$patch:explode]"),
            (json!({"$patch": "merge"}), 500, "unknown patch type: merge in map: map[$patch:merge]"),
            (
                json!({"containers": [{"image": "nokey"}]}),
                500,
                "map: map[image:nokey] does not contain declared merge key: name",
            ),
            (
                json!({"containers": [{"$patch": "merge", "name": "a"}]}),
                500,
                "merging lists cannot yet be specified in the patch",
            ),
            (json!({"$retainKeys": ["a"], "b": 1}), 400, "invalid patch format of retainKeys"),
            (json!({"$retainKeys": "a"}), 400, "invalid patch format of retainKeys"),
        ] {
            assert_eq!(refusal(object.clone(), patch), (code, message.to_owned()));
        }
    }

    /// A directive is about what the object has.
    // contract: E-01s
    #[test]
    fn new_values_with_directives_are_dropped() {
        let patch = json!({"labels": {"$patch": "replace", "q": "r"}, "m": {"a": {"$patch": "delete"}, "b": 1, "c": null},
            "containers": [{"name": "a", "$patch": "delete"}, {"image": "b"}], "n": {"$patch": "replace", "x": 1}});
        assert_eq!(merged(json!({"n": 1}), patch), json!({"m": {"b": 1}, "containers": [{"image": "b"}]}));
        let patch = json!({"labels": {"$patch": "replace", "q": "r"}, "volumes": [{"$patch": "replace", "name": "x"}, {"name": "y"}]});
        assert_eq!(
            merged(json!({"labels": {"a": "b"}, "volumes": [{"name": "v"}]}), patch),
            json!({"labels": {"q": "r"}, "volumes": [{"name": "y"}]})
        );
    }
}
