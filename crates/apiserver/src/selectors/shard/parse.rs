//! The text of a shard selector: the part of CEL that it may use.

use std::ops::Range;

use super::{Field, ShardSelector};

/// The deepest nesting of expressions.
const MAX_DEPTH: usize = 100;

const OPERATORS: [(&str, &str); 6] =
    [("==", "_==_"), ("!=", "_!=_"), ("<=", "_<=_"), (">=", "_>=_"), ("<", "_<_"), (">", "_>_")];

/// One past the highest hash.
const END: u128 = 1 << 64;

impl ShardSelector {
    /// Follows Kubernetes 1.37 (`sharding.Parse`), apart from the errors of texts that are no expression of CEL.
    ///
    /// # Errors
    /// The reason why the text is no shard selector.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".into());
        }
        let mut parser = Parser { rest: text, depth: 0 };
        let expression = parser.any()?;
        if !parser.rest.is_empty() {
            return Err(parser.unexpected());
        }
        let mut found = Vec::new();
        collect(&expression, &mut found)?;
        let field = found.first().map(|(field, _)| *field).unwrap_or_default();
        if let Some((other, _)) = found.iter().find(|(other, _)| *other != field) {
            let (first, other) = (field.path(), other.path());
            return Err(format!("all shard ranges must use the same field, got {first:?} and {other:?}"));
        }
        Ok(Self { field, ranges: found.into_iter().map(|(_, range)| range).collect() })
    }
}

enum Expression<'a> {
    /// A call of a function or an operator, with its arguments.
    Call(&'a str, Vec<Self>),
    /// Names with dots between them.
    Path(Vec<&'a str>),
    Text(&'a str),
    Integer,
}

impl Expression<'_> {
    /// The number of the kind of expression in the messages of Kubernetes.
    fn kind(&self) -> u8 {
        match self {
            Self::Call(..) => 1,
            Self::Path(names) if names.len() == 1 => 3,
            Self::Text(_) | Self::Integer => 5,
            Self::Path(_) => 7,
        }
    }
}

/// Appends the ranges of an expression with their fields.
fn collect(expression: &Expression<'_>, found: &mut Vec<(Field, Range<u128>)>) -> Result<(), String> {
    let Expression::Call(function, arguments) = expression else {
        let kind = expression.kind();
        return Err(format!("unexpected expression kind {kind}; expected shardRange() call or || operator"));
    };
    match (*function, arguments.as_slice()) {
        ("_||_", arguments) => arguments.iter().try_for_each(|argument| collect(argument, found)),
        ("shardRange", [path, start, end]) => {
            let field = field(path)?;
            let (start, end) = (bound(start, "hexStart")?, bound(end, "hexEnd")?);
            if start >= end {
                return Err(format!("shard range start 0x{start:016x} must be less than end 0x{end:016x}"));
            }
            found.push((field, start..end));
            Ok(())
        }
        ("shardRange", arguments) => {
            Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()))
        }
        (other, _) => Err(format!("unsupported function {other:?}; only shardRange() and || are allowed")),
    }
}

fn field(path: &Expression<'_>) -> Result<Field, String> {
    let Expression::Path(names) = path else {
        return Err(format!(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {}",
            path.kind()
        ));
    };
    let path = names.join(".");
    Field::ALL.into_iter().find(|field| field.path() == path).ok_or_else(|| {
        format!("unsupported field path {path:?}; supported: object.metadata.uid, object.metadata.namespace")
    })
}

fn bound(expression: &Expression<'_>, name: &str) -> Result<u128, String> {
    let text = match expression {
        Expression::Text(text) => *text,
        Expression::Integer => return Err(format!("{name} must be a string literal, got int64")),
        other => {
            let kind = other.kind();
            return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"));
        }
    };
    let digits =
        text.strip_prefix("0x").ok_or_else(|| format!("{name} must have '0x' prefix, got {text:?}"))?;
    match digits.len() {
        0 => return Err(format!("{name}: hex value is required after '0x'")),
        length @ 18.. => {
            return Err(format!("{name}: hex value too long ({length} chars, max 17): {digits:?}"));
        }
        _ => {}
    }
    if let Some(other) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!("{name}: invalid hex character {:?} in {text:?}", other.to_string()));
    }
    // at most 17 digits
    let value = u128::from_str_radix(digits, 16).unwrap_or(u128::MAX);
    match digits.len() {
        17 if value != END => {
            Err(format!("{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {text:?}"))
        }
        16 | 17 => Ok(value),
        _ => Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean {:?}?)",
            format!("0x{digits:0>16}")
        )),
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Alternatives: `a || b`.
    fn any(&mut self) -> Result<Expression<'a>, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("CEL parse error: expression recursion limit exceeded: {MAX_DEPTH}"));
        }
        let expression = self.joined("||", "_||_", |parser| parser.joined("&&", "_&&_", Self::relation))?;
        self.depth -= 1;
        Ok(expression)
    }

    fn joined(
        &mut self,
        token: &str,
        function: &'static str,
        mut part: impl FnMut(&mut Self) -> Result<Expression<'a>, String>,
    ) -> Result<Expression<'a>, String> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.accept(token) {
            parts.push(part(self)?);
        }
        Ok(if parts.len() > 1 { Expression::Call(function, parts) } else { parts.remove(0) })
    }

    fn relation(&mut self) -> Result<Expression<'a>, String> {
        let left = self.primary()?;
        let operator = OPERATORS.into_iter().find(|(token, _)| self.accept(token));
        let Some((_, function)) = operator else { return Ok(left) };
        Ok(Expression::Call(function, vec![left, self.primary()?]))
    }

    fn primary(&mut self) -> Result<Expression<'a>, String> {
        if self.accept("(") {
            let inner = self.any()?;
            return self.expect(")").map(|()| inner);
        }
        for quote in ["'", "\""] {
            if self.accept_here(quote) {
                let (text, rest) = self.rest.split_once(quote).ok_or_else(|| self.unexpected())?;
                self.rest = rest.trim_start();
                return Ok(Expression::Text(text));
            }
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            self.word();
            return Ok(Expression::Integer);
        }
        let mut names = vec![self.name()?];
        while self.accept(".") {
            names.push(self.name()?);
        }
        if !self.accept("(") {
            return Ok(Expression::Path(names));
        }
        let mut arguments = Vec::new();
        while !self.accept(")") {
            if !arguments.is_empty() {
                self.expect(",")?;
            }
            arguments.push(self.any()?);
        }
        Ok(Expression::Call(names.last().copied().unwrap_or_default(), arguments))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.word() {
            "" => Err(self.unexpected()),
            name => Ok(name),
        }
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes a token, and the white space after it.
    fn accept(&mut self, token: &str) -> bool {
        let found = self.accept_here(token);
        if found {
            self.rest = self.rest.trim_start();
        }
        found
    }

    fn accept_here(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn unexpected(&self) -> String {
        match self.rest.chars().next() {
            Some(c) => format!("CEL parse error: unexpected character {c:?}"),
            None => "CEL parse error: unexpected end of the expression".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: &str = "'0x0000000000000000'";

    fn error(text: &str) -> String {
        ShardSelector::parse(text).unwrap_err()
    }

    // contract: E-30c
    #[test]
    fn faults_have_the_messages_of_kubernetes() {
        let known = [
            ("  ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
            ("hash(object)", "unsupported function \"hash\"; only shardRange() and || are allowed"),
            (
                "object.metadata.uid",
                "unexpected expression kind 7; expected shardRange() call or || operator",
            ),
            (
                "object.metadata.uid > '0x0'",
                "unsupported function \"_>_\"; only shardRange() and || are allowed",
            ),
            ("shardRange(object.metadata.uid, '0x0')", "shardRange() requires exactly 3 arguments, got 2"),
            (
                "shardRange('a', '0x0', '0x1')",
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
            ),
            (
                "shardRange(object.metadata.name, '0x0', '0x1')",
                "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, \
                 object.metadata.namespace",
            ),
        ];
        for (text, expected) in known {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    // contract: E-30c
    #[test]
    fn faults_of_bounds_have_the_messages_of_kubernetes() {
        let known = [
            ("8", "hexEnd must be a string literal, got int64"),
            ("hex(0)", "hexEnd must be a string literal (e.g. '0xff'), got expression kind 1"),
            ("'ff'", "hexEnd must have '0x' prefix, got \"ff\""),
            ("'0x'", "hexEnd: hex value is required after '0x'"),
            (
                "'0x000000000000000000'",
                "hexEnd: hex value too long (18 chars, max 17): \"000000000000000000\"",
            ),
            ("'0x0G'", "hexEnd: invalid hex character \"G\" in \"0x0G\""),
            (
                "'0x10000000000000001'",
                "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x10000000000000001\"",
            ),
            (
                "'0xff'",
                "hexEnd must be a 0x-prefixed 16-digit hex value, got \"0xff\" (did you mean \"0x00000000000000ff\"?)",
            ),
            (LOW, "shard range start 0x0000000000000000 must be less than end 0x0000000000000000"),
        ];
        for (end, expected) in known {
            assert_eq!(error(&format!("shardRange(object.metadata.uid, {LOW}, {end})")), expected);
        }
    }

    // contract: E-30c
    #[test]
    fn ranges_of_two_fields_are_refused() {
        let range = |field: &str| format!("shardRange(object.metadata.{field}, {LOW}, '0x8000000000000000')");
        assert_eq!(
            error(&format!("{} || {}", range("uid"), range("namespace"))),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \
             \"object.metadata.namespace\""
        );
    }

    // contract: E-30c
    #[test]
    fn texts_that_are_no_expression_are_refused() {
        for text in ["(", "shardRange(", "shardRange(a,", "'", "||", "a b", "é", "shardRange(a, 'b)"] {
            assert!(error(text).starts_with("CEL parse error: "), "{text}");
        }
        let deep = format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000));
        assert_eq!(error(&deep), "CEL parse error: expression recursion limit exceeded: 100");
    }
}
