//! Policies and bindings that are written.

use serde_json::{Value, json};

use super::{ROOT, binding, policy};
use crate::common::{Client, server};

fn fields(body: &Value) -> Vec<&str> {
    let causes = body["details"]["causes"].as_array().unwrap();
    causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect()
}

// contract: E-28e
#[tokio::test]
async fn policies_are_compiled_and_validated() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{ROOT}/validatingadmissionpolicies");
    for (spec, expected) in [
        (json!({}), vec!["spec.validations", "spec.auditAnnotations"]),
        (
            json!({"validations": [{"expression": "object.a"}, {"expression": " ", "message": " ", "reason": "No"}]}),
            vec![
                "spec.validations[0].expression",
                "spec.validations[1].expression",
                "spec.validations[1].message",
                "spec.validations[1].reason",
            ],
        ),
        (
            json!({"validations": [{"expression": "variables.a", "messageExpression": "1"}],
                "variables": [{"name": "if", "expression": "true"}, {"name": "a", "expression": "none"}]}),
            vec![
                "spec.variables[0].name",
                "spec.variables[1].expression",
                "spec.validations[0].expression",
                "spec.validations[0].messageExpression",
            ],
        ),
        (
            json!({"auditAnnotations": [{"key": "k", "valueExpression": "1"}, {"key": "k", "valueExpression": "'a'"}]}),
            vec!["spec.auditAnnotations[0].valueExpression", "spec.auditAnnotations[1].key"],
        ),
        (
            json!({"paramKind": {"apiVersion": "a/b/c"}, "validations": [{"expression": "params == null"}]}),
            vec!["spec.paramKind.apiVersion", "spec.paramKind.kind"],
        ),
        (
            json!({"matchConstraints": {}, "validations": [{"expression": "authorizer.path('/').check('get').allowed()"}]}),
            vec!["spec.matchConstraints.resourceRules", "spec.validations[0].expression"],
        ),
    ] {
        let answer = client.post(&path, &policy("p", &spec)).await;
        assert_eq!(answer.code, 422, "{spec}");
        assert_eq!(fields(&answer.body), expected, "{spec}");
    }
    let created =
        client.post(&path, &policy("p", &json!({"validations": [{"expression": "true"}]}))).await.ok();
    assert_eq!(created["spec"]["failurePolicy"], "Fail");
    assert_eq!(created["spec"]["matchConstraints"]["matchPolicy"], "Equivalent");
    assert_eq!(created["spec"]["matchConstraints"]["resourceRules"][0]["scope"], "*");
}

// contract: E-28e
#[tokio::test]
async fn bindings_are_validated() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{ROOT}/validatingadmissionpolicybindings");
    for (spec, expected) in [
        (
            json!({"validationActions": ["Deny", "Warn", "Deny", "No"]}),
            vec!["spec.validationActions[2]", "spec.validationActions[3]", "spec.validationActions"],
        ),
        (json!({"paramRef": {}}), vec!["spec.paramRef", "spec.paramRef.parameterNotFoundAction"]),
        (
            json!({"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "No"}}),
            vec!["spec.paramRef.name", "spec.paramRef.selector", "spec.paramRef.parameterNotFoundAction"],
        ),
        (
            json!({"policyName": "", "validationActions": []}),
            vec!["spec.policyName", "spec.validationActions"],
        ),
    ] {
        let answer = client.post(&path, &binding("b", "p", &spec)).await;
        assert_eq!(answer.code, 422, "{spec}");
        assert_eq!(fields(&answer.body), expected, "{spec}");
    }
    client.post(&path, &binding("b", "p", &json!({}))).await.ok();
}
