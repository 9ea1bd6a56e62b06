//! Definitions with schemas and fields that Kubernetes refuses.

use serde_json::{Value, json};

use super::{DEFINITIONS, causes, definition, serving, with_field};
use crate::common::{Client, server};

async fn refused(definition: &Value) -> Vec<String> {
    let server = server().await;
    let answer = Client::new(&server).post(DEFINITIONS, definition).await;
    assert_eq!(answer.code, 422, "{}", answer.body);
    causes(&answer)
}

/// A name of a schema hides no other fault, and unknown fields of a schema are none.
// contract: E-23d
#[tokio::test]
async fn names_and_unknown_fields_of_schemas() {
    let mut named =
        definition(&json!({"$schema": "x", "type": "object", "properties": {"a": {"type": "string"}}}));
    assert_eq!(
        refused(&named).await,
        [
            "spec.validation.openAPIV3Schema Invalid: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"
        ]
    );
    let schema = &mut named["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    *schema =
        json!({"type": "object", "x-foo": "bar", "properties": {"metadata": {"type": "object", "y": 1}}});
    named["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    serving(&named).await;
}

/// The schema of a field, and the causes below it.
// contract: E-23d
#[tokio::test]
async fn schemas_are_refused_as_by_kubernetes() {
    let list =
        |items: Value, kind: &str| json!({"type": "array", "items": items, "x-kubernetes-list-type": kind});
    let map = |items: Value| {
        let mut list = list(items, "map");
        list["x-kubernetes-list-map-keys"] = json!(["k"]);
        list
    };
    let rows: Vec<(Value, Vec<&str>)> = vec![
        (json!({}), vec![".type Required: Required value: must not be empty for specified object fields"]),
        (
            json!({"type": "text"}),
            vec![
                ".type NotSupported: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ],
        ),
        (json!({"type": "array"}), vec![".items Required: Required value: must be specified"]),
        (
            json!({"type": "string", "default": 5}),
            vec![".default TypeInvalid: Invalid value: \"integer\": .properties[x].default in body"],
        ),
        (
            json!({"type": "string", "pattern": "("}),
            vec![".pattern Invalid: Invalid value: \"(\": must be a valid regular expression"],
        ),
        (
            json!({"type": "object", "default": {"a": 1}}),
            vec![".default Invalid: Invalid value: {\"a\":1}: must not have unknown fields"],
        ),
        (
            map(json!({"type": "object", "properties": {"k": {"type": "string"}}})),
            vec![
                ".items.properties[k].default Required: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            map(json!({"type": "object", "properties": {"a": {"type": "string"}}})),
            vec![
                ".x-kubernetes-list-map-keys Invalid: Invalid value: [\"k\"]: entries must all be names of item properties",
            ],
        ),
        (
            map(json!({"type": "string"})),
            vec![
                ".items.type Invalid: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
            ],
        ),
        (
            list(json!({"type": "object"}), "set"),
            vec![
                ".items.x-kubernetes-map-type Invalid: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            ],
        ),
        (
            list(json!({"type": "string"}), "bag"),
            vec![
                ".x-kubernetes-list-type NotSupported: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            vec![
                ".additionalProperties Forbidden: Forbidden: additionalProperties and properties are mutual exclusive",
            ],
        ),
        (
            json!({"type": "object", "anyOf": [{"type": "object", "properties": {"a": {}}}]}),
            vec![".anyOf[0].type Forbidden: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            vec![
                ".properties Required: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ],
        ),
        (
            json!({"type": "string", "uniqueItems": true}),
            vec![
                ".uniqueItems Forbidden: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (json!({"type": "string", "id": "a"}), vec![".id Forbidden: Forbidden: id is not supported"]),
        (
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![
                ".x-kubernetes-preserve-unknown-fields Invalid: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
            ],
        ),
    ];
    for (schema, expected) in rows {
        let found = refused(&with_field(&schema)).await;
        let path = "spec.validation.openAPIV3Schema.properties[x]";
        let starts = |cause: &String, start: &&str| {
            cause.strip_prefix(path).is_some_and(|rest| {
                rest.starts_with(start.split(".properties[x].default in body").next().unwrap_or(""))
            })
        };
        assert!(
            found.len() == expected.len()
                && found.iter().zip(&expected).all(|(cause, start)| starts(cause, start)),
            "{schema}: {found:#?}"
        );
    }
}

/// A field of the only version or of the definition, its value, and the cause.
// contract: E-23d
#[tokio::test]
async fn definitions_are_refused_as_by_kubernetes() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "number"}}}}});
    for (path, value, cause) in [
        (
            "/spec/versions/0/schema",
            Value::Null,
            "spec.versions[0].schema.openAPIV3Schema Required: Required value",
        ),
        ("/spec/scope", "".into(), "spec.scope Required: Required value"),
        (
            "/spec/group",
            "Example.com".into(),
            "spec.group Invalid: Invalid value: \"Example.com\": a lowercase RFC 1123 subdomain",
        ),
        (
            "/spec/names/shortNames",
            json!(["A"]),
            "spec.names.shortNames[0] Invalid: Invalid value: \"A\": a DNS-1035 label",
        ),
        (
            "/spec/names/listKind",
            "Thing".into(),
            "spec.names.listKind Invalid: Invalid value: \"Thing\": kind and listKind may not be the same",
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Magic"}),
            "spec.conversion.strategy NotSupported: Unsupported value: \"Magic\": supported values: \"None\", \"Webhook\"",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "a", "type": "text", "jsonPath": ".a"}]),
            "spec.additionalPrinterColumns[0].type Invalid: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "a", "type": "date", "jsonPath": "a"}]),
            "spec.additionalPrinterColumns[0].JSONPath Invalid: Invalid value: \"a\": must be a simple json path starting with .",
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.n"}]),
            "spec.selectableFields[0].jsonPath Invalid: Invalid value: \".spec.n\": must point to a field of type string",
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.m"}]),
            "spec.selectableFields[0].jsonPath Invalid: Invalid value: \".spec.m\": is an invalid path: does not refer to a valid field",
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".n", "statusReplicasPath": ".status.n"}}),
            "spec.subresources.scale.specReplicasPath Invalid: Invalid value: \".n\": should be a json path under .spec",
        ),
        (
            "/spec/versions/0/storage",
            false.into(),
            "spec.versions Invalid: Invalid value: [{\"Name\":\"v1\",\"Served\":true,\"Storage\":false,",
        ),
    ] {
        let mut bad = definition(&schema);
        let (parent, field) = path.rsplit_once('/').unwrap();
        bad.pointer_mut(parent).unwrap()[field] = value;
        let found = refused(&bad).await;
        assert!(found.iter().any(|found| found.starts_with(cause)), "{path}: {found:#?}");
    }
}

/// Scope and kind of a definition that is served cannot be changed.
// contract: E-23d
#[tokio::test]
async fn names_are_immutable() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(DEFINITIONS, &definition(&json!({"type": "object"}))).await.ok();
    let change = json!({"spec": {"scope": "Cluster", "names": {"kind": "Other"}}});
    let answer = client.patch(&format!("{DEFINITIONS}/things.example.com"), "merge-patch", &change).await;
    assert_eq!(
        causes(&answer),
        [
            "spec.scope Invalid: Invalid value: \"Cluster\": field is immutable",
            "spec.names.kind Invalid: Invalid value: \"Other\": field is immutable",
        ]
    );
}

/// Fields that can be selected need the schema in the same place.
// contract: E-23d
#[tokio::test]
async fn selectable_fields_and_schemas_are_in_one_place() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    let two = |schema: &Value, fields: &Value| {
        let mut two = definition(&json!({"type": "object", "properties": {"x": {"type": "string"}}}));
        let mut second = two["spec"]["versions"][0].clone();
        two["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".x"}]);
        second["name"] = "v2".into();
        second["storage"] = false.into();
        second["schema"]["openAPIV3Schema"] = schema.clone();
        second["selectableFields"] = fields.clone();
        two["spec"]["versions"].as_array_mut().unwrap().push(second);
        two
    };
    let fields = json!([{"jsonPath": ".x"}]);
    serving(&two(&schema, &fields)).await;
    let other = json!({"type": "object", "properties": {"x": {"type": "string", "maxLength": 3}}});
    assert_eq!(
        refused(&two(&other, &fields)).await,
        [
            "spec.selectableFields Invalid: Invalid value: \"\": may only be set when validations.schema is included"
        ]
    );
    assert_eq!(
        refused(&two(&schema, &Value::Null)).await,
        ["spec.versions[0].selectableFields Invalid: Invalid value: \"\": may only be set when \
             `version.schema.openAPIV3Schema` is not included"]
    );
}

// contract: E-23d
#[tokio::test]
async fn preserved_fields_exclude_defaults() {
    let mut preserved = with_field(&json!({"type": "string", "default": "a"}));
    preserved["spec"]["preserveUnknownFields"] = true.into();
    assert_eq!(
        refused(&preserved).await,
        [
            "spec.preserveUnknownFields Invalid: Invalid value: true: must be false in order to use defaults in the schema",
            "spec.preserveUnknownFields Invalid: Invalid value: true: cannot set to true, set \
             x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ]
    );
}

// contract: E-23d
#[tokio::test]
async fn lists_with_keys_have_one_schema() {
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": [{"type": "string"}]});
    let found = refused(&with_field(&list)).await;
    let path = "spec.validation.openAPIV3Schema.properties[x].items";
    assert_eq!(
        found[0],
        format!("{path} Forbidden: Forbidden: items must be a schema object and not an array")
    );
    let last = found.last().unwrap();
    assert!(
        last.starts_with(&format!("{path} Invalid: Invalid value: {{\"Schema\":null,\"JSONSchemas\":[{{")),
        "{last}"
    );
    assert!(last.ends_with(": must only have a single schema if x-kubernetes-list-type is map"), "{last}");
}

/// A conversion, and its causes.
// contract: E-23k
#[tokio::test]
async fn conversions_are_refused_as_by_kubernetes() {
    let webhook = |config: Value| json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}});
    let rows = [
        (
            json!({"strategy": "Other"}),
            vec![
                ".strategy NotSupported: Unsupported value: \"Other\": supported values: \"None\", \"Webhook\"",
            ],
        ),
        (
            json!({"strategy": "Webhook"}),
            vec![
                ".webhookClientConfig Required: Required value: required when strategy is set to Webhook",
                ".conversionReviewVersions Required: Required value",
            ],
        ),
        (
            json!({"strategy": "None", "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]}}),
            vec![
                ".webhookClientConfig Forbidden: Forbidden: should not be set when strategy is not set to Webhook",
                ".conversionReviewVersions Forbidden: Forbidden: should not be set when strategy is not set to Webhook",
            ],
        ),
        (
            webhook(json!({})),
            vec![".webhookClientConfig Required: Required value: exactly one of url or service is required"],
        ),
        (
            webhook(json!({"url": "http://u@/x?q=1#f"})),
            vec![
                ".webhookClientConfig.url Invalid: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                ".webhookClientConfig.url Invalid: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
                ".webhookClientConfig.url Invalid: Invalid value: \"u\": user information is not permitted in the URL",
                ".webhookClientConfig.url Invalid: Invalid value: \"f\": fragments are not permitted in the URL",
                ".webhookClientConfig.url Invalid: Invalid value: \"q=1\": query parameters are not permitted in the URL",
            ],
        ),
        (
            webhook(json!({"service": {"name": "s", "namespace": "", "port": 0, "path": "a//b"}})),
            vec![
                ".webhookClientConfig.service.name Required: Required value",
                ".webhookClientConfig.service.port Invalid: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                ".webhookClientConfig.service.path Invalid: Invalid value: \"a//b\": must start with a '/'",
                ".webhookClientConfig.service.path Invalid: Invalid value: \"a//b\": segment[0] may not be empty",
                ".webhookClientConfig.service.path Invalid: Invalid value: \"a//b\": segment[1] may not be empty",
            ],
        ),
        (
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a/b"},
                "conversionReviewVersions": ["v2", "v2"]}}),
            vec![
                ".conversionReviewVersions[1] Invalid: Invalid value: \"v2\": duplicate version",
                ".conversionReviewVersions Invalid: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1",
            ],
        ),
    ];
    for (conversion, expected) in rows {
        let mut bad = definition(&json!({"type": "object"}));
        bad["spec"]["conversion"] = conversion.clone();
        let expected: Vec<String> = expected.iter().map(|cause| format!("spec.conversion{cause}")).collect();
        assert_eq!(refused(&bad).await, expected, "{conversion}");
    }
    let mut good = definition(&json!({"type": "object"}));
    good["spec"]["conversion"] =
        webhook(json!({"service": {"name": "s", "namespace": "n"}, "caBundle": "eA=="}));
    let (_server, client) = serving(&good).await;
    let one = format!("{DEFINITIONS}/things.example.com");
    let made = client.get(&one).await.ok();
    assert_eq!(made["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"], 443);
}
