//! How connections are made, where the configuration does not say it.

use std::time::Duration;

/// How long connecting may take.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// Which versions of HTTP may be spoken.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "rustls-tls"), allow(dead_code))]
pub(super) enum Versions {
    All,
    Http1,
}
