//! Content negotiation.

use ::http::{HeaderMap, header};

use crate::status::Status;
use crate::storage::ManagedFields;

/// A form of response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Full objects.
    Objects,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `Table`.
    Table,
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// How the objects of a response are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Representation {
    pub(super) form: Form,
    pub(super) encoding: Encoding,
    pub(super) managed_fields: ManagedFields,
}

impl Representation {
    /// Complete objects in JSON.
    pub(super) const OBJECTS: Self =
        Self { form: Form::Objects, encoding: Encoding::Json, managed_fields: ManagedFields::Sent };
}

/// Whether responses may be in protobuf.
///
/// Kubernetes offers protobuf for the built-in kinds. It is off by default here: JSON is served from the stored
/// bytes, protobuf is encoded once for each state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtobufAnswers {
    /// Clients that prefer protobuf get the next type of their list: JSON, or 406.
    #[default]
    Refused,
    /// Clients that prefer protobuf get it for the kinds that support it.
    Offered,
}

/// One entry of an `Accept` header, such as `application/json;as=Table;q=0.9`.
#[derive(Debug)]
pub(super) struct MediaRange {
    pub(super) media_type: String,
    parameters: Vec<(String, String)>,
    quality: u16,
}

impl MediaRange {
    pub(super) fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    pub(super) fn includes(&self, media_type: &str) -> bool {
        self.media_type == media_type
            || self.media_type == "*/*"
            || media_type.split_once('/').is_some_and(|(kind, _)| self.media_type == format!("{kind}/*"))
    }
}

/// The entries of the `Accept` headers by descending quality; a single wildcard if there are none.
pub(super) fn media_ranges(headers: &HeaderMap) -> Vec<MediaRange> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut media_ranges: Vec<MediaRange> =
        values.flat_map(|value| value.split(',')).filter_map(media_range).collect();
    if media_ranges.is_empty() {
        media_ranges.push(MediaRange { media_type: "*/*".into(), parameters: Vec::new(), quality: 1000 });
    }
    media_ranges.sort_by_key(|media_range| std::cmp::Reverse(media_range.quality));
    media_ranges
}

fn media_range(text: &str) -> Option<MediaRange> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().filter(|media_type| !media_type.is_empty())?.to_ascii_lowercase();
    let parameters: Vec<(String, String)> = parts
        .filter_map(|part| part.split_once('='))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned()))
        .collect();
    let quality = parameters.iter().find(|(name, _)| name == "q").and_then(|(_, q)| q.parse::<f32>().ok());
    // In thousandths, the precision that HTTP defines.
    let quality = (quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u16;
    Some(MediaRange { media_type, parameters, quality })
}

/// The optional features of the representations of a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offers {
    pub(super) protobuf: ProtobufAnswers,
    /// Whether a client can ask for objects without some fields.
    pub(super) drop: bool,
}

impl Offers {
    pub(super) const JSON: Self = Self { protobuf: ProtobufAnswers::Refused, drop: false };
}

/// Selects the representation of the objects in a response. Unsupported types, such as CBOR, are skipped in favour of
/// the next entry.
///
/// # Errors
/// 406 if no entry is supported.
pub(super) fn representation(headers: &HeaderMap, offers: Offers) -> Result<Representation, Status> {
    let protobuf = offers.protobuf;
    for media_range in media_ranges(headers) {
        let encoding = if media_range.includes("application/json") {
            Encoding::Json
        } else if protobuf == ProtobufAnswers::Offered
            && media_range.media_type == crate::protobuf::MEDIA_TYPE
        {
            Encoding::Protobuf
        } else {
            continue;
        };
        let parameter = |name| media_range.parameter(name);
        let form = match (parameter("as"), parameter("g"), parameter("v")) {
            ("", _, _) => Form::Objects,
            ("Table", "meta.k8s.io", "v1" | "v1beta1") if encoding == Encoding::Json => Form::Table,
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
                Form::Metadata
            }
            _ => continue,
        };
        // Follows KEP-5958: unknown fields are ignored.
        let drops =
            offers.drop && parameter("drop").split('+').any(|field| field == "metadata.managedFields");
        let managed_fields = if drops { ManagedFields::Dropped } else { ManagedFields::Sent };
        return Ok(Representation { form, encoding, managed_fields });
    }
    Err(Status::not_acceptable(match protobuf {
        ProtobufAnswers::Refused => "application/json",
        ProtobufAnswers::Offered => "application/json, application/vnd.kubernetes.protobuf",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(accept: &str) -> Result<Form, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        let chosen = representation(&headers, Offers::JSON);
        chosen.map(|chosen| chosen.form).map_err(|status| status.code())
    }

    #[test]
    fn the_first_supported_type_is_chosen() {
        let offers = Offers { protobuf: ProtobufAnswers::Offered, drop: true };
        assert_eq!(representation(&HeaderMap::new(), offers).unwrap(), Representation::OBJECTS);
        assert_eq!(of("*/*"), Ok(Form::Objects));
        assert_eq!(of("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Objects));
        assert_eq!(of("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), Ok(Form::Table));
        assert_eq!(
            of("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"),
            Ok(Form::Metadata)
        );
        assert_eq!(
            of("application/json;q=0.1, application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9"),
            Ok(Form::Table)
        );
        assert_eq!(of("application/json;as=Other;v=v1;g=meta.k8s.io"), Err(406));
        assert_eq!(of("application/vnd.kubernetes.protobuf"), Err(406));
        assert_eq!(of("text/html"), Err(406));
        assert_eq!(of("application/json;q=0"), Ok(Form::Objects));
    }
}
