//! `TokenRequest`: the tokens of service accounts.

use serde_json::{Map, Value};

use super::control::AccessControl;
use super::issued::{AUDIENCE, BoundObject, Claims, object};
use crate::apply::quoted;
use crate::clock::Clock;
use crate::registry::Registry;
use crate::status::{Cause, Status, Subject};

const KIND: Subject<'_> = Subject { group: "authentication.k8s.io", resource: "TokenRequest" };

type Object = Map<String, Value>;

fn text<'a>(object: &'a Object, part: &str, field: &str) -> &'a str {
    object.get(part).and_then(|part| part.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// Sets the members that the server sets in a request for a token, and validates it. Follows Kubernetes 1.37 (`TokenREST`).
///
/// # Errors
/// 404 without the service account; 409 for another one of its name; 422 for an invalid request.
pub(crate) fn check_token_request(
    registry: &Registry,
    clock: &Clock,
    (namespace, name): (&str, &str),
    request: &mut Object,
) -> Result<(), Status> {
    for (field, expected) in [("name", name), ("namespace", namespace)] {
        let given = text(request, "metadata", field);
        if !given.is_empty() && given != expected {
            let why =
                format!("Invalid value: {given:?}: must match the service account {field} if specified");
            let cause = Cause::invalid(&format!("metadata.{field}"), why);
            return Err(Status::invalid(KIND, name, vec![cause]));
        }
    }
    let accounts = Subject { group: "", resource: "serviceaccounts" };
    let account = object(registry, "serviceaccounts", namespace, name)
        .ok_or_else(|| Status::not_found(accounts, name))?;
    let (given, uid) = (text(request, "metadata", "uid"), account.uid());
    if !given.is_empty() && given != uid {
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(KIND, name, &why));
    }
    let mut set = |part: &str, field: &str, value: Value| {
        if let Some(Value::Object(part)) = request.get_mut(part) {
            part.insert(field.into(), value);
        }
    };
    set("metadata", "name", name.into());
    set("metadata", "namespace", namespace.into());
    set("metadata", "uid", uid.into());
    set("metadata", "creationTimestamp", clock.rfc3339().into());
    let spec = request.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let faults = faults(&spec);
    if !faults.is_empty() {
        return Err(Status::invalid(KIND, "", faults));
    }
    let is_given = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let has_audiences = spec.get("audiences").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    if let Some(Value::Object(spec)) = request.get_mut("spec") {
        if !has_audiences {
            spec.insert("audiences".into(), vec![AUDIENCE].into());
        }
        if !is_given("boundObjectRef") {
            spec.insert("boundObjectRef".into(), Value::Null);
        }
    }
    Ok(())
}

/// Follows Kubernetes 1.37 (`ValidateTokenRequest`).
fn faults(spec: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let seconds = spec.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(0);
    let mut fault = |why: &str| {
        let why = format!("Invalid value: {seconds}: may not specify a duration {why}");
        causes.push(Cause::invalid("spec.expirationSeconds", why));
    };
    if seconds < 600 {
        fault("less than 10 minutes");
    }
    if seconds > 1 << 32 {
        fault("larger than 2^32 seconds");
    }
    let attestations = spec.get("attestations").and_then(Value::as_object).filter(|all| !all.is_empty());
    if let Some(given) = attestations {
        let given = Value::Object(given.clone());
        let why = "attestations may only be specified with a webhook bound object reference";
        return vec![Cause::invalid("spec.attestations", format!("Invalid value: {given}: {why}"))];
    }
    causes
}

/// Issues the token of a valid request, and returns the status of the answer.
///
/// # Errors
/// 404 without the object that the token is bound to, 409 for another one of its name, 400 for one that it cannot be
/// bound to.
pub(crate) fn new_token(
    control: &AccessControl,
    registry: &Registry,
    clock: &Clock,
    request: &Object,
) -> Result<Value, Status> {
    let spec = request.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let (namespace, name) = (text(request, "metadata", "namespace"), text(request, "metadata", "name"));
    let bound = match spec.get("boundObjectRef").and_then(Value::as_object) {
        Some(reference) => Some(bound_object(registry, namespace, name, reference)?),
        None => None,
    };
    let seconds = spec.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
    let audiences = spec.get("audiences").and_then(Value::as_array);
    let audiences = audiences.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let claims = Claims {
        namespace: namespace.into(),
        name: name.into(),
        uid: text(request, "metadata", "uid").into(),
        audiences: audiences.collect(),
        bound,
        seconds,
    };
    let token = control.issued.issue(claims, clock.now());
    Ok(serde_json::json!({"token": token, "expirationTimestamp": clock.rfc3339_after(seconds)}))
}

fn bound_object(
    registry: &Registry,
    namespace: &str,
    account: &str,
    reference: &Object,
) -> Result<BoundObject, Status> {
    let given = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or("");
    let (group, version) = given("apiVersion").split_once('/').unwrap_or(("", given("apiVersion")));
    let (claim, plural, namespace) = match (group, given("kind")) {
        ("", "Pod") => ("pod", "pods", namespace),
        ("", "Secret") => ("secret", "secrets", namespace),
        ("", "Node") => ("node", "nodes", ""),
        ("admissionregistration.k8s.io", kind) => {
            let why = "kinformer-apiserver does not simulate tokens that are bound to";
            return Err(Status::new(501, "NotImplemented", format!("{why} a {kind}; use kube-apiserver")));
        }
        (group, kind) => {
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
    };
    let name = given("name");
    let found = object(registry, plural, namespace, name)
        .ok_or_else(|| Status::not_found(Subject { group: "", resource: plural }, name))?;
    let mut node = None;
    if claim == "pod" {
        let pod = found.parse();
        if text(&pod, "spec", "serviceAccountName") != account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                quoted(account)
            )));
        }
        let of = text(&pod, "spec", "nodeName");
        if !of.is_empty() {
            let uid = object(registry, "nodes", "", of).map(|node| node.uid().to_owned());
            node = Some((of.to_owned(), uid.unwrap_or_default()));
        }
    }
    if !given("uid").is_empty() && given("uid") != found.uid() {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            given("uid")
        );
        return Err(Status::conflict(Subject { group, resource: given("kind") }, name, &why));
    }
    let (namespace, name, uid) = (namespace.to_owned(), name.to_owned(), found.uid().to_owned());
    Ok(BoundObject { claim, plural, namespace, name, uid, node })
}
