//! From the bytes of one object to a type.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

use crate::protobuf::{self, Envelope, Path, Schema};
use crate::{Encoding, Error, Identity, identify, json};

/// Decodes objects of one kind, as a [`ListDecoder`](crate::ListDecoder) or [`WatchDecoder`](crate::WatchDecoder)
/// gives them out, into any type that serde decodes from the JSON of that kind.
///
/// A clone counts into the same [`Self::unknown_fields`].
#[derive(Clone, Debug)]
pub struct ObjectDecoder {
    form: Form,
    unknown_fields: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Json,
    Protobuf(Schema),
}

impl ObjectDecoder {
    /// A decoder for objects of that kind in that encoding. JSON says itself what it is. None for a kind whose
    /// protobuf is not known: ask the server for JSON then. What a server sends when it is asked for only the
    /// metadata is the kind `PartialObjectMetadata` of `meta.k8s.io/v1`.
    pub fn new(encoding: Encoding, api_version: &str, kind: &str) -> Option<Self> {
        let form = match encoding {
            Encoding::Json => Form::Json,
            Encoding::Protobuf => Form::Protobuf(Schema::of(api_version, kind)?),
        };
        Some(Self { form, unknown_fields: Arc::default() })
    }

    /// A decoder for objects of any kind in JSON.
    pub fn json() -> Self {
        Self { form: Form::Json, unknown_fields: Arc::default() }
    }

    /// How the objects are written.
    pub fn encoding(&self) -> Encoding {
        match self.form {
            Form::Json => Encoding::Json,
            Form::Protobuf(_) => Encoding::Protobuf,
        }
    }

    /// Decodes an object. What the type does not know is skipped in both encodings; in protobuf the version and the
    /// kind are given to the type although the message does not have them.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants. They say where in the object.
    pub fn decode<'de, K: Deserialize<'de>>(&self, object: &'de [u8]) -> Result<K, Error> {
        let Form::Protobuf(schema) = self.form else { return json::decode(object) };
        let (decoded, unknown) = protobuf::decode(schema, object)?;
        if unknown > 0 {
            self.unknown_fields.fetch_add(unknown, Ordering::Relaxed);
        }
        Ok(decoded)
    }

    /// The way to one member of the objects, by the names in JSON and keys of maps: `["spec", "nodeName"]`,
    /// `["metadata", "labels", "app"]`. None if objects of this kind cannot have it, as far as that is known: in JSON
    /// it is not. Lists are not gone into. Look it up once and use it for all objects.
    pub fn field_path(&self, names: &[&str]) -> Option<FieldPath> {
        let path = match self.form {
            Form::Json => None,
            Form::Protobuf(schema) => Some((schema, Path::new(schema, names)?)),
        };
        Some(FieldPath { names: names.iter().map(|name| (*name).into()).collect(), path })
    }

    /// Decodes one member of an object. None if the object does not have it. In protobuf only what leads to it is
    /// looked at (some 30 ns for `spec.nodeName`), in JSON everything.
    ///
    /// # Errors
    /// The bytes on the way are broken, or not what the type wants.
    pub fn decode_at<'de, K: Deserialize<'de>>(
        &self,
        object: &'de [u8],
        path: &FieldPath,
    ) -> Result<Option<K>, Error> {
        match &path.path {
            None => json::decode_at(object, &path.names),
            Some((schema, at)) => protobuf::decode_at(*schema, object, at, &path.names),
        }
    }

    /// Reads the key and the version and ignores everything else in the object. Where even that is not possible,
    /// the result is empty: the object stays unnamed.
    pub fn identify(&self, object: &[u8]) -> Identity {
        match self.form {
            Form::Json => identify(object),
            Form::Protobuf(_) => protobuf::identify(object),
        }
    }

    /// How many fields were skipped so far because nothing is known of their numbers: a newer server has them. In
    /// JSON they are not counted.
    pub fn unknown_fields(&self) -> u64 {
        self.unknown_fields.load(Ordering::Relaxed)
    }
}

/// The way to one member of the objects of one kind in one encoding; see [`ObjectDecoder::field_path`].
#[derive(Clone, Debug)]
pub struct FieldPath {
    names: Box<[Box<str>]>,
    path: Option<(Schema, Path)>,
}

/// Decodes an answer that is one object, such as the `Status` that says why there is no list.
///
/// # Errors
/// The bytes are broken, not what the type wants, or of a kind whose protobuf is not known.
pub fn decode_answer<K: for<'de> Deserialize<'de>>(encoding: Encoding, body: &[u8]) -> Result<K, Error> {
    match encoding {
        Encoding::Json => json::decode(body),
        Encoding::Protobuf => {
            let envelope = Envelope::read(body);
            let envelope =
                envelope.map_err(|problem| Error::protobuf("the answer", String::new(), *problem))?;
            let schema = Schema::of(envelope.api_version, envelope.kind);
            let schema = schema.ok_or_else(|| Error::unknown_kind(envelope.api_version, envelope.kind))?;
            Ok(protobuf::decode(schema, envelope.object)?.0)
        }
    }
}
