//! Rules in CEL: `x-kubernetes-validations`.

use serde_json::{Value, json};

use super::{DEFINITIONS, THINGS, causes, definition, serving, thing, with_field};
use crate::common::{Client, server};

/// A schema of a field with rules.
fn ruled(schema: &Value, rules: &Value) -> Value {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = rules.clone();
    schema
}

/// Creates a thing, and returns the causes of the error.
async fn created(x: &Value, value: &Value) -> Vec<String> {
    let (_server, client) = serving(&with_field(x)).await;
    causes(&client.post(THINGS, &thing(&json!({"x": value}))).await)
}

/// Creates a thing, replaces it, and returns the causes of the error.
async fn updated(schema: &Value, before: &Value, after: &Value) -> Vec<String> {
    let (_server, client) = serving(&definition(schema)).await;
    let mut changed = client.post(THINGS, &thing(before)).await.ok().clone();
    for (name, value) in after.as_object().unwrap() {
        changed[name] = value.clone();
    }
    causes(&client.put(&format!("{THINGS}/t"), &changed).await)
}

/// The schema of a field, its rules, a value, and the causes.
// contract: E-26a
#[tokio::test]
async fn failures_have_the_causes_of_kubernetes() {
    let text = json!({"type": "string"});
    let integer = json!({"type": "integer"});
    let object = json!({"type": "object", "properties": {"a-b": integer, "c": integer,
        "labels": {"type": "object", "additionalProperties": {"type": "string"}}}});
    for (schema, rule, value, cause) in [
        (
            &text,
            json!({"rule": "self.size() < 3"}),
            json!("abc"),
            "x Invalid: Invalid value: \"abc\": failed rule: self.size() < 3",
        ),
        (
            &text,
            json!({"rule": " self != 'a' ", "message": " no a "}),
            json!("a"),
            "x Invalid: Invalid value: \"a\": no a",
        ),
        (
            &integer,
            json!({"rule": "self > 3", "messageExpression": "'not %d'.format([self])", "message": "other"}),
            json!(2),
            "x Invalid: Invalid value: 2: not 2",
        ),
        (
            &integer,
            json!({"rule": "self > 3", "messageExpression": "string(1 / (self - 2))", "message": "other"}),
            json!(2),
            "x Invalid: Invalid value: 2: other",
        ),
        (
            &integer,
            json!({"rule": "self > 3", "messageExpression": "' '"}),
            json!(2),
            "x Invalid: Invalid value: 2: failed rule: self > 3",
        ),
        (
            &object,
            json!({"rule": "self.a__dash__b < self.c", "reason": "FieldValueForbidden", "fieldPath": "['a-b']"}),
            json!({"a-b": 2, "c": 1}),
            "x.a-b Forbidden: Forbidden: failed rule: self.a__dash__b < self.c",
        ),
        (
            &object,
            json!({"rule": "has(self.c)", "reason": "FieldValueRequired", "fieldPath": ".c", "message": "c is needed"}),
            json!({}),
            "x.c Required: Required value: c is needed",
        ),
        (
            &object,
            json!({"rule": "!('k' in self.labels)", "reason": "FieldValueDuplicate", "fieldPath": ".labels['k']"}),
            json!({"labels": {"k": "v"}}),
            "x.labels[k] Duplicate: Duplicate value",
        ),
        (
            &integer,
            json!({"rule": "self != 1", "reason": "FieldValueDuplicate"}),
            json!(1),
            "x Duplicate: Duplicate value: 1",
        ),
        (
            &object,
            json!({"rule": "self.c > 1"}),
            json!({}),
            "x Invalid: Invalid value: \"object\": no such key: c evaluating rule: self.c > 1",
        ),
        (
            &json!({"x-kubernetes-int-or-string": true}),
            json!({"rule": "self < 5", "message": "at most 4"}),
            json!("a"),
            "x Invalid: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function \
             or macro signature for rule: at most 4",
        ),
        (
            &json!({"type": "array", "items": integer, "maxItems": 5}),
            json!({"rule": "self.all(i, self.exists_one(j, i == j))"}),
            json!([1, 2, 1]),
            "x Invalid: Invalid value: failed rule: self.all(i, self.exists_one(j, i == j))",
        ),
        (
            &json!({"type": "string", "format": "date-time"}),
            json!({"rule": "self.getFullYear() < 2026"}),
            json!("2026-01-01T00:00:00Z"),
            "x Invalid: Invalid value: \"2026-01-01T00:00:00Z\": failed rule: self.getFullYear() < 2026",
        ),
    ] {
        assert_eq!(created(&ruled(schema, &json!([rule])), &value).await, [cause], "{rule}");
    }
}

/// Rules are evaluated at each level, for the values that are there, with defaults and without unknown fields.
// contract: E-26a
#[tokio::test]
async fn rules_are_evaluated_at_each_level() {
    let item = ruled(
        &json!({"type": "object", "properties": {"v": {"type": "integer", "default": 5}}}),
        &json!([{"rule": "self.v < 5", "message": "item"}]),
    );
    let value = ruled(&json!({"type": "string"}), &json!([{"rule": "self != 'b'", "message": "value"}]));
    let pod = ruled(
        &json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        &json!([{"rule": "self.kind == 'Pod' && self.metadata.name.startsWith('p')", "message": "resource"}]),
    );
    let kept = ruled(
        &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        &json!([{"rule": "self == self", "message": "kept"}]),
    );
    let mut schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": item}, "map": {"type": "object", "additionalProperties": value},
        "pod": pod, "kept": kept}});
    schema["x-kubernetes-validations"] =
        json!([{"rule": "self.metadata.name != 't' && self.kind == 'Thing'", "message": "root"}]);
    let (_server, client) = serving(&definition(&schema)).await;
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"a": "b"}}});
    let given =
        json!({"list": [{"v": 1}, {}], "map": {"a": "a", "k": "b"}, "pod": pod("x"), "kept": {"a": 1}});
    assert_eq!(
        causes(&client.post(THINGS, &thing(&given)).await),
        [
            "<nil> Invalid: Invalid value: root",
            "list[1] Invalid: Invalid value: item",
            "map[k] Invalid: Invalid value: \"b\": value",
            "pod Invalid: Invalid value: resource",
        ]
    );
    let mut good = thing(&json!({"list": [{"v": 1}], "map": {"a": "a"}, "pod": pod("p"), "kept": {"a": 1}}));
    good["metadata"]["name"] = "u".into();
    client.post(THINGS, &good).await.ok();
}

// contract: E-26a
#[tokio::test]
async fn rules_wait_for_a_valid_object() {
    let x = ruled(
        &json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string",
        "minLength": 2}}}),
        &json!([{"rule": "self.a == self.b"}]),
    );
    assert_eq!(
        created(&x, &json!({"b": "bb"})).await,
        [
            "x.a Required: Required value",
            "<nil> Invalid: Invalid value: null: some validation rules were not checked because the object was invalid; \
             correct the existing errors to complete validation",
        ]
    );
    // an error of another kind does not stop the rules
    assert_eq!(
        created(&x, &json!({"a": "b", "b": "b"})).await,
        ["x.b Invalid: Invalid value: \"b\": x.b in body should be at least 2 chars long"]
    );
    assert_eq!(
        created(&x, &json!({"a": "a", "b": "c"})).await,
        [
            "x.b Invalid: Invalid value: \"c\": x.b in body should be at least 2 chars long",
            "x Invalid: Invalid value: failed rule: self.a == self.b",
        ]
    );
}

// contract: E-26b
#[tokio::test]
async fn rules_about_changes_need_an_old_value() {
    let fixed = json!([{"rule": "self == oldSelf", "message": "fixed"}]);
    let item = json!({"type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": ruled(&json!({"type": "integer"}), &fixed)}});
    let once = json!([{"rule": "oldSelf.hasValue() || self < 3", "message": "first below 3", "optionalOldSelf": true}]);
    let schema = json!({"type": "object", "properties": {
        "x": ruled(&json!({"type": "integer"}), &fixed),
        "o": ruled(&json!({"type": "integer"}), &once),
        "map": {"type": "object", "additionalProperties": ruled(&json!({"type": "integer"}), &fixed)},
        "list": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}});
    let before = json!({"x": 1, "map": {"a": 1}, "list": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]});
    let after = |change: Value| {
        let (schema, before) = (schema.clone(), before.clone());
        async move { updated(&schema, &before, &change).await }
    };
    assert_eq!(after(json!({"x": 2})).await, ["x Invalid: Invalid value: 2: fixed"]);
    assert_eq!(after(json!({"map": {"b": 2, "a": 2}})).await, ["map[a] Invalid: Invalid value: 2: fixed"]);
    assert_eq!(after(json!({"list": [{"k": "c", "v": 1}, {"k": "b", "v": 2}]})).await, [""; 0]);
    assert_eq!(
        after(json!({"list": [{"k": "b", "v": 1}]})).await,
        ["list[0].v Invalid: Invalid value: 1: fixed"]
    );
    assert_eq!(after(json!({"o": 3})).await, ["o Invalid: Invalid value: 3: first below 3"]);
    assert_eq!(after(json!({"o": 2})).await, [""; 0]);
}

// contract: E-26c
#[tokio::test]
async fn old_failures_do_not_refuse_an_update() {
    let server = server().await;
    let client = Client::new(&server);
    let item = json!({"type": "object", "properties": {"v": {"type": "integer"}}});
    let mut plain = json!({"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"},
        "list": {"type": "array", "items": item}}});
    client.post(DEFINITIONS, &definition(&plain)).await.ok();
    let made = client.post(THINGS, &thing(&json!({"x": 1, "y": 1, "list": [{"v": 1}]}))).await.ok().clone();
    let rules = json!([{"rule": "self > 1", "message": "above 1"}]);
    plain["properties"]["x"] = ruled(&json!({"type": "integer"}), &rules);
    plain["properties"]["list"]["items"]["properties"]["v"] = ruled(&json!({"type": "integer"}), &rules);
    let path = format!("{DEFINITIONS}/things.example.com");
    let changed = json!({"spec": {"versions": definition(&plain)["spec"]["versions"]}});
    client.patch(&path, "merge-patch", &changed).await.ok();
    let put = |change: Value| {
        let (client, mut thing) = (client.clone(), made.clone());
        thing["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        for (name, value) in change.as_object().unwrap() {
            thing[name] = value.clone();
        }
        async move { causes(&client.patch(&format!("{THINGS}/t"), "merge-patch", &thing).await) }
    };
    assert_eq!(put(json!({"y": 2})).await, [""; 0]);
    assert_eq!(put(json!({"x": 0})).await, ["x Invalid: Invalid value: 0: above 1"]);
    // the list is no longer as before, so its items are new
    assert_eq!(
        put(json!({"list": [{"v": 1}, {"v": 2}]})).await,
        ["list[0].v Invalid: Invalid value: 1: above 1"]
    );
}

/// The rules, and the field and the cause of the error without the text of the compiler.
// contract: E-26d
#[tokio::test]
async fn definitions_with_wrong_rules_are_refused() {
    let server = server().await;
    let client = Client::new(&server);
    let printed = |rule: &str, more: &str| {
        format!(
            "{{\"Rule\":\"{rule}\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}{more}"
        )
    };
    for (rule, field, cause) in [
        (json!({"rule": "self.x ="}), "rule", printed("self.x =", ": compilation failed: ")),
        (json!({"rule": "self.y"}), "rule", printed("self.y", ": compilation failed: ")),
        (json!({"rule": "self.x"}), "rule", printed("self.x", ": cel expression must evaluate to a bool")),
        (json!({"rule": " "}), "rule", "Required value: rule is not specified".into()),
        (json!({"rule": "true", "message": " "}), "message", "Invalid value: \" \": must be non-empty if specified".into()),
        (json!({"rule": "true\n"  , "message": "a\nb"}), "message", "Invalid value: \"a\\nb\": must not contain line breaks".into()),
        (
            json!({"rule": "true\n|| false"}),
            "message",
            "Required value: message must be specified if rule contains line breaks".into(),
        ),
        (json!({"rule": "true", "messageExpression": "1"}), "messageExpression", ": messageExpression must evaluate to a string".into()),
        (
            json!({"rule": "true", "messageExpression": "x"}),
            "messageExpression",
            ": messageExpression compilation failed: ".into(),
        ),
        (
            json!({"rule": "true", "reason": "Wrong"}),
            "reason",
            "Unsupported value: \"Wrong\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \
             \"FieldValueInvalid\", \"FieldValueRequired\""
                .into(),
        ),
        (json!({"rule": "true", "fieldPath": ".z"}), "fieldPath", "Invalid value: \".z\": must be a valid path".into()),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule".into(),
        ),
    ] {
        let schema = ruled(&json!({"type": "object", "properties": {"x": {"type": "integer"}}}), &json!([rule]));
        let answer = client.post(DEFINITIONS, &definition(&schema)).await;
        let found = causes(&answer);
        let path = "spec.validation.openAPIV3Schema.x-kubernetes-validations[0]";
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with(&format!("{path}.{field} ")) && one.contains(&cause)),
            "{rule}: {found:?}"
        );
    }
    let fixed = json!([{"rule": "self == oldSelf"}]);
    let item = ruled(&json!({"type": "string", "maxLength": 10}), &fixed);
    let list = json!({"type": "array", "items": item, "maxItems": 10});
    assert_eq!(
        causes(&client.post(DEFINITIONS, &with_field(&list)).await),
        [
            "spec.validation.openAPIV3Schema.properties[x].items.x-kubernetes-validations[0].rule Invalid: Invalid value: \
          \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within \
          spec.validation.openAPIV3Schema.properties[x]"
        ]
    );
    let kept = ruled(&json!({"x-kubernetes-preserve-unknown-fields": true}), &json!([{"rule": "true"}]));
    assert_eq!(
        causes(&client.post(DEFINITIONS, &with_field(&kept)).await),
        [
            "spec.validation.openAPIV3Schema.properties[x].x-kubernetes-validations InternalError: Internal error: internal \
          error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural \
          schema to CEL declarations"
        ]
    );
    let default = ruled(&json!({"type": "integer", "default": 1}), &json!([{"rule": "self > 1"}]));
    assert_eq!(
        causes(&client.post(DEFINITIONS, &with_field(&default)).await),
        [
            "spec.validation.openAPIV3Schema.properties[x].default Invalid: Invalid value: 1: failed rule: self > 1"
        ]
    );
}

// contract: E-26i
#[tokio::test]
async fn definitions_with_rules_that_may_cost_too_much_are_refused() {
    let server = server().await;
    let client = Client::new(&server);
    let root = "spec.validation.openAPIV3Schema";
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                  strings are declared)";
    let rules = |rule: &str| json!([{"rule": rule}]);
    let texts = |item: Value, rule: &str| json!({"type": "array", "items": ruled(&item, &rules(rule))});
    let short = json!({"type": "string", "maxLength": 100});
    let refused =
        causes(&client.post(DEFINITIONS, &with_field(&texts(short, "self.matches('^[a-z]+$')"))).await);
    let why = format!("Forbidden: estimated rule cost exceeds budget by factor of 8.7x {advice}");
    assert_eq!(
        refused,
        [format!("{root}.properties[x].items.x-kubernetes-validations[0].rule Forbidden: {why}")]
    );

    let message = json!([{"rule": "true", "messageExpression": "'x' + string(self)"}]);
    let refused =
        causes(&client.post(DEFINITIONS, &with_field(&ruled(&json!({"type": "integer"}), &message))).await);
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(
        refused[0].contains("estimated messageExpression cost exceeds budget by factor of more than 100x")
    );

    let numbers =
        ruled(&json!({"type": "array", "items": {"type": "integer"}}), &rules("self.all(x, x > 0)"));
    let field =
        |number: usize| (format!("l{}", char::from(b'a' + u8::try_from(number).unwrap())), numbers.clone());
    let fields: serde_json::Map<String, Value> = (0..14).map(field).collect();
    let mut many = definition(&json!({"type": "object", "properties": fields}));
    let refused = causes(&client.post(DEFINITIONS, &many).await);
    let part = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
    assert_eq!(refused.iter().filter(|cause| cause.contains(part)).count(), 4);
    let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    let total = format!("{root} Forbidden: Forbidden: {what} exceeds budget by factor of 1.101004x {advice}");
    assert_eq!(refused.last(), Some(&total));
    let fields = many.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties").unwrap();
    fields.as_object_mut().unwrap().retain(|name, _| name.as_str() < "lk");
    client.post(DEFINITIONS, &many).await.ok();
}

// contract: E-26e
#[tokio::test]
async fn the_work_for_an_object_has_a_limit() {
    let list = json!({"type": "array", "items": {"type": "integer"}, "maxItems": 1000});
    let nested = ruled(&list, &json!([{"rule": "self.all(a, self.all(b, a + b > 0))", "message": "m"}]));
    let numbers: Vec<u32> = (1..1000).collect();
    assert_eq!(
        created(&nested, &json!(numbers)).await,
        [
            "x Invalid: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation \
          rules will be run due to call cost exceeds limit for rule: m"
        ]
    );
    // a pattern costs by its length, and that of the text
    let rule = format!("!self.matches('{}')", "b".repeat(800));
    let item = ruled(&json!({"type": "string", "maxLength": 1000}), &json!(vec![json!({"rule": rule}); 8]));
    let list = json!({"type": "array", "maxItems": 100, "items": item});
    let found = created(&list, &json!(vec!["a".repeat(1000); 100])).await;
    assert_eq!(
        found,
        [
            "x[61] Invalid: Invalid value: \"string\": validation failed due to running out of cost budget, no further \
          validation rules will be run"
        ]
    );
}

/// Rules, columns and selectable fields of one definition.
// contract: E-26a
#[tokio::test]
async fn rules_go_with_columns_and_selectable_fields() {
    let x = ruled(&json!({"type": "string"}), &json!([{"rule": "self != 'z'"}]));
    let mut definition = with_field(&x);
    let version = &mut definition["spec"]["versions"][0];
    version["selectableFields"] = json!([{"jsonPath": ".x"}]);
    version["additionalPrinterColumns"] = json!([{"name": "X", "type": "string", "jsonPath": ".x"}]);
    let (_server, client) = serving(&definition).await;
    client.post(THINGS, &thing(&json!({"x": "a"}))).await.ok();
    assert_eq!(
        client.get(&format!("{THINGS}?fieldSelector=x=a")).await.ok()["items"].as_array().unwrap().len(),
        1
    );
    assert_eq!(client.get(&format!("{THINGS}?fieldSelector=x=b")).await.ok()["items"], json!([]));
    let refused = client.patch(&format!("{THINGS}/t"), "merge-patch", &json!({"x": "z"})).await;
    assert_eq!(causes(&refused), ["x Invalid: Invalid value: \"z\": failed rule: self != 'z'"]);
}

/// The message of a rule, the rules of a field, its values before and after, and the causes.
// contract: E-26f
#[tokio::test]
async fn messages_see_the_old_value_as_it_is() {
    let wants = |rules: Value, cause: &'static str| {
        let schema =
            json!({"type": "object", "properties": {"x": ruled(&json!({"type": "integer"}), &rules)}});
        async move {
            assert_eq!(updated(&schema, &json!({"x": 1}), &json!({"x": -1})).await, [cause], "{rules}");
        }
    };
    let positive = json!({"rule": "self > 0", "messageExpression": "'was %d'.format([oldSelf])"});
    let changes = json!({"rule": "self != oldSelf || true"});
    // no rule is about changes
    wants(json!([positive]), "x Invalid: Invalid value: -1: failed rule: self > 0").await;
    wants(json!([positive, changes]), "x Invalid: Invalid value: -1: was 1").await;
    let optional = json!({"rule": "!oldSelf.hasValue() || self > 0", "optionalOldSelf": true,
        "messageExpression": "'was %d'.format([oldSelf.value()])"});
    wants(json!([optional]), "x Invalid: Invalid value: -1: failed rule: !oldSelf.hasValue() || self > 0")
        .await;
}

// contract: E-26f
#[tokio::test]
async fn a_message_that_uses_up_a_budget_ends_the_validation() {
    let message = "lists.range(300000).map(x, x).size() > 0 ? 'a' : 'b'";
    let rules = json!([{"rule": "self > 0", "messageExpression": message, "fieldPath": "", "reason": "FieldValueForbidden"},
        {"rule": "self > 1"}]);
    let exceeded =
        "no further validation rules will be run due to call cost exceeds limit for messageExpression: ";
    assert_eq!(
        created(&ruled(&json!({"type": "integer"}), &rules), &json!(0)).await,
        [format!("x Invalid: Invalid value: \"integer\": {exceeded}\"{message}\"")]
    );
    // the budget of the object is used up by the messages of its items
    let message = "lists.range(60000).map(x, x).size() > 0 ? 'a' : 'b'";
    let item =
        ruled(&json!({"type": "integer"}), &json!([{"rule": "self > 0", "messageExpression": message}]));
    let found = created(&json!({"type": "array", "items": item}), &json!(vec![0; 20])).await;
    assert!(found.iter().rev().skip(1).all(|cause| cause.ends_with("Invalid value: 0: a")), "{found:?}");
    let last = found.last().unwrap();
    let exceeded = "Invalid value: \"integer\": messageExpression evaluation failed due to running out of cost budget, \
         no further validation rules will be run";
    assert!(found.len() < 20 && last.ends_with(exceeded), "{last}");
}
