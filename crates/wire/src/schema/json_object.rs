//! The types of JSON objects.

use super::lookup::message;
use super::types::{Card, Kind, Rule, Schema, Shape};

/// The type of a JSON object, as far as it is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonObject {
    /// An object with an API version and a kind.
    Kind,
    /// The members are the fields of the message.
    Message(u16),
    /// A map whose values have this kind. The number is that of their message.
    Map(Kind, u16),
    Unknown,
}

impl JsonObject {
    /// Returns the type of objects of a kind. Of a kind that is not built in, only the metadata is known.
    pub(crate) fn of_kind(api_version: &str, kind: &str) -> Self {
        let schema = Schema::find(api_version, kind);
        let schema = schema.or_else(|| Schema::find("meta.k8s.io/v1", "PartialObjectMetadata"));
        schema.map_or(Self::Unknown, |schema| Self::Message(schema.message))
    }

    /// Returns the type of a value that is an object.
    pub(crate) fn of_value(kind: Kind, message: u16) -> Self {
        match kind {
            Kind::Message => Self::Message(message),
            Kind::RawExtension => Self::Kind,
            _ => Self::Unknown,
        }
    }

    /// Returns the type of a member.
    pub(crate) fn member(self, name: &str) -> Self {
        match self {
            Self::Message(index) => member(index, name).unwrap_or(Self::Unknown),
            Self::Map(kind, message) => Self::of_value(kind, message),
            Self::Kind | Self::Unknown => Self::Unknown,
        }
    }

    pub(crate) fn is_map(self) -> bool {
        matches!(self, Self::Map(..))
    }
}

fn member(index: u16, name: &str) -> Option<JsonObject> {
    message(index).iter().find_map(|field| {
        let Shape { message, kind, card } = field.shape;
        match (field.rule, card) {
            (Rule::Inline, _) => member(message, name),
            _ if field.name.text() != name => None,
            (_, Card::One) => Some(JsonObject::of_value(kind, message)),
            (_, Card::Map) => Some(JsonObject::Map(kind, message)),
            (_, Card::Repeated) => Some(JsonObject::Unknown),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps are known at any depth, in inlined messages too.
    #[test]
    fn members_have_types() {
        let of = |api_version, kind, path: &[&str]| {
            path.iter().fold(JsonObject::of_kind(api_version, kind), |object, name| object.member(name))
        };
        for path in [&["metadata", "labels"][..], &["spec", "nodeSelector"], &["spec", "overhead"]] {
            assert!(of("v1", "Pod", path).is_map(), "{path:?}");
        }
        for path in
            [&["metadata"][..], &["spec", "containers"], &["spec", "affinity"], &["metadata", "labels", "a"]]
        {
            assert!(!of("v1", "Pod", path).is_map(), "{path:?}");
        }
        assert!(of("v1", "ResourceQuota", &["spec", "hard"]).is_map());
        // A source of a volume is inlined.
        assert!(of("v1", "PersistentVolume", &["spec", "csi", "volumeAttributes"]).is_map());
        assert_eq!(of("apps/v1", "ControllerRevision", &["data"]), JsonObject::Kind);
        assert!(of("example.com/v1", "Custom", &["metadata", "annotations"]).is_map());
        assert_eq!(of("example.com/v1", "Custom", &["spec"]), JsonObject::Unknown);
    }
}
