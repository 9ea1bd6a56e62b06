//! What is wrong with an object.

use crate::status::Cause;

#[derive(Debug, Default)]
pub(crate) struct Violations {
    pub(crate) causes: Vec<Cause>,
    /// Failures of rules that do not refuse the object, since it had them before.
    pub(crate) warnings: Vec<String>,
}
