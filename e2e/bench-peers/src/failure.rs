//! The error of a run.

use std::error::Error;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;
