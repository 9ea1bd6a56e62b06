//! Random structural schemas, sometimes with one fault, and random objects for them.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Formats, with texts that have them and others that do not.
const FORMATS: &[(&str, &[&str])] = &[
    ("byte", &["YQ==", "YQ=", "a", "", "YWI=", "AAAA"]),
    ("cidr", &["10.0.0.0/8", "10.0.0.0/33", "::/0", "10.0.0.0"]),
    ("date", &["2026-02-28", "2026-02-30", "x"]),
    ("date-time", &["2026-01-01T00:00:00Z", "2026-01-01t10:20:30.5+01:00", "2026-13-01T00:00:00Z", "x"]),
    ("duration", &["1h", "2 days", "5x", "1.5m", "", "10"]),
    ("email", &["a@b", "a", "A B <c@d.e>", "a@b..c"]),
    ("hexcolor", &["#fff", "ggg", "123456"]),
    ("hostname", &["a.bc", "-a", "a_b", "x", "1", "a.b"]),
    ("int32", &["x"]),
    ("ipv4", &["1.2.3.4", "01.2.3.4", "1.2.3", "::1"]),
    ("ipv6", &["::1", "1::2::3", "1.2.3.4"]),
    ("isbn", &["0321751043", "978-0321751041", "1"]),
    ("k8s-long-name", &["a.b", "a..b"]),
    ("k8s-short-name", &["a-b", "a.b", "A"]),
    ("mac", &["00:11:22:33:44:55", "0011.2233.4455", "x"]),
    ("rgbcolor", &["rgb(1,2,3)", "rgb(1,2,300)"]),
    ("unknown", &["x"]),
    ("uri", &["http://a/b", "/a", "a", "http://[::1]:80/", "mailto:x", "://a", "http://a/%zz"]),
    ("uuid", &["123e4567-e89b-12d3-a456-426614174000", "123e4567"]),
];
const TEXTS: [&str; 8] = ["", "a", "ab", "abc", "x y", "<&>", "é", "b1"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// One of the items.
pub(super) fn one<T: Clone>(rng: &mut Rng, items: &[T]) -> T {
    items[rng.usize(..items.len())].clone()
}

fn chance(rng: &mut Rng, percent: u8) -> bool {
    rng.u8(..100) < percent
}

/// A random schema of a value.
pub(super) fn schema(rng: &mut Rng, depth: usize) -> Value {
    let mut schema = if depth == 0 || chance(rng, 35) { leaf(rng) } else { inner(rng, depth) };
    if chance(rng, 15) {
        schema["nullable"] = true.into();
    }
    if chance(rng, 12) {
        let default = value(rng, &schema, 5);
        if !default.is_null() {
            schema["default"] = default;
        }
    }
    schema
}

fn leaf(rng: &mut Rng) -> Value {
    let mut schema = match rng.u8(..13) {
        0..3 => json!({"type": "string"}),
        3..5 => return json!({"type": "string", "format": FORMATS[rng.usize(..FORMATS.len())].0}),
        5..7 => json!({"type": "integer"}),
        7 => json!({"type": "number"}),
        8 => return json!({"type": "boolean"}),
        9 => return json!({"x-kubernetes-int-or-string": true}),
        10 => return json!({"x-kubernetes-preserve-unknown-fields": true}),
        11 => return json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        _ => {
            return json!({"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true});
        }
    };
    let rules: &[(&str, Value)] = match schema["type"].as_str() {
        Some("string") => &[
            ("enum", json!(["a", "ab"])),
            ("maxLength", json!(1)),
            ("minLength", json!(2)),
            ("pattern", json!("^[a-z]+$")),
        ],
        Some("integer") => &[
            ("format", json!("int32")),
            ("minimum", json!(1)),
            ("maximum", json!(2.5)),
            ("multipleOf", json!(2)),
            ("enum", json!([1, 2, 3])),
        ],
        _ => &[("minimum", json!(0.5)), ("maximum", json!(2.5)), ("multipleOf", json!(0.1))],
    };
    for (name, rule) in rules {
        if chance(rng, 20) {
            schema[*name] = rule.clone();
        }
    }
    schema
}

fn inner(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(..8) {
        0..4 => object(rng, depth),
        4 => json!({"type": "object", "additionalProperties": schema(rng, depth - 1)}),
        5 => json!({"type": "array", "items": schema(rng, depth - 1), "maxItems": rng.u8(1..4)}),
        _ => {
            let mut items = object(rng, depth);
            items["properties"]["k"] = json!({"type": "string"});
            items["required"] = json!(["k"]);
            json!({"type": "array", "items": items, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"]})
        }
    }
}

fn object(rng: &mut Rng, depth: usize) -> Value {
    let names: Vec<&str> = (0..rng.usize(1..4)).map(|_| one(rng, &NAMES)).collect();
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), schema(rng, depth - 1))).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if chance(rng, 30) {
        schema["required"] = json!([one(rng, &NAMES)]);
    }
    if chance(rng, 20) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if chance(rng, 15) {
        schema[one(rng, &["minProperties", "maxProperties"])] = 2.into();
    }
    if chance(rng, 35) {
        let alternatives: Vec<Value> = (0..rng.usize(1..4))
            .map(|_| match rng.u8(..3) {
                0 => json!({"required": [one(rng, &NAMES)]}),
                1 => json!({"properties": {names[0]: {"enum": ["a", 1]}}}),
                _ => json!({"not": {"required": [names[0]]}}),
            })
            .collect();
        schema[one(rng, &["anyOf", "oneOf", "allOf"])] = alternatives.into();
    }
    schema
}

/// Any value.
fn junk(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(..8) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 => one(rng, &[0, 1, 2, 5, -1, 4_000_000_000_i64]).into(),
        3 => one(rng, &[1.5, 2.0, 0.3]).into(),
        6 if depth > 0 => (0..rng.usize(..3)).map(|_| junk(rng, depth - 1)).collect(),
        7 if depth > 0 => json!({one(rng, &NAMES): junk(rng, depth - 1), "z": 1}),
        _ => one(rng, &TEXTS).into(),
    }
}

/// A random value for a schema. A part of the values, in percent, have any type.
pub(super) fn value(rng: &mut Rng, schema: &Value, wrong: u8) -> Value {
    if chance(rng, wrong) {
        return junk(rng, 2);
    }
    if schema["nullable"] == true && chance(rng, 15) {
        return Value::Null;
    }
    if let Some(allowed) = schema["enum"].as_array() {
        return one(rng, allowed);
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        return embedded(rng);
    }
    match schema["type"].as_str() {
        Some("string") => {
            let texts = FORMATS.iter().find(|(format, _)| schema["format"] == *format);
            one(rng, texts.map_or(&TEXTS[..], |(_, texts)| texts)).into()
        }
        Some("integer") => {
            one(rng, &[json!(0), json!(1), json!(2), json!(4), json!(2.0), json!(3_000_000_000_i64)])
        }
        Some("number") => one(rng, &[json!(1), json!(0.5), json!(2.5), json!(0.3)]),
        Some("boolean") => true.into(),
        Some("array") => (0..rng.usize(..4)).map(|_| value(rng, &schema["items"], wrong)).collect(),
        Some("object") => fields(rng, schema, wrong),
        _ => one(rng, &[json!(1), json!("5%")]),
    }
}

fn fields(rng: &mut Rng, schema: &Value, wrong: u8) -> Value {
    let mut fields = Map::new();
    if schema["additionalProperties"].is_object() {
        for name in ["a", "z"].iter().filter(|_| rng.bool()).copied().collect::<Vec<_>>() {
            fields.insert(name.into(), value(rng, &schema["additionalProperties"], wrong));
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if chance(rng, 80) {
            fields.insert(name.clone(), value(rng, property, wrong));
        }
    }
    if chance(rng, 10) {
        fields.insert(one(rng, &["a", "b", "y", "z"]).into(), junk(rng, 2));
    }
    fields.into()
}

fn embedded(rng: &mut Rng) -> Value {
    let mut resource =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}});
    match rng.u8(..8) {
        0 => resource["apiVersion"] = "a/b/c".into(),
        1 => resource["kind"] = one(rng, &["", "pod/x"]).into(),
        2 => resource["metadata"]["name"] = "a/b".into(),
        3 => resource["metadata"]["other"] = 1.into(),
        4 => resource["other"] = junk(rng, 1),
        5 => {
            resource.as_object_mut().unwrap().remove("kind");
        }
        _ => {}
    }
    resource
}

/// Makes one change to a schema, which most often makes it invalid.
pub(super) fn spoil(rng: &mut Rng, schema: &mut Value) {
    let deeper = rng.bool();
    let fields = schema.as_object_mut().unwrap();
    let mut children: Vec<&mut Value> = Vec::new();
    for (name, child) in fields.iter_mut() {
        match (name.as_str(), child) {
            ("properties", Value::Object(properties)) => children.extend(properties.values_mut()),
            ("items" | "additionalProperties", child) if child.is_object() => children.push(child),
            _ => {}
        }
    }
    if deeper && !children.is_empty() {
        let index = rng.usize(..children.len());
        return spoil(rng, children[index]);
    }
    let changes = json!([
        {"type": null}, {"type": "array"}, {"type": "text"}, {"default": 5}, {"default": {"z": 1}},
        {"x-kubernetes-list-type": "map"}, {"x-kubernetes-list-type": "set"}, {"x-kubernetes-list-type": "bag"},
        {"x-kubernetes-map-type": "atomic"}, {"x-kubernetes-map-type": "heap"}, {"x-kubernetes-list-map-keys": ["z"]},
        {"uniqueItems": true}, {"nullable": true}, {"id": "x"}, {"definitions": {"a": {"type": "string"}}},
        {"additionalProperties": {"type": "string"}}, {"x-kubernetes-embedded-resource": true},
        {"x-kubernetes-int-or-string": true}, {"x-kubernetes-preserve-unknown-fields": false},
        {"anyOf": [{"type": "string"}]}, {"allOf": [{"properties": {"q": {"enum": [1]}}}]},
        {"oneOf": [{"nullable": true, "description": "x"}]}, {"items": [{"type": "string"}]}, {"items": null},
    ]);
    let change = one(rng, changes.as_array().unwrap());
    json_patch::merge(schema, &change);
}
