//! Label selectors: `app=web,tier in (a,b),!legacy`.

use serde_json::Value;

use crate::builtin::names;
use crate::status::Status;

/// A label selector: the conjunction of its requirements.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl LabelSelector {
    /// Follows Kubernetes 1.37 (`labels.Parse`).
    ///
    /// # Errors
    /// 400 for invalid syntax, keys or values.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let mut parser = Parser { tokens: tokens(text), position: 0 };
        let mut requirements = Vec::new();
        if parser.peek() == Token::End {
            return Ok(Self::default());
        }
        loop {
            requirements.push(
                parser.requirement().map_err(|problem| {
                    Status::bad_request(format!("unable to parse requirement: {problem}"))
                })?,
            );
            match parser.next() {
                Token::End => break,
                Token::Symbol(",") if matches!(parser.peek(), Token::Word(_) | Token::Symbol("!")) => {}
                Token::Symbol(",") => {
                    let found = parser.peek().shown().to_owned();
                    return Err(Status::bad_request(format!(
                        "found '{found}', expected: identifier after ','"
                    )));
                }
                other => {
                    let found = other.shown();
                    return Err(Status::bad_request(format!(
                        "found '{found}', expected: ',' or 'end of string'"
                    )));
                }
            }
        }
        Ok(Self { requirements })
    }

    /// Returns the selector of a `LabelSelector` object, which null and an empty object are as well: they select all. `None`
    /// for an invalid one.
    pub(crate) fn of_json(selector: &Value) -> Option<Self> {
        let members = |field: &str| selector.get(field).and_then(Value::as_object).into_iter().flatten();
        let of_labels = members("matchLabels").map(|(key, value)| {
            let operator = Operator::In(vec![value.as_str()?.to_owned()]);
            Some(Requirement { key: key.clone(), operator })
        });
        let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        let of_expressions = expressions.map(|expression| {
            let key = expression.get("key")?.as_str()?.to_owned();
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(|value| value.as_str().map(str::to_owned)).collect();
            let operator = match expression.get("operator")?.as_str()? {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            Some(Requirement { key, operator })
        });
        let requirements = of_labels.chain(of_expressions).collect::<Option<Vec<_>>>()?;
        Some(Self { requirements })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels matches.
    pub(crate) fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = label(&requirement.key);
            match &requirement.operator {
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
                Operator::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
                Operator::GreaterThan(bound) => number(value).is_some_and(|number| number > *bound),
                Operator::LessThan(bound) => number(value).is_some_and(|number| number < *bound),
            }
        })
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

impl Token {
    fn shown(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let symbol =
            ["==", "!=", "=", "!", "(", ")", ",", "<", ">"].into_iter().find(|s| rest.starts_with(s));
        if let Some(symbol) = symbol {
            out.push(Token::Symbol(symbol));
            rest = rest.get(symbol.len()..).unwrap_or("");
        } else {
            let ends = |c: char| c.is_whitespace() || "=!(),<>".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len()).max(first.len_utf8());
            let (word, after) = rest.split_at(end);
            out.push(Token::Word(word.to_owned()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    out
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.position).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.position += 1;
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.shown())),
        };
        check_key(&key)?;
        if absent {
            return Ok(Requirement { key, operator: Operator::DoesNotExist });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement { key, operator: Operator::Exists });
        }
        let operator = match self.next() {
            Token::Symbol("=" | "==") => Operator::In(vec![self.value()?]),
            Token::Symbol("!=") => Operator::NotIn(vec![self.value()?]),
            Token::Symbol(">") => Operator::GreaterThan(self.bound()?),
            Token::Symbol("<") => Operator::LessThan(self.bound()?),
            Token::Word(word) if word == "in" => Operator::In(self.values()?),
            Token::Word(word) if word == "notin" => Operator::NotIn(self.values()?),
            other => {
                let found = other.shown();
                return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        Ok(Requirement { key, operator })
    }

    /// Parses one value, which may be missing: `key=` matches the empty value.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::Word(word) => {
                self.position += 1;
                check_value(&word)?;
                Ok(word)
            }
            Token::End | Token::Symbol(",") => Ok(String::new()),
            other => Err(format!("found '{}', expected: identifier", other.shown())),
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.shown())),
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                Token::Word(word) => {
                    self.position += 1;
                    check_value(&word)?;
                    values.push(word);
                }
                Token::Symbol("," | ")") => values.push(String::new()),
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.shown())),
            }
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", other.shown())),
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    checked("key", key, &names::qualified_name(key))
}

fn check_value(value: &str) -> Result<(), String> {
    checked("values[0]", value, &names::label_value(value))
}

fn checked(field: &str, text: &str, broken: &[String]) -> Result<(), String> {
    match broken {
        [] => Ok(()),
        rules => Err(format!("{field}: Invalid value: {text:?}: {}", rules.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector = LabelSelector::parse(selector).unwrap();
        selector.matches(|name| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
    }

    // contract: E-03d
    #[test]
    fn whole_grammar_parses() {
        let web = &[("app", "web"), ("tier", "front"), ("n", "5"), ("example.com/x", "")];
        for (selector, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("! missing", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web , tier = front", true),
            ("app=web,tier=back", false),
            ("app!=web", false),
            ("missing!=web", true),
            ("app in (web, db)", true),
            ("app in (db)", false),
            ("app notin (db,cache)", true),
            ("missing notin (a)", true),
            ("app in (web),!missing,tier", true),
            ("n>4", true),
            ("n > 5", false),
            ("n<6", true),
            ("missing<6", false),
            ("example.com/x=", true),
            ("app=", false),
            ("example.com/x in (,a)", true),
        ] {
            assert_eq!(selects(selector, web), expected, "{selector:?}");
        }
    }

    #[test]
    fn invalid_selectors_are_bad_requests() {
        for bad in [
            "=",
            "app=web=x",
            "app in",
            "app in web",
            "app in (a",
            "a,,b",
            "a,",
            "!",
            "a b",
            "n>x",
            "app=we b",
            "-x",
            "app=-",
            "/x",
            "a/b/c",
            "Ä=1",
            "app in (é)",
            "app=web)",
            "(a)",
        ] {
            let status = LabelSelector::parse(bad).unwrap_err();
            assert_eq!((status.code(), status.reason()), (400, "BadRequest"), "{bad:?}: {status}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,40}") {
            let _ = LabelSelector::parse(&text);
        }

        #[test]
        fn sets_agree_with_a_model(values in proptest::collection::vec("[a-c]", 1..4), value in "[a-d]") {
            let list = values.join(",");
            let labels = [("k", value.as_str())];
            prop_assert_eq!(selects(&format!("k in ({list})"), &labels), values.contains(&value));
            prop_assert_eq!(selects(&format!("k notin ({list})"), &labels), !values.contains(&value));
        }
    }
}
