//! The objects of an informer: lists of them, single ones, their history, and the indexes.

mod history;
mod indexes;
mod list;
mod object;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

pub(crate) use self::history::history;
pub(crate) use self::indexes::{index, indexes};
pub(crate) use self::list::list;
pub(crate) use self::object::object;

/// The most objects of a page, and the number of them without a limit.
const MOST: usize = 1000;

const DEFAULT: usize = 500;

/// The characters of a segment or of a parameter that need no escape.
pub(crate) const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
