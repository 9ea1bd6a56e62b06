//! Drops the managed fields of an object.

use super::reader::{ProtobufProblem, Raw, field, put_number};
use crate::ManagedFields;

/// The field numbers of the metadata in an object and of the managed fields in the metadata.
const METADATA: u32 = 1;
const MANAGED_FIELDS: u32 = 17;

/// Drops managed fields, with a reused buffer.
#[derive(Debug)]
pub(super) struct Dropper {
    managed_fields: ManagedFields,
    out: Vec<u8>,
}

impl Dropper {
    pub(super) fn new(managed_fields: ManagedFields) -> Self {
        Self { managed_fields, out: Vec::new() }
    }

    /// Returns the object without its managed fields. An object that cannot be read is returned unchanged: decoding it
    /// returns the error.
    pub(super) fn apply<'a>(&'a mut self, object: &'a [u8]) -> &'a [u8] {
        const KEPT: usize = 256 * 1024;
        self.out.clear();
        self.out.shrink_to(KEPT);
        let drops = self.managed_fields == ManagedFields::Drop && self.copy(object) == Ok(true);
        if drops { &self.out } else { object }
    }

    /// Copies the object without the managed fields. Returns whether there are any.
    fn copy(&mut self, object: &[u8]) -> Result<bool, &'static ProtobufProblem> {
        let mut rest = object;
        while !rest.is_empty() {
            let start = object.len() - rest.len();
            if let (METADATA, Raw::Bytes(metadata)) = field(&mut rest)? {
                let around = around(metadata)?;
                let length: usize = around.iter().map(|part| part.len()).sum();
                if length == metadata.len() {
                    return Ok(false);
                }
                self.out.extend_from_slice(object.get(..start).unwrap_or_default());
                self.out.push((METADATA << 3 | 2) as u8);
                put_number(&mut self.out, length as u64);
                around.iter().for_each(|part| self.out.extend_from_slice(part));
                self.out.extend_from_slice(rest);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the bytes before and after the managed fields.
fn around(metadata: &[u8]) -> Result<[&[u8]; 2], &'static ProtobufProblem> {
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
    fn only_managed_fields_are_dropped() {
        let (name, managed, newer) = (field(1, b"a"), field(17, &[7; 200]), field(18, b"x"));
        let object = |metadata: &[&[u8]]| [field(1, &metadata.concat()), field(2, b"spec")].concat();
        let with = object(&[&name, &managed, &managed, &newer]);
        let without = object(&[&name, &newer]);
        assert_eq!(Dropper::new(ManagedFields::Drop).apply(&with), without);
        assert_eq!(Dropper::new(ManagedFields::Keep).apply(&with), with);
        let mut dropper = Dropper::new(ManagedFields::Drop);
        for same in [without.as_slice(), b"", b"\x12\0", &with[..with.len() / 2], &object(&[&[0xff]])] {
            assert_eq!(dropper.apply(same), same);
        }
    }
}
