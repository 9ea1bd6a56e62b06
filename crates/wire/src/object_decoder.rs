//! From the bytes of one object to a type.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde::de::DeserializeSeed;

use crate::packed::Recent;
use crate::protobuf::{self, Envelope, Path, Schema};
use crate::{Encoding, Error, Identity, identify, json};

/// How many decoded objects are [kept](ObjectDecoder::keeping) unless told otherwise: as much as handlers of the same
/// events, which run side by side, are apart.
const KEPT: usize = 256;

/// Decodes objects of one kind, as a [`ListDecoder`](crate::ListDecoder) or [`WatchDecoder`](crate::WatchDecoder)
/// gives them out, into any type that serde decodes from the JSON of that kind.
///
/// Cheap to clone. A clone counts into the same [`Self::unknown_fields`], and its packed objects are kept decoded
/// together with those of the others.
#[derive(Clone, Debug)]
pub struct ObjectDecoder {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    form: Form,
    unknown_fields: Arc<AtomicU64>,
    cut: Arc<[FieldPath]>,
    recent: Arc<Recent>,
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
        match encoding {
            Encoding::Json => Some(Self::json()),
            Encoding::Protobuf => Some(Self::of(Form::Protobuf(Schema::of(api_version, kind)?))),
        }
    }

    /// A decoder for objects of any kind in JSON.
    pub fn json() -> Self {
        Self::of(Form::Json)
    }

    fn of(form: Form) -> Self {
        let recent = Arc::new(Recent::new(KEPT));
        Self { inner: Arc::new(Inner { form, unknown_fields: Arc::default(), cut: Arc::default(), recent }) }
    }

    /// Leaves one more field out of every object that is made [from the wire](crate::FromWire), by the names that lead
    /// to it in JSON: as a transform does that clears it, before anything of it is decoded or stored. JSON within protobuf
    /// (`["data", "replicas"]` of a `ControllerRevision`), `["kind"]` and `["apiVersion"]` are left out as well. Lists
    /// are not gone into. What an object is identified by (its name, namespace, UID and version) is never left out, and a
    /// field that the kind does not have need not be.
    #[must_use]
    pub fn cutting(mut self, names: &[&str]) -> Self {
        if is_kept(names) {
            return self;
        }
        if let Some(path) = self.field_path(names) {
            let inner = Arc::make_mut(&mut self.inner);
            if let (Form::Protobuf(schema), Some(path)) = (&mut inner.form, &path.path) {
                *schema = schema.without(path);
            }
            inner.cut = inner.cut.iter().cloned().chain([path]).collect();
        }
        self
    }

    /// The same decoder for objects without the version or the kind, where paths lead to them.
    pub(crate) fn for_objects_without(&self, paths: &[&FieldPath]) -> Self {
        let Form::Protobuf(before) = self.inner.form else { return self.clone() };
        let paths = paths.iter().filter_map(|path| path.path.as_ref());
        let schema = paths.fold(before, |schema, path| schema.without(path));
        let mut decoder = self.clone();
        if schema.says != before.says {
            Arc::make_mut(&mut decoder.inner).form = Form::Protobuf(schema);
        }
        decoder
    }

    /// How many of the [packed](crate::Packed) objects that it makes stay decoded after they were read, though nobody
    /// holds what was decoded; 256 by default. When there are more, those go that were not read again since that was last
    /// looked at. With 0 none stays.
    #[must_use]
    pub fn keeping(mut self, objects: usize) -> Self {
        Arc::make_mut(&mut self.inner).recent = Arc::new(Recent::new(objects));
        self
    }

    pub(crate) fn recent(&self) -> &Recent {
        &self.inner.recent
    }

    /// The message of its objects, in protobuf.
    pub(crate) fn message(&self) -> Option<u16> {
        match self.inner.form {
            Form::Json => None,
            Form::Protobuf(schema) => Some(schema.message()),
        }
    }

    /// The object without what is to be [cut](Self::cutting).
    pub(crate) fn without_cut<'a>(&self, object: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
        let paths: Vec<&FieldPath> = self.inner.cut.iter().collect();
        match paths.is_empty() {
            true => Ok(Cow::Borrowed(object)),
            false => self.cut(object, &paths).map(Cow::Owned),
        }
    }

    /// The object without these fields.
    pub(crate) fn cut(&self, object: &[u8], paths: &[&FieldPath]) -> Result<Vec<u8>, Error> {
        let Form::Protobuf(schema) = self.inner.form else {
            let names: Vec<&[Box<str>]> = paths.iter().map(|path| &*path.names).collect();
            return json::cut(object, &names);
        };
        let paths: Vec<&Path> = paths.iter().filter_map(|path| path.path.as_ref()).collect();
        protobuf::cut(schema, object, &paths)
    }

    /// How the objects are written.
    pub fn encoding(&self) -> Encoding {
        match self.inner.form {
            Form::Json => Encoding::Json,
            Form::Protobuf(_) => Encoding::Protobuf,
        }
    }

    /// Decodes an object. What the type does not know is skipped in both encodings; in protobuf the version and the
    /// kind are given to the type although the message does not have them.
    ///
    /// Takes at most 64 times the object's bytes and 1 MiB of memory, and at most 1.5 MiB of the stack. Of equal names in an object
    /// of JSON, and of equal keys in a map of protobuf, the last one counts.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants, and say where in the object; or a limit is exceeded.
    pub fn decode<'de, K: Deserialize<'de>>(&self, object: &'de [u8]) -> Result<K, Error> {
        self.decode_seed(object, PhantomData::<K>)
    }

    pub(crate) fn decode_seed<'de, S: DeserializeSeed<'de>>(
        &self,
        object: &'de [u8],
        seed: S,
    ) -> Result<S::Value, Error> {
        let Form::Protobuf(schema) = self.inner.form else { return json::decode_seed(object, seed) };
        let (decoded, unknown) = protobuf::decode_seed(schema, object, seed)?;
        if unknown > 0 {
            self.inner.unknown_fields.fetch_add(unknown, Ordering::Relaxed);
        }
        Ok(decoded)
    }

    /// The way to one field of the objects, by the names in JSON and keys of maps: `["spec", "nodeName"]`,
    /// `["metadata", "labels", "app"]`, `["kind"]`; without names to all of it. None if objects of this kind cannot have
    /// it, as far as that is known: in JSON it is not. Lists are not gone into. Look it up once and use it for all objects.
    pub fn field_path(&self, names: &[&str]) -> Option<FieldPath> {
        let path = match self.inner.form {
            Form::Json => None,
            Form::Protobuf(schema) => Some(Path::new(schema, names)?),
        };
        Some(FieldPath { names: names.iter().map(|name| (*name).into()).collect(), path })
    }

    /// Decodes one field of an object, the same as it is in the whole object. None if the object does not have it, or
    /// has null there. In protobuf only the messages that lead to it are looked at (tens of nanoseconds for
    /// `spec.nodeName`), in JSON everything.
    ///
    /// # Errors
    /// The bytes on the way are broken, or not what the type wants, or the names lead through what has no fields, such as
    /// a list; or a limit is exceeded, as [`Self::decode`] says.
    pub fn decode_at<'de, K: Deserialize<'de>>(
        &self,
        object: &'de [u8],
        path: &FieldPath,
    ) -> Result<Option<K>, Error> {
        match (self.inner.form, &path.path) {
            (Form::Protobuf(schema), Some(at)) => protobuf::decode_at(schema, object, at, &path.names),
            _ => json::decode_at(object, &path.names),
        }
    }

    /// Reads the key and the version and ignores everything else in the object. Where even that is not possible,
    /// the result is empty: the object stays unnamed.
    pub fn identify(&self, object: &[u8]) -> Identity {
        match self.inner.form {
            Form::Json => identify(object),
            Form::Protobuf(_) => protobuf::identify(object),
        }
    }

    /// How many fields were skipped so far because nothing is known of their numbers: a newer server has them. In
    /// JSON they are not counted.
    pub fn unknown_fields(&self) -> u64 {
        self.inner.unknown_fields.load(Ordering::Relaxed)
    }
}

/// The way to one member of the objects of one kind in one encoding; see [`ObjectDecoder::field_path`].
#[derive(Clone, Debug)]
pub struct FieldPath {
    names: Box<[Box<str>]>,
    path: Option<Path>,
}

/// Whether that field is never removed: an object is identified by it, or is nothing without it.
pub(crate) fn is_kept(names: &[&str]) -> bool {
    matches!(names, [] | ["metadata"] | ["metadata", "name" | "namespace" | "uid" | "resourceVersion"])
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
