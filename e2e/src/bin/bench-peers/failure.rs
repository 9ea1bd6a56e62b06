//! Why there is no figure.

use std::error::Error;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;
