//! Members left out of an object that stays JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Error;

/// A value without the members that these names lead to; none if it is no object.
pub(crate) fn cut_value(value: &[u8], paths: &[&[Box<str>]]) -> serde_json::Result<Option<Vec<u8>>> {
    if value.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(value.len());
    put(&mut out, &serde_json::from_slice(value)?, paths)?;
    Ok(Some(out))
}

/// The object without the members that these names lead to.
pub(crate) fn cut(object: &[u8], paths: &[&[Box<str>]]) -> Result<Vec<u8>, Error> {
    let malformed = |error| Error::malformed("an object", error, object);
    let mut out = Vec::with_capacity(object.len());
    let members = serde_json::from_slice(object).map_err(malformed)?;
    put(&mut out, &members, paths).map_err(malformed)?;
    Ok(out)
}

fn put(out: &mut Vec<u8>, members: &Members<'_>, paths: &[&[Box<str>]]) -> serde_json::Result<()> {
    out.push(b'{');
    let mut first = true;
    for (key, value) in &members.0 {
        let within = paths.iter().filter_map(|path| path.split_first());
        let rest: Vec<&[Box<str>]> =
            within.filter(|(name, _)| ***name == *key.0).map(|(_, rest)| rest).collect();
        if rest.iter().any(|rest| rest.is_empty()) {
            continue;
        }
        if !std::mem::replace(&mut first, false) {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, &key.0)?;
        out.push(b':');
        match serde_json::from_str::<Members<'_>>(value.get()) {
            Ok(members) if !rest.is_empty() => put(out, &members, &rest)?,
            _ => out.extend_from_slice(value.get().as_bytes()),
        }
    }
    out.push(b'}');
    Ok(())
}

/// The members of an object in their order, their values as they stand.
struct Members<'a>(Vec<(Key<'a>, &'a RawValue)>);

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;

        impl<'de> Visitor<'de> for Visit {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visit)
    }
}
