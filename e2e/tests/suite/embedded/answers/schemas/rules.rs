//! Random rules in CEL.

use fastrand::Rng;
use serde_json::{Value, json};

use super::random::one;

const INTEGERS: &[&str] = &[
    "self > 1",
    "self % 2 == 0",
    "self >= oldSelf",
    "1 / self > -1",
    "self < 2.5 && self != 1",
    "self * 4611686018427387904 != 0",
    "timestamp(self) > timestamp(0) && int(timestamp(self)) == self",
    "'%s %d'.format([self, self]) != '1 1'",
    "'%o %b %x'.format([-self, self, self * 9]) != '-1 1 9'",
    "quantity('1500m').add(self).isInteger() || [duration('1s'), duration('2s')].sum() > duration('1s')",
    "int('x') == self",
    "'%d'.format(['x', self]) == '1'",
];
const NUMBERS: &[&str] = &[
    "self < 2.0",
    "self > 1",
    "self != oldSelf || self < 1.0",
    "'%s'.format([self]) != '2'",
    "[self].filter(x, x > 2.0).sum() + 1.0 > 2.0",
];
const TEXTS: &[&str] = &[
    "self.size() < 3",
    "self.matches('^[a-z]+$')",
    "self == oldSelf",
    "self.startsWith('a') || self.contains('b') || self.endsWith('y')",
    "self in ['a', 'ab', '']",
    "!format.dns1123Label().validate(self).hasValue()",
    "isQuantity(self) ? quantity(self).isGreaterThan(quantity('1')) : self != ''",
    "int(self) > 0",
    "self.lowerAscii() == self && self.trim() == self && self.replace('a', 'b') != 'bb'",
    "self.split('')[1] != 'b'",
    "self.charAt(0) == 'a' || self.indexOf('b') > 0",
    "self < 'ab'",
    "self != 'a\\'b' && self != \"a'b\" && size(b'\\n') == 1 // it's a text",
    "isQuantity(self) ? sign(quantity(self)) < 1 : '''a''' != self",
    "'%s'.format([[self, 'a']]).size() < 12",
    "format.qualifiedName().validate(self).orValue(['x'])[0] == 'x'",
    "format.dns1035LabelPrefix().validate(self).hasValue() || format.uri().validate(self).hasValue()",
    "isQuantity(self) ? quantity(self).isInteger() && quantity(self).asInteger() > 1 : self != ''",
    "'%e'.format([self == 'a' ? 1234.5 : 0.5]) != '5.000000×10⁻⁰¹'",
    "'x' + string(self.size()) != 'x1'",
];
const ANY: &[&str] = &[
    "type(self) == int ? self < 2 : self.size() > 1",
    "self == 1",
    "self < 5",
    "self.endsWith('%')",
    "self == oldSelf",
];
const LISTS: &[&str] = &[
    "self.size() < 2",
    "self.all(x, self.exists_one(y, x == y))",
    "self == oldSelf",
    "self.map(x, x).size() + self.filter(x, false).size() < 3",
    "self[1] == self[0]",
    "oldSelf.all(x, x in self)",
    "self + self == self",
    "self.all(i, x, i < 1 || x == self[i])",
    "size(self.transformList(i, x, i > 0, x)) < 2",
    "self == self",
    "self + self == self && self.map(x, x) == self",
    "self.map(x, optional.of(x)).unwrapOpt().size() < 2",
];
const MAPS: &[&str] = &[
    "self.all(k, k != 'z')",
    "'a' in self",
    "self.size() == oldSelf.size()",
    "self.exists(k, v, k == 'z' && v == self.z)",
    "self['a'] == self['z']",
    "self == oldSelf",
];
/// `F` is one of the fields.
const OBJECTS: &[&str] = &[
    "has(self.F)",
    "self == oldSelf",
    "!has(self.F) || self.F == self.F",
    "self.F == oldSelf.F",
    "self.?F.hasValue()",
    "!has(self.F) || has(oldSelf.F)",
    "!has(self.F) || self.?F.orValue([self.F][1]) == self.F",
    "self.?F.or(optional.of(self.F)).hasValue()",
];
/// For the root. Equality is left out: the metadata of kube-apiserver has got managers when rules are evaluated.
const ROOTS: &[&str] = &[
    "self.metadata.name != 'o1'",
    "!has(self.metadata.generateName)",
    "self.apiVersion.size() > 3 && self.kind.startsWith('S')",
    "self.metadata.name == oldSelf.metadata.name",
];
const RESOURCES: &[&str] =
    &["self.kind == 'Pod'", "self.metadata.name != 'p'", "has(self.metadata.name)", "self == oldSelf"];
/// Rules whose types are often wrong.
const WRONG: &[&str] = &[
    "self.F == 'a'",
    "self.F != 1",
    "self.F.size() < 2",
    "!has(self.F) || self.F.all(x, true)",
    "self.F != null",
    "self.other == 1",
];
const FORMATS: &[(&str, &[&str])] = &[
    (
        "date-time",
        &[
            "self > timestamp('2026-01-01T00:00:00Z')",
            "self.getFullYear() == 2025",
            "self.getHours() < 12 && self.getMinutes('-02:30') != 30",
            "string(self).endsWith('0Z') || '%s'.format([[self]]).size() < 30",
            "self != null && self == timestamp(int(self))",
        ],
    ),
    (
        "date",
        &[
            "self.getMonth() == 1 && self.getDate() > 1",
            "self - timestamp('2026-02-28T00:00:00Z') > duration('1s')",
        ],
    ),
    (
        "duration",
        &[
            "self < duration('1h')",
            "self.getMinutes() > 60 || string(self) == '1.5s'",
            "self.getMilliseconds() < 2000 && '%s'.format([self]) != '1s'",
        ],
    ),
    ("byte", &["size(self) < 2", "self == b'a'"]),
];

/// Adds rules to some nodes, and limits to all, without which rules may be too expensive for kube-apiserver.
pub(super) fn add(rng: &mut Rng, schema: &mut Value, is_root: bool) {
    if rng.u8(..100) < if is_root { 60 } else { 10 } {
        let rules: Vec<Value> = (0..rng.usize(1..3)).filter_map(|_| rule(rng, schema, is_root)).collect();
        if !rules.is_empty() {
            schema["x-kubernetes-validations"] = rules.into();
        }
    }
    let limit = match schema["type"].as_str() {
        Some("string") => Some("maxLength"),
        Some("array") => Some("maxItems"),
        Some("object") if schema["additionalProperties"].is_object() => Some("maxProperties"),
        _ if schema["x-kubernetes-int-or-string"] == true => Some("maxLength"),
        _ => None,
    };
    if let Some(limit) = limit.filter(|limit| schema[*limit].is_null()) {
        schema[limit] = 40.into();
    }
    for (name, child) in schema.as_object_mut().unwrap() {
        match (name.as_str(), child) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|property| add(rng, property, false));
            }
            ("items" | "additionalProperties", child) if child.is_object() => add(rng, child, false),
            _ => {}
        }
    }
}

fn rule(rng: &mut Rng, schema: &Value, is_root: bool) -> Option<Value> {
    let fields: Vec<&String> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
    let format = FORMATS.iter().find(|(format, _)| schema["format"] == *format);
    let texts = match schema["type"].as_str() {
        Some("integer") => INTEGERS,
        Some("number") => NUMBERS,
        Some("string") => format.map_or(TEXTS, |(_, texts)| *texts),
        Some("boolean") => &["self", "self == oldSelf"],
        Some("array") => LISTS,
        Some("object") if schema["additionalProperties"].is_object() => MAPS,
        _ if schema["x-kubernetes-int-or-string"] == true => ANY,
        _ if is_root => ROOTS,
        _ if schema["x-kubernetes-embedded-resource"] == true => RESOURCES,
        Some("object") if !fields.is_empty() && rng.u8(..5) == 0 => WRONG,
        Some("object") if !fields.is_empty() => OBJECTS,
        _ => return None,
    };
    let field = if fields.is_empty() { String::new() } else { one(rng, &fields).clone() };
    let text = one(rng, texts).replace("self.F", &format!("self.{field}"));
    let text = text.replace(".?F", &format!(".?{field}"));
    let mut rule = json!({"rule": text});
    if rng.u8(..3) == 0 {
        rule["message"] = " not so ".into();
    }
    if rng.u8(..4) == 0 {
        let made = [
            "'made: ' + string(1)",
            "self == self ? 'same' : 'other'",
            "'' + ' '",
            "string(1 / 0)",
            "'a\\nb'",
            "oldSelf == oldSelf ? 'changed' : 'other'",
            "1",
        ];
        let count = if rng.u8(..20) == 0 { made.len() } else { made.len() - 1 };
        rule["messageExpression"] = one(rng, &made[..count]).into();
    }
    if rng.u8(..3) == 0 {
        let reasons = [
            "FieldValueInvalid",
            "FieldValueForbidden",
            "FieldValueRequired",
            "FieldValueDuplicate",
            "Other",
        ];
        let count = if rng.u8(..20) == 0 { 5 } else { 4 };
        rule["reason"] = one(rng, &reasons[..count]).into();
    }
    if !field.is_empty() && rng.u8(..4) == 0 {
        rule["fieldPath"] = one(rng, &[format!(".{field}"), format!("['{field}']")]).into();
    }
    if text.contains("oldSelf") && rng.u8(..4) == 0 {
        rule["rule"] =
            one(rng, &["!oldSelf.hasValue() || oldSelf.value() == self", "oldSelf.hasValue()"]).into();
        rule["optionalOldSelf"] = true.into();
    }
    Some(rule)
}
