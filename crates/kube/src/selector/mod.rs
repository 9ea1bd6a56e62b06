//! Label selectors: `app=web,tier in (a,b),!legacy`.

mod error;
mod parse;
mod requirement;

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kinformer_core::Object;

use self::requirement::{Operator, Requirement};

pub use error::{SelectorError, SelectorProblem};

/// A label selector. Matches an object if all of its requirements hold.
///
/// Parsed from a string in the grammar of kubectl, or converted from the `LabelSelector` of a workload's specification:
///
/// | string | matches objects that have |
/// |---|---|
/// | `a=b`, `a==b` | the label with this value |
/// | `a!=b` | the label with another value, **or no such label** |
/// | `a in (x,y)` | the label with one of these values |
/// | `a notin (x,y)` | the label with another value, **or no such label** |
/// | `a`, `!a` | the label with any value; no such label |
/// | `a>5`, `a<5` | the label with a larger integer; with a smaller integer |
/// | `a=b,!c` | all requirements; an empty string matches everything |
///
/// Displayed in canonical form: sorted by key, sets sorted and without duplicates, `a=b` for a set of one value. The
/// canonical form parses as an equal selector, and equal selectors match the same objects. Follows Kubernetes 1.37
/// (`labels.Parse`).
///
/// ```
/// use kinformer_kube::LabelSelector;
///
/// let selector: LabelSelector = "tier in (b, a, b), app == web".parse()?;
/// assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
/// assert!(selector.matches(|key| Some(if key == "app" { "web" } else { "b" })));
/// assert_eq!("app=web=api".parse::<LabelSelector>().unwrap_err().position(), Some(7));
/// # Ok::<(), kinformer_kube::SelectorError>(())
/// ```
#[doc(alias(
    "HasLabels",
    "labels_from",
    "LabelSelectorAsSelector",
    "MatchingLabelsSelector",
    "ParseSelector"
))]
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector {
    /// Sorted, without duplicates.
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Returns the selector that matches every object. Its string is empty.
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// Returns a selector that matches no object.
    ///
    /// The grammar has no such selector, so this is a contradiction, `nothing,!nothing`, which an API server accepts
    /// too.
    pub fn nothing() -> Self {
        let requirement = |operator| Requirement { key: "nothing".to_owned(), operator };
        Self::of(vec![requirement(Operator::Exists), requirement(Operator::DoesNotExist)])
    }

    fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_unstable();
        requirements.dedup();
        Self { requirements }
    }

    /// Whether this is [`Self::everything`].
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the selector matches these labels: `labels` returns the value of a label. Allocates nothing.
    pub fn matches<'l>(&self, labels: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.operator.holds(labels(&requirement.key)))
    }

    /// Whether the selector matches this object.
    pub fn matches_object(&self, object: &impl Object) -> bool {
        self.matches(|key| object.label(key))
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        parse::requirements(text).map(Self::of)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LabelSelector(\"{self}\")")
    }
}

/// Converts a selector without requirements into [`LabelSelector::everything`]. An absent selector usually means
/// [`LabelSelector::nothing`] in Kubernetes. Follows Kubernetes 1.37 (`LabelSelectorAsSelector`).
impl TryFrom<&meta::LabelSelector> for LabelSelector {
    type Error = SelectorError;

    fn try_from(selector: &meta::LabelSelector) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(parse::requirement(key, "In", std::slice::from_ref(value))?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values = expression.values.as_deref().unwrap_or_default();
            requirements.push(parse::requirement(&expression.key, &expression.operator, values)?);
        }
        Ok(Self::of(requirements))
    }
}

/// Fails for `<` and `>`, which the selector of a workload's specification does not have.
impl TryFrom<&LabelSelector> for meta::LabelSelector {
    type Error = SelectorError;

    fn try_from(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let expression = |requirement: &Requirement| {
            let (operator, values) = match &requirement.operator {
                Operator::In(values) => ("In", Some(values.clone())),
                Operator::NotIn(values) => ("NotIn", Some(values.clone())),
                Operator::Exists => ("Exists", None),
                Operator::DoesNotExist => ("DoesNotExist", None),
                Operator::GreaterThan(_) | Operator::LessThan(_) => {
                    return Err(SelectorProblem::NotExpressible(requirement.to_string()).into());
                }
            };
            let (key, operator) = (requirement.key.clone(), operator.to_owned());
            Ok(meta::LabelSelectorRequirement { key, operator, values })
        };
        let expressions: Result<Vec<_>, SelectorError> =
            selector.requirements.iter().map(expression).collect();
        let expressions = Some(expressions?).filter(|expressions| !expressions.is_empty());
        Ok(Self { match_expressions: expressions, match_labels: None })
    }
}
