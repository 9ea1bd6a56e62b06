//! Random expressions, and expressions with known results.

use std::rc::Rc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::compile::parse;
use super::eval::Evaluation;
use super::fault::{Budget, Fault};
use super::library::{FREE_STEPS, Library};
use super::shape::Shape;
use super::value::Val;
use super::*;
use crate::schema::structural::Structural;
use crate::schema::validate::correlated::Old;

/// A schema with a field of each type.
fn schema() -> Value {
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
    let set = |items: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": "set"});
    json!({"type": "object", "properties": {
        "i": {"type": "integer"}, "n": {"type": "number"}, "s": {"type": "string"}, "f": {"type": "boolean"},
        "any": {"x-kubernetes-int-or-string": true}, "kept": {"x-kubernetes-preserve-unknown-fields": true},
        "l": {"type": "array", "items": {"type": "integer"}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "items": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "o": {"type": "object", "properties": {"a-b": {"type": "integer"}, "a__b": {"type": "integer"},
            "namespace": {"type": "string"}}},
        "numbers": set(json!({"type": "number"})), "none": set(json!({"type": "number"})),
        "times": set(json!({"type": "string", "format": "date-time"})),
        "raws": set(json!({"type": "string", "format": "byte"})),
        "no": {"type": "string", "nullable": true},
        "day": {"type": "string", "format": "date"}, "at": {"type": "string", "format": "date-time"},
        "long": {"type": "string", "format": "duration"}, "raw": {"type": "string", "format": "byte"}}})
}

fn object() -> Value {
    json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {"a": "b"}},
        "i": 3, "n": 2, "s": "héllo", "f": true, "any": "50%", "kept": {"x": 1}, "l": [1, 2, 3], "set": ["b", "a"],
        "numbers": [0.5, 2.5], "none": [], "times": ["2026-01-01T00:00:00Z"], "raws": ["YQ=="],
        "items": [{"k": "x", "v": 1}, {"k": "y", "v": 2}], "m": {"a": "1", "b-c": "2"}, "no": null,
        "o": {"a-b": 1, "namespace": "default"}, "day": "2026-02-28", "at": "2026-01-01T01:00:00+02:00", "long": "1h30m",
        "raw": "YWI="})
}

/// Returns the value of an expression that is not checked, or what is wrong.
fn value(text: &str, budget: u64) -> Result<bool, String> {
    let (schema, object) = (Structural::parse(&schema()), object());
    let expression = parse(text)?;
    let own = Val::Object(object.as_object().unwrap(), Shape::of_root(&schema));
    let old = Val::Optional(Some(Rc::new(own.clone())));
    let variables = vec![("self", Ok(own)), ("oldSelf", Ok(old))];
    let result = Evaluation { variables, budget: &mut Budget(budget), library: &Library::default() }
        .value(&expression);
    match result {
        Ok(value) => value.as_bool().ok_or_else(|| format!("{value:?}")),
        Err(Fault::Exceeded) => Err("exceeded".into()),
        Err(Fault::Error(why)) => Err(why),
    }
}

/// Returns what is wrong with the object, by one rule.
fn checked(rule: &Value) -> Vec<String> {
    let mut schema = schema();
    schema["x-kubernetes-validations"] = json!([rule]);
    let mut schema = Structural::parse(&schema);
    compile(&mut schema);
    let subject = Subject { value: &object(), old: None::<Old<'_>>, is_object: true };
    faults("", subject, &schema).causes.into_iter().map(|cause| cause.message).collect()
}

/// Evaluates an expression, without a check and as a rule.
fn is_true(text: &str) {
    assert_eq!(value(text, 100_000), Ok(true), "{text}");
    let found = checked(&json!({"rule": text, "optionalOldSelf": true}));
    // the old value is absent
    assert!(text.contains("oldSelf") || found.is_empty(), "{text}: {found:?}");
    assert!(found.iter().all(|message| !message.contains("compil")), "{text}: {found:?}");
}

#[test]
fn expressions_are_true() {
    for text in [
        "self.i == 3 && self.n == 2.0 && self.s.size() == 5 && self.f",
        "self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 3)",
        "self.l.map(x, x * 2) == [2, 4, 6] && self.l.filter(x, x > 1) == [2, 3]",
        "self.l.map(x, x > 1, x + 1) == [3, 4] && self.l + [4] == [1, 2, 3, 4]",
        "self.set == ['a', 'b'] && self.set + ['b', 'c'] == ['b', 'a', 'c'] && !(['a', 'b'] == ['b', 'a'])",
        "self.set + ['c'] == ['c', 'b', 'a'] && self.set + ['c'] + ['c', 'd'] == ['d', 'c', 'b', 'a']",
        "self.items.exists(i, i.k == 'x' && i.v == 1) && self.items[1].k == 'y'",
        "self.m['b-c'] == '2' && 'a' in self.m && self.m.all(k, k.size() > 0) && size(self.m) == 2",
        "self.m.all(k, v, k in self.m && v in ['1', '2']) && self.l.exists(i, v, i == 0 && v == 1)",
        "self.l.transformList(i, v, i + v) == [1, 3, 5] && self.m.transformMap(k, v, int(v))['a'] == 1",
        "self.l.transformMapEntry(i, v, {v: i})[3] == 2 && self.l.transformList(i, v, v > 1, v) == [2, 3]",
        "self.o.a__dash__b == 1 && self.o.__namespace__ == 'default' && has(self.o.a__dash__b)",
        "!has(self.no) && self.metadata.name == 'n' && !has(self.metadata.generateName) && self.kind == 'K'",
        "type(self.any) == string && self.any.matches('^[0-9]+%$') && type(self.l) == list && type(1) != string",
        "self.day > timestamp('2026-01-01T00:00:00Z') && self.at - duration('1h') < self.at && self.long == duration('90m')",
        "self.day.getFullYear() == 2026 && self.long.getMinutes() == 90 && string(self.long) == '5400s'",
        "self.raw == b'ab' && size(self.raw) == 2 && string(self.raw) == 'ab'",
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && isQuantity('1') && quantity('1k').asInteger() == 1000",
        "isIP('1.2.3.4') && ip('1.2.3.4').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "isURL('https://a/b') && !isURL('a b') && url('https://u@[::1]:80/b%20c?k=v&k=w').getPort() == '80'",
        "url('HTTPS://a.b:1/c?k=v').getScheme() == 'https' && url('https://a.b:1/c').getHost() == 'a.b:1'",
        "url('https://a.b/c%20d?k=1').getQuery()['k'] == ['1'] && url('/c%20d').getEscapedPath() == '/c%20d'",
        "semver('1.2.3').isLessThan(semver('1.3.0')) && semver('1.2.3').major() == 1",
        "!format.dns1123Label().validate('a-b').hasValue() && format.named('uuid').hasValue()",
        "sets.contains(self.l, [1, 2]) && self.l.sum() == 6 && self.l.max() == 3 && self.l.isSorted()",
        "'a,b'.split(',') == ['a', 'b'] && 'abc'.substring(1) == 'bc' && ['a', 'b'].join('-') == 'a-b'",
        "'%s=%d'.format(['a', 1]) == 'a=1' && 'aXb'.lowerAscii() == 'axb' && ' a '.trim() == 'a'",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1'.find('[0-9]') == '1'",
        "oldSelf.hasValue() && oldSelf.value().i == 3 && oldSelf.i.orValue(0) == 3 && self.?no.orValue('x') == 'x'",
        "oldSelf.optMap(o, o.i + 1).value() == 4 && self.l[?5].orValue(9) == 9 && optional.none().or(optional.of(1)).value() == 1",
        "[3, 1, 2].sortBy(x, x) == [1, 2, 3] && [1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2]",
        "self == oldSelf.value() && self.items == oldSelf.value().items",
        "1 in [1, 2] && !(3 in [1, 2]) && {'a': 1}.a == 1 && {1: 'x'}[1] == 'x' && (true ? 1 : 2) == 1",
        "(1 / 0 == 1) || true",
        "true || (1 / 0 == 1)",
        "!(false && 1 / 0 == 1) && [0, 1].exists(x, 1 / x == 1)",
        "7 % 4 == 3 && -self.i == -3 && 1.5 + 1.0 == 2.5 && 2u + 1u == 3u && 10 / 4 == 2",
        "int('5') + int(2.7) == 7 && string(1.0) == '1' && double('1.5') == 1.5 && string(true) == 'true'",
        "lists.range(3) == [0, 1, 2] && [1, 2].first().value() == 1 && [1, 2].reverse() == [2, 1]",
        "'é'.size() == 1 && 'hello'.charAt(1) == 'e' && 'tacocat'.indexOf('c') == 2 && 'a'.replace('a', 'b') == 'b'",
        "[[1, 2], [3]].all(l, l.all(x, l.exists(y, x <= y)))",
        "self.long == duration('1h') + duration('30m') && duration('1h') > duration('1m')",
    ] {
        is_true(text);
    }
}

/// Expressions that the crates evaluate in another way, or not.
#[test]
fn more_expressions_are_true() {
    for text in [
        "self.?i.orValue(self.l[9]) == 3 && self.?i.or(optional.of(self.l[9])).value() == 3",
        "self.at.getHours() == 23 && self.at.getDate() == 31 && self.at.getFullYear() == 2025",
        "self.at.getHours('+02:00') == 1 && self.at.getDayOfYear('02:00') == 0 && self.at.getMinutes('-00:30') == 30",
        "timestamp('9999-12-31T23:59:59.999Z').getMilliseconds() == 999 && self.at.getDayOfWeek() == 3",
        "self.numbers == self.numbers && self.numbers == [2.5, 0.5] && !(self.numbers == [2.5, 1.5])",
        "self.times == self.times && self.raws == self.raws && self.numbers + [0.5] == self.numbers",
        "sign(quantity('-1')) == -1 && sign(quantity('0')) == 0",
        "timestamp(0) == timestamp('1970-01-01T00:00:00Z') && int(timestamp(5)) == 5 && timestamp(self.i) > timestamp(0)",
        "'%s %s %s'.format([timestamp('2026-01-01T00:00:00.50Z'), duration('90s'), 2.0]) == '2026-01-01T00:00:00.5Z 90s 2'",
        "'%s %s %s'.format([b'a', int, null]) == 'a int null' && '%s'.format([{'b': 1, 'a': 2}]) == '{\"a\":2, \"b\":1}'",
        "'%s'.format([[dyn(1.5), 'a', duration('1s'), b'a', type(1)]]) == '[1.500000, \"a\", duration(\"1s\"), b\"a\", int]'",
        "'%d%% %.1f'.format([1, 2.25]) == '1% 2.2'",
        "'%.1f %e'.format([1234.5, 10.0]) == '1,234.5 1.000000×10⁰¹'",
        "'a\\\"b' == 'a\"b' && size(b'\\n') == 1 && '''a'b''' == 'a\\'b' && r'\\d' == '\\\\d' && \"\"\"x\"\"\" == 'x'",
        "true // it's -- !! \"\n && self.i == 3",
        "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(1)].unwrapOpt() == [1]",
        "optional.of(1) != null && quantity('1') != null && ip('::1') != null",
        "self.long.getMilliseconds() == 5400000 && duration('1000000h').getSeconds() == 3600000000",
        "string(timestamp('2026-01-01T00:00:00.120Z')) == '2026-01-01T00:00:00.12Z' && string(self.at) == '2026-01-01T01:00:00+02:00'",
        "!isQuantity(' 1') && quantity('1e40').isGreaterThan(quantity('1n')) && quantity('1e40') != quantity('9223372036854775807')",
        "!quantity('1.5').isInteger() && !quantity('1000m').isInteger() && quantity('1.5k').asInteger() == 1500",
        "!quantity('1.5Ki').isInteger() && !quantity('1Pi').isInteger() && quantity('2Gi').asInteger() == 2147483648",
        "!quantity('1').add(quantity('500m')).add(quantity('500m')).isInteger() && quantity('1k').sub(1).asInteger() == 999",
        "'%o %x %b %X %d'.format([-8, -255, -5, 'az', -1]) == '-10 -ff -101 617A -1' && '%b%x'.format([true, 255u]) == '1ff'",
        "[duration('1s'), duration('2s')].sum() == duration('3s') && [1u, 2u].sum() == 3u && [0.5].sum() == 0.5",
        "'%s'.format([[1, 'a', {'a': 1, 'b': 'x'}]]) == '[1, \"a\", {\"a\":1, \"b\":\"x\"}]' && [[], [1]].size() == 2",
        "semver('1.0.0+a').compareTo(semver('1.0.0+b')) == 0 && semver('1.0.0+a') == semver('1.0.0')",
    ] {
        is_true(text);
    }
}

#[test]
fn errors_have_the_texts_of_go() {
    for (text, error) in [
        ("self.l[7] == 1", "index out of bounds: 7"),
        ("self.m['z'] == ''", "no such key: z"),
        ("self.no == 'x'", "no such key: no"),
        ("1 / (self.i - 3) == 1", "division by zero"),
        ("1 % (self.i - 3) == 1", "modulus by zero"),
        ("self.i + 9223372036854775807 > 0", "integer overflow"),
        ("self.any < 5", "no such overload"),
        ("int(self.s) == 1", "type conversion error from 'string' to 'int'"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("[1, 0].all(x, 1 / x == 1)", "division by zero"),
        ("[1, 0][2] == 1", "index out of bounds: 2"),
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("dyn(1).endsWith('a')", "no such overload: endsWith(int, string)"),
        ("dyn(1).size() == 1", "no such overload: size"),
        ("timestamp(253402300800) > timestamp(0)", "timestamp overflow"),
        (
            "duration(self.i) > duration('1s')",
            "type conversion error from 'int' to 'google.protobuf.Duration'",
        ),
        ("optional.none().orValue(self.l[9]) == 1", "index out of bounds: 9"),
        ("self.at.getHours('Moon') == 1", "unknown time zone Moon"),
        ("quantity('0.5').asInteger() == 1", "cannot convert value to integer"),
        ("quantity('1mm') == quantity('1')", "unable to parse quantity's suffix"),
        (
            "(self.s + '%d').format([dyn('x')]) == ''",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("(self.s + '%d %d').format([1]) == ''", "index 1 out of range"),
        ("(self.s + '%').format([1]) == ''", "unexpected end of string"),
        (
            "(self.s + '%z').format([1]) == ''",
            "could not parse formatting clause: unrecognized formatting clause \"z\"",
        ),
        (
            "(self.s + '%s').format([[dyn(ip('::1'))]]) == ''",
            "error during formatting: no formatting function for net.IP",
        ),
        (
            "url('a b').getHost() == ''",
            "URL parse error during conversion from string: parse \"a b\": invalid URI for request",
        ),
    ] {
        assert_eq!(value(text, 100_000), Err(error.to_owned()), "{text}");
    }
}

/// The messages are those of Kubernetes 1.37.
// contract: E-26h
#[test]
fn named_formats_have_the_messages_of_kubernetes() {
    let long = "a".repeat(64);
    for (format, text, expected) in [
        ("dns1123Label", "a.b", Some("must not contain dots")),
        ("dns1123Label", &long, Some("must be no more than 63 characters")),
        ("dns1123LabelPrefix", "ab-", None),
        ("dns1123LabelPrefix", "A-", None),
        (
            "dns1123Subdomain",
            "a..b",
            Some("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"),
        ),
        ("dns1123SubdomainPrefix", "a-.b", Some("a lowercase RFC 1123 subdomain must consist of")),
        (
            "dns1035Label",
            "1a",
            Some("a DNS-1035 label must consist of lower case alphanumeric characters or '-'"),
        ),
        ("dns1035LabelPrefix", "1-", None),
        ("dns1035LabelPrefix", "", Some("a DNS-1035 label must consist of")),
        ("qualifiedName", "/x", Some("prefix part must be non-empty")),
        ("labelValue", &long, Some("must be no more than 63 bytes")),
        ("labelValue", "", None),
        ("uri", "a b", Some("parse \"a b\": invalid URI for request")),
        ("uri", "", Some("parse \"\": empty url")),
        ("uri", "http://a:x", Some("parse \"http://a:x\": invalid port \":x\" after host")),
        ("uri", "x:%zz", None),
        ("uuid", "x", Some("does not match the UUID format")),
        ("byte", "", Some("invalid base64")),
        ("date", "2026-13-01", Some("invalid date")),
        ("datetime", "2026", Some("invalid datetime")),
        ("datetime", "2026-01-01T00:00:00Z", None),
    ] {
        let validated = format!("format.named('{format}').value().validate('{text}')");
        let found = checked(&json!({"rule": format!("!{validated}.hasValue()"),
            "messageExpression": format!("{validated}.value().join('|')")}));
        match (found.as_slice(), expected) {
            ([], None) => {}
            ([one], Some(expected)) => {
                assert!(one.starts_with(&format!("Invalid value: {expected}")), "{text}: {one}");
            }
            _ => panic!("{format} {text:?}: {found:?}"),
        }
    }
}

/// Expressions that are refused, and a part of the error.
const REFUSED: &[(&str, &str)] = &[
    ("self.x == 1", "undefined field 'x'"),
    ("self.kept == 1", "undefined field 'kept'"),
    ("self.o.a == 1", "undefined field 'a'"),
    ("self.metadata.labels.size() == 0", "undefined field 'labels'"),
    ("other == 1", "undeclared reference to 'other' (in container '')"),
    ("self.s.foo()", "undeclared reference to 'foo' (in container '')"),
    ("math.abs(1) == 1", "undeclared reference to 'math.abs' (in container '')"),
    ("self.i == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
    ("self.i == null", "found no matching overload for '_==_' applied to '(int, null)'"),
    ("self.i + 1.0 > 1.0", "found no matching overload for '_+_' applied to '(int, double)'"),
    ("self.i.startsWith('a')", "found no matching overload for 'startsWith' applied to 'int.(string)'"),
    ("self.i.a", "type 'int' does not support field selection"),
    ("self.i.all(x, true)", "expression of type 'int' cannot be range of a comprehension"),
    ("self.l.all(x, x == 'a')", "found no matching overload for '_==_' applied to '(int, string)'"),
    ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
    ("[1, 'a'][0] == 'a'", "expected type 'int' but found 'string'"),
    ("{'a': 1, 'b': 'x'}.size() == 2", "expected type 'int' but found 'string'"),
    ("[1, dyn(2)].size() == 2", "expected type 'int' but found 'dyn'"),
    ("[null, 1].size() == 2", "expected type 'null' but found 'int'"),
    (
        "'%d'.format(['x']) == ''",
        "error during formatting: decimal clause can only be used on integers, was given string",
    ),
    ("'%d %d'.format([1]) == ''", "index 1 out of range"),
    ("'%d'.format([1, 2]) == ''", "too many arguments supplied to string.format (expected 1, got 2)"),
    ("'%s'.format([quantity('1')]) == ''", "timestamps, was given kubernetes.Quantity"),
    ("'%s'.format([[optional.of(1)]]) == ''", "timestamps, was given optional_type"),
    ("'%.2'.format([1.0]) == ''", "error while parsing precision: could not find end of precision specifier"),
    ("'%.f'.format([1.0]) == ''", "precision to integer: strconv.Atoi: parsing \"\": invalid syntax"),
    ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
    ("int(string('x')) == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
    ("uint(-1) == 1u", "program instantiation failed: unsigned integer overflow"),
    (
        "string(b'\\xff') == ''",
        "program instantiation failed: invalid UTF-8 in bytes, cannot convert to string",
    ),
    ("int('x') == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
    ("int('x')", "cel expression must evaluate to a bool"),
    ("self.l.all(i, v, i == '')", "found no matching overload for '_==_' applied to '(int, string)'"),
    ("self.i", "cel expression must evaluate to a bool"),
    ("self.s.size()", "cel expression must evaluate to a bool"),
    ("self.i ==", "Syntax error"),
    ("!!self.f", "'!!' and '--' are not supported"),
    ("authorizer.path('/a').check('get').allowed()", "undeclared reference to 'authorizer.path'"),
    ("self.any", "cel expression must evaluate to a bool"),
    ("self.s.matches('(')", "invalid matches argument"),
    ("self.long < duration('1 day')", "invalid duration argument"),
    ("self.at < timestamp('2026')", "invalid timestamp argument"),
];

#[test]
fn types_are_checked() {
    for (text, error) in REFUSED {
        let found = checked(&json!({"rule": text}));
        assert!(matches!(found.as_slice(), [one] if one.contains(error)), "{text}: {found:?}");
    }
    for text in [
        "self.i < 3.5",
        "1 - -1 == 2",
        "self.n > 1",
        "self.o != null",
        "dyn(1) == 'a' || true",
        "self.day != null",
        "self.none.sum() + 1.5 > 1.0 && self.l.filter(x, x > 9).sum() + 1 == 1",
        "[duration('1s')].filter(x, false).sum() == duration('0s') && [1u].filter(x, false).sum() == 0u",
        "lists.range(400).all(x, lists.range(400).exists_one(y, x == y))",
    ] {
        assert_eq!(checked(&json!({"rule": text})), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn rules_are_refused_as_in_go() {
    for (text, error) in [
        ("self.long < duration(5)", "invalid duration argument"),
        ("self.s.find('(') == ''", "program instantiation failed"),
        ("self.s.findAll('(', 2).size() == 1", "program instantiation failed"),
        ("quantity('1').sign() == 1", "found no matching overload for 'sign'"),
        ("self.o.a__b == 1", "undefined field 'a__b'"),
        ("int != null", "found no matching overload for '_!=_'"),
        ("self.s == '\\q'", "Syntax error"),
        ("self.f // !!\n && !!self.f", "'!!' and '--' are not supported"),
    ] {
        let found = checked(&json!({"rule": text}));
        assert!(matches!(found.as_slice(), [one] if one.contains(error)), "{text}: {found:?}");
    }
}

#[test]
fn evaluations_end() {
    let nested =
        "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))";
    for text in [
        nested,
        "lists.range(9223372036854775807).size() > 0",
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*(a*)*(a*)*b') || lists.range(100000).map(x, lists.range(1000)).size() > 0",
        "[1].map(a, lists.range(300000).map(b, string(b)).join('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')).size() > 0 && lists.range(300000).distinct().size() > 0",
        "'%.99999999999f'.format([1.0]) == ''",
    ] {
        let found = value(text, 1_000_000);
        assert!(found.is_err(), "{text}: {found:?}");
    }
    // long texts are not compared, and patterns are not compiled, for one unit
    let long = "a".repeat(3000);
    for (text, budget) in [
        (format!("lists.range(20000).all(i, '{long}' == '{long}')"), 1_000_000),
        ("lists.range(200).all(i, !'a'.matches('(x{900}|' + string(i) + '){2}'))".to_owned(), 10_000),
    ] {
        assert_eq!(value(&text, budget), Err("exceeded".into()));
    }
    // a text that doubles
    let doubled = format!("{}['a']{} == ''", "", ".map(x, x + x)".repeat(30));
    assert_eq!(value(&doubled, 1_000_000), Err("exceeded".into()));
    let long = format!("[1]{}.size() > 0", ".map(x, x)".repeat(29));
    assert_eq!(value(&long, 1_000_000), Ok(true));
}

#[test]
fn long_expressions_are_refused() {
    for text in [
        "(".repeat(2000),
        "[".repeat(2000),
        "-".repeat(2000),
        "!".repeat(2000),
        "- ".repeat(1000),
        format!("1{}", " + 1".repeat(500)),
        format!("self{}", ".a".repeat(1000)),
        format!("self{}", "[0]".repeat(600)),
        format!("true{}", " ? true : true".repeat(150)),
        format!("{}1", "1 - ".repeat(500)),
        "1".repeat(40_000),
        "{".repeat(2000),
    ] {
        let found = checked(&json!({"rule": text}));
        assert!(matches!(found.as_slice(), [one] if one.contains("compil")), "{found:?}");
    }
    // conditions of many parts are balanced
    let many = format!("true{}", " && self.i == 3".repeat(100));
    assert_eq!(checked(&json!({"rule": many})), Vec::<String>::new());
}

/// Parts of expressions that may be put together.
const PARTS: &str = "self self.i self.n self.s self.f self.any self.l self.set self.items self.m self.o self.no self.numbers self.none self.times self.raws self.day \
    self.at self.long self.raw self.kept oldSelf 1 -1 0 1.5 2u 'a' '%d%s%f' b'a' true null [] {} [1,2] {'a':1} \
    quantity('1') ip('::1') cidr('::/0') semver('1.2.3') url('/a') duration('1s') timestamp('9999-12-31T23:59:59Z') \
    optional.none() 9223372036854775807 '1' format.uuid() int x";
const OPERATORS: &str = "+ - * / % == != < <= > >= && || in";
const METHODS: &str = "size charAt indexOf lastIndexOf substring replace split join format slice sort sum min max \
    distinct flatten first last reverse isSorted matches find findAll startsWith contains trim lowerAscii getFullYear \
    getDayOfYear getHours getMilliseconds orValue or value hasValue isGreaterThan compareTo add sub asInteger \
    asApproximateFloat sign isInteger masked containsIP containsCIDR prefixLength family major validate getQuery a k";
const FUNCTIONS: &str = "int uint double string bytes bool type dyn duration timestamp quantity ip cidr semver isSemver \
    lists.range sets.contains sets.equivalent strings.quote format.named optional.of optional.ofNonZeroValue size isIP \
    ip.isCanonical url isURL";
const MACROS: &str = "all(x, exists(x, exists_one(x, map(x, filter(x, all(x,y, exists(x,y, transformList(x,y, \
    transformMap(x,y, transformMapEntry(x,y, sortBy(x, optMap(x,";

fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(words.split_whitespace().collect::<Vec<_>>())
}

fn expression() -> impl Strategy<Value = String> {
    one_of(PARTS).prop_map(str::to_owned).prop_recursive(5, 40, 3, |inner| {
        let arguments = prop::collection::vec(inner.clone(), 0..3).prop_map(|arguments| arguments.join(", "));
        prop_oneof![
            (inner.clone(), one_of(OPERATORS), inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), one_of(METHODS), arguments.clone())
                .prop_map(|(a, name, arguments)| format!("({a}).{name}({arguments})")),
            (one_of(FUNCTIONS), arguments).prop_map(|(name, arguments)| format!("{name}({arguments})")),
            (inner.clone(), one_of(MACROS), inner.clone())
                .prop_map(|(a, name, b)| format!("({a}).{name} {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    })
}

#[test]
fn sets_of_lists_are_not_compared() {
    let set = json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}},
        "x-kubernetes-list-type": "set", "x-kubernetes-validations": [{"rule": "self == self"}]});
    let mut schema = Structural::parse(&set);
    compile(&mut schema);
    let subject = Subject { value: &json!([[1], [2]]), old: None::<Old<'_>>, is_object: false };
    let found = faults("", subject, &schema);
    let why = "listSet operations are only supported on lists of scalar values";
    assert!(matches!(found.causes.as_slice(), [one] if one.message.contains(why)), "{found:?}");
}

/// Costs of cel-go.
#[test]
fn work_is_counted_as_in_go() {
    for (text, units) in [
        ("[1, 2, 3].all(x, true)", 20),
        ("true ? false : 1 > 3", 0),
        ("[1,2,3,4,5].filter(x, x % 2 == 0).size() == 2", 64),
        ("[1,2,3,4,5].map(x, x).size() == 5", 88),
        ("[1,2,3,4,5].map(x, x).exists(x, x == 5) == true", 118),
        ("'abcdefghij' == 'abcdefghij' && true || false", 1),
        ("self.i == 3", 3),
        ("has(self.i)", 1),
    ] {
        let (schema, object) = (Structural::parse(&schema()), object());
        let expression = parse(text).unwrap();
        let variables = vec![("self", Ok(Val::Object(object.as_object().unwrap(), Shape::of_root(&schema))))];
        let (mut budget, library) = (Budget(1_000_000), Library::default());
        Evaluation { variables, budget: &mut budget, library: &library }.value(&expression).unwrap();
        let free = library.steps() / FREE_STEPS;
        assert!(
            (units..=units + free + 1).contains(&(1_000_000 - budget.0)),
            "{text}: {}",
            1_000_000 - budget.0
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// No expression panics, except in the functions of the library, which are contained.
    #[test]
    fn random_expressions_end(text in expression()) {
        let _ = std::panic::catch_unwind(|| value(&text, 100_000));
        let found = checked(&json!({"rule": text}));
        prop_assert!(found.len() <= 1, "{:?}", found);
    }

    /// An expression of a known type has no overload error.
    #[test]
    fn checked_expressions_have_overloads(text in expression()) {
        let found = checked(&json!({"rule": &text}));
        let is_dynamic = ["any", "dyn", "null", "getDay", "{}", "[]"].iter().any(|part| text.contains(part));
        prop_assert!(is_dynamic || found.iter().all(|text| !text.contains("no such overload")), "{:?}", found);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,40}") {
        let found = checked(&json!({"rule": text}));
        prop_assert!(found.len() <= 1);
    }
}
