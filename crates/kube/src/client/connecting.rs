//! Defaults of connections.

use std::time::Duration;

/// The default connect timeout.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// The allowed versions of HTTP.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "rustls-tls"), allow(dead_code, reason = "only a TLS transport chooses"))]
pub(super) enum Versions {
    All,
    Http1,
}
