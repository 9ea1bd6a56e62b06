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

/// Selects objects by their labels: all of its requirements must hold.
///
/// Made from text, in the grammar of kubectl, or from the `LabelSelector` of a workload's specification:
///
/// | text | selects objects that have |
/// |---|---|
/// | `a=b`, `a==b` | the label with this value |
/// | `a!=b` | not that: another value, **or no such label** |
/// | `a in (x,y)` | the label with one of these values |
/// | `a notin (x,y)` | not that: another value, **or no such label** |
/// | `a`, `!a` | the label; not the label |
/// | `a>5`, `a<5` | the label with a larger, a smaller integer |
/// | `a=b,!c` | both; no text at all selects everything |
///
/// Shown in canonical form: sorted by key, sets sorted and without repetition, `a=b` for a set of one value. The form
/// reads back as the same selector, and what is equal selects the same. Follows Kubernetes 1.37 (`labels.Parse`).
///
/// ```
/// use kinformer::LabelSelector;
///
/// let selector: LabelSelector = "tier in (b, a, b), app == web".parse()?;
/// assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
/// assert!(selector.matches(|key| Some(if key == "app" { "web" } else { "b" })));
/// assert_eq!("app=web=api".parse::<LabelSelector>().unwrap_err().position(), Some(7));
/// # Ok::<(), kinformer::SelectorError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector {
    /// Sorted and without repetition.
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Selects every object. Its text is empty.
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// Selects no object.
    ///
    /// The grammar has no word for it; so it is a contradiction, `nothing,!nothing`, which an API server understands
    /// as well.
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

    /// Whether an object with these labels is selected: `labels` tells the value of a label. Allocates nothing.
    pub fn matches<'l>(&self, labels: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.operator.holds(labels(&requirement.key)))
    }

    /// Whether this object is selected.
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
        for (at, requirement) in self.requirements.iter().enumerate() {
            if at > 0 {
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

/// Of a selector without requirements it makes [`LabelSelector::everything`]; where Kubernetes has none at all, that
/// usually means [`LabelSelector::nothing`]. Follows Kubernetes 1.37 (`LabelSelectorAsSelector`).
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

/// Fails for `<` and `>`, which the specification of a workload cannot say.
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
