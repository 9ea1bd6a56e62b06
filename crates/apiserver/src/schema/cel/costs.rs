//! What calls of functions cost.
//!
//! Follows Kubernetes 1.37 (`cel/library.CostEstimator`) and cel-go (`interpreter.CostTracker`), where a function is not
//! slower here.

use kube_cel::cel::Value as Plain;

use super::fault::{Budget, Found};

/// Spends what a call costs, but for one unit. Results may be much larger than arguments.
///
/// # Errors
/// The budget is used up.
pub(super) fn spend(
    name: &str,
    target: Option<&Plain>,
    arguments: &[Plain],
    budget: &mut Budget,
) -> Found<()> {
    let length = |value: &Plain| match value {
        Plain::String(text) => text.len(),
        Plain::Bytes(bytes) => bytes.len(),
        Plain::List(items) => items.len(),
        _ => 0,
    };
    let size = target.map_or(0, length);
    let all = || target.into_iter().chain(arguments).map(length).fold(0, usize::saturating_add);
    let is_list = matches!(target, Some(Plain::List(_)));
    budget.spend(match (name, arguments) {
        ("size", _) => all() / 100,
        ("startsWith" | "endsWith", [part]) => length(part) / 10,
        ("contains", [part]) => (size / 10 + 1).saturating_mul(length(part) / 10 + 1),
        // they are charged with their patterns
        ("matches" | "find" | "findAll", _) => 0,
        ("lists.range", [Plain::Int(size)]) => usize::try_from(*size).unwrap_or_default(),
        ("replace", [part, with, ..]) => {
            size / 5 + (size / length(part).max(1) + 1).saturating_mul(length(with)) / 10
        }
        ("join", [with]) => size.saturating_mul(length(with) / 10) + joined(target) / 5,
        ("join", []) => joined(target) / 5,
        ("distinct" | "indexOf" | "lastIndexOf", _) if is_list => size.saturating_mul(size),
        ("sort" | "isSorted" | "min" | "max", _) if is_list => size.saturating_add(joined(target) / 10),
        ("indexOf" | "lastIndexOf", [part, ..]) => size.saturating_mul(length(part)) / 10,
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [one, other]) => {
            length(one).saturating_mul(length(other))
        }
        ("validate", _) => (all() / 10 + 1) * 64,
        ("split", _) => size / 5,
        _ => all() / 10,
    })
}

/// Returns how long the texts of a list are.
fn joined(list: Option<&Plain>) -> usize {
    let Some(Plain::List(items)) = list else { return 0 };
    let length = |item: &Plain| if let Plain::String(text) = item { text.len() } else { 0 };
    items.iter().map(length).fold(0, usize::saturating_add)
}

/// Returns what it costs to compile a pattern, by the size of its states. Go compiles constant patterns before.
pub(super) fn compilation(pattern: &str) -> usize {
    let (mut sums, mut last) = (vec![0_usize], 0_usize);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or("");
        let add = match c {
            '(' => {
                sums.push(0);
                continue;
            }
            ')' => {
                last = sums.pop().unwrap_or_default();
                if sums.is_empty() {
                    sums.push(0);
                }
                last
            }
            '{' => {
                let (inside, after) = rest.split_once('}').unwrap_or((rest, ""));
                let count = inside.split(',').filter_map(|count| count.parse().ok()).max().unwrap_or(1_usize);
                rest = after;
                let more = last.saturating_mul(count.saturating_sub(1));
                last = last.saturating_add(more);
                more
            }
            // classes of Unicode have many states
            '\\' => {
                last = if rest.starts_with(['p', 'P']) { 500 } else { 1 };
                rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or("");
                last
            }
            '.' | '[' => {
                last = 10;
                last
            }
            _ => {
                last = 1;
                last
            }
        };
        if let Some(sum) = sums.last_mut() {
            *sum = sum.saturating_add(add);
        }
    }
    sums.into_iter().fold(0, usize::saturating_add) / 10
}
