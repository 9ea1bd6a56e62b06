//! How informers read a server. There are eight modes, and the events are the same in all of them.

use kinformer::{Encoding, WatchListMode};

use crate::Error;

/// The variable for the form of objects: `eager` or `packed`.
pub(crate) const OBJECTS: &str = "KINFORMER_OBJECTS";
/// The variable for the requested encoding: `protobuf` or `json`.
pub(crate) const ENCODING: &str = "KINFORMER_ENCODING";
/// The variable for the initial list: `watch-list` or `list`.
pub(crate) const LISTS: &str = "KINFORMER_LISTS";

/// When objects are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// On arrival.
    Eager,
    /// On reading; until then they stay encoded.
    Packed,
}

/// How kinformer's informers read a server in this run of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// When objects are decoded.
    pub objects: Objects,
    /// The requested encoding, for kinds that support it.
    pub encoding: Encoding,
    /// How the initial objects are requested.
    pub lists: WatchListMode,
}

impl Mode {
    /// Reads the mode from the variables. An unset variable means the default of kinformer.
    ///
    /// # Errors
    /// A variable has an unknown value.
    pub fn of_this_run() -> Result<Self, Error> {
        Ok(Self {
            objects: choice(OBJECTS, &[("packed", Objects::Packed), ("eager", Objects::Eager)])?,
            encoding: choice(ENCODING, &[("protobuf", Encoding::Protobuf), ("json", Encoding::Json)])?,
            lists: choice(LISTS, &[("watch-list", WatchListMode::Auto), ("list", WatchListMode::Off)])?,
        })
    }

    /// Returns the arguments with which `kinformer watch` uses this mode.
    pub fn words(&self) -> Vec<&'static str> {
        let mut words = Vec::new();
        words.extend((self.objects == Objects::Eager).then_some("--eager"));
        words.extend((self.encoding == Encoding::Json).then_some("--encoding=json"));
        words.extend((self.lists == WatchListMode::Off).then_some("--watch-list=false"));
        words
    }

    /// Returns the expected numbers of watch-lists and of lists after this many requests for the initial objects, for
    /// a server that supports watch-lists.
    pub fn expected_requests(&self, times: u64) -> (u64, u64) {
        if self.lists == WatchListMode::Off { (0, times) } else { (times, 0) }
    }
}

/// Parses a variable; unset means the first choice.
fn choice<T: Copy>(variable: &'static str, choices: &[(&str, T)]) -> Result<T, Error> {
    let text = std::env::var_os(variable);
    let chosen = choices.iter().find(|(name, _)| text.as_ref().is_none_or(|text| text == name));
    chosen.map(|(_, chosen)| *chosen).ok_or(Error::NoChoice { variable })
}
