//! Drops fields from protobuf by their paths, without decoding the rest.

use serde::de::Error as _;

use super::access::map_entry;
use super::envelope::{Envelope, MAGIC, fields};
use super::path::{Path, Step};
use super::reader::{LENGTH, Raw, field, put_number};
use super::value::is_null;
use crate::decode::Fault;
use crate::json;
use crate::schema::{Card, Field, JsonObject, Kind, Rule, Schema};

/// The number of the value field in a map entry.
const VALUE: u32 = 2;
/// The number of the JSON field in a message around JSON.
const JSON: u32 = 1;

/// Returns the object without the fields of these paths. The number of a path is added to `dropped` if the object had
/// such a field.
pub(super) fn drop_fields<'a>(
    object: &[u8],
    paths: impl Iterator<Item = (usize, &'a Path)>,
    dropped: &mut Vec<usize>,
) -> Result<Vec<u8>, Fault> {
    let suffixes: Vec<Suffix<'_>> = paths.filter_map(|(number, path)| Suffix::of(path, number)).collect();
    let mut out = Vec::with_capacity(object.len());
    copy(object, &suffixes, &mut out, dropped)?;
    Ok(out)
}

/// The remaining steps of a path, and the number of the path.
#[derive(Clone, Copy)]
struct Suffix<'a> {
    steps: &'a [Step],
    within: &'a [Box<str>],
    number: usize,
}

impl<'a> Suffix<'a> {
    /// Returns `None` for a path to a field that is not in the message.
    fn of(path: &'a Path, number: usize) -> Option<Self> {
        let suffix = Self { steps: path.steps(), within: path.within(), number };
        Some(suffix).filter(|suffix| !suffix.steps.is_empty())
    }

    /// A bit for the number of the field in this message, which other numbers may share.
    fn bit(&self) -> u64 {
        match self.steps {
            [Step::Field(field), ..] => bit(u32::from(field.number)),
            _ => 0,
        }
    }

    /// Whether the path ends here.
    fn ends(&self) -> bool {
        self.steps.is_empty() && self.within.is_empty()
    }
}

fn bit(number: u32) -> u64 {
    1 << (number % u64::BITS)
}

/// A field that is on paths.
struct OnPaths<'a> {
    known: Option<&'static Field>,
    /// The rests of the paths that lead into the field.
    within: Vec<Suffix<'a>>,
    /// Of those that lead into an entry of a map.
    within_entry: Vec<Suffix<'a>>,
}

impl<'a> OnPaths<'a> {
    fn of(number: u32, raw: Raw<'_>, suffixes: &[Suffix<'a>]) -> Result<Self, Fault> {
        let mut found = Self { known: None, within: Vec::new(), within_entry: Vec::new() };
        for suffix in suffixes {
            let [Step::Field(step), more @ ..] = suffix.steps else { continue };
            if number != u32::from(step.number) {
                continue;
            }
            found.known = Some(*step);
            match more {
                [Step::Key(wanted), more @ ..] => {
                    let is_it = map_entry(raw, step.shape.kind)?.0 == &**wanted;
                    found.within_entry.extend(is_it.then_some(Suffix { steps: more, ..*suffix }));
                }
                more => found.within.push(Suffix { steps: more, ..*suffix }),
            }
        }
        Ok(found)
    }
}

/// Copies a message without the fields of these paths.
fn copy(
    message: &[u8],
    suffixes: &[Suffix<'_>],
    out: &mut Vec<u8>,
    dropped: &mut Vec<usize>,
) -> Result<(), Fault> {
    // Most fields are on no path, and are copied together.
    let on_paths = suffixes.iter().fold(0, |bits, suffix| bits | suffix.bit());
    let mut rest = message;
    let mut uncopied = message;
    while !rest.is_empty() {
        let before = rest;
        let (number, raw) = field(&mut rest)?;
        if on_paths & bit(number) == 0 {
            continue;
        }
        out.extend_from_slice(uncopied.get(..uncopied.len() - before.len()).unwrap_or_default());
        uncopied = rest;
        let encoded = before.get(..before.len() - rest.len()).unwrap_or_default();
        let OnPaths { known, within, within_entry } = OnPaths::of(number, raw, suffixes)?;
        if within.is_empty() && within_entry.is_empty() {
            out.extend_from_slice(encoded);
            continue;
        }
        let ends = || within.iter().chain(&within_entry).filter(|suffix| suffix.ends());
        if ends().next().is_some() {
            // A zero that JSON omits counts as a missing field, and so does null.
            let is_absent =
                |field: &Field| field.rule == Rule::OmitZero && raw.is_zero() || is_null(field.shape, raw);
            if !known.is_some_and(is_absent) {
                dropped.extend(ends().map(|suffix| suffix.number));
            }
            continue;
        }
        let mut inner = Vec::with_capacity(encoded.len());
        match (known.map(|field| field.shape), within.is_empty(), within_entry.is_empty()) {
            (Some(shape), false, _) if shape.card == Card::One => {
                copy_value(shape.kind, raw, &within, &mut inner, dropped)?;
            }
            (Some(shape), _, false) => {
                copy_entry(raw.bytes()?, shape.kind, &within_entry, &mut inner, dropped)?
            }
            // Paths do not lead into lists.
            _ => {
                out.extend_from_slice(encoded);
                continue;
            }
        }
        match inner.is_empty() && !matches!(raw, Raw::Bytes(_)) {
            true => out.extend_from_slice(encoded),
            false => put_field(out, number, &inner),
        }
    }
    out.extend_from_slice(uncopied);
    Ok(())
}

/// Copies a value without the fields of these paths.
fn copy_value(
    kind: Kind,
    raw: Raw<'_>,
    suffixes: &[Suffix<'_>],
    out: &mut Vec<u8>,
    dropped: &mut Vec<usize>,
) -> Result<(), Fault> {
    match kind {
        Kind::Message => copy(raw.bytes()?, suffixes, out, dropped),
        Kind::RawJson | Kind::RawExtension => copy_json(kind, raw.bytes()?, suffixes, out, dropped),
        // Scalars have no fields.
        _ => {
            if let Raw::Bytes(bytes) = raw {
                out.extend_from_slice(bytes);
            }
            Ok(())
        }
    }
}

/// Copies a map entry without the fields of these paths in its value.
fn copy_entry(
    entry: &[u8],
    kind: Kind,
    suffixes: &[Suffix<'_>],
    out: &mut Vec<u8>,
    dropped: &mut Vec<usize>,
) -> Result<(), Fault> {
    let mut rest = entry;
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (VALUE, raw @ Raw::Bytes(_)) => {
                let mut inner = Vec::new();
                copy_value(kind, raw, suffixes, &mut inner, dropped)?;
                put_field(out, VALUE, &inner);
            }
            _ => out.extend_from_slice(before.get(..before.len() - rest.len()).unwrap_or_default()),
        }
    }
    Ok(())
}

/// Copies the message around JSON, or around an object in protobuf, without the fields of these paths.
fn copy_json(
    kind: Kind,
    message: &[u8],
    suffixes: &[Suffix<'_>],
    out: &mut Vec<u8>,
    dropped: &mut Vec<usize>,
) -> Result<(), Fault> {
    let mut rest = message;
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (JSON, raw) => {
                let value = raw.bytes()?;
                let paths = suffixes.iter().map(|suffix| (suffix.number, suffix.within));
                let shortened = match kind == Kind::RawExtension && value.starts_with(MAGIC) {
                    true => Some(copy_envelope(value, paths, dropped)?),
                    false => {
                        json::drop_fields_of_value(value, JsonObject::of_value(kind, 0), paths, dropped)?
                    }
                };
                put_field(out, JSON, shortened.as_deref().unwrap_or(value));
            }
            _ => out.extend_from_slice(before.get(..before.len() - rest.len()).unwrap_or_default()),
        }
    }
    Ok(())
}

/// Copies an object within another, without the fields of these paths.
fn copy_envelope<'a>(
    bytes: &[u8],
    names: impl Iterator<Item = (usize, &'a [Box<str>])>,
    dropped: &mut Vec<usize>,
) -> Result<Vec<u8>, Fault> {
    let Envelope { api_version, kind, .. } = Envelope::read(bytes)?;
    let unknown = || Fault::custom(format_args!("the kind {api_version} {kind} is not known"));
    let schema = Schema::of(api_version, kind).ok_or_else(unknown)?;
    let mut paths = Vec::new();
    for (number, names) in names {
        if let [name] = names
            && matches!(&**name, "apiVersion" | "kind")
        {
            return Err(Fault::custom(
                "an object within another does not decode without its version and kind",
            ));
        }
        paths.extend(Path::new(schema, names).map(|path| (number, path)));
    }
    let suffixes = paths.iter().filter_map(|(number, path)| Suffix::of(path, *number));
    let suffixes: Vec<Suffix<'_>> = suffixes.collect();
    let mut out = MAGIC.to_vec();
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_default();
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (fields::OBJECT, raw) => {
                let mut inner = Vec::new();
                copy(raw.bytes()?, &suffixes, &mut inner, dropped)?;
                put_field(&mut out, fields::OBJECT, &inner);
            }
            _ => out.extend_from_slice(before.get(..before.len() - rest.len()).unwrap_or_default()),
        }
    }
    Ok(out)
}

fn put_field(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_number(out, u64::from(number) << 3 | u64::from(LENGTH));
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
