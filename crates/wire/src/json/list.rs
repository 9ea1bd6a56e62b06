//! List responses, item by item.

use serde::Deserialize;

use super::scan::{Copied, ObjectCopier};
use crate::answer::null_as_default;
use crate::codec::DecodeList;
use crate::{Error, ListEnvelope, ManagedFields};

/// Reads a list in JSON in chunks and delivers each item's JSON as soon as it is complete.
#[derive(Debug)]
pub(crate) struct ListDecoder {
    item: ObjectCopier,
    /// The list without its items.
    envelope: Vec<u8>,
    place: Place,
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The start of the last string in `envelope`.
    string_start: usize,
    /// Whether the last key on the list's own level was `items`.
    after_items_key: bool,
    fed: u64,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the list, outside the items.
    Envelope,
    /// Before the first item, or the end.
    FirstItem,
    /// In an item.
    Item,
    /// After an item: before a comma, or the end.
    AfterItem,
    /// After a comma.
    NextItem,
}

impl DecodeList for ListDecoder {
    fn new(managed_fields: ManagedFields, limit: usize) -> Self {
        Self {
            item: ObjectCopier::new(managed_fields),
            envelope: Vec::new(),
            place: Place::Envelope,
            depth: 0,
            in_string: false,
            escaped: false,
            string_start: 0,
            after_items_key: false,
            fed: 0,
            limit,
        }
    }

    fn feed(&mut self, chunk: &[u8], mut on_item: impl FnMut(&[u8])) -> Result<(), Error> {
        self.fed += chunk.len() as u64;
        let mut rest = chunk;
        while let Some((&byte, after)) = rest.split_first() {
            match self.place {
                Place::Envelope => {
                    rest = after;
                    self.envelope_byte(byte);
                }
                Place::FirstItem | Place::AfterItem | Place::NextItem => match (byte, self.place) {
                    (b' ' | b'\n' | b'\r' | b'\t', _) => rest = after,
                    (b'{', Place::FirstItem | Place::NextItem) => self.place = Place::Item,
                    (b',', Place::AfterItem) => {
                        rest = after;
                        self.place = Place::NextItem;
                    }
                    (b']', Place::FirstItem | Place::AfterItem) => self.place = Place::Envelope,
                    (_, Place::AfterItem) => {
                        let problem = "neither a comma nor the end follows an item";
                        return Err(Error::malformed("the list", problem, rest));
                    }
                    _ => return Err(Error::malformed("the list", "an item is not an object", rest)),
                },
                Place::Item => {
                    match self.item.feed(rest) {
                        Copied::More => rest = &[],
                        Copied::Done(end) => {
                            rest = rest.get(end..).unwrap_or_default();
                            on_item(self.item.bytes());
                            self.item.reset();
                            self.place = Place::AfterItem;
                        }
                    }
                    if self.item.bytes().len() > self.limit {
                        return Err(Error::TooLarge { what: "an item of the list", limit: self.limit });
                    }
                }
            }
            if self.envelope.len() > self.limit {
                return Err(Error::TooLarge { what: "the list without its items", limit: self.limit });
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<ListEnvelope, Error> {
        let truncated = |place| Error::Truncated { bytes: self.fed, place };
        match self.place {
            Place::Item => return Err(truncated("an item")),
            Place::FirstItem | Place::AfterItem | Place::NextItem => return Err(truncated("the items")),
            Place::Envelope if self.depth > 0 || self.envelope.trim_ascii().is_empty() => {
                return Err(truncated("the list"));
            }
            Place::Envelope => {}
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct List {
            #[serde(default, deserialize_with = "null_as_default")]
            kind: String,
            #[serde(default, deserialize_with = "null_as_default")]
            api_version: String,
            #[serde(default, deserialize_with = "null_as_default")]
            metadata: Metadata,
            /// Go writes an empty list of items as `null`. A response without the field is not a list.
            items: Option<Vec<serde::de::IgnoredAny>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default, deserialize_with = "null_as_default")]
            resource_version: String,
            #[serde(default, deserialize_with = "null_as_default", rename = "continue")]
            continue_token: String,
            remaining_item_count: Option<i64>,
        }
        let malformed = |problem: String| Error::malformed("the list", problem, &self.envelope);
        let List { kind, api_version, metadata, items } =
            serde_json::from_slice(&self.envelope).map_err(|e| malformed(e.to_string()))?;
        // Items under the plain key were delivered before and are not in the envelope.
        if items.as_ref().is_some_and(|items| !items.is_empty()) {
            return Err(malformed("its items are under a key that is written with escapes".to_owned()));
        }
        let list_kind = kind.ends_with("List") && kind != "Status";
        if items.is_none() && !list_kind {
            return Err(malformed(format!("it has no items and its kind is {kind:?}")));
        }
        Ok(ListEnvelope {
            kind,
            api_version,
            resource_version: metadata.resource_version,
            continue_token: metadata.continue_token,
            remaining_item_count: metadata.remaining_item_count,
        })
    }
}

impl ListDecoder {
    fn envelope_byte(&mut self, byte: u8) {
        if self.in_string {
            self.envelope.push(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    let text = self.envelope.get(self.string_start..).unwrap_or_default();
                    self.after_items_key = self.depth == 1 && text == b"\"items\"";
                }
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.string_start = self.envelope.len();
            }
            b'[' if self.after_items_key => {
                // The items are delivered and not stored here, where they are an empty array.
                self.place = Place::FirstItem;
                self.after_items_key = false;
                self.envelope.push(byte);
                self.depth += 1;
                return;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if !matches!(byte, b':' | b' ' | b'\n' | b'\r' | b'\t' | b'"') {
            self.after_items_key = false;
        }
        self.envelope.push(byte);
    }
}
