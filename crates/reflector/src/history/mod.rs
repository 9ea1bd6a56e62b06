//! What a reflector remembers of its requests and their answers, and what follows from it.

mod attempts;
mod last_version;
mod left_out;
mod not_served;
mod repetition;
mod request_times;
mod short_watches;
mod source_versions;

pub(crate) use self::attempts::Attempts;
pub(crate) use self::last_version::LastVersion;
pub(crate) use self::not_served::{DELETED_AFTER, NotServed, RETRY};
pub(crate) use self::repetition::Repetition;
pub(crate) use self::request_times::RequestTimes;
pub(crate) use self::short_watches::{ShortWatches, is_alive_after, reopens_after};
pub(crate) use self::source_versions::{Sign, SourceVersions, went_back};
