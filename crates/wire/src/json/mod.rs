//! Kubernetes' JSON.

mod cut;
mod list;
mod path;
mod scan;
mod watch;

use serde::Deserialize;

use crate::Error;

pub(crate) use cut::cut;
pub(crate) use list::ListDecoder;
pub(crate) use path::decode_at;
pub(crate) use watch::WatchDecoder;

pub(crate) fn decode<'de, K: Deserialize<'de>>(object: &'de [u8]) -> Result<K, Error> {
    serde_json::from_slice(object).map_err(|error| Error::malformed("an object", error, object))
}
