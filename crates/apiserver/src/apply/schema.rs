//! The types by which objects are merged: those of built-in kinds, and those of CustomResourceDefinitions.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use crate::order;

/// All types of built-in kinds. Each type is decoded when it is first used.
static BUILTIN: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("../generated/types.txt")));

/// A reference to a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeRef(u32);

/// Types with fixed numbers.
pub(super) const STRING: TypeRef = TypeRef(0);
pub(super) const NUMERIC: TypeRef = TypeRef(1);
pub(super) const BOOLEAN: TypeRef = TypeRef(2);
pub(super) const SCALAR: TypeRef = TypeRef(3);
/// Any value, as one field.
pub(super) const ATOMIC: TypeRef = TypeRef(4);
/// Any value, with the fields of maps.
pub(super) const DEDUCED: TypeRef = TypeRef(5);
/// The first number of another type.
const FIRST: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Numeric,
    Boolean,
    Untyped,
}

/// How the items of a list are identified.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListKind {
    /// The list is one field.
    Atomic,
    /// By their values.
    Set,
    /// By their fields of these names.
    Keys(Vec<Cow<'static, str>>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListType {
    pub(super) element: Option<TypeRef>,
    pub(super) kind: ListKind,
}

/// A map or a struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MapType {
    /// The type of the fields that are not declared.
    pub(super) element: Option<TypeRef>,
    pub(super) is_atomic: bool,
    /// Sorted by name.
    fields: Vec<FieldType>,
    /// Whether Go writes some of the fields even if they are not set.
    pub(super) has_zeros: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldType {
    pub(super) name: Cow<'static, str>,
    pub(super) of: TypeRef,
    pub(super) default: Option<Value>,
    /// Whether Go writes the default if the field is not set.
    pub(super) is_zero: bool,
    pub(super) is_nullable: bool,
}

/// A type: the forms that its values may have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Atom {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListType>,
    pub(super) map: Option<MapType>,
}

/// A set of types, and the types of kinds.
pub(crate) struct Schema {
    /// Types with lower numbers.
    base: Option<&'static Schema>,
    first: u32,
    lines: Vec<&'static str>,
    atoms: Vec<OnceLock<Atom>>,
    kinds: HashMap<Cow<'static, str>, TypeRef>,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl MapType {
    pub(super) fn new(element: Option<TypeRef>, is_atomic: bool, mut fields: Vec<FieldType>) -> Self {
        order::sort_by(&mut fields, |a, b| a.name.cmp(&b.name));
        let has_zeros = fields.iter().any(|field| field.is_zero);
        Self { element, is_atomic, fields, has_zeros }
    }

    pub(super) fn field(&self, name: &str) -> Option<&FieldType> {
        let index = self.fields.binary_search_by(|field| field.name.as_ref().cmp(name)).ok()?;
        self.fields.get(index)
    }

    pub(super) fn fields(&self) -> &[FieldType] {
        &self.fields
    }

    /// The type of a field; `None` for a field that may not exist.
    pub(super) fn type_of(&self, name: &str) -> Option<TypeRef> {
        self.field(name).map(|field| field.of).or(self.element)
    }

    /// Whether it has no declared fields and any others.
    pub(super) fn is_deduced(&self) -> bool {
        self.fields.is_empty() && matches!(self.element, Some(DEDUCED | SCALAR))
    }
}

impl FieldType {
    pub(super) fn new(name: impl Into<Cow<'static, str>>, of: TypeRef) -> Self {
        Self { name: name.into(), of, default: None, is_zero: false, is_nullable: false }
    }

    /// The value that Go writes for a field that is not set.
    pub(super) fn zero(&self) -> Option<&Value> {
        self.default.as_ref().filter(|_| self.is_zero)
    }
}

impl Schema {
    /// The types of the built-in kinds.
    pub(crate) fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Types besides the built-in ones.
    pub(super) fn extending() -> Self {
        let base = Self::builtin();
        let first = base.first + u32::try_from(base.atoms.len()).unwrap_or(u32::MAX);
        Self { base: Some(base), first, lines: Vec::new(), atoms: Vec::new(), kinds: HashMap::new() }
    }

    /// Adds a type.
    pub(super) fn add(&mut self, atom: Atom) -> TypeRef {
        let number = self.first + u32::try_from(self.atoms.len()).unwrap_or(u32::MAX);
        self.atoms.push(OnceLock::from(atom));
        TypeRef(number)
    }

    /// Adds a type that is defined later.
    #[cfg(test)]
    pub(super) fn reserve(&mut self) -> TypeRef {
        let of = self.add(Atom::default());
        self.atoms.pop();
        self.atoms.push(OnceLock::new());
        of
    }

    #[cfg(test)]
    pub(super) fn define(&self, of: TypeRef, atom: Atom) {
        let index = usize::try_from(of.0 - self.first).unwrap();
        self.atoms[index].set(atom).unwrap();
    }

    pub(super) fn set_kind(&mut self, api_version: &str, kind: &str, of: TypeRef) {
        self.kinds.insert(format!("{api_version} {kind}").into(), of);
    }

    /// The type of a kind.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Option<TypeRef> {
        self.kinds.get(format!("{api_version} {kind}").as_str()).copied()
    }

    /// The type of `metadata`.
    pub(super) fn object_meta() -> TypeRef {
        let schema = Self::builtin();
        let pod = schema.of_kind("v1", "Pod").and_then(|pod| schema.atom(pod));
        pod.and_then(|pod| pod.map.as_ref()?.type_of("metadata")).unwrap_or(DEDUCED)
    }

    /// Whether objects are Go structs in kube-apiserver, which have no fields that are null.
    pub(super) fn is_builtin(&self) -> bool {
        self.base.is_none()
    }

    pub(super) fn atom(&self, of: TypeRef) -> Option<&Atom> {
        if of.0 < FIRST {
            return fixed(of);
        }
        if of.0 < self.first {
            return self.base.and_then(|base| base.atom(of));
        }
        let index = usize::try_from(of.0 - self.first).ok()?;
        let place = self.atoms.get(index)?;
        Some(place.get_or_init(|| self.lines.get(index).map(|line| atom(line)).unwrap_or_default()))
    }

    /// Lines that do not parse are types without forms; tests check that there are none.
    fn parse(text: &'static str) -> Self {
        let mut schema =
            Self { base: None, first: FIRST, lines: Vec::new(), atoms: Vec::new(), kinds: HashMap::new() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix("kind ").and_then(|line| line.rsplit_once(' ')) {
                Some((kind, number)) => {
                    if let Some(of) = reference(number) {
                        schema.kinds.insert(kind.into(), of);
                    }
                }
                None => schema.lines.push(line),
            }
        }
        schema.atoms.resize_with(schema.lines.len(), OnceLock::new);
        schema
    }
}

fn reference(text: &str) -> Option<TypeRef> {
    match text {
        "s" => Some(STRING),
        "n" => Some(NUMERIC),
        "b" => Some(BOOLEAN),
        "u" => Some(SCALAR),
        "a" => Some(ATOMIC),
        "d" => Some(DEDUCED),
        number => number.parse().ok().map(TypeRef),
    }
}

/// Parses a line of the table.
fn atom(line: &'static str) -> Atom {
    let mut atom = Atom::default();
    let mut map = None;
    let mut fields = Vec::new();
    for word in line.split(' ') {
        if let Some(rest) = word.strip_prefix('[') {
            let (element, kind) = match rest.split_once('=') {
                None => (rest, ListKind::Atomic),
                Some((element, "")) => (element, ListKind::Set),
                Some((element, keys)) => {
                    (element, ListKind::Keys(keys.split(',').map(Cow::Borrowed).collect()))
                }
            };
            atom.list = Some(ListType { element: reference(element), kind });
        } else if let Some(rest) = word.strip_prefix('{') {
            let is_atomic = rest.starts_with('!');
            map = Some((reference(rest.trim_start_matches('!')), is_atomic));
        } else if map.is_some() {
            fields.extend(field(word));
        } else {
            atom.scalar = scalar(word);
        }
    }
    atom.map = map.map(|(element, is_atomic)| MapType::new(element, is_atomic, fields));
    atom
}

fn scalar(letter: &str) -> Option<Scalar> {
    match letter {
        "s" => Some(Scalar::Text),
        "n" => Some(Scalar::Numeric),
        "b" => Some(Scalar::Boolean),
        "u" => Some(Scalar::Untyped),
        _ => None,
    }
}

fn field(word: &'static str) -> Option<FieldType> {
    let (name, rest) = word.split_once(':')?;
    if let Some((of, default)) = rest.split_once('=').filter(|(of, _)| !of.contains('!')) {
        let default = serde_json::from_str(default).ok();
        return Some(FieldType { default, ..FieldType::new(name, reference(of)?) });
    }
    let Some((of, zero)) = rest.split_once('!') else { return Some(FieldType::new(name, reference(rest)?)) };
    let zero = if zero.is_empty() { Value::Object(Map::new()) } else { serde_json::from_str(zero).ok()? };
    Some(FieldType { default: Some(zero), is_zero: true, ..FieldType::new(name, reference(of)?) })
}

/// Returns a type with a fixed number.
fn fixed(of: TypeRef) -> Option<&'static Atom> {
    static ATOMS: LazyLock<[Atom; 6]> = LazyLock::new(|| {
        let scalar = |scalar| Atom { scalar: Some(scalar), ..Atom::default() };
        let any = |of, is_atomic| Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(ListType { element: Some(ATOMIC), kind: ListKind::Atomic }),
            map: Some(MapType::new(Some(of), is_atomic, Vec::new())),
        };
        [
            scalar(Scalar::Text),
            scalar(Scalar::Numeric),
            scalar(Scalar::Boolean),
            scalar(Scalar::Untyped),
            any(ATOMIC, true),
            any(DEDUCED, false),
        ]
    });
    ATOMS.get(usize::try_from(of.0).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_parses() {
        let text = include_str!("../generated/types.txt");
        let schema = Schema::builtin();
        assert_eq!(schema.kinds.len(), text.lines().filter(|line| line.starts_with("kind ")).count());
        for (number, line) in (FIRST..).zip(&schema.lines) {
            let atom = schema.atom(TypeRef(number)).unwrap();
            let words = line.split(' ').count();
            let map = atom.map.as_ref();
            let forms = [atom.scalar.is_some(), atom.list.is_some(), map.is_some()];
            let found = forms.iter().filter(|form| **form).count() + map.map_or(0, |map| map.fields.len());
            assert_eq!(found, words, "{line}");
            let list = atom.list.iter().map(|list| list.element.unwrap());
            for of in list.chain(map.iter().flat_map(|map| map.fields.iter().map(|field| field.of))) {
                assert!(schema.atom(of).is_some_and(|atom| *atom != Atom::default()), "{line}");
            }
        }
    }

    #[test]
    fn ports_of_services_have_two_keys_and_a_default() {
        let schema = Schema::builtin();
        let map = |of: TypeRef| schema.atom(of).unwrap().map.as_ref().unwrap();
        let spec = map(map(schema.of_kind("v1", "Service").unwrap()).type_of("spec").unwrap());
        let ports = schema.atom(spec.type_of("ports").unwrap()).unwrap().list.as_ref().unwrap();
        assert_eq!(ports.kind, ListKind::Keys(vec!["port".into(), "protocol".into()]));
        let port = map(ports.element.unwrap());
        assert_eq!(port.field("protocol").unwrap().default, Some("TCP".into()));
        assert!(map(spec.type_of("selector").unwrap()).is_atomic);
        assert!(map(Schema::object_meta()).field("labels").is_some());
    }
}
