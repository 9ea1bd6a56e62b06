//! Checks that a response is the requested list.

use std::borrow::Cow;
use std::fmt;

use kinformer_reflector::SourceError;
use kinformer_wire::{ListEnvelope, is_built_in};
use kube_core::discovery::ApiResource;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

use crate::decode::Named;

/// Checks the kind and group of a list.
///
/// The kind must be `{Kind}List` or `List`, and the group, if the list names one, the group of the kind. A custom
/// resource definition may choose any name for its list (`spec.names.listKind`, even `Table`), so a kind that is not
/// built in accepts any list kind in its group. A list without a kind is refused, since an API server always names it.
///
/// client-go 0.37 refuses a list of another type in its typed clients, and accepts a list without a kind.
///
/// # Errors
/// [`SourceError::WrongList`] if the list has another kind or group.
pub(crate) fn check(envelope: &ListEnvelope, resource: &str, named: &Named) -> Result<(), SourceError> {
    let ListEnvelope { kind, api_version, .. } = envelope;
    match is_list_of_kind(kind, api_version, named) {
        true => Ok(()),
        false => Err(wrong(resource, named, &received(api_version, kind))),
    }
}

/// Returns whether a response with this kind and API version may be a list of the resource.
pub fn is_list_of(kind: &str, api_version: &str, resource: &ApiResource) -> bool {
    let (of_version, of_kind) = (resource.api_version.clone(), resource.kind.clone());
    let is_built_in = is_built_in(&of_version, &of_kind);
    is_list_of_kind(kind, api_version, &Named { api_version: of_version, kind: of_kind, is_built_in })
}

fn is_list_of_kind(kind: &str, api_version: &str, named: &Named) -> bool {
    let group_differs = !api_version.is_empty() && group(api_version) != group(&named.api_version);
    match kind {
        "" => false,
        "List" => !group_differs || api_version == "v1",
        kind if kind.strip_suffix("List") == Some(&named.kind) => !group_differs,
        _ => !named.is_built_in && !api_version.is_empty() && !group_differs,
    }
}

/// What the beginning of a body is.
pub(crate) enum Start {
    /// A list of this kind.
    List(String),
    /// Something else.
    Other,
    /// More of the body is needed.
    Unknown,
}

/// Returns whether a watch was answered by a list: a list has a kind that ends in `List`, or items, and an event has a type
/// and an object.
pub(crate) fn instead_of_watch(start: &[u8]) -> Start {
    struct Fields<'a>(&'a mut Start);

    impl<'de> Visitor<'de> for Fields<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
            while let Some(field) = fields.next_key::<Cow<'_, str>>()? {
                match &*field {
                    "type" | "object" => break,
                    "kind" => {
                        let kind: String = fields.next_value()?;
                        *self.0 = if kind.ends_with("List") { Start::List(kind) } else { Start::Other };
                        return Ok(());
                    }
                    "items" => {
                        *self.0 = Start::List("a list without a kind".to_owned());
                        return Ok(());
                    }
                    _ => _ = fields.next_value::<IgnoredAny>()?,
                }
            }
            *self.0 = Start::Other;
            Ok(())
        }
    }

    let mut found = Start::Unknown;
    // The beginning of a body may end anywhere, which is an error after the fields that are known.
    let read = serde_json::Deserializer::from_slice(start).deserialize_map(Fields(&mut found));
    match read {
        Err(error) if matches!(found, Start::Unknown) && !error.is_eof() => Start::Other,
        _ => found,
    }
}

/// Returns the error for a list of another kind.
pub(crate) fn wrong(resource: &str, named: &Named, received: &str) -> SourceError {
    SourceError::WrongList {
        resource: resource.to_owned(),
        expected: format!("{}List of {}", named.kind, named.api_version),
        received: received.to_owned(),
    }
}

fn received(api_version: &str, kind: &str) -> String {
    match (api_version, kind) {
        (_, "") => "a list without a kind".to_owned(),
        ("", kind) => format!("a {kind}"),
        (version, kind) => format!("a {kind} of {version}"),
    }
}

/// Returns the group of an API version: `apps` for `apps/v1`, empty for `v1`.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
