//! Named checks of a program.

use std::fmt;
use std::sync::Arc;

use crate::Error;

/// The paths of the health, each with one below it for each check.
pub(crate) const PATHS: [&str; 2] = ["/healthz", "/readyz"];
/// The first part of the names of the informers' checks.
pub(crate) const INFORMER: &str = "informer/";

/// Whether a path is one of the health.
pub(crate) fn is_health(path: &str) -> bool {
    PATHS
        .iter()
        .any(|known| path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

type Run = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A named check.
#[derive(Clone)]
pub(crate) struct Check {
    name: String,
    run: Run,
}

impl Check {
    pub(crate) fn new(name: String, run: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, run: Arc::new(run) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        (self.run)()
    }

    /// Checks the names of checks that are added to one path.
    ///
    /// # Errors
    /// [`Error::InvalidCheck`].
    pub(crate) fn check_names(checks: &[Self]) -> Result<(), Error> {
        for (position, Self { name, .. }) in checks.iter().enumerate() {
            let reason = if name.is_empty() {
                "it is empty"
            } else if name.chars().any(char::is_control) {
                "it has control characters"
            } else if name.starts_with(INFORMER) || name.split('/').any(str::is_empty) {
                "it starts with informer/, as those of informers, or has an empty segment"
            } else if checks.iter().take(position).any(|other| other.name == *name) {
                "there are two of this name"
            } else {
                continue;
            };
            return Err(Error::InvalidCheck { name: name.clone(), reason });
        }
        Ok(())
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

/// The checks of both paths.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) health: Vec<Check>,
    pub(crate) ready: Vec<Check>,
}
