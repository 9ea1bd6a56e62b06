//! Field selectors: `metadata.name=web,status.phase!=Running`.

use serde_json::{Map, Value};

use crate::registry::{FieldPath, Resource};
use crate::status::Status;
use crate::storage::Stored;

/// A field selector, resolved against the fields of one resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    place: Place,
    name: String,
    value: String,
    equal: bool,
}

/// Where the value of a field is.
#[derive(Clone, Debug)]
enum Place {
    /// The number of the field in the store.
    Stored(usize),
    /// In the object as it is served.
    Served(FieldPath),
}

impl FieldSelector {
    /// Follows Kubernetes 1.37 (`fields.ParseSelector` and the field label conversions of the kinds).
    ///
    /// # Errors
    /// 400 for invalid syntax and for unsupported fields.
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, Status> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let bad =
                || Status::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'"));
            let (name, value, equal) = split_operator(&part).ok_or_else(bad)?;
            let value = unescape(value).ok_or_else(bad)?;
            let place = resolve(name, resource)?;
            terms.push(Term { place, name: name.to_owned(), value, equal });
        }
        Ok(Self { terms })
    }

    /// Returns a selector for one object by name.
    pub(crate) fn by_name(name: &str) -> Self {
        // The name is the first field of every resource.
        let place = Place::Stored(0);
        Self { terms: vec![Term { place, name: "metadata.name".into(), value: name.into(), equal: true }] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the value that the selector requires for `name`, if there is one.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.name == name).map(|term| term.value.as_str())
    }

    pub(crate) fn matches(&self, object: &Stored, served: impl Fn() -> Map<String, Value>) -> bool {
        let mut read = None;
        self.terms.iter().all(|term| {
            let is_same = match &term.place {
                Place::Stored(index) => object.field(*index) == term.value,
                Place::Served(path) => path.read(read.get_or_insert_with(&served)) == term.value,
            };
            is_same == term.equal
        })
    }
}

/// Whether a text has the syntax of field selectors, whatever its fields.
pub(crate) fn is_field_selector(text: &str) -> bool {
    let is_term = |part: &String| {
        part.is_empty() || split_operator(part).is_some_and(|(_, value, _)| unescape(value).is_some())
    };
    split_unescaped(text).iter().all(is_term)
}

fn resolve(name: &str, resource: &Resource) -> Result<Place, Status> {
    let common = FieldPath::common(resource.kind.namespaced).count();
    let served = resource.kind.fields.iter().position(|field| field.name == name);
    let place = served.and_then(|number| {
        let field = resource.kind.fields.get(number)?;
        let in_store = resource.store.fields().iter().position(|other| other.same_place(field));
        // The fields in the store are those of a former definition, and of objects as they were written.
        let is_read = resource.kind.custom && number >= common && (resource.is_revised || in_store.is_none());
        if is_read { Some(Place::Served(field.clone())) } else { in_store.map(Place::Stored) }
    });
    place.ok_or_else(|| {
        let has_own = resource.kind.fields.len() > common;
        Status::bad_request(if has_own || resource.kind.custom {
            format!("field label not supported: {name}")
        } else {
            format!("{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        })
    })
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

fn split_operator(part: &str) -> Option<(&str, &str, bool)> {
    let operator = part.find(['=', '!'])?;
    let (name, rest) = part.split_at(operator);
    for (operator, equal) in [("==", true), ("!=", false), ("=", true)] {
        if let Some(value) = rest.strip_prefix(operator) {
            return Some((name, value, equal));
        }
    }
    None
}

fn unescape(value: &str) -> Option<String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| matches!(c, '\\' | ',' | '='))?),
            '=' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}
