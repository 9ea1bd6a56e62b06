//! Lists: version, page and format.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use ::http::{HeaderValue, Request, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::stream;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::api::{ListItem, selects, write_object};
use crate::conversion::{MAX_UNREADABLE, unlistable};
use crate::faults::RequestFaults;
use crate::protobuf;
use crate::registry::Resource;
use crate::status::Status;
use crate::storage::{EventType, Key, Snapshot, Stored, write_json};
use crate::table::{self, IncludeObject};

use super::answer::{self, Answer};
use super::binary;
use super::context::Context;
use super::conversion;
use super::negotiate::{self, Encoding, Form, Representation};
use super::params::{ListParams, Match};
use super::request::{Query, Target};
use super::serialized::{write_malformed, write_metadata};

/// The size of a chunk of a list.
const PIECE: usize = 128 * 1024;

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list \
    result. You can start a new list without the continue parameter, or use the continue token in this \
    response to retrieve the remainder of the results. Continuing with the provided token results in an \
    inconsistent list - objects that were created, modified, or deleted between the time the first chunk was \
    returned and now may show up in the list.";

/// The position at which a list continues.
#[derive(Debug, PartialEq)]
struct Continue {
    /// `None` for an inconsistent continuation at the newest version.
    version: Option<u64>,
    start: Key,
}

impl Continue {
    fn encode(&self) -> String {
        let version = self.version.and_then(|version| i64::try_from(version).ok()).unwrap_or(-1);
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": self.start.as_str()});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&error.to_string()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        let form = token.get("v").and_then(Value::as_str).unwrap_or("");
        if form != "meta.k8s.io/v1" {
            return Err(invalid(&format!("server does not recognize this encoded version {form}")));
        }
        let version = match token.get("rv").and_then(Value::as_i64).unwrap_or(0) {
            -1 => None,
            version => Some(u64::try_from(version).ok().filter(|version| *version > 0).ok_or_else(|| {
                invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
            })?),
        };
        match token.get("start").and_then(Value::as_str) {
            None | Some("") => Err(invalid("encoded start key empty (version meta.k8s.io/v1)")),
            Some(start) => Ok(Self { version, start: Key::raw(start) }),
        }
    }
}

/// The objects of one page, and the metadata of the list.
pub(super) struct Page {
    version: u64,
    pub(super) items: Vec<Arc<Stored>>,
    continue_token: Option<String>,
    remaining: Option<usize>,
    /// The shard selector by which the objects were selected.
    shards: Option<String>,
}

pub(super) async fn answer(
    context: &Context,
    request: &Request<Incoming>,
    query: &Query,
    target: &Target,
    resource: &Arc<Resource>,
    mut faults: RequestFaults,
) -> Result<Answer, Status> {
    let representation = negotiate::representation(request.headers(), context.offers_for(resource))?;
    let include = IncludeObject::parse(query.get("includeObject"))?;
    let params = ListParams::parse(context.shards, query, target, resource, false)?;
    let (resource, page) = page_in_version(context, &params, resource).await?;
    let resource = &resource;
    let malformed = faults.corrupts_object(0);
    Ok(match representation.form {
        Form::Table => {
            let table = table::of(resource, page.items.iter().map(Arc::as_ref), include, &context.api.clock);
            answer::json(StatusCode::OK, &table.to_json(page.metadata(), table::Columns::Shown))
        }
        Form::Objects | Form::Metadata if representation.encoding == Encoding::Protobuf => {
            in_protobuf(&page, representation, resource, malformed)
        }
        Form::Objects | Form::Metadata => objects(page, representation, resource.clone(), malformed),
    })
}

/// Selects the objects of a page. Follows Kubernetes 1.37 for the version that a combination of parameters selects.
pub(super) fn page(params: &ListParams, resource: &Resource) -> Result<Page, Status> {
    let read = read(params, resource)?;
    Ok(page_of(resource, read.snapshot.clone(), read, params))
}

/// As [`page`], of objects that have been converted. Returns the resource for these.
///
/// # Errors
/// Those of [`page`], and of the conversion of an object.
pub(super) async fn page_in_version(
    context: &Context,
    params: &ListParams,
    resource: &Arc<Resource>,
) -> Result<(Arc<Resource>, Page), Status> {
    if !resource.is_converted() {
        return Ok((resource.clone(), page(params, resource)?));
    }
    let read = read(params, resource)?;
    let selection = &params.selection;
    // without selectors, kube-apiserver reads no object after the page
    let count = read.limit.filter(|_| selection.has_no_selector()).unwrap_or(usize::MAX);
    let states = objects_from(&read.snapshot, read.start.as_ref(), &selection.namespace);
    let states = states.filter(|stored| selection.reads(stored.key())).take(count);
    let states = states.map(|stored| (EventType::Added, stored.clone())).collect();
    let (objects, failures) = conversion::states(context, resource, states, MAX_UNREADABLE).await;
    if !failures.is_empty() {
        return Err(unlistable(&resource.kind, &failures));
    }
    let mut converted = read.snapshot.clone();
    converted.objects.extend(objects.into_iter().map(|stored| (stored.key().clone(), stored)));
    let resource = Arc::new(resource.of_converted());
    let page = page_of(&resource, converted, read, params);
    Ok((resource, page))
}

/// The state that a list reads.
struct Read {
    snapshot: Snapshot,
    start: Option<Key>,
    limit: Option<usize>,
}

fn read(params: &ListParams, resource: &Resource) -> Result<Read, Status> {
    let store = &resource.store;
    let current = resource.store.version();
    let ahead = |version: u64| Status::too_large_version(version, current);
    let mut start = None;
    let mut limit = params.limit;
    let snapshot = if let Some(token) = &params.continue_token {
        if params.version.is_some_and(|version| version != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Continue::decode(token)?;
        start = Some(token.start.clone());
        match token.version {
            None => store.snapshot(),
            Some(version) if version > current => return Err(ahead(version)),
            Some(version) => store.snapshot_at(version).ok_or_else(|| {
                let inconsistent = Continue { version: None, start: token.start };
                Status::expired(CONTINUE_EXPIRED).with_continue(inconsistent.encode())
            })?,
        }
    } else {
        match (params.version, params.version_match) {
            (None, _) => store.snapshot(),
            (Some(0), _) => {
                // Kubernetes answers this from its watch cache, which ignores limits.
                limit = None;
                store.snapshot()
            }
            (Some(version), _) if version > current => return Err(ahead(version)),
            (Some(version), Match::Exact) => exact(store, version)?,
            (Some(version), Match::Unset) if limit.is_some() => exact(store, version)?,
            (Some(_), _) => store.snapshot(),
        }
    };
    Ok(Read { snapshot, start, limit })
}

fn exact(store: &crate::storage::ResourceStore, version: u64) -> Result<Snapshot, Status> {
    store
        .snapshot_at(version)
        .ok_or_else(|| Status::expired("The resourceVersion for the provided list is too old."))
}

/// Returns the objects of a namespace, or of all if it is empty, from a key on.
pub(super) fn objects_from<'a>(
    snapshot: &'a Snapshot,
    start: Option<&Key>,
    namespace: &str,
) -> impl Iterator<Item = &'a Arc<Stored>> {
    let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let first = Key::raw(&prefix);
    let from = start.cloned().map_or_else(|| first.clone(), |start| start.max(first.clone()));
    let all = snapshot.objects.range(from..).map(|(_, stored)| stored);
    all.take_while(move |stored| stored.key().as_str().starts_with(&prefix))
}

fn page_of(
    resource: &Resource,
    snapshot: Snapshot,
    Read { snapshot: stored, start, limit }: Read,
    params: &ListParams,
) -> Page {
    let kept = stored;
    let selection = &params.selection;
    let mut rest = objects_from(&snapshot, start.as_ref(), &selection.namespace);
    let mut items: Vec<Arc<Stored>> = Vec::new();
    let mut more = false;
    for stored in rest.by_ref() {
        if !selects(selection, resource, stored) {
            continue;
        }
        if limit.is_some_and(|limit| items.len() >= limit) {
            more = true;
            break;
        }
        items.push(stored.clone());
    }
    let remaining = (more && selection.has_no_selector()).then(|| 1 + rest.count());
    let continue_token = more.then(|| items.last()).flatten().map(|last| {
        resource.store.keep(&kept);
        // The first key after the last one.
        let start = Key::raw(&format!("{}\0", last.key().as_str()));
        Continue { version: Some(snapshot.version), start }.encode()
    });
    let shards = Some(&selection.shards).filter(|shards| !shards.is_empty()).map(ToString::to_string);
    Page { version: snapshot.version, items, continue_token, remaining, shards }
}

impl Page {
    /// The metadata of a list of objects. Lists of custom resources have a `continue` in all cases, and no shard selector,
    /// as in Kubernetes.
    pub(super) fn metadata_of(&self, resource: &Resource) -> Value {
        let mut metadata = self.metadata();
        let Some(map) = metadata.as_object_mut() else { return metadata };
        if resource.kind.custom {
            map.entry("continue").or_insert_with(|| "".into());
        } else if let Some(selector) = &self.shards {
            map.insert("shardInfo".into(), json!({"selector": selector}));
        }
        metadata
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if let Some(map) = metadata.as_object_mut() {
            if let Some(token) = &self.continue_token {
                map.insert("continue".into(), token.as_str().into());
            }
            if let Some(remaining) = self.remaining {
                map.insert("remainingItemCount".into(), remaining.into());
            }
        }
        metadata
    }
}

/// A complete list in protobuf: the length prefix must be known at the start.
fn in_protobuf(page: &Page, representation: Representation, resource: &Resource, malformed: bool) -> Answer {
    let Representation { form, managed_fields, .. } = representation;
    let items = page.items.iter();
    let mut items: Vec<Bytes> =
        items.map(|stored| binary::message(resource, stored, form, managed_fields)).collect();
    if malformed && let (Some(item), Some(stored)) = (items.first_mut(), page.items.first()) {
        *item = binary::malformed_message(stored);
    }
    let (kind, version) = list_type(resource, form);
    let meta = protobuf::ListMeta {
        version: page.version,
        continue_token: page.continue_token.as_deref(),
        remaining: page.remaining,
        shards: page.shards.as_deref().filter(|_| form == Form::Objects),
    };
    answer::bytes_as(protobuf::MEDIA_TYPE, protobuf::list(&version, &kind, &meta, &items))
}

fn list_type(resource: &Resource, form: Form) -> (String, String) {
    match form {
        Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        _ => (resource.kind.list_kind.clone(), resource.kind.api_version()),
    }
}

/// A list as a stream of chunks: the objects are copied from their stored bytes without parsing.
fn objects(page: Page, representation: Representation, resource: Arc<Resource>, malformed: bool) -> Answer {
    let form = representation.form;
    let (kind, version) = list_type(&resource, form);
    let mut head = Vec::with_capacity(256);
    head.extend_from_slice(b"{\"kind\":");
    write_json(&mut head, &kind);
    head.extend_from_slice(b",\"apiVersion\":");
    write_json(&mut head, &version);
    head.extend_from_slice(b",\"metadata\":");
    let metadata = if form == Form::Metadata { page.metadata() } else { page.metadata_of(&resource) };
    write_json(&mut head, &metadata);
    if form == Form::Metadata && page.items.is_empty() {
        // as the nil slice of Go
        head.extend_from_slice(b",\"items\":null}\n");
        return answer::json_bytes(StatusCode::OK, head.into());
    }
    head.extend_from_slice(b",\"items\":[");
    let mut pieces =
        Pieces { out: head, items: page.items.into(), first: true, malformed, representation, resource };
    let first = pieces.next().unwrap_or_default();
    let body = if pieces.items.is_empty() && pieces.out.is_empty() {
        return answer::json_bytes(StatusCode::OK, first);
    } else {
        let start = (Some(first), pieces);
        answer::stream_of(stream::unfold(start, |(first, mut pieces)| async move {
            let piece = first.or_else(|| pieces.next())?;
            Some((Ok::<_, io::Error>(piece), (None, pieces)))
        }))
    };
    answer::with_body(StatusCode::OK, HeaderValue::from_static("application/json"), body)
}

struct Pieces {
    out: Vec<u8>,
    items: VecDeque<Arc<Stored>>,
    first: bool,
    malformed: bool,
    representation: Representation,
    resource: Arc<Resource>,
}

impl Iterator for Pieces {
    type Item = Bytes;

    /// The last chunk closes the list.
    fn next(&mut self) -> Option<Bytes> {
        if self.first && self.items.is_empty() {
            self.out.extend_from_slice(b"]}\n");
            self.first = false;
        } else if self.items.is_empty() {
            return None;
        }
        let Representation { form, managed_fields, .. } = self.representation;
        while self.out.len() < PIECE
            && let Some(stored) = self.items.pop_front()
        {
            if !std::mem::take(&mut self.first) {
                self.out.push(b',');
            }
            if std::mem::take(&mut self.malformed) {
                write_malformed(&mut self.out, &self.resource, &stored);
            } else if form == Form::Metadata {
                write_metadata(&mut self.out, &stored, managed_fields);
            } else {
                write_object(&mut self.out, &self.resource, &stored, ListItem::Yes, managed_fields);
            }
            if self.items.is_empty() {
                self.out.extend_from_slice(b"]}\n");
            }
        }
        Some(std::mem::take(&mut self.out).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn continue_tokens_round_trip() {
        for version in [Some(7), None] {
            let token = Continue { version, start: Key::raw("a/b\0") };
            assert_eq!(Continue::decode(&token.encode()).unwrap(), token);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_tokens_never_panic(text in "\\PC{0,40}") {
            let _ = Continue::decode(&text);
            let _ = Continue::decode(&URL_SAFE_NO_PAD.encode(&text));
        }
    }
}
