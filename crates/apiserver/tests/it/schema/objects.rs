//! Objects of clients are pruned, defaulted and validated.

use http::Method;
use serde_json::{Value, json};

use super::{THINGS, causes, definition, serving, thing, with_field};
use crate::common::Client;

/// Creates a thing by a dry run, and returns its field or the causes of the error.
async fn try_field(schema: &Value, value: &Value) -> Result<Value, Vec<String>> {
    let (_server, client) = serving(&with_field(schema)).await;
    let answer = client.post(&format!("{THINGS}?dryRun=All"), &thing(&json!({"x": value}))).await;
    if answer.code.is_success() { Ok(answer.body["x"].clone()) } else { Err(causes(&answer)) }
}

/// The schema of a field, a value that it allows, one that it does not allow, and the cause.
// contract: E-23a
#[tokio::test]
async fn values_are_validated_as_by_kubernetes() {
    for (schema, good, bad, cause) in [
        (
            json!({"type": "string"}),
            json!("a"),
            json!(1),
            "x TypeInvalid: Invalid value: \"integer\": x in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "integer"}),
            json!(1),
            json!(true),
            "x TypeInvalid: Invalid value: \"boolean\": x in body must be of type integer: \"boolean\"",
        ),
        (
            json!({"type": "number"}),
            json!(1),
            json!("a"),
            "x TypeInvalid: Invalid value: \"string\": x in body must be of type number: \"string\"",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!("5%"),
            json!(true),
            "x TypeInvalid: Invalid value: \"boolean\": x in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("a"),
            json!("c"),
            "x NotSupported: Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("ab"),
            json!("abc"),
            "x TooLong: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("ab"),
            json!("a"),
            "x Invalid: Invalid value: \"a\": x in body should be at least 2 chars long",
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("aa"),
            json!("b"),
            "x Invalid: Invalid value: \"b\": x in body should match '^a+$'",
        ),
        (
            json!({"type": "integer", "minimum": 2}),
            json!(2),
            json!(1),
            "x Invalid: Invalid value: 1: x in body should be greater than or equal to 2",
        ),
        (
            json!({"type": "number", "maximum": 2.5, "exclusiveMaximum": true}),
            json!(1),
            json!(2.5),
            "x Invalid: Invalid value: 2.5: x in body should be less than 2.5",
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(6),
            json!(7),
            "x Invalid: Invalid value: 7: x in body should be a multiple of 3",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(1),
            json!(3_000_000_000_i64),
            "<nil> Invalid: Invalid value: \"\": Checked value must be of type integer with format int32 in x",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a"]),
            json!(["a", "b"]),
            "x TooMany: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!(["a"]),
            json!([]),
            "x Invalid: Invalid value: 0: x in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a"]),
            json!(["a", "a"]),
            "x[1] Duplicate: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": "v"}),
            json!({"k": 1}),
            "x.k TypeInvalid: Invalid value: \"integer\": x.k in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "object", "required": ["y"], "properties": {"y": {"type": "string"}}}),
            json!({"y": ""}),
            json!({}),
            "x.y Required: Required value",
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"k": "v"}),
            json!({"k": "v", "l": "w"}),
            "x TooMany: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("2026-01-01T00:00:00Z"),
            json!("today"),
            "x TypeInvalid: Invalid value: \"today\": x in body must be of type date-time: \"today\"",
        ),
        (
            json!({"type": "string", "format": "unknown"}),
            json!("a"),
            json!(1),
            "x TypeInvalid: Invalid value: \"integer\": x in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "string", "not": {"enum": ["a"]}}),
            json!("b"),
            json!("a"),
            "<nil> Invalid: Invalid value: \"\": \"x\" must not validate the schema (not)",
        ),
    ] {
        assert_eq!(try_field(&schema, &good).await, Ok(good), "{schema}");
        assert_eq!(try_field(&schema, &bad).await, Err(vec![cause.to_owned()]), "{schema}");
    }
}

// contract: E-23a
#[tokio::test]
async fn alternatives_report_the_best_one() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let none = try_field(&schema, &json!({})).await.unwrap_err();
    assert_eq!(
        none,
        [
            "<nil> Invalid: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found none valid",
            "x.a Required: Required value",
        ]
    );
    let both = try_field(&schema, &json!({"a": "1", "b": "2"})).await.unwrap_err();
    assert_eq!(
        both,
        [
            "<nil> Invalid: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ]
    );
}

/// A schema, a value, and what is stored.
// contract: E-23a
#[tokio::test]
async fn values_are_pruned_and_defaulted() {
    let inner = json!({"type": "object", "properties": {"a": {"type": "string", "default": "d"}, "b": {"type": "integer"}}});
    let with = |field: &str, value: Value| {
        let mut schema = inner.clone();
        schema[field] = value;
        schema
    };
    for (schema, given, stored) in [
        (inner.clone(), json!({"b": 1, "c": 2}), json!({"a": "d", "b": 1})),
        (inner.clone(), json!({"a": null, "b": null}), json!({"a": "d"})),
        (with("default", json!({})), Value::Null, json!({"a": "d"})),
        (with("nullable", json!(true)), Value::Null, Value::Null),
        (
            with("x-kubernetes-preserve-unknown-fields", json!(true)),
            json!({"c": {"d": 1}}),
            json!({"a": "d", "c": {"d": 1}}),
        ),
        (json!({"type": "array", "items": inner}), json!([{}, {"c": 1}]), json!([{"a": "d"}, {"a": "d"}])),
        (
            json!({"type": "object", "additionalProperties": inner}),
            json!({"k": {"c": 1}}),
            json!({"k": {"a": "d"}}),
        ),
        (json!({"type": "object"}), json!({"c": 1}), json!({})),
    ] {
        assert_eq!(try_field(&schema, &given).await, Ok(stored), "{schema} {given}");
    }
}

// contract: E-23a
#[tokio::test]
async fn embedded_resources_have_a_type_and_metadata() {
    let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let given = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {}, "extra": 1}, "spec": {"a": 1}});
    let stored = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": 1}});
    assert_eq!(try_field(&schema, &given).await, Ok(stored));
    assert_eq!(
        try_field(&schema, &json!({"kind": "", "metadata": {"name": "a/b"}})).await.unwrap_err(),
        [
            "x.apiVersion Required: Required value",
            "x.kind Invalid: Invalid value: \"\": must not be empty",
            "x.metadata.name Invalid: Invalid value: \"a/b\": may not contain '/'",
        ]
    );
}

/// Unknown fields are removed, and named in a warning or an error.
// contract: E-18b, E-23a
#[tokio::test]
async fn removed_fields_are_reported() {
    let (_server, client) =
        serving(&with_field(&json!({"type": "object", "properties": {"a": {"type": "string"}}}))).await;
    let given = thing(&json!({"x": {"a": "1", "b": [{"c": 1}]}, "y": 1}));
    let strict =
        client.post(&format!("{THINGS}?fieldValidation=Strict"), &given).await.status(400, "BadRequest");
    assert!(
        strict.ends_with("strict decoding error: unknown field \"x.b\", unknown field \"y\""),
        "{strict}"
    );
    let made = client.post(THINGS, &given).await;
    let warnings: Vec<&str> =
        made.headers.get_all("warning").iter().map(|text| text.to_str().unwrap()).collect();
    assert_eq!(warnings, ["299 - \"unknown field \\\"x.b\\\"\"", "299 - \"unknown field \\\"y\\\"\""]);
    let made = made.ok();
    assert_eq!((&made["x"], made.get("y")), (&json!({"a": "1"}), None));
}

/// A write of the status checks only the status. Its defaults are set when the object is created.
// contract: E-23a
#[tokio::test]
async fn status_is_validated_by_its_subresource() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"},
        "status": {"type": "object", "default": {}, "properties": {
            "n": {"type": "integer", "default": 0}, "list": {"type": "array", "items": {"type": "string"}}}}}});
    let mut with_status = definition(&schema);
    with_status["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let (_server, client) = serving(&with_status).await;
    let made = client.post(THINGS, &thing(&json!({"x": "a", "status": {"n": 5}}))).await.ok();
    assert_eq!(made["status"], json!({"n": 0}));
    let write = |status: Value| async {
        let mut object = made.clone();
        object["status"] = status;
        client.put(&format!("{THINGS}/t/status"), &object).await
    };
    let wrong = write(json!({"n": "a", "list": [1]})).await;
    assert_eq!(
        causes(&wrong),
        [
            "status.list[0] TypeInvalid: Invalid value: \"integer\": list[0] in body must be of type string: \"integer\"",
            "status.n TypeInvalid: Invalid value: \"string\": n in body must be of type integer: \"string\"",
        ]
    );
    let written = write(json!({"list": ["a"], "other": 1})).await.ok();
    assert_eq!(written["status"], json!({"list": ["a"], "n": 0}));
}

/// Objects of the in-process API have the schema of their kind as well: a test cannot hold an object that no server has.
// contract: E-23e
#[tokio::test]
async fn in_process_objects_are_validated() {
    let (server, client) = serving(&with_field(&json!({"type": "string", "default": "d"}))).await;
    let mut object = thing(&json!({"y": 1}));
    object["metadata"]["namespace"] = "default".into();
    let made = server.create(object.clone()).unwrap();
    assert_eq!((&made["x"], made.get("y")), (&json!("d"), None));
    object["x"] = 5.into();
    let error = server.update(object).unwrap_err().to_string();
    assert!(error.contains("x in body must be of type string"), "{error}");
    assert_eq!(Client::get(&client, &format!("{THINGS}/t")).await.ok()["x"], "d");
}

/// New finalizers without a domain are warned of.
// contract: E-23j
#[tokio::test]
async fn finalizers_without_a_domain_are_warned_of() {
    let (_server, client) = serving(&with_field(&json!({"type": "string"}))).await;
    let mut one = thing(&json!({}));
    one["metadata"]["finalizers"] = json!(["plain", "orphan", "example.com/a", "example.com"]);
    let made = client.post(THINGS, &one).await;
    let warnings = |answer: &crate::common::Answer| -> Vec<String> {
        let all = answer.headers.get_all("warning").iter();
        all.map(|text| text.to_str().unwrap().replace("\\\"", "'")).collect()
    };
    let text = |name: &str, form: &str| {
        format!(
            "299 - \"metadata.finalizers: '{name}': prefer a domain-qualified finalizer name{form} to avoid accidental \
             conflicts with other finalizer writers\""
        )
    };
    assert_eq!(warnings(&made), [text("example.com", " including a path (/)"), text("plain", "")]);
    let change = json!({"metadata": {"finalizers": ["plain", "second"]}});
    let changed = client.patch(&format!("{THINGS}/t"), "merge-patch", &change).await;
    assert_eq!(warnings(&changed), [text("second", "")]);
}

/// An apply that takes the last field of a status away leaves null, as in structured-merge-diff.
// contract: E-23a
#[tokio::test]
async fn status_without_fields_after_an_apply_is_validated() {
    let status = json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}}});
    let mut definition = definition(&json!({"type": "object", "properties": {"status": status}}));
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let (_server, client) = serving(&definition).await;
    client.post(THINGS, &thing(&json!({}))).await.ok();
    let path = format!("{THINGS}/t/status?fieldManager=m");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let apply = |status: Value| thing(&json!({"status": status})).to_string();
    client.send(Method::PATCH, &path, &headers, apply(json!({"a": null}))).await.ok();
    let refused = client.send(Method::PATCH, &path, &headers, apply(json!({}))).await;
    refused.status(422, "Invalid");
    assert!(causes(&refused)[0].starts_with("status TypeInvalid: "), "{:?}", causes(&refused));
}

/// A count at a path of the scale subresource has one cause beside that of the schema, and after it.
// contract: E-23a
#[tokio::test]
async fn counts_of_scales_have_one_cause() {
    let spec = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let mut definition = definition(&json!({"type": "object", "properties": {"spec": spec}}));
    definition["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    let (_server, client) = serving(&definition).await;
    let refused = client.post(THINGS, &thing(&json!({"spec": {"replicas": "3"}}))).await;
    refused.status(422, "Invalid");
    let causes = causes(&refused);
    let fields: Vec<_> = causes.iter().filter_map(|cause| cause.split(' ').next()).collect();
    assert_eq!(fields, ["spec.replicas", ".spec.replicas"], "{causes:#?}");
}

/// A printer column has the description and the format of its definition.
// contract: E-23a
#[tokio::test]
async fn columns_are_described() {
    let mut definition = with_field(&json!({"type": "string"}));
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "X", "type": "string", "jsonPath": ".x"},
        {"name": "Y", "type": "string", "format": "byte", "description": "the x", "jsonPath": ".x", "priority": 1}]);
    let (_server, client) = serving(&definition).await;
    let table = client.get_as(THINGS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.ok();
    let columns = &table["columnDefinitions"];
    let described = "Custom resource definition column (in JSONPath format): .x";
    assert_eq!(
        columns[1],
        json!({"name": "X", "type": "string", "format": "", "description": described, "priority": 0})
    );
    assert_eq!(
        columns[2],
        json!({"name": "Y", "type": "string", "format": "byte", "description": "the x", "priority": 1})
    );
}

/// A refused strict patch has its unknown fields in the error, and no warning about them.
// contract: E-23a
#[tokio::test]
async fn refused_strict_patches_have_no_warnings() {
    let (_server, client) = serving(&with_field(&json!({"type": "string"}))).await;
    client.post(THINGS, &thing(&json!({"x": "a"}))).await.ok();
    for (validation, code, warnings) in [("Strict", 422, 0), ("Warn", 200, 1)] {
        let path = format!("{THINGS}/t?fieldValidation={validation}");
        let answer = client.patch(&path, "merge-patch", &json!({"other": 1})).await;
        assert_eq!(answer.code.as_u16(), code, "{}", answer.body);
        assert_eq!(answer.headers.get_all("warning").iter().count(), warnings);
    }
}
