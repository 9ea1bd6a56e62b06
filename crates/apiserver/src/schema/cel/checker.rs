//! Checks the types of expressions, as the checker of cel-go does.

use std::collections::HashMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};

use super::calls::is_literal_valid;
use super::eval::{Evaluation, is_type, type_named};
use super::fault::{Budget, Fault};
use super::formatting::{self, Clause};
use super::library::Library;
use super::names::{escape, unescape};
use super::signatures::{self, Signature};
use super::types::Type;

/// Whether values of a type have no order, which some functions need.
fn is_unordered(of: &Type<'_>) -> bool {
    matches!(
        of,
        Type::List(_) | Type::Map(..) | Type::Object(_) | Type::Optional(_) | Type::Named(_) | Type::Null
    )
}

/// How the error for a constant begins that cel-go evaluates after the check.
pub(super) const INSTANTIATION: &str = "instantiation failed: ";
/// What a constant may cost.
const CONSTANT_BUDGET: u64 = 10_000;

type Checked<'s> = Result<Type<'s>, String>;

/// The parts of an expression that is checked.
pub(super) struct Parts<'s> {
    /// The calls of `sum`, by the identifiers of their expressions, with the name of the function for the type. The sum of
    /// an empty list has no other type.
    pub(super) sums: HashMap<u64, &'static str>,
    /// The types of all parts, by the identifiers of their expressions.
    pub(super) types: HashMap<u64, Type<'s>>,
}

pub(super) struct Checker<'e, 's> {
    variables: Vec<(&'e str, Type<'s>)>,
    /// The calls of `sum`, by the identifiers of their expressions, with the name of the function for the type.
    sums: HashMap<u64, &'static str>,
    /// The types of all parts, by the identifiers of their expressions.
    types: HashMap<u64, Type<'s>>,
    /// Whether the items of lists and maps may have several types, as those in calls of `format`.
    is_mixed: bool,
    /// What is wrong with an expression whose types are right.
    invalid: Option<String>,
    /// Why the constants of an expression cannot be evaluated.
    failed: Option<String>,
}

impl<'e, 's> Checker<'e, 's> {
    pub(super) fn new(variables: &[(&'e str, Type<'s>)]) -> Self {
        let variables = variables.to_vec();
        Self {
            variables,
            sums: HashMap::new(),
            types: HashMap::new(),
            is_mixed: false,
            invalid: None,
            failed: None,
        }
    }

    /// Returns the type of an expression.
    ///
    /// # Errors
    /// What is wrong with it, in the words of cel-go, without the place.
    pub(super) fn checked(&mut self, expression: &'e IdedExpr) -> Checked<'s> {
        let of = self.check(expression)?;
        self.invalid.take().map_or(Ok(of), Err)
    }

    fn check(&mut self, expression: &'e IdedExpr) -> Checked<'s> {
        let of = self.type_of(expression)?;
        self.types.insert(expression.id, of.clone());
        Ok(of)
    }

    fn type_of(&mut self, expression: &'e IdedExpr) -> Checked<'s> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::String,
                LiteralValue::UInt(_) => Type::Uint,
            }),
            Expr::Ident(name) => match self.variables.iter().rev().find(|(known, _)| known == name) {
                Some((_, of)) => Ok(of.clone()),
                None if is_type(name) => Ok(Type::Named("type")),
                None => Err(undeclared(name)),
            },
            Expr::Select(_) if type_named(expression).is_some() => Ok(Type::Named("type")),
            Expr::Select(select) => {
                let operand = self.check(&select.operand)?;
                let field = field_of(operand, &select.field)?;
                Ok(if select.test { Type::Bool } else { field })
            }
            Expr::Call(call) => self.called(expression, call),
            Expr::Comprehension(loops) => self.comprehension(loops),
            Expr::List(list) => {
                let mut of = Type::Open;
                for (index, element) in list.elements.iter().enumerate() {
                    let element = self.element(element, list.optional_indices.contains(&index))?;
                    of = self.joined(of, element);
                }
                Ok(Type::List(Box::new(of)))
            }
            Expr::Map(map) => {
                let (mut key, mut value) = (Type::Open, Type::Open);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let (next_key, next) =
                        (self.check(&entry.key)?, self.element(&entry.value, entry.optional)?);
                    (key, value) = (self.joined(key, next_key), self.joined(value, next));
                }
                Ok(Type::Map(Box::new(key), Box::new(value)))
            }
            Expr::Struct(of) => Err(undeclared(&of.type_name)),
            Expr::Unspecified => Err("unexpected expression".into()),
        }
    }

    /// Returns the parts that were checked.
    ///
    /// # Errors
    /// A constant cannot be evaluated. The error begins with [`INSTANTIATION`].
    pub(super) fn finish(self) -> Result<Parts<'s>, String> {
        let parts = Parts { sums: self.sums, types: self.types };
        self.failed.map_or(Ok(parts), |why| Err(format!("{INSTANTIATION}{why}")))
    }

    /// Returns the type of the items of a list, or of the keys or values of a map.
    fn joined(&mut self, one: Type<'s>, other: Type<'s>) -> Type<'s> {
        if !self.is_mixed && !one.is_equivalent(&other) {
            self.invalid.get_or_insert_with(|| format!("expected type '{one}' but found '{other}'"));
        }
        if other.fits(&one) { one.join(other) } else { Type::Dyn }
    }

    fn element(&mut self, element: &'e IdedExpr, is_optional: bool) -> Checked<'s> {
        match (self.check(element)?, is_optional) {
            (Type::Optional(value), true) => Ok(*value),
            (of, _) => Ok(of),
        }
    }

    fn with<const N: usize, T>(
        &mut self,
        variables: [(&'e str, Type<'s>); N],
        check: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let base = self.variables.len();
        self.variables.extend(variables);
        let checked = check(self);
        self.variables.truncate(base);
        checked
    }

    fn comprehension(&mut self, loops: &'e ComprehensionExpr) -> Checked<'s> {
        let (first, _) = range_of(self.check(&loops.iter_range)?)?;
        let init = self.check(&loops.accu_init)?;
        let (accu, variable) = (loops.accu_var.as_str(), loops.iter_var.as_str());
        let step = self.with([(accu, init.clone())], |inner| {
            inner.check(&loops.loop_cond)?;
            inner.with([(variable, first)], |inner| inner.check(&loops.loop_step))
        })?;
        if !step.fits(&init) {
            return Err(format!("expected type '{init}' but found '{step}'"));
        }
        self.with([(accu, init.join(step))], |inner| inner.check(&loops.result))
    }

    fn call(&mut self, call: &'e CallExpr) -> Checked<'s> {
        let name = call.func_name.as_str();
        if name == operators::OPT_SELECT
            && let [operand, field] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let operand = self.check(operand)?;
            return Ok(match field_of(operand, field.inner())? {
                found @ Type::Optional(_) => found,
                found => Type::Optional(Box::new(found)),
            });
        }
        let Some(target) = call.target.as_deref() else {
            let arguments = self.all(&call.args)?;
            return resolve(name, None, arguments);
        };
        if let Expr::Ident(namespace) = &target.expr
            && !self.variables.iter().any(|(known, _)| known == namespace)
        {
            let arguments = self.all(&call.args)?;
            return resolve(&format!("{namespace}.{name}"), None, arguments);
        }
        if let Some(checked) = self.macros(name, target, &call.args) {
            return checked;
        }
        let target = self.check(target)?;
        let arguments = self.all(&call.args)?;
        resolve(name, Some(target), arguments)
    }

    fn called(&mut self, expression: &'e IdedExpr, call: &'e CallExpr) -> Checked<'s> {
        let was_mixed = self.is_mixed;
        self.is_mixed |= call.func_name == "format";
        let result = self.call(call);
        self.is_mixed = was_mixed;
        let result = result?;
        self.constants(expression, call);
        if call.func_name == "sum" {
            self.sums.extend(sum_name(&result).map(|name| (expression.id, name)));
        }
        Ok(result)
    }

    /// Checks the constants of a call whose types are right.
    fn constants(&mut self, expression: &'e IdedExpr, call: &'e CallExpr) {
        let name = call.func_name.as_str();
        let literal = |argument: Option<&'e IdedExpr>| match argument.map(|argument| &argument.expr) {
            Some(Expr::Literal(LiteralValue::String(text))) => Some(text.inner()),
            _ => None,
        };
        // the limit of `findAll` follows the pattern
        let argument = if name == "findAll" { call.args.first() } else { call.args.last() };
        match (name, literal(argument), literal(call.target.as_deref())) {
            ("duration", None, _) if matches!(argument, Some(IdedExpr { expr: Expr::Literal(_), .. })) => {
                self.invalid.get_or_insert_with(|| format!("invalid {name} argument"));
            }
            ("duration" | "timestamp" | "matches", Some(text), _) if !is_literal_valid(name, text) => {
                self.invalid.get_or_insert_with(|| format!("invalid {name} argument"));
            }
            ("find" | "findAll", Some(text), _) if !is_literal_valid(name, text) => {
                self.failed.get_or_insert_with(|| "error parsing regexp".to_owned());
            }
            ("format", _, Some(text)) => {
                if let [IdedExpr { expr: Expr::List(list), .. }] = call.args.as_slice() {
                    let values = &list.elements;
                    let unprinted = |index, clause| self.unprinted(values.get(index)?, clause);
                    if let Err(why) = formatting::check(text, values.len(), unprinted) {
                        self.invalid.get_or_insert(why);
                    }
                }
            }
            _ if converts_constant(call) => {
                let (mut budget, library) = (Budget(CONSTANT_BUDGET), Library::default());
                let mut evaluation =
                    Evaluation { variables: Vec::new(), budget: &mut budget, library: &library };
                if let Err(Fault::Error(why)) = evaluation.value(expression) {
                    self.failed.get_or_insert(why);
                }
            }
            _ => {}
        }
    }

    /// Returns the name of the type of a value that a clause of a format does not print.
    fn unprinted(&self, value: &IdedExpr, clause: Clause) -> Option<String> {
        let of = self.types.get(&value.id)?;
        if !clause.prints(of) {
            return Some(of.name());
        }
        match &value.expr {
            Expr::List(list) => list.elements.iter().find_map(|element| self.unprinted(element, clause)),
            Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.unprinted(&entry.key, clause).or_else(|| self.unprinted(&entry.value, clause))
                }
                EntryExpr::StructField(_) => None,
            }),
            _ => None,
        }
    }

    fn all(&mut self, expressions: &'e [IdedExpr]) -> Result<Vec<Type<'s>>, String> {
        expressions.iter().map(|expression| self.check(expression)).collect()
    }

    /// The macros that the parser does not expand; `None` for functions.
    fn macros(&mut self, name: &str, target: &'e IdedExpr, arguments: &'e [IdedExpr]) -> Option<Checked<'s>> {
        let variable = |argument: &'e IdedExpr| match &argument.expr {
            Expr::Ident(name) => Ok(name.as_str()),
            _ => Err("argument must be a simple name".to_owned()),
        };
        let (count, is_loop) = match (name, arguments.len()) {
            ("optMap" | "optFlatMap" | "sortBy", 2) => (1, false),
            ("all" | "exists" | "exists_one" | "existsOne", 3) => (2, true),
            ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => (2, true),
            _ => return None,
        };
        let mut check = || {
            let range = self.check(target)?;
            let (names, bodies) = arguments.split_at_checked(count).unwrap_or_default();
            let names = names.iter().map(variable).collect::<Result<Vec<_>, _>>()?;
            let (first, second, key) = match (range, is_loop) {
                (Type::Optional(value), false) if name != "sortBy" => (*value, Type::Dyn, Type::Dyn),
                (Type::List(items), false) if name == "sortBy" => (*items, Type::Dyn, Type::Dyn),
                (of, false) if of.is_any() => (Type::Dyn, Type::Dyn, Type::Dyn),
                (of, false) => return Err(no_overload(name, Some(&of), &[])),
                (of, true) => {
                    let is_list = matches!(of, Type::List(_));
                    let (first, second) = range_of(of)?;
                    // of a list, the items are found by their indexes
                    if is_list { (Type::Int, first, Type::Int) } else { (first.clone(), second, first) }
                }
            };
            let base = self.variables.len();
            self.variables.extend(names.into_iter().zip([first.clone(), second]));
            let checked = self.all(bodies);
            self.variables.truncate(base);
            let mut checked = checked?;
            let Some(result) = checked.pop() else { return Err("no such macro".into()) };
            let is_condition = |of: &Type<'_>| of.fits(&Type::Bool);
            if let Some(filter) = checked.pop().filter(|filter| !is_condition(filter)) {
                return Err(format!("expected type 'bool' but found '{filter}'"));
            }
            Ok(match name {
                "optMap" => Type::Optional(Box::new(result)),
                "sortBy" => Type::List(Box::new(first)),
                "transformList" => Type::List(Box::new(result)),
                "transformMap" => Type::Map(Box::new(key), Box::new(result)),
                "optFlatMap" | "transformMapEntry" => result,
                _ if is_condition(&result) => Type::Bool,
                _ => return Err(format!("expected type 'bool' but found '{result}'")),
            })
        };
        Some(check())
    }
}

/// Whether cel-go evaluates an expression before the first evaluation.
fn is_constant(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Literal(_) => true,
        Expr::Call(call) => converts_constant(call),
        _ => false,
    }
}

/// Whether a call converts a constant.
fn converts_constant(call: &CallExpr) -> bool {
    const CONVERSIONS: [&str; 8] =
        ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"];
    call.target.is_none()
        && CONVERSIONS.contains(&call.func_name.as_str())
        && matches!(call.args.as_slice(), [argument] if is_constant(argument))
}

/// Returns the name of the function `sum` for a type other than an integer.
fn sum_name(result: &Type<'_>) -> Option<&'static str> {
    match result {
        Type::Uint => Some("sum@uint"),
        Type::Double => Some("sum@double"),
        Type::Duration => Some("sum@duration"),
        _ => None,
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn no_overload(name: &str, target: Option<&Type<'_>>, arguments: &[Type<'_>]) -> String {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let target = target.map(|target| format!("{target}.")).unwrap_or_default();
    format!("found no matching overload for '{name}' applied to '{target}({})'", arguments.join(", "))
}

fn field_of<'s>(operand: Type<'s>, name: &str) -> Checked<'s> {
    match operand {
        Type::Object(shape) => {
            let field = match shape.has_plain_names {
                true => Some(name.to_owned()),
                false => unescape(name).filter(|field| escape(field).as_deref() == Some(name)),
            };
            let field = field.and_then(|name| shape.field(&name));
            let of = field.and_then(|field| Type::of(field, false));
            of.ok_or_else(|| format!("undefined field '{name}'"))
        }
        Type::Map(_, value) => Ok(*value),
        Type::Optional(value) => Ok(Type::Optional(Box::new(field_of(*value, name)?))),
        Type::Dyn | Type::Open => Ok(Type::Dyn),
        other => Err(format!("type '{other}' does not support field selection")),
    }
}

/// Returns the type of the items of a list, or of the keys of a map, and the type of the values of a map.
fn range_of(range: Type<'_>) -> Result<(Type<'_>, Type<'_>), String> {
    match range {
        Type::List(items) => Ok((*items, Type::Dyn)),
        Type::Map(key, value) => Ok((*key, *value)),
        Type::Dyn | Type::Open => Ok((Type::Dyn, Type::Dyn)),
        other => Err(format!(
            "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
        )),
    }
}

/// Returns the type of a call.
fn resolve<'s>(name: &str, target: Option<Type<'s>>, arguments: Vec<Type<'s>>) -> Checked<'s> {
    let Some(signatures) = signatures::of(name) else { return Err(undeclared(name)) };
    let mut result: Option<Type<'s>> = None;
    for signature in signatures {
        let Some(found) = applied(signature, target.as_ref(), &arguments) else { continue };
        result = Some(match result {
            Some(known) if known != found => Type::Dyn,
            _ => found,
        });
    }
    result.ok_or_else(|| no_overload(name, target.as_ref(), &arguments))
}

/// Returns the type of the result, if a signature fits.
fn applied<'s>(signature: &Signature, target: Option<&Type<'s>>, arguments: &[Type<'s>]) -> Option<Type<'s>> {
    if signature.target.is_some() != target.is_some() || signature.arguments.len() != arguments.len() {
        return None;
    }
    let mut bound = HashMap::new();
    let given = target.into_iter().chain(arguments);
    let expected = signature.target.iter().chain(&signature.arguments);
    for (given, expected) in given.zip(expected) {
        if !binds(given, expected, &mut bound) {
            return None;
        }
    }
    if bound.get("C").is_some_and(is_unordered) {
        return None;
    }
    Some(substituted(&signature.result, &bound))
}

/// Whether a type fits one of a signature. Binds the parameters.
fn binds<'s>(
    given: &Type<'s>,
    expected: &Type<'static>,
    bound: &mut HashMap<&'static str, Type<'s>>,
) -> bool {
    match (given, expected) {
        (given, Type::Parameter(name)) => {
            let known = bound.remove(name).unwrap_or(Type::Open);
            let fits = given.fits(&known);
            bound.insert(name, known.join(given.clone()));
            fits
        }
        (given, expected) if given.is_any() || expected.is_any() => true,
        (Type::List(given), Type::List(expected)) | (Type::Optional(given), Type::Optional(expected)) => {
            binds(given, expected, bound)
        }
        (Type::Map(key, value), Type::Map(expected_key, expected_value)) => {
            binds(key, expected_key, bound) && binds(value, expected_value, bound)
        }
        (given, expected) => given.fits(expected),
    }
}

fn substituted<'s>(of: &Type<'static>, bound: &HashMap<&'static str, Type<'s>>) -> Type<'s> {
    match of {
        Type::Parameter(name) => bound.get(name).cloned().unwrap_or(Type::Open),
        Type::List(items) => Type::List(Box::new(substituted(items, bound))),
        Type::Optional(value) => Type::Optional(Box::new(substituted(value, bound))),
        Type::Map(key, value) => {
            Type::Map(Box::new(substituted(key, bound)), Box::new(substituted(value, bound)))
        }
        other => other.clone(),
    }
}
