//! `ValidatingAdmissionPolicy` and its bindings.

mod params;
mod written;

use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::common::{Client, config_map, server};

const ROOT: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A policy about config maps, with these other fields.
fn policy(name: &str, fields: &Value) -> Value {
    let rule =
        json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
    for (field, value) in fields.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec})
}

fn binding(name: &str, policy: &str, fields: &Value) -> Value {
    let mut spec = json!({"policyName": policy, "validationActions": ["Deny"]});
    for (field, value) in fields.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": spec})
}

/// Creates an object, which the policy `p` denies with this message; `None` if it does not.
async fn check(client: &Client, denial: Option<&str>) {
    match denial {
        Some(message) => assert_eq!(refused(client, 422, "Invalid").await, denied(message)),
        None => drop(client.post(MAPS, &config_map("a", "1")).await.ok()),
    }
}

/// Stores a policy `p` with a binding `b`.
fn bind(server: &ApiServer, fields: &Value, of_binding: &Value) {
    server.create(policy("p", fields)).unwrap();
    server.create(binding("b", "p", of_binding)).unwrap();
}

fn denied(message: &str) -> String {
    format!(
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {message}"
    )
}

/// Returns the message of a create that is refused.
async fn refused(client: &Client, code: u16, reason: &str) -> String {
    client.post(MAPS, &config_map("a", "1")).await.status(code, reason)
}

// contract: E-28b
#[tokio::test]
async fn a_failed_validation_denies_with_its_message_and_reason() {
    for (validation, code, reason, message) in [
        (json!({"expression": "false"}), 422, "Invalid", "failed expression: false"),
        (json!({"expression": "false", "message": " no "}), 422, "Invalid", "no"),
        (
            json!({"expression": "false", "message": "m", "messageExpression": "'of ' + object.metadata.name",
                "reason": "Forbidden"}),
            403,
            "Forbidden",
            "of a",
        ),
        (
            json!({"expression": "false", "message": "m", "messageExpression": "string(object.none)", "reason": "RequestEntityTooLarge"}),
            413,
            "RequestEntityTooLarge",
            "m",
        ),
        (
            json!({"expression": "object.none == 1", "reason": "Forbidden"}),
            422,
            "Invalid",
            "expression 'object.none == 1' resulted in error: no such key: none",
        ),
    ] {
        let server = server().await;
        let client = Client::new(&server);
        bind(&server, &json!({"validations": [validation]}), &json!({}));
        let answer = client.post(MAPS, &config_map("a", "1")).await;
        let causes = answer.body["details"]["causes"].clone();
        assert_eq!(answer.status(code, reason), denied(message));
        let cause = denied(message).replace("configmaps \"a\" is forbidden: ", "");
        assert_eq!(causes, json!([{"message": cause}]));
    }
}

// contract: E-28b
#[tokio::test]
async fn expressions_read_the_request_and_its_objects() {
    let server = server().await;
    let client = Client::new(&server);
    let variables = json!([{"name": "old", "expression": "oldObject == null ? 'none' : oldObject.data.key"},
        {"name": "change", "expression": "variables.old + '>' + (object == null ? 'none' : object.data.key)"}]);
    let all = "request.operation + ' ' + request.name + ' ' + variables.change + ' ' + \
        namespaceObject.metadata.name + ' ' + request.resource.resource + (request.dryRun ? ' dry' : '')";
    let validations = json!([{"expression": "false", "messageExpression": all}]);
    let warn = json!({"validationActions": ["Warn", "Audit"]});
    bind(&server, &json!({"variables": variables, "validations": validations}), &warn);
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": value}});
    let path = format!("{MAPS}/a");
    let warning = |answer: &crate::common::Answer| answer.headers["warning"].to_str().unwrap().to_owned();
    let start = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': ";
    let dry = client.post(&format!("{MAPS}?dryRun=All"), &map("1")).await;
    assert_eq!(warning(&dry), format!("{start}CREATE a none>1 default configmaps dry\""));
    let created = client.post(MAPS, &map("1")).await;
    assert_eq!(warning(&created), format!("{start}CREATE a none>1 default configmaps\""));
    created.ok();
    let updated = client.put(&path, &map("2")).await;
    assert_eq!(warning(&updated), format!("{start}UPDATE a 1>2 default configmaps\""));
    let deleted = client.delete(&path).await;
    assert_eq!(warning(&deleted), format!("{start}DELETE a 2>none default configmaps\""));
}

// contract: E-28c
#[tokio::test]
async fn policies_and_bindings_match_by_rules_and_selectors() {
    let validations = json!([{"expression": "false"}]);
    let rules = |fields: Value| {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
        rule.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!([rule])
    };
    for (constraints, resources, is_denied) in [
        (json!({"resourceRules": rules(json!({}))}), json!({}), true),
        (json!({"resourceRules": rules(json!({"operations": ["DELETE"]}))}), json!({}), false),
        (json!({"resourceRules": rules(json!({"resourceNames": ["b"]}))}), json!({}), false),
        (json!({"resourceRules": rules(json!({"resourceNames": ["b", "a"]}))}), json!({}), true),
        (
            json!({"resourceRules": rules(json!({})), "excludeResourceRules": rules(json!({"resourceNames": ["a"]}))}),
            json!({}),
            false,
        ),
        (
            json!({"resourceRules": rules(json!({})), "objectSelector": {"matchLabels": {"x": "y"}}}),
            json!({}),
            false,
        ),
        (
            json!({"resourceRules": rules(json!({}))}),
            json!({"resourceRules": rules(json!({"resourceNames": ["b"]}))}),
            false,
        ),
        (
            json!({"resourceRules": rules(json!({}))}),
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
            true,
        ),
        (
            json!({"resourceRules": rules(json!({}))}),
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}),
            false,
        ),
    ] {
        let server = server().await;
        let client = Client::new(&server);
        let fields = json!({"matchConstraints": constraints, "validations": validations});
        bind(&server, &fields, &json!({"matchResources": resources}));
        let code = client.post(MAPS, &config_map("a", "1")).await.code.as_u16();
        assert_eq!(code, if is_denied { 422 } else { 201 }, "{constraints} {resources}");
    }
}

// contract: E-28c
#[tokio::test]
async fn conditions_and_the_failure_policy_decide() {
    let (yes, no, bad) = ("object.metadata.name == 'a'", "request.operation == 'UPDATE'", "object.none == 1");
    for (conditions, failure_policy, denial) in [
        (vec![yes], "Fail", Some("failed expression: false")),
        (vec![yes, no], "Fail", None),
        (vec![bad, no], "Fail", None),
        (vec![bad], "Ignore", None),
        (vec![yes, bad], "Fail", Some("expression 'object.none == 1' resulted in error: no such key: none")),
    ] {
        let server = server().await;
        let client = Client::new(&server);
        let named: Vec<Value> = conditions
            .iter()
            .enumerate()
            .map(|(index, text)| json!({"name": format!("c{index}"), "expression": text}))
            .collect();
        let fields = json!({"matchConditions": named, "failurePolicy": failure_policy,
            "validations": [{"expression": "false"}]});
        bind(&server, &fields, &json!({}));
        check(&client, denial).await;
    }
}

// contract: E-28c
#[tokio::test]
async fn audit_annotations_are_evaluated() {
    for (expression, denial) in [
        ("'x'", None),
        ("null", None),
        ("object.none", Some("compilation error: must evaluate to one of [string null_type] but got dyn")),
        (
            "string(object.none)",
            Some("expression 'string(object.none)' resulted in error: no such key: none"),
        ),
    ] {
        let server = server().await;
        let client = Client::new(&server);
        let annotations = json!([{"key": "k", "valueExpression": expression}]);
        if denial.is_some_and(|why| why.starts_with("compilation")) {
            let path = format!("{ROOT}/validatingadmissionpolicies");
            let object = policy("p", &json!({"auditAnnotations": annotations}));
            client.post(&path, &object).await.status(422, "Invalid");
            continue;
        }
        bind(&server, &json!({"auditAnnotations": annotations}), &json!({"validationActions": ["Audit"]}));
        check(&client, denial).await;
    }
}

/// A policy without a binding does not act, and policies of admission are exempt.
// contract: E-28c
#[tokio::test]
async fn a_policy_acts_by_its_bindings() {
    let server = server().await;
    let client = Client::new(&server);
    server.create(policy("p", &json!({"validations": [{"expression": "false"}]}))).unwrap();
    client.post(MAPS, &config_map("x", "1")).await.ok();
    let path = format!("{ROOT}/validatingadmissionpolicybindings");
    client.post(&path, &binding("b", "p", &json!({}))).await.ok();
    assert_eq!(refused(&client, 422, "Invalid").await, denied("failed expression: false"));
    client.delete(&format!("{path}/b")).await.ok();
    client.post(MAPS, &config_map("a", "1")).await.ok();
}
