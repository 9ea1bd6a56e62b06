//! Arbitrary rules, schemas and objects: nothing panics, and the work has a limit.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::compile::parse;
use super::eval::Evaluation;
use super::fault::Budget;
use super::library::{FREE_STEPS, Library};
use super::shape::Shape;
use super::value::Val;
use super::{Subject, compile, faults};
use crate::schema::structural::Structural;
use crate::schema::validate::correlated::Old;

/// Parts of expressions, valid or not.
const TOKENS: &[&str] = &[
    "self",
    "oldSelf",
    ".a",
    ".b",
    ".?a",
    "[0]",
    "[?'a']",
    ".all(x, ",
    ".map(x, ",
    ".filter(y, ",
    ".exists(i, v, ",
    ".transformMap(k, v, ",
    ".optMap(o, ",
    ".sortBy(s, ",
    ")",
    "(",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "x",
    "y",
    "1",
    "-1",
    "2u",
    "1.5",
    "'a'",
    "\"\\n\"",
    "b'\\xff'",
    "r'\\d'",
    "'''",
    "\"\"\"",
    "'",
    "\\",
    "//",
    "\n",
    " ",
    "true",
    "null",
    "!",
    "-",
    " && ",
    " || ",
    " == ",
    " < ",
    " + ",
    " * ",
    " % ",
    " in ",
    " ? ",
    " : ",
    "a: ",
    "lists.range(9999)",
    ".sum()",
    ".size()",
    ".orValue(1)",
    ".matches('(a*)*')",
    ".replace('', 'aaaa')",
    ".format([self])",
    "'%s%.9f%d'",
    ".getHours('+01:00')",
    "timestamp(0)",
    "duration('1h')",
    "quantity('1e99')",
    "semver('1.2.3')",
    ".join(self)",
    "type(",
    "dyn(",
    "string(",
    "optional.of(",
    "é",
    "\u{0}",
    "9223372036854775807",
    "has(",
    ".flatten()",
    ".distinct()",
    "format.named('date').value().validate(",
    "format.dns1123Label().validate('",
    "quantity('0.000000000000000001m')",
    ".isGreaterThan(",
    ".asInteger()",
    "ip('::ffff:1.2.3.4')",
    "cidr('10.0.0.0/33')",
    ".containsIP(",
    "url('https://a/b?c=%zz')",
    ".getQuery()",
    "sets.intersects(",
    "base64.decode(",
    "math.greatest(",
    "cel.bind(v, ",
    ".split('', ",
    ".substring(-1, ",
    ".slice(0, 9)",
    ".indexOf(",
    ".reverse()",
    ".charAt(9)",
    ".find('(.|a)+')",
];

fn rule() -> impl Strategy<Value = String> {
    let tokens =
        prop::collection::vec(prop::sample::select(TOKENS), 0..14).prop_map(|tokens| tokens.concat());
    // a valid rule with another part
    let mutated = (prop::sample::select(VALID), any::<prop::sample::Index>(), 0..4_usize, tokens.clone())
        .prop_map(|(text, at, length, part)| {
            let characters: Vec<char> = text.chars().collect();
            let at = at.index(characters.len());
            let end = (at + length).min(characters.len());
            let (head, tail) = (&characters[..at], &characters[end..]);
            head.iter().chain(&part.chars().collect::<Vec<_>>()).chain(tail).collect()
        });
    prop_oneof![tokens, mutated, prop::sample::select(VALID).prop_map(str::to_owned), ".{0,30}"]
}

const VALID: &[&str] = &[
    "self == oldSelf",
    "self.all(x, self.all(y, x == y || self.exists_one(z, z == x)))",
    "self.map(x, [x, x]).map(x, x + x).size() > 0",
    "self.a.b == self.a.b && has(self.a) || self.?a.orValue({}) == {}",
    "lists.range(99999).all(x, lists.range(99999).all(y, true ? x == x : false))",
    "self.all(k, v, k == v && 'a' + k in [k])",
    "'%s'.format([self]).replace('', 'aa').matches('a{9}') || self + self == self",
    "self.transformList(i, v, i).sortBy(x, -x).sum() + 1 > 0",
    "self.getHours() < 3 && self > timestamp(0) && string(self) != 'a'",
    "quantity(self).isLessThan(quantity('10Ki')) && ip(self).family() == 4 && cidr(self).containsIP(self)",
    "url(self).getHost() != self || !format.named(self).value().validate(self).hasValue()",
    "cel.bind(v, self.map(x, sets.contains(self, [x])), v.slice(0, 1) == v.reverse().flatten())",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(
            &["", "a", "2026-01-01T00:00:00+02:00", "1h", "YQ==", "object", "set", "\u{10ffff}"][..]
        )
        .prop_map(Value::from),
        "[ -~]{0,9}".prop_map(Value::from),
    ]
}

const FIELDS: &[&str] = &["a", "b", "metadata", "kind", "apiVersion", "x-y", "a__b", "namespace", "", "1"];
/// The fields of a schema.
const WORDS: &[&str] = &[
    "type",
    "properties",
    "additionalProperties",
    "items",
    "nullable",
    "format",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-validations",
    "rule",
    "messageExpression",
    "fieldPath",
    "optionalOldSelf",
    "enum",
    "pattern",
    "allOf",
    "not",
    "default",
    "required",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
];

fn tree(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(names), inner), 0..4).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// A schema that is mostly right, with rules.
fn schema() -> impl Strategy<Value = Value> {
    let formats = ["", "date", "date-time", "byte", "duration"];
    let leaf = prop_oneof![
        prop::sample::select(&["integer", "number", "boolean", "object", "array", "", "other"][..])
            .prop_map(|of| json!({"type": of})),
        prop::sample::select(formats.to_vec()).prop_map(|format| json!({"type": "string", "format": format})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
        tree(WORDS),
    ];
    let node = leaf.prop_recursive(3, 12, 3, |inner| {
        let kinds = ["atomic", "set", "map", "other"];
        prop_oneof![
            (inner.clone(), prop::sample::select(kinds.to_vec())).prop_map(|(items, kind)| {
                json!({"type": "array", "items": items, "x-kubernetes-list-type": kind,
                    "x-kubernetes-list-map-keys": ["a", "x-y"]})
            }),
            prop::collection::vec((prop::sample::select(FIELDS), inner.clone()), 0..3).prop_map(|fields| {
                let fields: serde_json::Map<_, _> =
                    fields.into_iter().map(|(name, node)| (name.to_owned(), node)).collect();
                json!({"type": "object", "properties": fields})
            }),
            inner.prop_map(|values| json!({"type": "object", "additionalProperties": values})),
        ]
    });
    (node, prop::collection::vec((rule(), prop::option::of(rule()), any::<bool>()), 0..3)).prop_map(
        |(mut node, rules)| {
            let rules: Vec<Value> = rules
                .into_iter()
                .map(|(rule, message, is_optional)| {
                    json!({"rule": rule, "messageExpression": message, "optionalOldSelf": is_optional})
                })
                .collect();
            if let (Some(node), false) = (node.as_object_mut(), rules.is_empty()) {
                node.insert("x-kubernetes-validations".into(), rules.into());
            }
            node
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Panics of the parser and of functions are contained; those of the checker, of values and of the walk are not.
    #[test]
    fn any_schema_takes_any_object(schema in schema(), value in tree(FIELDS), old in prop::option::of(tree(FIELDS))) {
        let mut schema = Structural::parse(&schema);
        compile(&mut schema);
        let old = old.as_ref().map(Old::Value);
        let found = faults("x", Subject { value: &value, old, is_object: true }, &schema);
        for cause in found.causes {
            prop_assert!(!cause.message.contains("internal error"), "{cause:?}");
        }
    }

    /// A definition with any schema, and its change to another one, are checked.
    #[test]
    fn any_definition_is_checked(before in schema(), after in schema()) {
        let [before, mut after] = [before, after].map(|schema| {
            let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com",
                "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "Things"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
            definition.as_object().cloned().unwrap_or_default()
        });
        crate::schema::definition::coerce_defaults(&mut after);
        for cause in crate::schema::definition::faults(&after, Some(&before)) {
            prop_assert!(cause.field.is_some(), "{cause:?}");
        }
        for warning in crate::schema::definition::warnings(&after, Some(&before)) {
            prop_assert!(!warning.is_empty());
        }
    }

    /// The steps of an evaluation are bounded by its budget, also those that are free in cel-go.
    #[test]
    fn any_rule_has_bounded_work(text in rule(), value in tree(FIELDS), units in 0..20_000_u64) {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "a": {"type": "array", "items": {"type": "string"}}, "b": {"x-kubernetes-int-or-string": true}}}));
        let Ok(Ok(expression)) = std::panic::catch_unwind(|| parse(&text)) else { return Ok(()) };
        let Some(fields) = value.as_object() else { return Ok(()) };
        let own = Val::Object(fields, Shape::of_root(&schema));
        let (mut budget, library) = (Budget(units), Library::default());
        let variables = vec![("self", Ok(own.clone())), ("oldSelf", Ok(own))];
        let _ = Evaluation { variables, budget: &mut budget, library: &library }.value(&expression);
        let used = units - budget.0;
        // after the budget is used up, the operands that remain are left out
        prop_assert!(library.steps() <= (used + 1) * FREE_STEPS + 400, "{} {used}", library.steps());
    }
}
