//! What is decided about a request.

/// What an authorizer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(super) allowed: bool,
    pub(super) reason: String,
}

impl Decision {
    pub(super) fn allowed() -> Self {
        Self { allowed: true, reason: String::new() }
    }
}
