//! A server with TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use kinformer_kube::client;
use kube_client::{Client, Config};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificates::tls;

/// A server with TLS on 127.0.0.1.
pub struct TlsServer {
    pub address: SocketAddr,
    pub certificate: Vec<u8>,
    opened: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl TlsServer {
    /// `connection` handles each connection; it receives its number, from 1, and the stream.
    pub async fn new<F: Future<Output = ()> + Send + 'static>(
        protocols: &[&str],
        connection: impl Fn(usize, TlsStream<TcpStream>) -> F + Clone + Send + 'static,
    ) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let mut tls = tls(made.cert.der().clone(), made.signing_key.serialize_der(), None);
        tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (count, opened) = watch::channel(0);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                let number = *count.borrow();
                let (acceptor, connection) = (acceptor.clone(), connection.clone());
                connections.spawn(async move {
                    let stream = acceptor.accept(stream).await.unwrap();
                    connection(number, stream).await;
                });
            }
        });
        Self { address, certificate: made.cert.der().to_vec(), opened, task }
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(format!("https://{}", self.address).parse().unwrap());
        config.root_cert = Some(vec![self.certificate.clone()]);
        config
    }

    pub fn client(&self) -> Client {
        client(self.config()).unwrap()
    }

    /// The number of connections so far.
    pub fn opened(&self) -> usize {
        *self.opened.borrow()
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
