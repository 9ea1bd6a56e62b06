//! Expressions over values without a schema, as admission has them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use kube_cel::cel::Value as Plain;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::objects::Key;
use serde_json::{Value, json};

use super::super::structural::Structural;
use super::checker::Checker;
use super::compile::{STACK, parse, parts};
use super::eval::Evaluation;
use super::fault::{Budget, Fault, Found};
use super::library::Library;
use super::shape::Shape;
use super::types::Type;
use super::value::{Val, text};

/// The budget of one expression. Follows Kubernetes 1.37.
const EXPRESSION_BUDGET: u64 = 1_000_000;

/// The fields of `request`, with their types.
///
/// Follows Kubernetes 1.37 (`BuildRequestType`).
static REQUEST: LazyLock<Structural> = LazyLock::new(|| {
    let kind = object(&["group", "version", "kind"]);
    let resource = object(&["group", "version", "resource"]);
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let extra = json!({"type": "object", "additionalProperties": texts});
    let user = json!({"type": "object", "properties": {"username": {"type": "string"}, "uid": {"type": "string"},
        "groups": texts, "extra": extra}});
    let mut request = object(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    let others = json!({"kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "userInfo": user, "dryRun": {"type": "boolean"}, "options": {"x-kubernetes-int-or-string": true}});
    add(&mut request, others);
    Structural::parse(&request)
});

/// The fields of `namespaceObject`, with their types.
///
/// Follows Kubernetes 1.37 (`BuildNamespaceType`).
static NAMESPACE: LazyLock<Structural> = LazyLock::new(|| {
    let time = json!({"type": "string", "format": "date-time"});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let mut metadata = object(&["name", "generateName", "namespace", "UID", "resourceVersion"]);
    let others = json!({"labels": map, "annotations": map, "creationTimestamp": time, "deletionTimestamp": time,
        "deletionGracePeriodSeconds": {"type": "integer"}, "generation": {"type": "integer"}, "finalizers": texts});
    add(&mut metadata, others);
    let mut condition = object(&["status", "type", "message", "reason"]);
    add(&mut condition, json!({"lastTransitionTime": time}));
    let mut status = object(&["phase"]);
    add(&mut status, json!({"conditions": {"type": "array", "items": condition}}));
    let spec = json!({"type": "object", "properties": {"finalizers": texts}});
    Structural::parse(
        &json!({"type": "object", "properties": {"metadata": metadata, "spec": spec, "status": status}}),
    )
});

static EMPTY: LazyLock<Structural> = LazyLock::new(|| Structural::parse(&json!({"type": "object"})));

fn object(texts: &[&str]) -> Value {
    let properties: serde_json::Map<_, _> =
        texts.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties})
}

fn add(object: &mut Value, others: Value) {
    let properties = object.get_mut("properties").and_then(Value::as_object_mut);
    if let (Some(properties), Value::Object(others)) = (properties, others) {
        properties.extend(others);
    }
}

/// What an expression may evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Any,
    Bool,
    Text,
    TextOrNull,
}

impl Expected {
    /// # Errors
    /// Why a type is not this one.
    fn check(self, of: &Type<'_>) -> Result<(), String> {
        let is_null = matches!(of, Type::Null);
        let shown = if is_null { "null_type".to_owned() } else { of.to_string() };
        match self {
            Self::Any => Ok(()),
            Self::Bool if *of == Type::Bool => Ok(()),
            Self::Text | Self::TextOrNull if *of == Type::String => Ok(()),
            Self::TextOrNull if is_null => Ok(()),
            Self::Bool => Err(format!("must evaluate to bool but got {shown}")),
            Self::Text => Err(format!("must evaluate to string but got {shown}")),
            Self::TextOrNull => Err(format!("must evaluate to one of [string null_type] but got {shown}")),
        }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    text: Box<str>,
    tree: IdedExpr,
    /// The indexes of the variables that it reads.
    reads: Vec<usize>,
}

#[derive(Debug)]
struct Variable {
    name: Box<str>,
    /// The identifier in compiled expressions.
    identifier: Box<str>,
    of: Type<'static>,
    expression: Result<Expression, String>,
}

/// Which names expressions can read, apart from those that all of them can.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names {
    pub(crate) has_params: bool,
    pub(crate) has_variables: bool,
}

/// What expressions can read.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    names: Names,
    variables: Vec<Variable>,
}

impl Scope {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, variables: Vec::new() }
    }

    /// Compiles an expression. The stack must be that of [`on_large_stack`].
    ///
    /// # Errors
    /// What is wrong with it, in the words of kube-apiserver.
    pub(crate) fn compile(&self, text: &str, expected: Expected) -> Result<Expression, String> {
        // the parser is not known to be free of panics
        catch_unwind(AssertUnwindSafe(|| self.checked(text, expected)))
            .unwrap_or_else(|_| Err("compilation failed: internal error".into()))
            .map(|(expression, _)| expression)
    }

    /// Adds a variable, which later expressions can read, also if it does not compile.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub(crate) fn declare(&mut self, name: &str, text: &str) -> Result<(), String> {
        let checked = catch_unwind(AssertUnwindSafe(|| self.checked(text, Expected::Any)))
            .unwrap_or_else(|_| Err("compilation failed: internal error".into()));
        let result = checked.as_ref().map(drop).map_err(Clone::clone);
        let (expression, of) = match checked {
            Ok((expression, of)) => (Ok(expression), of),
            Err(why) => (Err(why), Type::Dyn),
        };
        let identifier = format!("variables.{name}").into();
        self.variables.push(Variable { name: name.into(), identifier, of, expression });
        result
    }

    fn checked(&self, text: &str, expected: Expected) -> Result<(Expression, Type<'static>), String> {
        let failed = |why: String| format!("compilation failed: {why}");
        let mut tree = parse(text).map_err(failed)?;
        if reads_authorizer(&tree) {
            return Err(failed("kinformer-apiserver does not evaluate 'authorizer'".into()));
        }
        let mut reads = Vec::new();
        if self.names.has_variables {
            self.resolve(&mut tree, &mut reads);
        }
        let of = {
            let mut known = vec![
                ("object", Type::Dyn),
                ("oldObject", Type::Dyn),
                ("namespaceObject", Type::Object(Shape::of_variable(&NAMESPACE))),
                ("request", Type::Object(Shape::of_variable(&REQUEST))),
            ];
            known.extend(self.names.has_params.then_some(("params", Type::Dyn)));
            known.extend(
                self.names.has_variables.then(|| ("variables", Type::Object(Shape::of_variable(&EMPTY)))),
            );
            known.extend(self.variables.iter().map(|variable| (&*variable.identifier, variable.of.clone())));
            let checked = Checker::new(&known).check(&tree);
            checked.map_err(|why| failed(format!("ERROR: <input>: {why}")))?
        };
        expected.check(&of)?;
        Ok((Expression { text: text.into(), tree, reads }, of))
    }

    /// Replaces the fields of `variables` by identifiers.
    fn resolve(&self, tree: &mut IdedExpr, reads: &mut Vec<usize>) {
        if let Expr::Select(select) = &tree.expr
            && matches!(&select.operand.expr, Expr::Ident(name) if name == "variables")
        {
            let found = self.variables.iter().rposition(|variable| *variable.name == *select.field);
            let Some((index, variable)) = found.and_then(|at| Some((at, self.variables.get(at)?))) else {
                return;
            };
            if select.test {
                tree.expr = Expr::Literal(LiteralValue::Boolean(true.into()));
            } else {
                reads.push(index);
                tree.expr = Expr::Ident(variable.identifier.clone().into_string());
            }
            return;
        }
        match &mut tree.expr {
            Expr::Call(call) => {
                call.target.iter_mut().for_each(|target| self.resolve(target, reads));
                call.args.iter_mut().for_each(|argument| self.resolve(argument, reads));
            }
            Expr::Comprehension(loops) => {
                let loops = loops.as_mut();
                for part in [
                    &mut loops.iter_range,
                    &mut loops.accu_init,
                    &mut loops.loop_cond,
                    &mut loops.loop_step,
                    &mut loops.result,
                ] {
                    self.resolve(part, reads);
                }
            }
            Expr::List(list) => list.elements.iter_mut().for_each(|element| self.resolve(element, reads)),
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.resolve(&mut entry.key, reads);
                        self.resolve(&mut entry.value, reads);
                    }
                }
            }
            Expr::Select(select) => self.resolve(&mut select.operand, reads),
            Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }
}

fn reads_authorizer(tree: &IdedExpr) -> bool {
    let mut found = matches!(&tree.expr, Expr::Ident(name) if name == "authorizer");
    parts(tree, &mut |part| found = found || reads_authorizer(part));
    found
}

/// Runs a function with the stack that the parser needs; `None` if it cannot be run.
pub(crate) fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        thread.ok().and_then(|thread| thread.join().ok())
    })
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Bool(bool),
    Text(String),
    Null,
    /// Any other; the name of its type.
    Other(String),
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Error(String),
    /// The budget is used up.
    Exceeded,
}

impl Failure {
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Error(why) => why,
            Self::Exceeded => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .into()
            }
        }
    }
}

/// Evaluates the expressions of a scope for one request.
pub(crate) struct Evaluator<'s> {
    scope: &'s Scope,
    inputs: Vec<(&'static str, Val<'static>)>,
    /// The values of the variables that were read.
    values: Vec<Option<Found<Val<'static>>>>,
    library: Library,
    /// How much work is left.
    pub(crate) budget: u64,
}

impl<'s> Evaluator<'s> {
    pub(crate) fn new(scope: &'s Scope, inputs: &[(&'static str, &Value)], budget: u64) -> Self {
        let inputs = inputs.iter().map(|(name, value)| (*name, untyped(value))).collect();
        let values = vec![None; scope.variables.len()];
        Self { scope, inputs, values, library: Library::default(), budget }
    }

    /// Returns the value of an expression.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn evaluate(&mut self, expression: &Expression) -> Result<Output, Failure> {
        self.read(&expression.reads)?;
        match self.run(expression)? {
            Ok(Val::Plain(Plain::Bool(flag))) => Ok(Output::Bool(flag)),
            Ok(Val::Plain(Plain::String(text))) => Ok(Output::Text(text.to_string())),
            Ok(Val::Plain(Plain::Null)) => Ok(Output::Null),
            Ok(other) => Ok(Output::Other(other.type_name())),
            Err(fault) => Err(Failure::Error(format!(
                "expression '{}' resulted in error: {}",
                expression.text,
                why(fault)
            ))),
        }
    }

    /// Evaluates variables, after those that they read.
    fn read(&mut self, indexes: &[usize]) -> Result<(), Failure> {
        let scope = self.scope;
        let mut waiting = indexes.to_vec();
        while let Some(index) = waiting.last().copied() {
            let variable = scope.variables.get(index).filter(|_| self.is_missing(index));
            let Some(variable) = variable else {
                waiting.pop();
                continue;
            };
            let expression = variable.expression.as_ref();
            // each of them reads only earlier ones
            let before = waiting.len();
            let reads = expression.map_or(&[][..], |expression| &expression.reads);
            waiting.extend(reads.iter().copied().filter(|index| self.is_missing(*index)));
            if waiting.len() > before {
                continue;
            }
            let failed = |what: &str, why: String| {
                Err(Fault::Error(format!("composited variable {:?} fails to {what}: {why}", variable.name)))
            };
            let value = match expression {
                Err(why) => failed("compile", why.clone()),
                Ok(expression) => self.run(expression)?.or_else(|fault| failed("evaluate", why(fault))),
            };
            if let Some(slot) = self.values.get_mut(index) {
                *slot = Some(value);
            }
        }
        Ok(())
    }

    fn is_missing(&self, index: usize) -> bool {
        matches!(self.values.get(index), Some(None))
    }

    /// # Errors
    /// The budget of all expressions is used up.
    fn run(&mut self, expression: &Expression) -> Result<Found<Val<'static>>, Failure> {
        let mut variables: Vec<(&str, Found<Val<'static>>)> =
            self.inputs.iter().map(|(name, value)| (*name, Ok(value.clone()))).collect();
        for index in &expression.reads {
            let value = self.values.get(*index).cloned().flatten();
            if let (Some(variable), Some(value)) = (self.scope.variables.get(*index), value) {
                variables.push((&*variable.identifier, value));
            }
        }
        let mut budget = Budget(EXPRESSION_BUDGET);
        let evaluation =
            || Evaluation { variables, budget: &mut budget, library: &self.library }.value(&expression.tree);
        // the functions of the library are not known to be free of panics
        let result = catch_unwind(AssertUnwindSafe(evaluation))
            .unwrap_or_else(|_| Err(Fault::Error("internal error".into())));
        let is_over = matches!(result, Err(Fault::Exceeded));
        let used = if is_over { EXPRESSION_BUDGET } else { EXPRESSION_BUDGET.saturating_sub(budget.0) };
        self.budget = self.budget.checked_sub(used).ok_or(Failure::Exceeded)?;
        Ok(result)
    }
}

fn why(fault: Fault) -> String {
    match fault {
        Fault::Error(why) => why,
        Fault::Exceeded => "operation cancelled: actual cost limit exceeded".into(),
    }
}

/// Copies a value of JSON. Its objects are maps, and its arrays lists.
fn untyped(value: &Value) -> Val<'static> {
    match value {
        Value::Null => Val::Plain(Plain::Null),
        Value::Bool(flag) => Val::Plain(Plain::Bool(*flag)),
        Value::Number(number) => Val::Plain(match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Plain::Int(number),
            (None, Some(number)) => Plain::UInt(number),
            _ => Plain::Float(number.as_f64().unwrap_or_default()),
        }),
        Value::String(given) => text(given),
        Value::Array(items) => Val::List(Rc::new(items.iter().map(untyped).collect())),
        Value::Object(fields) => {
            let entry =
                |(name, value): (&String, &Value)| (Key::String(Arc::new(name.clone())), untyped(value));
            Val::Map(Rc::new(fields.iter().map(entry).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope::new(Names { has_params: true, has_variables: true })
    }

    fn output(scope: &Scope, text: &str) -> Result<Output, String> {
        let expression = scope.compile(text, Expected::Any)?;
        let object = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"replicas": 3, "list": [1, 2], "none": null}});
        let request = json!({"namespace": "n", "operation": "CREATE", "options": {"dryRun": ["All"]}});
        let inputs = [
            ("object", &object),
            ("oldObject", &Value::Null),
            ("request", &request),
            ("namespaceObject", &Value::Null),
            ("params", &Value::Null),
        ];
        Evaluator::new(scope, &inputs, 10_000_000).evaluate(&expression).map_err(Failure::into_message)
    }

    // contract: E-28b
    #[test]
    fn expressions_read_objects_without_a_schema() {
        let mut scope = scope();
        scope.declare("replicas", "object.spec.replicas").unwrap();
        scope.declare("double", "variables.replicas * 2").unwrap();
        scope.declare("bad", "object.missing.x").unwrap();
        for (text, expected) in [
            ("object.spec.replicas > 2", Output::Bool(true)),
            ("object.spec.list.all(x, x > 0) && !has(object.spec.other)", Output::Bool(true)),
            ("object.metadata.namespace == request.namespace", Output::Bool(true)),
            ("oldObject == null && params == null && namespaceObject == null", Output::Bool(true)),
            ("variables.double == 6 && has(variables.double)", Output::Bool(true)),
            ("false && variables.bad", Output::Bool(false)),
            ("request.options.dryRun[0]", Output::Text("All".into())),
            ("object.spec.none", Output::Null),
            ("object.spec.list", Output::Other("list".into())),
            ("object.?spec.?other.orValue('x')", Output::Text("x".into())),
        ] {
            assert_eq!(output(&scope, text), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("object.other == 1", "expression 'object.other == 1' resulted in error: no such key: other"),
            (
                "variables.bad",
                "expression 'variables.bad' resulted in error: composited variable \"bad\" fails to evaluate: no such key: missing",
            ),
            ("variables.none", "compilation failed: ERROR: <input>: undefined field 'none'"),
            ("request.none", "compilation failed: ERROR: <input>: undefined field 'none'"),
            (
                "authorizer.path('/').check('get').allowed()",
                "compilation failed: kinformer-apiserver does not evaluate 'authorizer'",
            ),
        ] {
            assert_eq!(output(&scope, text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_type_of_the_result_is_checked() {
        let scope = scope();
        for (text, expected, why) in [
            ("1", Expected::Bool, "must evaluate to bool but got int"),
            ("object.a", Expected::Bool, "must evaluate to bool but got dyn"),
            ("true", Expected::Text, "must evaluate to string but got bool"),
            ("true", Expected::TextOrNull, "must evaluate to one of [string null_type] but got bool"),
        ] {
            assert_eq!(scope.compile(text, expected).unwrap_err(), why, "{text}");
        }
        scope.compile("null", Expected::TextOrNull).unwrap();
    }

    // contract: E-28b
    #[test]
    fn the_budget_ends_an_evaluation() {
        let scope = scope();
        let list = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]";
        let text = format!(
            "{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, a + b + c + d + e >= 0)))))"
        );
        let why = output(&scope, &text).unwrap_err();
        assert!(why.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"), "{why}");
        let expression = scope.compile("[1, 2, 3].all(x, x > 0)", Expected::Bool).unwrap();
        let failed = Evaluator::new(&scope, &[], 3).evaluate(&expression);
        assert_eq!(failed, Err(Failure::Exceeded));
    }
}
