//! The estimates of kube-apiserver 1.37 (`cel.Compile`) for a table of rules.

use serde_json::{Value, json};

use super::super::compile;
use crate::schema::structural::Structural;

fn schema() -> Value {
    let list = |items: Value, most: Value| json!({"type": "array", "items": items, "maxItems": most});
    let text = |most: i64| json!({"type": "string", "maxLength": most});
    let item =
        json!({"type": "object", "required": ["k"], "properties": {"k": text(12), "v": {"type": "integer"}}});
    let maps = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {
        "i": {"type": "integer"}, "n": {"type": "number"}, "s": text(100), "t": {"type": "string"},
        "f": {"type": "boolean"}, "en": {"type": "string", "enum": ["a", "bbbb"]},
        "any": {"x-kubernetes-int-or-string": true}, "l": list(json!({"type": "integer"}), json!(20)),
        "set": list(text(10), json!(7)), "items": list(item, Value::Null),
        "m": {"type": "object", "additionalProperties": text(5), "maxProperties": 9},
        "o": {"type": "object", "properties": {"a": {"type": "integer"}, "namespace": {"type": "string"}}},
        "long": {"type": "string", "format": "duration"}, "at": {"type": "string", "format": "date-time"},
        "raw": {"type": "string", "format": "byte"}, "deep": list(list(maps, json!(3)), Value::Null),
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}}})
}

// contract: E-26i
#[test]
fn costs_are_estimated_as_by_kubernetes() {
    let rules: Vec<Value> = COSTS.iter().map(|(rule, _)| json!({"rule": rule})).collect();
    let mut schema = schema();
    schema["x-kubernetes-validations"] = rules.into();
    let mut parsed = Structural::parse(&schema);
    compile(&mut parsed);
    let found = COSTS.iter().zip(&parsed.validations);
    let wrong: Vec<String> = found
        .filter(|((_, cost), rule)| rule.costs().0 != *cost || rule.condition().is_err())
        .map(|((text, cost), rule)| {
            format!("{text}: {cost}, found {:?} {:?}", rule.costs().0, rule.condition().err())
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[rustfmt::skip]
const COSTS: &[(&str, u64)] = &[
    ("self.i == 3", 2),
    ("self.i == 3 && self.s == 'x'", 5),
    ("self.s == self.t", 44),
    ("has(self.i) && self.f", 3),
    ("self.l.all(x, x > 0)", 103),
    ("self.l.exists(x, x == 2)", 103),
    ("self.l.exists_one(x, x == 2)", 64),
    ("self.l.map(x, x * 2).size() > 0", 295),
    ("self.l.filter(x, x > 1).size() == 2", 315),
    ("self.l.map(x, x > 1, x + 1).size() == 2", 335),
    ("self.l.all(x, self.l.all(y, x <= y))", 2_523),
    ("self.set.all(x, x.startsWith('a'))", 38),
    ("self.set.all(x, x == self.s)", 73),
    ("self.m.all(k, k == 'a')", 39),
    ("self.m.all(k, v, v == 'a')", 48),
    ("self.m.exists(k, v, v.size() > 2)", 66),
    ("self.l.exists_one(i, v, v == i)", 84),
    ("self.l.transformList(i, v, v + i).size() > 0", 315),
    ("self.l.transformList(i, v, v > 1, v).all(x, x > 1)", 414),
    ("self.m.transformMap(k, v, v + 'x').size() > 0", 98),
    ("self.m.transformMapEntry(k, v, {v: k}).size() > 0", 341),
    ("'x' + string(self.i) == self.s", 1_844_674_407_370_955_309),
    ("self.s + self.t == 'abc'", 314_618),
    ("self.s.matches('^a+$')", 43),
    ("self.s.contains('abc')", 42),
    ("self.s.contains(self.t)", 12_582_924),
    ("self.s.split(',').all(x, x.size() > 1)", 2_483),
    ("self.s.split(',', 3).all(x, x.size() > 1)", 101),
    ("self.s.replace('a', 'bb').size() > 3", 84),
    ("self.s.lowerAscii() == 'x'", 43),
    ("self.set.join(',') == 'x'", 32),
    ("self.set.map(x, x + 'b').join(',') == 'x'", 1_844_674_407_370_955_404),
    ("self.s.find('a+') == 'a'", 44),
    ("self.s.findAll('a+').size() == 2", 45),
    ("self.s in self.set", 11),
    ("'a' in self.m", 3),
    ("self.m['a'] == 'b'", 4),
    ("self.m.a == 'b'", 4),
    ("self.l[0] == 1", 3),
    ("self.set[0] == 'abcdefgh'", 4),
    ("self.items[0].k == 'abc'", 5),
    ("self.items.all(i, i.k == 'abc')", 1_887_435),
    ("self.items.exists(i, i.v > 3 && i.k.startsWith('ab'))", 3_145_723),
    ("self.items.map(i, i.k).exists(k, k == 'x')", 5_976_882),
    ("[1, 2, 3].all(x, x > 0)", 26),
    ("['a', 'bb'].all(x, x == self.s)", 23),
    ("{'a': 'b'}.all(k, k == 'a')", 35),
    ("[{'a': 1}, {'b': 2}].all(m, m.size() == 1)", 83),
    ("(self.f ? self.s : self.t) == 'xyz'", 5),
    ("self.f ? self.i > 1 : self.i < 5", 5),
    ("self.s < self.t", 44),
    ("self.any == 'x'", 3),
    ("self.any == 5", 3),
    ("type(self.any) == string ? self.any.matches('x') : self.any > 5", 314_579),
    ("self.any < 'x'", 3),
    ("dyn(self.s) == self.any", 45),
    ("quantity(self.s).isGreaterThan(quantity('1'))", 44),
    ("quantity(self.s) == quantity('1')", 44),
    ("isQuantity(self.s)", 42),
    ("isIP(self.s) && ip(self.s).family() == 4", 86),
    ("cidr(self.s).containsIP(self.t)", 314_621),
    ("cidr(self.s).containsCIDR(cidr(self.t))", 314_624),
    ("cidr(self.s).ip() == ip(self.t)", 314_619),
    ("isURL(self.s) && url(self.s).getHost() == 'x'", 47),
    ("url(self.s) == url(self.t)", 629_190),
    ("semver(self.s).isLessThan(semver(self.t))", 314_618),
    ("format.dns1123Label().validate(self.s).hasValue()", 1_284),
    ("format.named('uuid').value().validate(self.s).hasValue()", 1_285),
    ("sets.contains(self.set, ['a'])", 20),
    ("sets.equivalent(self.set, self.set)", 103),
    ("self.set.sort() == self.set", 119),
    ("self.l.sort().isSorted()", 1_213),
    ("self.set.distinct().size() == 1", 113),
    ("self.l.slice(1, 3).size() == 2", 17),
    ("[[1], [2]].flatten().size() == 2", 45),
    ("self.set.reverse().size() > 1", 22),
    ("lists.range(100).all(x, x > 1)", 612),
    ("self.set.isSorted()", 37),
    ("self.set.max() == 'x'", 38),
    ("self.l.sum() > 3", 23),
    ("self.set.indexOf('a') > 1", 38),
    ("self.s.indexOf('a') > 1", 43),
    ("self.items.sortBy(i, i.k).size() > 1", 207_811_044_733),
    ("self.l.sortBy(i, -i).size() > 1", 1_118),
    ("oldSelf.i == self.i", 4),
    ("self.?i.orValue(3) == 3", 4),
    ("self.l[?0].orValue(3) == 3", 5),
    ("optional.of(self.i).optMap(x, x + 1).orValue(2) == 1", 23),
    ("self.?s.optMap(x, x + 'a').orValue('b') == 'x'", 1_844_674_407_370_955_284),
    ("self.?s.optFlatMap(x, optional.of(x)).hasValue()", 19),
    ("self.long < duration('1h')", 4),
    ("self.at.getFullYear() == 2020", 4),
    ("string(self.at) == 'x'", 4),
    ("string(self.raw) == 'x'", 314_576),
    ("bytes(self.s).size() == 3", 44),
    ("size(self.s) == 3", 4),
    ("'%s %d'.format([self.s, self.i]) == 'x'", 16),
    ("strings.quote(self.s) == 'x'", 43),
    ("self.metadata.name == 'x'", 4),
    ("self.metadata.name.startsWith('x') && self.kind == 'Y'", 7),
    ("self.emb.kind == 'x'", 4),
    ("self.emb.metadata.name.size() > 1", 6),
    ("self.deep.all(a, a.all(b, b.all(c, c == 'x')))", 4_947_805_995_003),
    ("self.l + [4] == [1, 2, 3, 4]", 24),
    ("(self.set + ['x']).all(x, x == 'y')", 46),
    ("self == oldSelf", 2),
    ("self.items == oldSelf.items", 31_462),
    ("!self.f || self.i >= 2", 6),
    ("self.o.a == 1 && self.o.__namespace__ == 'x'", 7),
    ("int(self.s) == 5", 4),
    ("self.en == 'a'", 3),
    ("self.long == duration('1h')", 4),
    ("self.n > 1.5", 3),
    ("self.set.all(x, self.set.filter(y, y == x).size() == 1)", 1_060),
    ("self.set.filter(x, x.matches('^[a-z]+$')).map(x, x + '!').exists(x, x == 'a!')", 326),
    ("self.m.map(k, self.m[k]).all(v, v == 'x')", 194),
    ("self.s.substring(1, 3) == 'x' && self.s.trim().upperAscii() == 'A'", 126),
];
