//! Defaults and errors of connections.

use std::error::Error;
use std::io::ErrorKind;
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

/// Whether a connection was refused, according to an error of a request.
pub(crate) fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(|error| {
        error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == ErrorKind::ConnectionRefused)
    })
}
