//! What calls of functions cost, without their arguments.
//!
//! Follows Kubernetes 1.37 (`cel/library.CostEstimator`) and cel-go (`checker.Cost`, `ext/lists.go`, `ext/sets.go`).

use kube_cel::cel::common::ast::operators;

use super::super::shape::Shape;
use super::super::types::Type;
use super::place::{Place, Step};
use super::range::Range;
use super::value::{Estimate, LIST, ONE, TRAVERSAL, ZERO};

/// What it costs to match a unit of a pattern.
const PATTERN: f64 = 0.25;
/// The longest pattern of a format that has a name.
const FORMAT_PATTERN: f64 = 128.0;
/// The bytes of an address.
const ADDRESS: Range = Range { min: 4, max: 16 };

/// A call with its arguments.
pub(super) struct Call<'c, 's> {
    pub(super) target: Option<&'c Estimate<'s>>,
    pub(super) arguments: &'c [Estimate<'s>],
    /// The arguments that are literal integers.
    pub(super) literals: &'c [Option<i64>],
    pub(super) root: Shape<'s>,
}

/// A cost, and the size of a result.
type Cost = (Range, Option<Range>);

impl Call<'_, '_> {
    pub(super) fn estimate(&self, name: &str) -> Cost {
        let found = self.of_lists(name).or_else(|| self.of_texts(name)).or_else(|| self.of_kubernetes(name));
        found.or_else(|| self.of_language(name)).unwrap_or((ONE, None))
    }

    fn argument(&self, index: usize) -> Range {
        self.arguments.get(index).map_or(Range::UNKNOWN, Estimate::size)
    }

    fn literal(&self, index: usize, other: u64) -> u64 {
        let given = self.literals.get(index).copied().flatten();
        given.map_or(other, |number| u64::try_from(number).unwrap_or(0))
    }

    fn of_lists(&self, name: &str) -> Option<Cost> {
        let allocated = |size: Range, factor: f64| Some((size.by(factor).plus(ONE).plus(LIST), Some(size)));
        if let ("sets.contains" | "sets.intersects" | "sets.equivalent", [one, other]) =
            (name, self.arguments)
        {
            let factor = if name == "sets.equivalent" { 2.0 } else { 1.0 };
            return Some((one.size().times(other.size()).by(factor).plus(ONE), None));
        }
        if name == "lists.range" {
            return allocated(Range::fixed(self.literal(0, u64::MAX)), 1.0);
        }
        let list = self.target?;
        let size = list.size();
        match name {
            "slice" => {
                let (start, end) = (self.literal(0, 0), self.literal(1, size.max));
                allocated(Range::fixed(end.wrapping_sub(start)), 1.0)
            }
            "reverse" => allocated(size, 1.0),
            #[allow(clippy::cast_precision_loss, reason = "as in Go")]
            "flatten" => {
                let depth = if self.arguments.is_empty() { 1 } else { self.literal(0, u64::MAX) };
                allocated(size, depth as f64)
            }
            "distinct" => allocated(size.times(size), 2.0),
            "sort" => {
                let is_text =
                    matches!(&list.of, Type::List(items) if matches!(**items, Type::String | Type::Bytes));
                allocated(size.times(size), if is_text { 2.0 + TRAVERSAL } else { 2.0 })
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let Some(items) = items_of(&list.of) else { return Some((size.by(TRAVERSAL), None)) };
                let is_text = matches!(items, Type::String | Type::Bytes);
                let each = if is_text { ONE.plus(self.item_size(list).by(TRAVERSAL)) } else { ONE };
                Some((size.times(each), None))
            }
            _ => None,
        }
    }

    fn item_size(&self, list: &Estimate<'_>) -> Range {
        let place = match list.place {
            Place::Nowhere => None,
            place => place.step(self.root, &Step::Item).size(),
        };
        place.unwrap_or(Range::UNKNOWN)
    }

    fn of_texts(&self, name: &str) -> Option<Cost> {
        let size = self.target?.size();
        Some(match name {
            "lowerAscii" | "upperAscii" | "substring" | "trim" => (size.by(TRAVERSAL), Some(size)),
            "replace" => (size.by(2.0 * TRAVERSAL), Some(replaced(size, self.argument(0), self.argument(1)))),
            "split" => {
                let most = self.literals.get(1).copied().flatten().map_or(size.max, i64::cast_unsigned);
                (size.by(2.0 * TRAVERSAL), Some(Range::new(0, most)))
            }
            "join" => {
                let list = self.target?;
                let texts = items_of(&list.of).map_or(ZERO, |_| size.times(self.item_size(list)));
                let separators = Range::new(size.min.saturating_sub(1), size.max.saturating_sub(1));
                let between =
                    if self.arguments.is_empty() { ZERO } else { self.argument(0).times(separators) };
                let size = texts.plus(between);
                (size.by(TRAVERSAL), Some(size))
            }
            "find" | "findAll" => (matched(size, self.argument(0)), Some(Range::new(0, size.max))),
            "matches" => (matched(size, self.argument(0)), None),
            "contains" => (size.by(TRAVERSAL).times(self.argument(0).by(TRAVERSAL)), None),
            "startsWith" | "endsWith" => (self.argument(0).by(TRAVERSAL), None),
            "format" => (size.by(TRAVERSAL), None),
            _ => return None,
        })
    }

    fn of_kubernetes(&self, name: &str) -> Option<Cost> {
        let size = self.argument(0);
        Some(match name {
            "url" => (size.by(TRAVERSAL), Some(size)),
            "ip" if self.target.is_some() => (ONE, None),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                (size.by(TRAVERSAL), None)
            }
            "ip.isCanonical" => (size.by(2.0 * TRAVERSAL), None),
            "containsIP" | "containsCIDR" => {
                let compared = ADDRESS.plus(ADDRESS).by(TRAVERSAL);
                let masked = if name == "containsIP" { ZERO } else { ADDRESS.by(TRAVERSAL).plus(ONE) };
                let is_text = self.arguments.first().is_some_and(|argument| argument.of == Type::String);
                let parsed = if is_text { size.by(TRAVERSAL) } else { ZERO };
                (compared.plus(masked).plus(parsed), None)
            }
            "validate" => (size.by(TRAVERSAL).by(FORMAT_PATTERN * PATTERN), None),
            operators::EQUALS => {
                let [one, other] = self.arguments else { return None };
                let Type::Named(of) = one.of else { return None };
                match of {
                    _ if one.of != other.of => return None,
                    "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => (ONE, None),
                    "kubernetes.NamedFormat" => (Range::new(1, 64).by(TRAVERSAL), None),
                    "kubernetes.URL" => {
                        (Range::new(1, other.size.map_or(1, |size| size.max)).by(TRAVERSAL), None)
                    }
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    fn of_language(&self, name: &str) -> Option<Cost> {
        let size = self.argument(0);
        let takes =
            |of: &Type<'_>| self.arguments.iter().all(|argument| argument.of.is_any() || argument.of == *of);
        let is_any = self.arguments.iter().any(|argument| argument.of.is_any());
        Some(match name {
            "matches" => (matched(size, self.argument(1)), None),
            "bytes" if takes(&Type::String) => {
                (size.by(TRAVERSAL), Some(Range::new(size.min, size.max.wrapping_mul(4))))
            }
            "string" if takes(&Type::Bytes) => (size.by(TRAVERSAL), Some(Range::new(size.min / 4, size.max))),
            "strings.quote" => {
                let quoted = Range::new(size.min.wrapping_add(2), size.max.wrapping_mul(2).wrapping_add(2));
                (size.by(TRAVERSAL), Some(quoted))
            }
            operators::IN => match self.arguments.get(1).map(|container| &container.of) {
                Some(Type::Map(..)) => (ONE, None),
                Some(Type::List(_)) => (self.argument(1), None),
                _ => (self.argument(1).union(ONE), None),
            },
            operators::ADD => {
                let sum = size.plus(self.argument(1));
                let is_list = |of: &Type<'_>| of.is_any() || matches!(of, Type::List(_));
                let lists = self.arguments.iter().all(|argument| is_list(&argument.of));
                if takes(&Type::String) || takes(&Type::Bytes) {
                    let cost = sum.by(TRAVERSAL);
                    (if is_any { cost.union(ONE) } else { cost }, Some(sum))
                } else {
                    (ONE, lists.then_some(sum))
                }
            }
            operators::EQUALS | operators::NOT_EQUALS => (self.compared(), None),
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
                let is_text = takes(&Type::String) || takes(&Type::Bytes);
                match (is_text, is_any) {
                    (true, true) => (self.compared().union(ONE), None),
                    (true, false) => (self.compared(), None),
                    _ => (ONE, None),
                }
            }
            _ => return None,
        })
    }

    /// What it costs to compare two values.
    fn compared(&self) -> Range {
        let max = self.argument(0).max.min(self.argument(1).max);
        Range::new(u64::from(max > 0), max).by(TRAVERSAL)
    }
}

/// Returns the first parameter of a type.
fn items_of<'t, 's>(of: &'t Type<'s>) -> Option<&'t Type<'s>> {
    match of {
        Type::List(items) | Type::Optional(items) | Type::Map(items, _) => Some(items),
        _ => None,
    }
}

fn matched(text: Range, pattern: Range) -> Range {
    text.plus(ONE).by(TRAVERSAL).times(pattern.by(PATTERN))
}

/// Returns the size of a text after replacements.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as in Go; the numbers are not negative"
)]
fn replaced(text: Range, from: Range, with: Range) -> Range {
    let times = |size: u64, part: u64| (size as f64 / part as f64).ceil() as u64;
    let (mut count, mut kept) = (ZERO, ZERO);
    if from.min == 0 {
        (count.max, kept.max) = (text.max.saturating_add(1), text.max);
    } else if with.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = times(text.max, from.min);
    }
    if from.max == 0 {
        (count.min, kept.min) = (text.min.saturating_add(1), text.min);
    } else if from.max <= with.min {
        kept.min = text.min;
    } else {
        count.min = times(text.min, from.max);
    }
    count.times(with).plus(kept)
}
