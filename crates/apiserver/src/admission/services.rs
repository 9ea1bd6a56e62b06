//! The addresses of services that webhooks are called at.

use std::collections::HashMap;
use std::net::SocketAddr;

/// The addresses of the processes behind services, by namespace and name, and port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Services(HashMap<(String, String), HashMap<u16, SocketAddr>>);

impl Services {
    pub(crate) fn add(&mut self, namespace: String, name: String, port: u16, address: SocketAddr) {
        self.0.entry((namespace, name)).or_default().insert(port, address);
    }

    /// # Errors
    /// Why there is no address, in the words of kube-apiserver.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "webhooks are called over TLS"))]
    pub(super) fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<SocketAddr, String> {
        let ports = self.0.get(&(namespace.to_owned(), name.to_owned()));
        let ports = ports.ok_or_else(|| format!("service {name:?} not found"))?;
        let missing = || format!("no service port {port} found for service {name:?}");
        ports.get(&port).copied().ok_or_else(missing)
    }
}
