//! Fields dropped from an object that stays protobuf, by their paths.

use serde::de::Error as _;

use super::access::map_entry;
use super::envelope::{Envelope, MAGIC, fields};
use super::path::{Path, Step};
use super::reader::{LENGTH, Raw, field, put_number};
use super::schema::{Card, Field, Kind, Rule, Schema};
use super::value::is_null;
use crate::decode::Fault;
use crate::json;

/// The field of an entry of a map that is its value.
const VALUE: u32 = 2;
/// The field of a message around JSON that is the JSON.
const JSON: u32 = 1;

/// The object without the fields that these paths lead to. Each path has a number, which is added to `dropped` if there
/// is such a field.
pub(super) fn drop_fields<'a>(
    object: &[u8],
    paths: impl Iterator<Item = (usize, &'a Path)>,
    dropped: &mut Vec<usize>,
) -> Result<Vec<u8>, Fault> {
    let ways: Vec<Way<'_>> = paths.filter_map(|(number, path)| Way::of(path, number)).collect();
    let mut out = Vec::with_capacity(object.len());
    copy(object, &ways, &mut out, dropped)?;
    Ok(out)
}

/// What is left to go of a path, and the number of the path.
#[derive(Clone, Copy)]
struct Way<'a> {
    steps: &'a [Step],
    within: &'a [Box<str>],
    number: usize,
}

impl<'a> Way<'a> {
    /// None if the path leads to what is not in the message.
    fn of(path: &'a Path, number: usize) -> Option<Self> {
        let way = Self { steps: path.steps(), within: path.within(), number };
        Some(way).filter(|way| !way.steps.is_empty())
    }

    /// Whether it ends here.
    fn ends(&self) -> bool {
        self.steps.is_empty() && self.within.is_empty()
    }
}

/// Copies all of a message but what the ways lead to.
fn copy(message: &[u8], ways: &[Way<'_>], out: &mut Vec<u8>, dropped: &mut Vec<usize>) -> Result<(), Fault> {
    let mut rest = message;
    while !rest.is_empty() {
        let before = rest;
        let (number, raw) = field(&mut rest)?;
        let whole = before.get(..before.len() - rest.len()).unwrap_or_default();
        let mut within = Vec::new();
        let mut within_entry = Vec::new();
        let mut known = None;
        for way in ways {
            let [Step::Field(step), more @ ..] = way.steps else { continue };
            if number != u32::from(step.number) {
                continue;
            }
            known = Some(*step);
            match more {
                [Step::Key(wanted), more @ ..] => {
                    let is_it = map_entry(raw, step.shape.kind)?.0 == &**wanted;
                    within_entry.extend(is_it.then_some(Way { steps: more, ..*way }));
                }
                more => within.push(Way { steps: more, ..*way }),
            }
        }
        let ends = || within.iter().chain(&within_entry).filter(|way| way.ends());
        if ends().next().is_some() {
            // A zero that JSON leaves out is no field of the object, nor is null.
            let is_absent =
                |field: &Field| field.rule == Rule::OmitZero && raw.is_zero() || is_null(field.shape, raw);
            if !known.is_some_and(is_absent) {
                dropped.extend(ends().map(|way| way.number));
            }
            continue;
        }
        let mut inner = Vec::new();
        match (known.map(|field| field.shape), within.is_empty(), within_entry.is_empty()) {
            (Some(shape), false, _) if shape.card == Card::One => {
                copy_value(shape.kind, raw, &within, &mut inner, dropped)?;
            }
            (Some(shape), _, false) => {
                copy_entry(raw.bytes()?, shape.kind, &within_entry, &mut inner, dropped)?
            }
            // Lists are not gone into.
            _ => {
                out.extend_from_slice(whole);
                continue;
            }
        }
        match inner.is_empty() && !matches!(raw, Raw::Bytes(_)) {
            true => out.extend_from_slice(whole),
            false => put_field(out, number, &inner),
        }
    }
    Ok(())
}

/// Copies a value, of which only what the ways lead to is left out.
fn copy_value(
    kind: Kind,
    raw: Raw<'_>,
    ways: &[Way<'_>],
    out: &mut Vec<u8>,
    dropped: &mut Vec<usize>,
) -> Result<(), Fault> {
    match kind {
        Kind::Message => copy(raw.bytes()?, ways, out, dropped),
        Kind::RawJson | Kind::RawExtension => copy_json(kind, raw.bytes()?, ways, out, dropped),
        // What has no fields.
        _ => {
            if let Raw::Bytes(bytes) = raw {
                out.extend_from_slice(bytes);
            }
            Ok(())
        }
    }
}

/// Copies an entry of a map, and of its value all but what the ways lead to.
fn copy_entry(
    entry: &[u8],
    kind: Kind,
    ways: &[Way<'_>],
    out: &mut Vec<u8>,
    dropped: &mut Vec<usize>,
) -> Result<(), Fault> {
    let mut rest = entry;
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (VALUE, raw @ Raw::Bytes(_)) => {
                let mut inner = Vec::new();
                copy_value(kind, raw, ways, &mut inner, dropped)?;
                put_field(out, VALUE, &inner);
            }
            _ => out.extend_from_slice(before.get(..before.len() - rest.len()).unwrap_or_default()),
        }
    }
    Ok(())
}

/// Copies the message around JSON, or around an object in protobuf, without what the names lead to.
fn copy_json(
    kind: Kind,
    message: &[u8],
    ways: &[Way<'_>],
    out: &mut Vec<u8>,
    dropped: &mut Vec<usize>,
) -> Result<(), Fault> {
    let mut rest = message;
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (JSON, raw) => {
                let value = raw.bytes()?;
                let paths = ways.iter().map(|way| (way.number, way.within));
                let less = match kind == Kind::RawExtension && value.starts_with(MAGIC) {
                    true => Some(copy_envelope(value, paths, dropped)?),
                    false => json::drop_fields_of_value(value, paths, dropped)?,
                };
                put_field(out, JSON, less.as_deref().unwrap_or(value));
            }
            _ => out.extend_from_slice(before.get(..before.len() - rest.len()).unwrap_or_default()),
        }
    }
    Ok(())
}

/// Copies an object within another, without what the names lead to.
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
    let ways = paths.iter().filter_map(|(number, path)| Way::of(path, *number));
    let ways: Vec<Way<'_>> = ways.collect();
    let mut out = MAGIC.to_vec();
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_default();
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (fields::OBJECT, raw) => {
                let mut inner = Vec::new();
                copy(raw.bytes()?, &ways, &mut inner, dropped)?;
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
