//! Policies, bindings and conditions that are refused when they are written.

use e2e::Options;
use http::Method;
use serde_json::{Value, json};

use super::super::{Call, Found, Servers, report};
use super::{BINDINGS, IGNORED, POLICIES, ROOT, ROWS};

/// Changes of a policy that is valid: a pointer and a value.
fn policies() -> Vec<Vec<(&'static str, Value)>> {
    let rules = "/spec/matchConstraints/resourceRules";
    let many = |count: usize| -> Value {
        (0..count).map(|index| json!({"name": format!("c{index}"), "expression": "true"})).collect()
    };
    let mut all = vec![
        vec![],
        vec![("/spec", json!({}))],
        vec![("/spec", Value::Null)],
        vec![("/metadata/name", json!("Bad_Name"))],
        vec![("/metadata/name", json!(""))],
        vec![("/spec/failurePolicy", json!("Other"))],
        vec![("/spec/failurePolicy", json!(""))],
        vec![("/spec/matchConstraints", Value::Null)],
        vec![("/spec/matchConstraints", json!({}))],
        vec![("/spec/matchConstraints/matchPolicy", json!("Other"))],
        vec![("/spec/matchConstraints/matchPolicy", json!(""))],
        vec![("/spec/matchConstraints/namespaceSelector", json!({"matchLabels": {"a b": "c d"}}))],
        vec![(
            "/spec/matchConstraints/objectSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Is"}, {"key": "b", "operator": "In"}]}),
        )],
        vec![(
            "/spec/matchConstraints/excludeResourceRules",
            json!([{}, {"operations": ["*", "CREATE"], "resources": ["*", "a"]}]),
        )],
        vec![(rules, json!([{}]))],
        vec![(
            rules,
            json!([{"operations": ["PATCH"], "apiGroups": ["*", "a"], "apiVersions": ["*", "v1"], "resources": ["a/*", "a/b", "*/c", "d/c"], "scope": "All"}]),
        )],
        vec![(
            rules,
            json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": [""], "resources": [""]}]),
        )],
        vec![(
            rules,
            json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*", "a"], "resourceNames": ["a/b", "", "c", "c"]}]),
        )],
        vec![("/spec/validations", json!([]))],
        vec![("/spec/validations", json!([])), ("/spec/auditAnnotations", json!([]))],
        vec![("/spec/validations/0/reason", json!("NotFound"))],
        vec![("/spec/validations/0/reason", json!(""))],
        vec![("/spec/validations/0/message", json!("a\nb"))],
        vec![("/spec/validations/0/message", json!("  "))],
        vec![("/spec/validations/0/messageExpression", json!("  "))],
        vec![("/spec/validations/0/messageExpression", json!(""))],
        vec![("/spec/validations/0/other", json!(1))],
        vec![("/spec/validations/0/message", json!(1))],
        vec![("/spec/matchConditions", many(65))],
        vec![(
            "/spec/matchConditions",
            json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]),
        )],
        vec![("/spec/matchConditions", json!([{"name": "a b", "expression": "true"}, {}]))],
        vec![(
            "/spec/matchConditions",
            json!([{"name": "example.com/a", "expression": " "}, {"name": "example.com/", "expression": "none"}]),
        )],
        vec![(
            "/spec/variables",
            json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": "1"}]),
        )],
        vec![(
            "/spec/variables",
            json!([{"name": "a-b", "expression": "true"}, {"name": "", "expression": ""}, {"name": "true", "expression": "true"}]),
        )],
        vec![(
            "/spec/variables",
            json!([{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]),
        )],
        vec![(
            "/spec/auditAnnotations",
            json!([{"key": "", "valueExpression": ""}, {"key": "a/b", "valueExpression": "'a'"}]),
        )],
        vec![(
            "/spec/auditAnnotations",
            json!([{"key": "a", "valueExpression": "'a'"}, {"key": "a", "valueExpression": "null"}]),
        )],
        vec![("/spec/auditAnnotations", json!([{"key": "x".repeat(70), "valueExpression": "1"}]))],
        vec![(
            "/spec/auditAnnotations",
            (0..21).map(|index| json!({"key": format!("k{index}"), "valueExpression": "'a'"})).collect(),
        )],
        vec![(
            "/spec/auditAnnotations",
            json!([{"key": "a", "valueExpression": format!("'{}'", "x".repeat(6000))}]),
        )],
    ];
    for kind in [
        json!({}),
        json!({"apiVersion": "v1"}),
        json!({"kind": "ConfigMap"}),
        json!({"apiVersion": "a/b/c", "kind": "K"}),
        json!({"apiVersion": "A_B/V1", "kind": "k k"}),
        json!({"apiVersion": "/v1", "kind": "ConfigMap"}),
        json!({"apiVersion": "v1", "kind": "configMap"}),
        json!({"apiVersion": "a.b/1v", "kind": "1K"}),
        json!({"apiVersion": "x.y/", "kind": "K-"}),
    ] {
        all.push(vec![("/spec/paramKind", kind)]);
    }
    for text in [
        "",
        " ",
        "1",
        "'a'",
        "null",
        "none",
        "object.",
        "object.a",
        "dyn(1)",
        "object",
        "params.a",
        "params == null",
        "variables.none",
        "request.none",
        "request.name",
        "request.operation == 1",
        "request.object == null",
        "request.dryRun",
        "request.userInfo.groups == ['a']",
        "request.options.a",
        "namespaceObject.spec.none",
        "namespaceObject.metadata.labels.a == 'b'",
        "namespaceObject.metadata.managedFields == []",
        "namespaceObject.status.phase == ''",
        "authorizer.path('/').check('get').allowed()",
        "object.all(x, )",
        "[1, 'a'] == []",
        "self.a",
        "oldSelf == null",
        "has(object)",
        "has(object.a.b)",
        "object.x.exists(y, y)",
        "1 in object",
        "size(request)",
        "cel.bind(a, 1, a == 1)",
        "optional.of(1).hasValue()",
        "variables",
        "variables.a.b",
        "sets.contains([1], [1])",
        "ip('1.2.3.4').family() == 4",
        "cidr('10.0.0.0/8').containsIP('10.0.0.1')",
        "format.dns1123Label().validate('a').hasValue()",
        "isSemver('1.0.0')",
        "semver('1.0.0').major() == 1",
        "math.greatest(1, 2) == 2",
        "[1, 2].first().value() == 1",
        "'a'.reverse() == 'a'",
        "strings.quote('a') == ''",
        "base64.encode(b'a') == ''",
        "lists.range(3) == [0, 1, 2]",
        "[3, 1].sort() == [1, 3]",
        "'%d'.format([1]) == '1'",
        "url('http://a').getHost() == 'a'",
        "object.a.matches('(')",
        "'a'.find('b') == ''",
        "true ? 1 : 'a'",
        "object in [object]",
        "type(object) == map",
        "string(object) == ''",
    ] {
        all.push(vec![("/spec/validations/0/expression", json!(text))]);
        if text.len() < 30 {
            all.push(vec![("/spec/validations/0/messageExpression", json!(text))]);
            all.push(vec![("/spec/matchConditions/0/expression", json!(text))]);
            all.push(vec![("/spec/auditAnnotations/0/valueExpression", json!(text))]);
            all.push(vec![("/spec/variables/0/expression", json!(text))]);
            all.push(vec![("/spec/paramKind", Value::Null), ("/spec/validations/0/expression", json!(text))]);
        }
    }
    all
}

fn bindings() -> Vec<Vec<(&'static str, Value)>> {
    let mut all = vec![
        vec![],
        vec![("/spec", json!({}))],
        vec![("/spec", Value::Null)],
        vec![("/metadata/name", json!("a b"))],
        vec![("/spec/policyName", json!(""))],
        vec![("/spec/policyName", json!("A_B"))],
        vec![("/spec/matchResources", json!({"matchPolicy": "No", "resourceRules": [{}]}))],
        vec![("/spec/matchResources", json!({}))],
        vec![(
            "/spec/matchResources",
            json!({"namespaceSelector": {"matchLabels": {"": ""}}, "objectSelector": {"matchExpressions": [{}]}}),
        )],
        vec![(
            "/spec/matchResources",
            json!({"excludeResourceRules": [{"resourceNames": ["a b", "x/y", "."]}]}),
        )],
    ];
    for params in [
        json!({}),
        json!({"name": "a"}),
        json!({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}),
        json!({"name": "a/b", "parameterNotFoundAction": "Deny"}),
        json!({"name": "..", "parameterNotFoundAction": "Allow"}),
        json!({"selector": {"matchLabels": {"a b": ""}}, "parameterNotFoundAction": "Allow"}),
        json!({"selector": {}, "parameterNotFoundAction": "No"}),
        json!({"name": "a", "namespace": "A_B", "parameterNotFoundAction": "Deny"}),
        json!({"name": "a", "parameterNotFoundAction": ""}),
        Value::Null,
    ] {
        all.push(vec![("/spec/paramRef", params)]);
    }
    for actions in [
        json!([]),
        json!(["No"]),
        json!(["Deny", "Deny"]),
        json!(["Deny", "Warn"]),
        json!(["Warn", "Audit", "Deny", "Audit"]),
        json!([""]),
        Value::Null,
    ] {
        all.push(vec![("/spec/validationActions", actions)]);
    }
    all
}

fn hooks() -> Vec<Vec<(&'static str, Value)>> {
    let mut all = Vec::new();
    for text in [
        "",
        "1",
        "object.a",
        "params == null",
        "variables.a",
        "request.name == ''",
        "namespaceObject == null",
        "none",
        "dyn(true)",
        "authorizer.group('').resource('a').check('get').allowed()",
        "object.a.all(x, x)",
        "size(object)",
    ] {
        all.push(vec![("/webhooks/0/matchConditions", json!([{"name": "c", "expression": text}]))]);
    }
    for conditions in [
        json!([{}]),
        json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]),
        json!([{"name": "A B", "expression": "true"}]),
        (0..65).map(|index| json!({"name": format!("c{index}"), "expression": "true"})).collect(),
    ] {
        all.push(vec![("/webhooks/0/matchConditions", conditions)]);
    }
    all
}

/// Sets the value at a pointer, in objects and arrays that are made up.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for name in pointer.split('/').skip(1) {
        if let (Ok(index), true) = (name.parse::<usize>(), place.is_array()) {
            place = &mut place[index];
        } else {
            place = &mut place[name];
        }
    }
    *place = value;
}

fn policy() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "written"}, "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["none"]}]},
        "matchConditions": [{"name": "c", "expression": "true"}],
        "variables": [{"name": "a", "expression": "{'b': true}"}],
        "validations": [{"expression": "true", "message": "m"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}]}})
}

fn binding() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "written"},
        "spec": {"policyName": "none", "validationActions": ["Audit"]}})
}

fn hook() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "written"},
        "webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1"}, "rules": []}]})
}

// contract: E-28a, E-28e
#[tokio::test(flavor = "multi_thread")]
async fn policies_are_refused_for_equal_reasons() {
    let (running, mut servers) = Servers::start(Options::new()).await;
    let webhooks = format!("{ROOT}/validatingwebhookconfigurations");
    let (mut problems, mut refused, mut sent) = (Vec::new(), 0, 0);
    for (path, valid, all) in
        [(POLICIES, policy(), policies()), (BINDINGS, binding(), bindings()), (&webhooks, hook(), hooks())]
    {
        let mut calls = Vec::new();
        for changes in all {
            let mut object = valid.clone();
            for (pointer, value) in changes {
                set(&mut object, pointer, value);
            }
            calls.push(Call::new(Method::POST, format!("{path}?dryRun=All"), object.clone()));
            // an update of a stored object
            calls.push(Call::change(format!("{path}/written?dryRun=All"), object));
        }
        calls.insert(0, Call::new(Method::POST, path, valid));
        for call in calls {
            servers.real.forget_numbers();
            servers.ours.forget_numbers();
            let (real, ours) = servers.both(&call).await;
            sent += 1;
            refused += usize::from(real.code == 422);
            if let Found::Differences(found) = Found::of(&call, &real, &ours, &IGNORED, ROWS) {
                problems.push(format!("{call}\n    {}", found.join("\n    ")));
            }
        }
    }
    println!("{sent} requests, {refused} refused");
    report(&problems);
    assert!(refused > 200, "{refused}");
    running.shutdown().await;
}
