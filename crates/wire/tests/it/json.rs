//! JSON decodes as by serde_json, into types of every form.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::fmt::Debug;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kinformer_wire::{Encoding, ObjectDecoder};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::common::field;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Shape {
    Point,
    Circle(u8),
    Line(i8, i8),
    Square { side: f32 },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "type")]
enum Tagged {
    One { one: u8 },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Text(String),
    Many(Vec<Untagged>),
    Named(BTreeMap<String, Untagged>),
}

#[derive(Debug, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
enum Name {
    A,
    B,
}

/// A type that ignores a value that does not decode.
#[derive(Debug, PartialEq)]
struct Lenient<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(T::deserialize(deserializer).ok()))
    }
}

/// A type that accepts only numbers of 128 bits.
#[derive(Debug, PartialEq)]
struct Wide(i128);

impl<'de> Deserialize<'de> for Wide {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;

        impl serde::de::Visitor<'_> for Visit {
            type Value = Wide;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number")
            }

            fn visit_i128<E>(self, number: i128) -> Result<Wide, E> {
                Ok(Wide(number))
            }
        }

        deserializer.deserialize_i128(Visit)
    }
}

#[derive(Debug, Deserialize, PartialEq)]
struct Unit;

#[derive(Debug, Deserialize, PartialEq)]
struct Pair(u8, Option<bool>);

#[derive(Debug, Deserialize, PartialEq)]
struct Flat<'a> {
    a: Option<u8>,
    #[serde(borrow)]
    text: Option<&'a str>,
    #[serde(flatten)]
    rest: BTreeMap<Cow<'a, str>, Value>,
}

/// Whether a value decodes. Panics if the result differs from that of serde_json.
fn same<'de, T: Deserialize<'de> + Debug + PartialEq>(json: &'de str) -> bool {
    let expected = serde_json::from_str::<T>(json);
    let decoded = ObjectDecoder::json().decode::<T>(json.as_bytes());
    match (decoded, expected) {
        (Ok(decoded), Ok(expected)) => {
            assert_eq!(decoded, expected, "{json}");
            true
        }
        (Err(_), Err(_)) => false,
        (decoded, expected) => panic!("{json}: {decoded:?}, serde_json {expected:?}"),
    }
}

/// The number of types that the value decodes into: one type for each method of a deserializer.
fn count(json: &str) -> usize {
    let forms = [
        same::<Value>(json),
        same::<bool>(json),
        same::<i8>(json),
        same::<u64>(json),
        same::<i128>(json),
        same::<u128>(json),
        same::<f64>(json),
        same::<char>(json),
        same::<&str>(json),
        same::<String>(json),
        same::<Cow<'_, str>>(json),
        same::<()>(json),
        same::<Unit>(json),
        same::<Option<Vec<Value>>>(json),
        same::<(u8, String)>(json),
        same::<[u8; 2]>(json),
        same::<Pair>(json),
        same::<Vec<Option<f64>>>(json),
        same::<BTreeMap<String, Value>>(json),
        same::<BTreeMap<i16, u8>>(json),
        same::<BTreeMap<u128, u8>>(json),
        same::<BTreeMap<char, u8>>(json),
        same::<BTreeMap<Name, u8>>(json),
        same::<HashMap<Option<String>, u8>>(json),
        same::<Flat<'_>>(json),
        same::<Shape>(json),
        same::<Vec<Shape>>(json),
        same::<Tagged>(json),
        same::<Untagged>(json),
        same::<Result<u8, String>>(json),
        same::<Wide>(json),
    ];
    let ignored = ObjectDecoder::json().decode::<IgnoredAny>(json.as_bytes()).is_ok();
    assert_eq!(ignored, serde_json::from_str::<IgnoredAny>(json).is_ok(), "{json}");
    let raw = ObjectDecoder::json().decode::<&RawValue>(json.as_bytes()).ok().map(RawValue::get);
    assert_eq!(raw, serde_json::from_str::<&RawValue>(json).ok().map(RawValue::get), "{json}");
    forms.into_iter().filter(|decodes| *decodes).count()
}

/// Types of every form decode as by serde_json.
// contract: L-25a
#[test]
fn types_decode_as_by_serde_json() {
    let texts = [
        "null",
        " true ",
        "false",
        "0",
        "-0",
        "-1",
        "255",
        "256",
        "1.5",
        "-2e3",
        "1E+2",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "1e400",
        "\"\"",
        "\"a\"",
        "\"é\"",
        "\"\\u00e9\\n\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\x\"",
        "[]",
        "[1]",
        "[1,\"a\"]",
        "[1,null]",
        "[1,2,3]",
        "[[1],[2]]",
        "{}",
        "{\"a\":1}",
        "{\"a\":1,\"text\":\"t\",\"b\":[{}]}",
        "{\"1\":2}",
        "{\"-1\":2}",
        "{\"true\":2}",
        "{\"01\":2}",
        "{\"+1\":2}",
        "{\"-0\":2}",
        "{\" 1\":2}",
        "{\"1\":2,\"01\":3}",
        "[{]",
        "[[1,]",
        "[1e400]",
        "[1,{},[2]]",
        "[\"\\ud800\",1]",
        "{\"zz\":[,\"a\":1}",
        "{\"b\":2,\"a\":1}",
        "{\"\\u0061\":1}",
        "{\"x\":{\"y\":[null]}}",
        "\"point\"",
        "{\"point\":null}",
        "{\"circle\":7}",
        "{\"circle\":7,\"point\":null}",
        "{\"line\":[1,-2]}",
        "{\"line\":[1]}",
        "{\"line\":[1,2,3]}",
        "{\"square\":{\"side\":0.5}}",
        "{\"square\":[0.5]}",
        "[\"point\",{\"circle\":1}]",
        "{\"type\":\"One\",\"one\":3}",
        "{\"one\":3,\"type\":\"One\"}",
        "{\"Ok\":1}",
        "{\"Err\":\"a\"}",
        "{\"a\":1,\"a\":2}",
        "",
        " ",
        "{",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{1:2}",
        "{\"a\":1 \"b\":2}",
        "[1 2]",
        "]",
        "}",
        "[}",
        "{]",
        "nul",
        "nulll",
        "tru",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "\"",
        "\"\\",
        "\"\u{1}\"",
        "1 2",
        "{} x",
        "[1],",
        "\u{feff}1",
        "[1]\n\t\r ",
    ];
    // serde_json cannot report keys that are not bools and not ASCII, so they are not compared.
    assert!(
        same::<BTreeMap<bool, u8>>("{\"true\":2,\"false\":0}") && !same::<BTreeMap<bool, u8>>("{\"a\":2}")
    );
    let decoded: usize = texts.iter().map(|json| count(json)).sum();
    assert!(decoded > 100, "{decoded}");
}

#[test]
fn bytes_decode_from_string_or_list() {
    assert!(same::<CString>("\"a\\n\"") && same::<CString>("\"é\"") && same::<CString>("[97]"));
    assert!(!same::<CString>("{}") && !same::<CString>("7"));
}

/// A value that a type refuses is not consumed: malformed JSON stays an error for a type that continues.
#[test]
fn refused_value_is_not_consumed() {
    let decoder = ObjectDecoder::json();
    for json in ["[{]", "[{},1]", "[{\"a\":[}]"] {
        assert!(decoder.decode::<Vec<Lenient<Vec<u8>>>>(json.as_bytes()).is_err(), "{json}");
        assert!(decoder.decode::<Vec<Lenient<String>>>(json.as_bytes()).is_err(), "{json}");
    }
    let lenient = decoder.decode::<Vec<Lenient<u8>>>(b"[1, \"a\", null]").unwrap();
    assert_eq!(lenient, [Lenient(Some(1)), Lenient(None), Lenient(None)]);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\\\\]{0,2}", inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Valid and damaged values decode as by serde_json.
    // contract: L-25a
    #[test]
    fn values_decode_as_by_serde_json(value in value(), is_pretty: bool, index: prop::sample::Index, byte in ".") {
        let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        count(&text);
        // A damaged and a truncated value.
        let mut broken: Vec<char> = text.chars().collect();
        let index = index.index(broken.len());
        broken[index] = byte.chars().next().unwrap();
        count(&broken.iter().collect::<String>());
        broken.truncate(index);
        count(&broken.iter().collect::<String>());
    }
}

fn revision<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "apps/v1", "ControllerRevision").unwrap();
    let message = field(2, &field(1, json.as_bytes()));
    decoder.decode(&message).map_err(|error| error.to_string())
}

/// Trailing characters in JSON within protobuf are an error.
// contract: L-25b
#[test]
fn embedded_json_is_read_to_its_end() {
    for (json, is_sound) in [
        ("{\"a\":[1]}", true),
        (" 7 ", true),
        ("{\"a\":1} x", false),
        ("{\"a\":1}}", false),
        ("7 8", false),
        ("{\"a\":", false),
        ("[1,]", false),
    ] {
        let decoded = revision::<ControllerRevision>(json);
        assert_eq!(decoded.is_ok(), is_sound, "{json}");
        assert_eq!(revision::<Value>(json).is_ok(), is_sound, "{json}");
        if let Ok(revision) = decoded {
            assert_eq!(revision.data.0, serde_json::from_str::<Value>(json).unwrap());
        }
    }
}

// contract: L-25g
#[test]
fn error_has_position_in_json() {
    #[derive(Debug, Deserialize)]
    struct Typed {
        #[serde(rename = "data")]
        _data: Data,
    }
    #[derive(Debug, Deserialize)]
    struct Data {
        #[serde(rename = "a")]
        _a: u8,
    }
    let error =
        ObjectDecoder::json().decode::<Typed>(b"{\n \"data\": {\"a\":true}}").unwrap_err().to_string();
    assert!(error.contains("invalid type: boolean `true`, expected u8, at line 2 column 19"), "{error}");
    let error = revision::<Typed>("{\"a\":\"b\"}").unwrap_err();
    assert!(error.starts_with("ControllerRevision, in data,"), "{error}");
    assert!(error.contains("invalid type: string \"b\", expected u8, at line 1 column 9"), "{error}");
    let error = ObjectDecoder::json().decode::<Typed>(b"{\"data\"}").unwrap_err().to_string();
    assert!(error.contains("a colon is expected, at line 1 column 8"), "{error}");
}
