//! How informers read a server: there are eight ways, and what they tell is the same in all of them.

use kinformer::{Encoding, WatchListMode};

use crate::Error;

/// The variable that says how objects are kept: `eager` or `packed`.
pub(crate) const OBJECTS: &str = "KINFORMER_OBJECTS";
/// The variable that says what the server is asked to write: `protobuf` or `json`.
pub(crate) const ENCODING: &str = "KINFORMER_ENCODING";
/// The variable that says how it is asked for what is there: `watch-list` or `list`.
pub(crate) const LISTS: &str = "KINFORMER_LISTS";

/// Whether objects are decoded as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// They are.
    Eager,
    /// They are kept as they come, and decoded when they are read.
    Packed,
}

/// How informers of ours read a server in this run of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// How they keep objects.
    pub objects: Objects,
    /// What they ask the server to write, where it can.
    pub encoding: Encoding,
    /// How they ask for what is there.
    pub lists: WatchListMode,
}

impl Mode {
    /// What the variables say; what is not said is as it is for users who say nothing.
    ///
    /// # Errors
    /// They say something else than what they may.
    pub fn of_this_run() -> Result<Self, Error> {
        Ok(Self {
            objects: said(OBJECTS, &[("packed", Objects::Packed), ("eager", Objects::Eager)])?,
            encoding: said(ENCODING, &[("protobuf", Encoding::Protobuf), ("json", Encoding::Json)])?,
            lists: said(LISTS, &[("watch-list", WatchListMode::Auto), ("list", WatchListMode::Off)])?,
        })
    }

    /// The words by which `kinformer watch` reads a server so.
    pub fn words(&self) -> Vec<&'static str> {
        let mut words = Vec::new();
        words.extend((self.objects == Objects::Eager).then_some("--eager"));
        words.extend((self.encoding == Encoding::Json).then_some("--encoding=json"));
        words.extend((self.lists == WatchListMode::Off).then_some("--watch-list=false"));
        words
    }

    /// How often a server that knows watch-lists was asked by watch-lists and by lists, when it was asked so often.
    pub fn asked(&self, times: u64) -> (u64, u64) {
        if self.lists == WatchListMode::Off { (0, times) } else { (times, 0) }
    }
}

/// What a variable says; without it, the first.
fn said<T: Copy>(variable: &'static str, choices: &[(&str, T)]) -> Result<T, Error> {
    let text = std::env::var_os(variable);
    let chosen = choices.iter().find(|(name, _)| text.as_ref().is_none_or(|text| text == name));
    chosen.map(|(_, chosen)| *chosen).ok_or(Error::NoChoice { variable })
}
