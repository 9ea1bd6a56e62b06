//! The writes of the cache's client that reads wait for.
//!
//! [`Recorder`](recorder::Recorder) is the client: it notes what each response says about the written object. Reads wait
//! until their informer reflects these notes; see [`reads`].

mod answer;
mod ledger;
mod question;
pub(crate) mod reads;
pub(crate) mod recorder;
mod request;
mod update;

pub(crate) use ledger::{InformersState, Kept, ReadState, Writes};
pub use update::IncompleteUpdate;
