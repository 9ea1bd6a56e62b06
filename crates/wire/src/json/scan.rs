//! A scanner of the structure of JSON: the start and the end of objects, and their managed fields.

use memchr::memchr2;

use crate::ManagedFields;

/// The strings and the nesting, byte by byte. Brackets are counted, not matched: serde checks the rest.
#[derive(Clone, Copy, Debug, Default)]
struct Structure {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

/// Copies one JSON object from a stream of bytes, without the managed fields.
#[derive(Debug)]
pub(crate) struct ObjectCopier {
    structure: Structure,
    managed_fields: ManagedFields,
    out: Vec<u8>,
    /// The position in `out` of the opening quote of the last relevant key.
    key_start: usize,
    /// Whether a string that follows on this level is a key.
    expects_key: bool,
    /// Whether the scanner is in the object's own `metadata`.
    in_metadata: bool,
    /// Whether the last key is `metadata`: an object that follows is the metadata.
    after_metadata_key: bool,
    /// Whether the current value is dropped.
    skipping: bool,
    /// Whether to drop the next comma, which follows a dropped member at the start of `metadata`.
    drop_comma: bool,
}

/// The result of [`ObjectCopier::feed`].
pub(crate) enum Copied {
    /// The whole chunk was used, and the object is incomplete.
    More,
    /// The object is complete and ended before this position in the chunk.
    Done(usize),
}

impl ObjectCopier {
    pub(crate) fn new(managed_fields: ManagedFields) -> Self {
        Self {
            structure: Structure::default(),
            managed_fields,
            out: Vec::new(),
            key_start: 0,
            expects_key: false,
            in_metadata: false,
            after_metadata_key: false,
            skipping: false,
            drop_comma: false,
        }
    }

    /// Resets for the next object. Keeps up to 256 KiB of the buffer's memory.
    pub(crate) fn reset(&mut self) {
        const KEPT: usize = 256 * 1024;
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        out.shrink_to(KEPT);
        *self = Self { out, ..Self::new(self.managed_fields) };
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Reads the next chunk. The first byte of the first chunk must be the object's `{`.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Copied {
        let mut index = 0;
        while let Some(rest) = chunk.get(index..)
            && let Some(&byte) = rest.first()
        {
            if self.structure.in_string {
                index += self.in_string(rest);
                continue;
            }
            index += 1;
            self.outside_string(byte);
            if self.structure.depth == 0 {
                return Copied::Done(index);
            }
        }
        Copied::More
    }

    /// Copies the bytes up to the end of the string or of the chunk, and returns their number.
    fn in_string(&mut self, rest: &[u8]) -> usize {
        let mut used = 0;
        while let Some(part) = rest.get(used..) {
            if self.structure.escaped {
                if part.is_empty() {
                    break;
                }
                self.structure.escaped = false;
                used += 1;
                continue;
            }
            match memchr2(b'"', b'\\', part) {
                None => {
                    used = rest.len();
                    break;
                }
                Some(i) => {
                    used += i + 1;
                    if part.get(i) == Some(&b'"') {
                        self.structure.in_string = false;
                        break;
                    }
                    self.structure.escaped = true;
                }
            }
        }
        if !self.skipping {
            self.out.extend_from_slice(rest.get(..used).unwrap_or(rest));
        }
        if !self.structure.in_string {
            self.string_ended();
        }
        used
    }

    /// Whether keys are relevant on this level: in the object itself and in its metadata.
    fn at_key_level(&self) -> bool {
        self.structure.depth == 1 || (self.structure.depth == 2 && self.in_metadata)
    }

    fn string_ended(&mut self) {
        if self.skipping || !self.expects_key || !self.at_key_level() {
            return;
        }
        self.expects_key = false;
        let key = self.out.get(self.key_start..).unwrap_or_default();
        match self.structure.depth {
            1 => self.after_metadata_key = key == b"\"metadata\"",
            _ if self.managed_fields == ManagedFields::Drop && key == b"\"managedFields\"" => {
                self.skipping = true;
                self.out.truncate(self.key_start);
            }
            _ => {}
        }
    }

    fn outside_string(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.structure.in_string = true;
                if self.expects_key && self.at_key_level() {
                    self.key_start = self.out.len();
                }
            }
            b'{' | b'[' => {
                self.structure.depth += 1;
                if self.structure.depth == 2 && !self.skipping {
                    self.in_metadata = self.after_metadata_key && byte == b'{';
                    self.after_metadata_key = false;
                }
                self.expects_key = byte == b'{';
            }
            b'}' | b']' => {
                self.structure.depth = self.structure.depth.saturating_sub(1);
                if self.structure.depth == 1 {
                    if self.skipping {
                        self.end_of_skipped_member();
                    }
                    self.in_metadata = false;
                    self.drop_comma = false;
                }
                self.expects_key = false;
            }
            b',' => {
                if self.skipping && self.at_key_level() {
                    self.end_of_skipped_member();
                }
                if self.at_key_level() {
                    self.expects_key = true;
                    if std::mem::take(&mut self.drop_comma) {
                        return;
                    }
                }
            }
            _ => {}
        }
        if !self.skipping {
            self.out.push(byte);
        }
    }

    /// Ends a dropped member, at a comma or at the end of `metadata`. One of the two commas around it is dropped too.
    fn end_of_skipped_member(&mut self) {
        self.skipping = false;
        let kept = self.out.trim_ascii_end().len();
        if self.out.get(..kept).is_some_and(|out| out.ends_with(b",")) {
            self.out.truncate(kept - 1);
        } else {
            self.drop_comma = true;
        }
    }
}
