//! Calls of the functions of the crates `cel` and `kube-cel`.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, ExecutionError, Value as Plain};

use super::super::formats::{go_duration, nanoseconds};
use super::super::pattern::Pattern;
use super::fault::{Found, NO_OVERLOAD, error};

static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// Names for the arguments of a function. No function has more.
const ARGUMENTS: [&str; 4] = ["a", "b", "c", "d"];

/// Calls a function of the crates.
pub(super) fn call(name: &str, target: Option<Plain>, arguments: Vec<Plain>) -> Found<Plain> {
    if arguments.len() >= ARGUMENTS.len() {
        return error(NO_OVERLOAD);
    }
    let mut scope = FUNCTIONS.new_inner_scope();
    let variable = |name: &str| IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
    let names = ARGUMENTS.iter().copied();
    let has_target = target.is_some();
    let mut variables = Vec::new();
    for (name, value) in names.zip(target.into_iter().chain(arguments)) {
        scope.add_variable_from_value(name, value);
        variables.push(variable(name));
    }
    let target = has_target.then(|| Box::new(variables.remove(0)));
    let call = CallExpr { func_name: name.to_owned(), target, args: variables };
    let call = IdedExpr { id: 0, expr: Expr::Call(call) };
    Plain::resolve(&call, &scope).or_else(|fault| {
        error(match fault {
            ExecutionError::FunctionError { message, .. } => message,
            ExecutionError::UndeclaredReference(name) => format!("no such function: {name}"),
            _ => NO_OVERLOAD.to_owned(),
        })
    })
}

/// As [`call`], with the values that the functions of Kubernetes take.
///
/// Versions of the crate are ordered by their build, too.
pub(super) fn of_kubernetes(name: &str, target: Option<Plain>, mut arguments: Vec<Plain>) -> Found<Plain> {
    if let ("semver", Some(Plain::String(_))) = (name, arguments.first_mut()) {
        call("semver", None, arguments.clone())?;
        if let Some(Plain::String(given)) = arguments.first_mut()
            && let Some((version, _)) = given.split_once('+')
        {
            *given = Arc::new(version.to_owned());
        }
    }
    call(name, target, arguments)
}

pub(super) fn duration(nanoseconds: i64) -> Found<Plain> {
    let (sign, size) = (if nanoseconds < 0 { "-" } else { "" }, nanoseconds.unsigned_abs());
    let given = format!("{sign}{}s{}ns", size / 1_000_000_000, size % 1_000_000_000);
    call("duration", None, vec![Plain::String(Arc::new(given))])
}

/// Whether a text can be an argument of a function that parses it.
pub(super) fn is_literal_valid(function: &str, given: &str) -> bool {
    match function {
        "duration" => go_duration(given).is_some(),
        "find" | "findAll" | "matches" => Pattern::new(given).fault().is_none(),
        "timestamp" => call(function, None, vec![Plain::String(Arc::new(given.to_owned()))]).is_ok(),
        _ => true,
    }
}

/// A text of the resource, in the type of its format.
pub(super) fn formatted(given: &str, format: &str) -> Found<Plain> {
    let text = || Plain::String(Arc::new(given.to_owned()));
    let time = |given: String| call("timestamp", None, vec![Plain::String(Arc::new(given))]);
    match format {
        "byte" => match base64::engine::general_purpose::STANDARD.decode(given) {
            Ok(bytes) => Ok(Plain::Bytes(Arc::new(bytes))),
            Err(_) => error(format!("Invalid byte formatted string {given}")),
        },
        "date" => time(format!("{given}T00:00:00Z"))
            .or_else(|_| error(format!("Invalid date formatted string {given}"))),
        "date-time" => time(given.to_uppercase())
            .or_else(|_| error(format!("Invalid date-time formatted string {given}"))),
        "duration" => match nanoseconds(given) {
            Some(length) => duration(length),
            None => error(format!("Invalid duration {given}")),
        },
        _ => Ok(text()),
    }
}
