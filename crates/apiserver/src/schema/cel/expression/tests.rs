use serde_json::{Value, json};

use super::{Evaluator, Expected, Failure, Names, Output, Scope};

fn scope() -> Scope {
    Scope::new(Names { has_params: true, has_variables: true })
}

fn output(scope: &Scope, text: &str) -> Result<Output, String> {
    let expression = scope.compile(text, Expected::Any)?;
    let object = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"replicas": 3, "list": [1, 2], "none": null}});
    let request = json!({"namespace": "n", "operation": "CREATE", "options": {"dryRun": ["All"]}});
    let inputs = [
        ("object", &object),
        ("oldObject", &Value::Null),
        ("request", &request),
        ("namespaceObject", &Value::Null),
        ("params", &Value::Null),
    ];
    Evaluator::new(scope, &inputs, 10_000_000).evaluate(&expression).map_err(Failure::into_message)
}

// contract: E-28b
#[test]
fn expressions_read_objects_without_a_schema() {
    let mut scope = scope();
    scope.declare("replicas", "object.spec.replicas").unwrap();
    scope.declare("double", "variables.replicas * 2").unwrap();
    scope.declare("bad", "object.missing.x").unwrap();
    for (text, expected) in [
        ("object.spec.replicas > 2", Output::Bool(true)),
        ("object.spec.list.all(x, x > 0) && !has(object.spec.other)", Output::Bool(true)),
        ("object.metadata.namespace == request.namespace", Output::Bool(true)),
        ("oldObject == null && params == null && namespaceObject == null", Output::Bool(true)),
        ("!has(request.kind) || request.kind == request.requestKind", Output::Bool(true)),
        ("variables.double == 6 && has(variables.double)", Output::Bool(true)),
        ("false && variables.bad", Output::Bool(false)),
        ("request.options.dryRun[0]", Output::Text("All".into())),
        ("object.spec.none", Output::Null),
        ("object.spec.list", Output::Other("list".into())),
        ("object.?spec.?other.orValue('x')", Output::Text("x".into())),
    ] {
        assert_eq!(output(&scope, text), Ok(expected), "{text}");
    }
    for (text, expected) in [
        ("object.other == 1", "expression 'object.other == 1' resulted in error: no such key: other"),
        (
            "variables.bad",
            "expression 'variables.bad' resulted in error: composited variable \"bad\" fails to evaluate: no such key: missing",
        ),
        ("variables.none", "compilation failed: ERROR: <input>: undefined field 'none'"),
        ("request.none", "compilation failed: ERROR: <input>: undefined field 'none'"),
        (
            "authorizer.path('/').check('get').allowed()",
            "compilation failed: kinformer-apiserver does not evaluate 'authorizer'",
        ),
    ] {
        assert_eq!(output(&scope, text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn the_type_of_the_result_is_checked() {
    let scope = scope();
    for (text, expected, why) in [
        ("1", Expected::Bool, "must evaluate to bool but got int"),
        ("object.a", Expected::Bool, "must evaluate to bool but got dyn"),
        ("true", Expected::Text, "must evaluate to string but got bool"),
        ("true", Expected::TextOrNull, "must evaluate to one of [string null_type] but got bool"),
    ] {
        assert_eq!(scope.compile(text, expected).unwrap_err(), why, "{text}");
    }
    scope.compile("null", Expected::TextOrNull).unwrap();
}

// contract: E-28b
#[test]
fn the_budget_ends_an_evaluation() {
    let scope = scope();
    let list = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]";
    let text = format!(
        "{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, a + b + c + d + e >= 0)))))"
    );
    let why = output(&scope, &text).unwrap_err();
    assert!(why.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"), "{why}");
    let expression = scope.compile("[1, 2, 3].all(x, x > 0)", Expected::Bool).unwrap();
    let failed = Evaluator::new(&scope, &[], 3).evaluate(&expression);
    assert_eq!(failed, Err(Failure::Exceeded));
}
