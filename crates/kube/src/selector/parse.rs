//! The parser of label selectors, and the rules for label keys and values.

use super::error::{SelectorError, SelectorProblem};
use super::requirement::{Operator, Requirement};

/// Parses the whole string.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { text, position: 0 };
    let mut requirements = Vec::new();
    if parser.peek().symbol == Symbol::End {
        return Ok(requirements);
    }
    loop {
        requirements.push(parser.requirement()?);
        let after = parser.next();
        match after.symbol {
            Symbol::End => return Ok(requirements),
            Symbol::Comma => {}
            _ => return Err(parser.expected("',' or end of input", after)),
        }
    }
}

/// Checks and converts one match expression.
pub(super) fn requirement(
    key: &str,
    operator: &str,
    values: &[String],
) -> Result<Requirement, SelectorError> {
    check_key(key)?;
    for value in values {
        check_value(key, value)?;
    }
    let operator = match (operator, values) {
        ("In", [_, ..]) => Operator::In(set(values.to_vec())),
        ("NotIn", [_, ..]) => Operator::NotIn(set(values.to_vec())),
        ("Exists", []) => Operator::Exists,
        ("DoesNotExist", []) => Operator::DoesNotExist,
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {
            let (key, operator, count) = (key.to_owned(), operator.to_owned(), values.len());
            return Err(SelectorProblem::Values { key, operator, count }.into());
        }
        _ => {
            let (key, operator) = (key.to_owned(), operator.to_owned());
            return Err(SelectorProblem::Operator { key, operator }.into());
        }
    };
    Ok(Requirement { key: key.to_owned(), operator })
}

fn set(mut values: Vec<String>) -> Vec<String> {
    values.sort_unstable();
    values.dedup();
    values
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Symbol {
    Word,
    Equals,
    NotEquals,
    Not,
    Open,
    Close,
    Comma,
    Less,
    Greater,
    End,
}

/// Longer symbols come first, because the first match is taken.
const SYMBOLS: [(&str, Symbol); 9] = [
    ("==", Symbol::Equals),
    ("!=", Symbol::NotEquals),
    ("=", Symbol::Equals),
    ("!", Symbol::Not),
    ("(", Symbol::Open),
    (")", Symbol::Close),
    (",", Symbol::Comma),
    ("<", Symbol::Less),
    (">", Symbol::Greater),
];
const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

#[derive(Clone, Copy)]
struct Token<'a> {
    symbol: Symbol,
    text: &'a str,
    position: usize,
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        let rest = self.text.get(self.position..).unwrap_or_default().trim_start_matches(BLANK);
        let position = self.text.len() - rest.len();
        if rest.is_empty() {
            return Token { symbol: Symbol::End, text: "", position };
        }
        match SYMBOLS.into_iter().find(|(text, _)| rest.starts_with(text)) {
            Some((text, symbol)) => Token { symbol, text, position },
            None => {
                let ends = |c: char| BLANK.contains(&c) || "=!(),<>".contains(c);
                let (text, _) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
                Token { symbol: Symbol::Word, text, position }
            }
        }
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position = token.position + token.text.len();
        token
    }

    fn expected(&self, expected: &'static str, found: Token<'_>) -> SelectorError {
        let problem = SelectorProblem::Syntax { expected, found: found.text.to_owned() };
        SelectorError::new(self.text, found.position, problem)
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let not = self.peek().symbol == Symbol::Not;
        if not {
            self.next();
        }
        let key = self.next();
        if key.symbol != Symbol::Word {
            return Err(self.expected(if not { "a key" } else { "a key or '!'" }, key));
        }
        self.check(key, check_key(key.text))?;
        let operator = if not { Operator::DoesNotExist } else { self.operator(key.text)? };
        Ok(Requirement { key: key.text.to_owned(), operator })
    }

    fn operator(&mut self, key: &str) -> Result<Operator, SelectorError> {
        if matches!(self.peek().symbol, Symbol::End | Symbol::Comma) {
            return Ok(Operator::Exists);
        }
        let operator = self.next();
        Ok(match (operator.symbol, operator.text) {
            (Symbol::Equals, _) => Operator::In(vec![self.value(key)?]),
            (Symbol::NotEquals, _) => Operator::NotIn(vec![self.value(key)?]),
            (Symbol::Greater, _) => Operator::GreaterThan(self.integer(key)?),
            (Symbol::Less, _) => Operator::LessThan(self.integer(key)?),
            (Symbol::Word, "in") => Operator::In(self.values(key)?),
            (Symbol::Word, "notin") => Operator::NotIn(self.values(key)?),
            _ => {
                return Err(
                    self.expected("'=', '==', '!=', '<', '>', 'in', 'notin', ',' or end of input", operator)
                );
            }
        })
    }

    /// Parses one value. A missing value is the empty string.
    fn value(&mut self, key: &str) -> Result<String, SelectorError> {
        let value = self.peek();
        match value.symbol {
            Symbol::Word => {
                self.next();
                self.check(value, check_value(key, value.text))?;
                Ok(value.text.to_owned())
            }
            Symbol::End | Symbol::Comma => Ok(String::new()),
            _ => Err(self.expected("a value, ',' or end of input", value)),
        }
    }

    fn integer(&mut self, key: &str) -> Result<i64, SelectorError> {
        let token = self.peek();
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            let problem = SelectorProblem::NotAnInteger { key: key.to_owned(), value };
            SelectorError::new(self.text, token.position, problem)
        })
    }

    /// Parses a set in parentheses. A missing value is the empty string.
    fn values(&mut self, key: &str) -> Result<Vec<String>, SelectorError> {
        let open = self.next();
        if open.symbol != Symbol::Open {
            return Err(self.expected("'('", open));
        }
        let mut values = Vec::new();
        loop {
            let value = self.peek();
            let expected = match value.symbol {
                Symbol::Word => {
                    self.next();
                    self.check(value, check_value(key, value.text))?;
                    "',' or ')'"
                }
                _ => "a value, ',' or ')'",
            };
            values.push(if value.symbol == Symbol::Word { value.text } else { "" }.to_owned());
            let after = self.next();
            match after.symbol {
                Symbol::Comma => {}
                Symbol::Close => return Ok(set(values)),
                _ => return Err(self.expected(expected, after)),
            }
        }
    }

    fn check(&self, token: Token<'_>, checked: Result<(), SelectorProblem>) -> Result<(), SelectorError> {
        checked.map_err(|problem| SelectorError::new(self.text, token.position, problem))
    }
}

/// The rules for label keys and values. Both are ASCII, so a length in bytes is a length in characters.
const NAME: &str =
    "up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or a digit";
const PREFIX: &str = "up to 253 lowercase letters, digits, '-' and '.' before the '/', each part beginning and \
    ending with a letter or a digit";

/// Checks a key, which is `name` or `prefix/name`. Follows Kubernetes 1.37 (`IsQualifiedName`).
fn check_key(key: &str) -> Result<(), SelectorProblem> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let lowercase = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        let inner = part.chars().all(|c| lowercase(c) || c == '-');
        inner && part.starts_with(lowercase) && part.ends_with(lowercase)
    };
    let rule = if !prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_part)) {
        PREFIX
    } else if !is_name(name) {
        NAME
    } else {
        return Ok(());
    };
    Err(SelectorProblem::Key { key: key.to_owned(), rule })
}

/// Checks a value, which is empty or a name. Follows Kubernetes 1.37 (`IsValidLabelValue`).
fn check_value(key: &str, value: &str) -> Result<(), SelectorProblem> {
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    Err(SelectorProblem::Value { key: key.to_owned(), value: value.to_owned(), rule: NAME })
}

fn is_name(text: &str) -> bool {
    let outer = |c: char| c.is_ascii_alphanumeric();
    let inner = text.chars().all(|c| outer(c) || "-_.".contains(c));
    inner && text.len() <= 63 && text.starts_with(outer) && text.ends_with(outer)
}
