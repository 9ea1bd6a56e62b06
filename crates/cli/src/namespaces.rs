//! The namespaces that a command reads.

use kinformer::Scope;

use crate::args::ScopeArgs;
use crate::exit::Error;
use crate::resources::Served;
use crate::selectors;

/// The namespaces whose objects are read; of cluster-scoped resources, all objects are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// `None` for all.
    names: Option<Vec<String>>,
    excluded: Vec<String>,
    /// Of the others, only those whose labels this selector matches.
    selector: Option<String>,
}

impl Namespaces {
    /// The namespaces of the command line. Without flags it is the default one, `None` for all.
    pub(crate) fn of(args: &ScopeArgs, default: Option<&str>) -> Self {
        let selector = args.namespace_selector.clone();
        let mut excluded = names_of(&args.excluded);
        excluded.sort_unstable();
        let names = names_of(&args.namespaces);
        if args.all_namespaces || selector.is_some() || !excluded.is_empty() {
            return Self { names: None, excluded, selector };
        }
        let names = if names.is_empty() { default.map(|name| vec![name.to_owned()]) } else { Some(names) };
        Self { names, excluded, selector }
    }

    /// These namespaces, without those that are left out.
    pub(crate) fn within(&self, names: impl IntoIterator<Item = String>) -> Self {
        let names = names.into_iter().filter(|name| self.contains(name)).collect();
        Self { names: Some(names), ..Self::default() }
    }

    /// Whether objects of this namespace are read, if its labels match.
    pub(crate) fn contains(&self, name: &str) -> bool {
        let is = |other: &String| other == name;
        self.names.as_ref().is_none_or(|names| names.iter().any(is)) && !self.excluded.iter().any(is)
    }

    /// The only namespace.
    pub(crate) fn only(&self) -> Option<&str> {
        match self.names() {
            [name] => Some(name),
            _ => None,
        }
    }

    /// The names; none for all, or all but some.
    pub(crate) fn names(&self) -> &[String] {
        self.names.as_deref().unwrap_or_default()
    }

    /// The namespaces that are left out of all.
    pub(crate) fn excluded(&self) -> &[String] {
        &self.excluded
    }

    /// The label selector of namespaces.
    pub(crate) fn selector(&self) -> Option<&str> {
        self.selector.as_deref()
    }

    /// The namespaces of the requests for a resource: `None` for one request for all.
    pub(crate) fn places(&self, served: &Served) -> Vec<Option<&str>> {
        match &self.names {
            Some(names) if served.namespaced => names.iter().map(|name| Some(name.as_str())).collect(),
            _ => vec![None],
        }
    }

    /// The scope of informers, without the selector.
    pub(crate) fn scope(&self) -> Scope {
        match &self.names {
            Some(names) => Scope::namespaces(names.iter().map(String::as_str)),
            None => Scope::all_but(self.excluded.iter().map(String::as_str)),
        }
    }

    /// Completes "objects of".
    pub(crate) fn in_words(&self) -> String {
        let but = match self.excluded.as_slice() {
            [] => String::new(),
            names => format!(" but {}", names.join(", ")),
        };
        match (&self.selector, self.names.as_deref()) {
            (Some(selector), _) => format!("the namespaces with the labels {selector:?}{but}"),
            (None, None) => format!("all namespaces{but}"),
            (None, Some([])) => "no namespace".to_owned(),
            (None, Some([name])) => format!("namespace {name:?}"),
            (None, Some(names)) => format!("namespaces {}", names.join(", ")),
        }
    }
}

/// Names without repetition. An empty one counts as none, as with kubectl.
fn names_of(given: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in given.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    names
}

impl ScopeArgs {
    /// Validates the selector.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(selector) = &self.namespace_selector else { return Ok(()) };
        if selector.trim().is_empty() {
            return Err(Error::Usage("--namespace-selector is empty; -A reads all namespaces".into()));
        }
        selectors::check_labels(selector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(namespaces: &[&str], excluded: &[&str], selector: Option<&str>) -> ScopeArgs {
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        ScopeArgs {
            namespaces: texts(namespaces),
            excluded: texts(excluded),
            namespace_selector: selector.map(str::to_owned),
            all_namespaces: false,
        }
    }

    // contract: T-07k
    #[test]
    fn namespaces_are_those_of_the_flags() {
        for (given, words, scope) in [
            (args(&[], &[], None), "namespace \"default\"", Scope::namespaces(["default"])),
            (args(&[""], &[], None), "namespace \"default\"", Scope::namespaces(["default"])),
            (args(&["b", "a", "b"], &[], None), "namespaces b, a", Scope::namespaces(["a", "b"])),
            (args(&[], &["a"], None), "all namespaces but a", Scope::all_but(["a"])),
            (
                args(&[], &["a"], Some("t=x")),
                "the namespaces with the labels \"t=x\" but a",
                Scope::all_but(["a"]),
            ),
        ] {
            let namespaces = Namespaces::of(&given, Some("default"));
            assert_eq!((namespaces.in_words().as_str(), namespaces.scope()), (words, scope));
        }
        let selected = Namespaces::of(&args(&[], &["a"], Some("t=x")), None);
        let found = selected.within(["a", "b", "c"].map(str::to_owned));
        assert_eq!(found.names(), ["b", "c"]);
        let none = selected.within([]);
        assert!(none.scope() == Scope::namespaces::<&str>([]) && !none.contains("b"));
        assert!(args(&[], &[], Some(" ")).check().is_err() && args(&[], &[], Some("a=,b")).check().is_ok());
    }
}
