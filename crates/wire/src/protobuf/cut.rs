//! Members cut out of an object that stays protobuf: managed fields on the way, others by their paths.

use serde::de::Error as _;

use super::access::map_entry;
use super::envelope::{Envelope, MAGIC, fields};
use super::path::{Path, Step};
use super::reader::{LENGTH, ProtobufProblem, Raw, field, put_number};
use super::run::Fault;
use super::schema::{Card, Kind, Schema};
use crate::limits::Limits;
use crate::{Error, ManagedFields, json};

/// The field of an object that is its metadata, and the field of that with the managed fields.
const METADATA: u32 = 1;
const MANAGED_FIELDS: u32 = 17;
/// The field of an entry of a map that is its value.
const VALUE: u32 = 2;
/// The field of a message around JSON that is the JSON.
const JSON: u32 = 1;

/// Cuts managed fields out, in a buffer that is used again.
#[derive(Debug)]
pub(super) struct Cutter {
    managed_fields: ManagedFields,
    out: Vec<u8>,
}

impl Cutter {
    pub(super) fn new(managed_fields: ManagedFields) -> Self {
        Self { managed_fields, out: Vec::new() }
    }

    /// The object as it is to be given on. One that cannot be read is as it was: decoding it tells what is wrong.
    pub(super) fn cut<'a>(&'a mut self, object: &'a [u8]) -> &'a [u8] {
        const KEPT: usize = 256 * 1024;
        self.out.clear();
        self.out.shrink_to(KEPT);
        let cut = self.managed_fields == ManagedFields::Cut && self.copy(object) == Ok(true);
        if cut { &self.out } else { object }
    }

    /// Copies all but the managed fields; says whether there are any.
    fn copy(&mut self, object: &[u8]) -> Result<bool, &'static ProtobufProblem> {
        let mut rest = object;
        while !rest.is_empty() {
            let at = object.len() - rest.len();
            if let (METADATA, Raw::Bytes(metadata)) = field(&mut rest)? {
                let kept = kept(metadata)?;
                let length: usize = kept.iter().map(|part| part.len()).sum();
                if length == metadata.len() {
                    return Ok(false);
                }
                self.out.extend_from_slice(object.get(..at).unwrap_or_default());
                self.out.push((METADATA << 3 | 2) as u8);
                put_number(&mut self.out, length as u64);
                kept.iter().for_each(|part| self.out.extend_from_slice(part));
                self.out.extend_from_slice(rest);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What is before the managed fields, and what is behind them.
fn kept(metadata: &[u8]) -> Result<[&[u8]; 2], &'static ProtobufProblem> {
    let mut rest = metadata;
    while !rest.is_empty() {
        let before = rest;
        if field(&mut rest)?.0 != MANAGED_FIELDS {
            continue;
        }
        let mut after = rest;
        while !rest.is_empty() {
            if field(&mut rest)?.0 == MANAGED_FIELDS {
                after = rest;
            }
        }
        return Ok([metadata.get(..metadata.len() - before.len()).unwrap_or_default(), after]);
    }
    Ok([metadata, &[]])
}

/// The object without the fields that these paths lead to.
pub(crate) fn cut(schema: Schema, object: &[u8], paths: &[&Path]) -> Result<Vec<u8>, Error> {
    let ways: Vec<Way<'_>> = paths.iter().filter_map(|path| Way::of(path)).collect();
    let mut out = Vec::with_capacity(object.len());
    match copy(object, &ways, &mut out) {
        Ok(()) => Ok(out),
        Err(fault) => Err(super::failure(schema, String::new(), fault, &Limits::of(object.len()), object)),
    }
}

/// What is left to go of a path.
#[derive(Clone, Copy)]
struct Way<'a> {
    steps: &'a [Step],
    within: &'a [Box<str>],
}

impl<'a> Way<'a> {
    /// None if the path leads to what is not in the message.
    fn of(path: &'a Path) -> Option<Self> {
        Some(Self { steps: path.steps(), within: path.within() }).filter(|way| !way.steps.is_empty())
    }

    /// Whether it ends here.
    fn ends(self) -> bool {
        self.steps.is_empty() && self.within.is_empty()
    }
}

/// Copies all of a message but what the ways lead to.
fn copy(message: &[u8], ways: &[Way<'_>], out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut rest = message;
    while !rest.is_empty() {
        let before = rest;
        let (number, raw) = field(&mut rest)?;
        let whole = before.get(..before.len() - rest.len()).unwrap_or_default();
        let mut within = Vec::new();
        let mut within_entry = Vec::new();
        let mut shape = None;
        for way in ways {
            let [Step::Field(step), more @ ..] = way.steps else { continue };
            if number != u32::from(step.number) {
                continue;
            }
            shape = Some(step.shape);
            match more {
                [Step::Key(wanted), more @ ..] => {
                    let is_it = map_entry(raw, step.shape.kind)?.0 == &**wanted;
                    within_entry.extend(is_it.then_some(Way { steps: more, ..*way }));
                }
                more => within.push(Way { steps: more, ..*way }),
            }
        }
        if within.iter().chain(&within_entry).any(|way| way.ends()) {
            continue;
        }
        let mut inner = Vec::new();
        match (shape, within.is_empty(), within_entry.is_empty()) {
            (Some(shape), false, _) if shape.card == Card::One => {
                copy_value(shape.kind, raw, &within, &mut inner)?;
            }
            (Some(shape), _, false) => copy_entry(raw.bytes()?, shape.kind, &within_entry, &mut inner)?,
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
fn copy_value(kind: Kind, raw: Raw<'_>, ways: &[Way<'_>], out: &mut Vec<u8>) -> Result<(), Fault> {
    match kind {
        Kind::Message => copy(raw.bytes()?, ways, out),
        Kind::RawJson | Kind::RawExtension => {
            let names: Vec<&[Box<str>]> = ways.iter().map(|way| way.within).collect();
            copy_json(kind, raw.bytes()?, &names, out)
        }
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
fn copy_entry(entry: &[u8], kind: Kind, ways: &[Way<'_>], out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut rest = entry;
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (VALUE, raw @ Raw::Bytes(_)) => {
                let mut inner = Vec::new();
                copy_value(kind, raw, ways, &mut inner)?;
                put_field(out, VALUE, &inner);
            }
            _ => out.extend_from_slice(before.get(..before.len() - rest.len()).unwrap_or_default()),
        }
    }
    Ok(())
}

/// Copies the message around JSON, or around an object in protobuf, without what the names lead to.
fn copy_json(kind: Kind, message: &[u8], names: &[&[Box<str>]], out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut rest = message;
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (JSON, raw) => {
                let value = raw.bytes()?;
                let cut = match kind == Kind::RawExtension && value.starts_with(MAGIC) {
                    true => Some(cut_envelope(value, names)?),
                    false => json::cut_value(value, names)?,
                };
                put_field(out, JSON, cut.as_deref().unwrap_or(value));
            }
            _ => out.extend_from_slice(before.get(..before.len() - rest.len()).unwrap_or_default()),
        }
    }
    Ok(())
}

/// An object within another, without what the names lead to.
fn cut_envelope(bytes: &[u8], names: &[&[Box<str>]]) -> Result<Vec<u8>, Fault> {
    let Envelope { api_version, kind, .. } = Envelope::read(bytes)?;
    let unknown = || Fault::custom(format_args!("the kind {api_version} {kind} is not known"));
    let schema = Schema::of(api_version, kind).ok_or_else(unknown)?;
    let mut paths = Vec::new();
    for names in names {
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        if matches!(names.as_slice(), ["apiVersion" | "kind"]) {
            return Err(Fault::custom(
                "an object within another does not decode without its version and kind",
            ));
        }
        paths.extend(Path::new(schema, &names));
    }
    let ways: Vec<Way<'_>> = paths.iter().filter_map(Way::of).collect();
    let mut out = MAGIC.to_vec();
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_default();
    while !rest.is_empty() {
        let before = rest;
        match field(&mut rest)? {
            (fields::OBJECT, raw) => {
                let mut inner = Vec::new();
                copy(raw.bytes()?, &ways, &mut inner)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, u64::from(number) << 3 | 2);
        put_number(&mut out, bytes.len() as u64);
        [out, bytes.to_vec()].concat()
    }

    #[test]
    fn only_the_managed_fields_go() {
        let (name, managed, newer) = (field(1, b"a"), field(17, &[7; 200]), field(18, b"x"));
        let object = |metadata: &[&[u8]]| [field(1, &metadata.concat()), field(2, b"spec")].concat();
        let with = object(&[&name, &managed, &managed, &newer]);
        let without = object(&[&name, &newer]);
        assert_eq!(Cutter::new(ManagedFields::Cut).cut(&with), without);
        assert_eq!(Cutter::new(ManagedFields::Keep).cut(&with), with);
        let mut cutter = Cutter::new(ManagedFields::Cut);
        for same in [without.as_slice(), b"", b"\x12\0", &with[..with.len() / 2], &object(&[&[0xff]])] {
            assert_eq!(cutter.cut(same), same);
        }
    }
}
