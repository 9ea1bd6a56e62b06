//! In place of TLS, without the feature `rustls-tls`: there is no value of it.

use std::io;

/// Uninhabited.
pub(crate) enum Tls {}

impl Tls {
    pub(crate) async fn accept<S>(&self, _: S) -> io::Result<S> {
        match *self {}
    }

    pub(crate) async fn watch(&self) {
        match *self {}
    }
}
