//! The objects that the words of the command line name.

use kinformer::ObjectKey;

use crate::exit::Error;
use crate::namespaces::Namespaces;
use crate::resources::{Catalogue, Served};

/// The objects of one resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) served: Served,
    /// The named objects; all of them if there is no name.
    pub(super) names: Vec<Name>,
}

/// The name of an object, with or without a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// The words of the command line. Follows kubectl: `pods`, `pods,services`, `pods a b`, `pod/a service/b`; a name may also
/// be `namespace/name`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// Names of resources, each with names of objects.
    parts: Vec<(String, Vec<Name>)>,
}

impl Words {
    /// # Errors
    /// [`Error::Usage`]: the words do not fit together.
    pub(super) fn parse(words: &[String], scope: &Namespaces) -> Result<Self, Error> {
        let usage = |text: String| Err(Error::Usage(text));
        let (first, rest) = words.split_first().map_or(("", words), |(first, rest)| (first.as_str(), rest));
        if first.contains('/') {
            let mut parts: Vec<(String, Vec<Name>)> = Vec::new();
            for word in words {
                let (kind, name) = match word.split_once('/') {
                    Some((kind, name)) if !name.contains('/') => (kind, name),
                    _ => return usage(format!("{word:?}: expected KIND/NAME, as in {first:?}")),
                };
                if kind.is_empty() || name.is_empty() {
                    return usage(format!("{word:?}: expected KIND/NAME"));
                }
                let name = Name { namespace: None, name: name.to_owned() };
                match parts.last_mut().filter(|(last, _)| last == kind) {
                    Some((_, names)) => names.push(name),
                    None => parts.push((kind.to_owned(), vec![name])),
                }
            }
            return Ok(Self { parts });
        }
        let kinds: Vec<&str> = first.split(',').map(str::trim).filter(|kind| !kind.is_empty()).collect();
        if kinds.len() > 1 && !rest.is_empty() {
            return usage(
                "names belong to one resource; write pod/a service/b for objects of several".into(),
            );
        }
        let names = rest.iter().map(|word| Name::parse(word, scope)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { parts: kinds.into_iter().map(|kind| (kind.to_owned(), names.clone())).collect() })
    }

    /// Whether objects are named.
    pub(super) fn has_names(&self) -> bool {
        self.parts.iter().any(|(_, names)| !names.is_empty())
    }

    /// Finds the resources.
    ///
    /// # Errors
    /// As [`Catalogue::find_all`].
    pub(super) fn targets(&self, catalogue: &Catalogue) -> Result<Vec<Target>, Error> {
        if !self.has_names() {
            let kinds: Vec<String> = self.parts.iter().map(|(kind, _)| kind.clone()).collect();
            let served = catalogue.find_all(&kinds, &["list"])?;
            return Ok(served.into_iter().map(|served| Target { served, names: Vec::new() }).collect());
        }
        let mut targets = Vec::new();
        for (kind, names) in &self.parts {
            let found = catalogue.find_all(std::slice::from_ref(kind), &["get"])?;
            targets.extend(found.into_iter().map(|served| Target { served, names: names.clone() }));
        }
        Ok(targets)
    }
}

impl Name {
    fn parse(word: &str, scope: &Namespaces) -> Result<Self, Error> {
        let key: ObjectKey = word.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let namespace = key.namespace().map(str::to_owned);
        if namespace.as_ref().is_some_and(|namespace| !scope.contains(namespace)) {
            return Err(Error::Usage(format!("{key} is not in {}", scope.in_words())));
        }
        Ok(Self { namespace, name: key.name().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Option<String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let shown = |(kind, names): &(String, Vec<Name>)| {
            let names = names.iter().map(|Name { namespace, name }| match namespace {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name.clone(),
            });
            format!("{kind}: {}", names.collect::<Vec<_>>().join(" "))
        };
        let words = Words::parse(&words, &Namespaces::default().within(["n".to_owned()])).ok()?;
        Some(words.parts.iter().map(shown).collect::<Vec<_>>().join("; "))
    }

    // contract: T-07a
    #[test]
    fn words_are_those_of_kubectl() {
        for (words, parts) in [
            ("pods", "pods: "),
            ("po,deploy", "po: ; deploy: "),
            ("po a b", "po: a b"),
            ("po n/a b", "po: n/a b"),
            ("pod/a pod/b svc/c", "pod: a b; svc: c"),
        ] {
            assert_eq!(parsed(words).as_deref(), Some(parts));
        }
        for words in ["po,svc a", "pod/a b", "pod/", "/a", "pod/a/b", "pods m/a", "pods a/b/c"] {
            assert_eq!(parsed(words), None, "{words}");
        }
    }
}
