//! The client.

use std::time::Duration;

use kube_client::{Client, Config};

use crate::Error;

/// Made of any configuration, a client for reflectors: kube-client's, without its own retries, which would
/// hide 429 and 503 answers from the reflector for minutes, and with a limit of 10 s on connecting where
/// the configuration has none.
///
/// # Errors
/// [`Error::Client`]: certificates or credentials of the configuration do not work.
pub fn client(mut config: Config) -> Result<Client, Error> {
    config.default_retry = false;
    config.connect_timeout.get_or_insert(Duration::from_secs(10));
    Client::try_from(config).map_err(|source| Error::Client { source: Box::new(source) })
}
