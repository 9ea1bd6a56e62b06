//! Label selectors against a model of their operators.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kinformer::{LabelSelector, SelectorProblem};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

fn parsed(text: &str) -> LabelSelector {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

// contract: F-06b
#[test]
fn every_operator_matches() {
    let labels = [("app", "web"), ("n", "5"), ("example.com/x", ""), ("in", "notin"), ("word", "five")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    for (text, expected) in [
        ("", true),
        (" \t\r\n", true),
        ("app=web", true),
        ("app == web", true),
        ("app=api", false),
        ("missing=web", false),
        ("app!=web", false),
        ("app!=api", true),
        ("missing!=web", true),
        ("app in (api,web)", true),
        ("app in (api)", false),
        ("missing in (web)", false),
        ("app notin (api,web)", false),
        ("app notin (api)", true),
        ("missing notin (web)", true),
        ("app", true),
        ("missing", false),
        ("!app", false),
        ("! missing", true),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("n < 5", false),
        ("missing<6", false),
        ("word<6", false),
        ("word>0", false),
        ("app=web,n>4,!missing", true),
        ("app=web,n>5", false),
        ("example.com/x=", true),
        ("example.com/x", true),
        ("example.com/x in ()", true),
        ("example.com/x in (,a)", true),
        ("example.com/x in (a,)", true),
        ("example.com/x notin (a,,b)", false),
        ("app=,n", false),
        ("in in (in,notin)", true),
        ("notin notin (in)", true),
        ("in=notin", true),
    ] {
        assert_eq!(selects(&parsed(text), &labels), expected, "{text:?}");
    }
}

// contract: F-06b
#[test]
fn everything_and_nothing() {
    let none = BTreeMap::new();
    assert!(selects(&LabelSelector::everything(), &none));
    assert!(LabelSelector::everything().is_everything() && parsed("").is_everything());
    let nothing = LabelSelector::nothing();
    assert!(!nothing.is_everything());
    for labels in [none, [("nothing".to_owned(), String::new())].into()] {
        assert!(!selects(&nothing, &labels));
        assert!(!selects(&parsed(&nothing.to_string()), &labels));
    }
}

#[test]
fn text_is_canonical() {
    for (text, canonical) in [
        (" b , a = x ", "a=x,b"),
        ("a==x", "a=x"),
        ("a in (x)", "a=x"),
        ("a notin (x)", "a!=x"),
        ("a in (y, x, y)", "a in (x,y)"),
        ("a in ()", "a="),
        ("a in (x,)", "a in (,x)"),
        ("!a,a,!a", "a,!a"),
        ("n>007", "n>7"),
    ] {
        assert_eq!(parsed(text).to_string(), canonical, "{text:?}");
        assert_eq!(parsed(text), parsed(canonical));
    }
    assert_eq!(format!("{:?}", parsed("a = b")), "LabelSelector(\"a=b\")");
}

// contract: F-06b
#[test]
fn errors_contain_the_position() {
    let long = "a".repeat(64);
    let (long_key, long_value) = (format!("x, {long}"), format!("x={long}"));
    let long_prefix = format!("{}/x", "a".repeat(254));
    for (text, position, expected) in [
        ("=", 0, "expected a key or '!', found \"=\""),
        ("a,,b", 2, "expected a key or '!', found \",\""),
        ("a, ", 3, "expected a key or '!', found end of input"),
        (",a", 0, "expected a key or '!', found \",\""),
        ("!", 1, "expected a key, found end of input"),
        ("!!a", 1, "expected a key, found \"!\""),
        ("!a=b", 2, "expected ',' or end of input, found \"=\""),
        ("a=b=c", 3, "expected ',' or end of input, found \"=\""),
        ("a=b c", 4, "expected ',' or end of input, found \"c\""),
        ("a b", 2, "expected '=', '==', '!=', '<', '>', 'in', 'notin', ',' or end of input, found \"b\""),
        ("a=)", 2, "expected a value, ',' or end of input, found \")\""),
        ("a===b", 3, "expected a value, ',' or end of input, found \"=\""),
        ("a in b", 5, "expected '(', found \"b\""),
        ("a in", 4, "expected '(', found end of input"),
        ("a in (b", 7, "expected ',' or ')', found end of input"),
        ("a in (b c)", 8, "expected ',' or ')', found \"c\""),
        ("a in (", 6, "expected a value, ',' or ')', found end of input"),
        ("a in (b,=)", 8, "expected a value, ',' or ')', found \"=\""),
        ("a in (b))", 8, "expected ',' or end of input, found \")\""),
        ("n>x", 2, "n is compared with \"x\", which is not a 64-bit integer"),
        ("n<", 2, "n is compared with \"\", which is not a 64-bit integer"),
        ("n>9223372036854775808", 2, "not a 64-bit integer"),
        ("a, -x", 3, "\"-x\" is not a valid label key: up to 63"),
        ("a/b/c", 0, "\"a/b/c\" is not a valid label key"),
        ("/x", 0, "\"/x\" is not a valid label key: up to 253"),
        ("A.b/x", 0, "is not a valid label key"),
        ("a..b/x", 0, "is not a valid label key"),
        ("a/", 0, "is not a valid label key: up to 63"),
        ("ä=1", 0, "\"ä\" is not a valid label key"),
        ("a=-", 2, "\"-\" is not a valid label value (a): up to 63"),
        ("a in (b,é)", 8, "\"é\" is not a valid label value"),
        ("n>-5", 2, "\"-5\" is not a valid label value"),
        (&long_key, 3, "is not a valid label key"),
        (&long_value, 2, "is not a valid label value"),
        (&long_prefix, 0, "is not a valid label key"),
    ] {
        let error = text.parse::<LabelSelector>().expect_err(text);
        assert_eq!((error.selector(), error.position()), (Some(text), Some(position)), "{error}");
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
    let edge = format!("{}/{}={}", "a".repeat(253), "b".repeat(63), "c".repeat(63));
    assert_eq!(parsed(&edge).to_string(), edge);
}

fn expression(key: &str, operator: &str, values: &[&str]) -> meta::LabelSelector {
    let values = Some(values.iter().map(|value| (*value).to_owned()).collect());
    let expression =
        meta::LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values };
    meta::LabelSelector { match_expressions: Some(vec![expression]), match_labels: None }
}

// contract: F-06b
#[test]
fn selector_of_a_specification_is_converted() {
    let read = |selector: &meta::LabelSelector| LabelSelector::try_from(selector);
    let mut selector = expression("tier", "NotIn", &["b", "a"]);
    selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    assert_eq!(read(&selector).unwrap(), parsed("app=web,tier notin (a,b)"));
    assert_eq!(read(&expression("a", "In", &["x"])).unwrap(), parsed("a=x"));
    assert_eq!(read(&expression("a", "Exists", &[])).unwrap(), parsed("a"));
    assert_eq!(read(&expression("a", "DoesNotExist", &[])).unwrap(), parsed("!a"));
    assert!(read(&meta::LabelSelector::default()).unwrap().is_everything());

    let problem = |selector| {
        let error = read(&selector).unwrap_err();
        assert_eq!((error.selector(), error.position()), (None, None));
        error.problem().clone()
    };
    let is =
        |operator: &str, count| SelectorProblem::Values { key: "a".into(), operator: operator.into(), count };
    assert_eq!(problem(expression("a", "In", &[])), is("In", 0));
    assert_eq!(problem(expression("a", "NotIn", &[])), is("NotIn", 0));
    assert_eq!(problem(expression("a", "Exists", &["x"])), is("Exists", 1));
    assert_eq!(problem(expression("a", "DoesNotExist", &["x", "y"])), is("DoesNotExist", 2));
    let unknown = SelectorProblem::Operator { key: "a".into(), operator: "Gt".into() };
    assert_eq!(problem(expression("a", "Gt", &["5"])), unknown);
    assert!(matches!(problem(expression("-", "Exists", &[])), SelectorProblem::Key { .. }));
    assert!(matches!(problem(expression("a", "In", &["x", "-"])), SelectorProblem::Value { .. }));

    let error = meta::LabelSelector::try_from(&parsed("a,n>5")).unwrap_err();
    assert_eq!(*error.problem(), SelectorProblem::NotExpressible("n>5".into()));
}

/// A model of a requirement, independent of the implementation.
#[derive(Clone, Debug)]
enum Meaning {
    In(bool, Vec<String>),
    Exists(bool),
    Greater(i64),
    Less(i64),
}

impl Meaning {
    fn text(&self, key: &str) -> String {
        match self {
            Self::In(true, values) => format!("{key} in ({})", values.join(" ,")),
            Self::In(false, values) => format!("{key} notin ( {})", values.join(", ")),
            Self::Exists(true) => key.to_owned(),
            Self::Exists(false) => format!("!{key}"),
            Self::Greater(bound) => format!("{key} > {bound}"),
            Self::Less(bound) => format!("{key}<{bound}"),
        }
    }

    fn holds(&self, value: Option<&String>) -> bool {
        let Some(value) = value else { return matches!(self, Self::In(false, _) | Self::Exists(false)) };
        let number = value.parse::<i64>();
        match self {
            Self::In(wanted, values) => values.contains(value) == *wanted,
            Self::Exists(wanted) => *wanted,
            Self::Greater(bound) => number.is_ok_and(|number| number > *bound),
            Self::Less(bound) => number.is_ok_and(|number| number < *bound),
        }
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9]", "[a-c]", Just(String::new())]
}

fn meaning() -> impl Strategy<Value = Meaning> {
    prop_oneof![
        (any::<bool>(), vec(value(), 1..4)).prop_map(|(wanted, values)| Meaning::In(wanted, values)),
        any::<bool>().prop_map(Meaning::Exists),
        (0..10_i64).prop_map(Meaning::Greater),
        (0..10_i64).prop_map(Meaning::Less),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[k-m]", Just("x.io/k".to_owned()), Just("in".to_owned())]
}

proptest! {
    // contract: F-06b
    #[test]
    fn selectors_agree_with_a_model_and_round_trip(
        requirements in vec((key(), meaning()), 0..5),
        labels in btree_map(key(), value(), 0..5),
    ) {
        let texts: Vec<String> = requirements.iter().map(|(key, meaning)| meaning.text(key)).collect();
        let selector = parsed(&texts.join(" , "));
        let expected = requirements.iter().all(|(key, meaning)| meaning.holds(labels.get(key)));
        prop_assert_eq!(selects(&selector, &labels), expected, "{} {:?}", selector, labels);
        prop_assert_eq!(&parsed(&selector.to_string()), &selector);

        match meta::LabelSelector::try_from(&selector) {
            Ok(specified) => prop_assert_eq!(LabelSelector::try_from(&specified).unwrap(), selector),
            Err(_) => {
                let compares = |(_, meaning): &(_, Meaning)| matches!(meaning, Meaning::Greater(_) | Meaning::Less(_));
                prop_assert!(requirements.iter().any(compares));
            }
        }
    }

    /// The position of the error is within the text.
    #[test]
    fn any_text_round_trips_or_is_an_error(
        text in prop_oneof!["\\PC{0,30}", "[a-c=!(),<> in0-9./-]{0,12}"],
    ) {
        match text.parse::<LabelSelector>() {
            Ok(selector) => prop_assert_eq!(parsed(&selector.to_string()), selector),
            Err(error) => prop_assert!(error.position().unwrap() <= text.len()),
        }
    }
}
