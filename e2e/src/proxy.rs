//! What is between a client and a server, and fails.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// No cut is due.
const NEVER: u64 = u64::MAX;

/// Connections on loopback that go on to a server. They end with this value.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    server: SocketAddr,
    /// How often all connections were cut.
    cuts: watch::Sender<u64>,
    /// Whether connections are accepted.
    open: watch::Sender<bool>,
    /// Whether what the server says is passed on.
    flowing: watch::Sender<bool>,
    /// How many bytes of the server are passed on until all connections are cut.
    left: AtomicU64,
    accepted: AtomicU64,
}

impl Proxy {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// There is none.
    pub async fn start(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            cuts: watch::Sender::new(0),
            open: watch::Sender::new(true),
            flowing: watch::Sender::new(true),
            left: AtomicU64::new(NEVER),
            accepted: AtomicU64::new(0),
        });
        let task = tokio::spawn(accept(Arc::clone(&shared), listener, address)).abort_handle();
        Ok(Self { address, shared, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there were.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Breaks off all connections.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Breaks off all connections after so many more bytes of the server, in the middle of what it says.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.left.store(bytes, Ordering::SeqCst);
    }

    /// Breaks off all connections and refuses others, until [`Self::accept`].
    pub fn refuse(&self) {
        self.shared.open.send_replace(false);
        self.cut();
    }

    /// Accepts connections again.
    pub fn accept(&self) {
        self.shared.open.send_replace(true);
    }

    /// Passes on nothing of what the server says, and leaves the connections open, until [`Self::flow`].
    pub fn stall(&self) {
        self.shared.flowing.send_replace(false);
    }

    /// Passes on everything again.
    pub fn flow(&self) {
        self.shared.flowing.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn cut(&self) {
        self.left.store(NEVER, Ordering::SeqCst);
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How many of these bytes are passed on before a cut that is due.
    fn allowed(&self, bytes: usize) -> usize {
        let bytes = bytes as u64;
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            (left != NEVER).then(|| left.saturating_sub(bytes))
        });
        usize::try_from(left.unwrap_or(bytes).min(bytes)).unwrap_or(usize::MAX)
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, address: SocketAddr) {
    let mut open = shared.open.subscribe();
    let mut listener = Some(listener);
    // Aborted with this task.
    let mut connections = JoinSet::new();
    loop {
        let Some(listening) = &listener else {
            // The sender is in `shared`.
            let _ = open.wait_for(|open| *open).await;
            listener = TcpListener::bind(address).await.ok();
            continue;
        };
        tokio::select! {
            _ = open.wait_for(|open| !open) => listener = None,
            accepted = listening.accept() => if let Ok((client, _)) = accepted {
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                connections.spawn(connection(Arc::clone(&shared), client));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(shared: Arc<Shared>, client: TcpStream) {
    let mut cuts = shared.cuts.subscribe();
    let Ok(server) = TcpStream::connect(shared.server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = cuts.changed() => {}
        () = pass_on(from_client, to_server) => {}
        () = answer(&shared, from_server, to_client) => {}
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    // Either end may have been cut.
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

async fn answer(shared: &Shared, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut flowing = shared.flowing.subscribe();
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { return };
        // The sender is in `shared`.
        let _ = flowing.wait_for(|flowing| *flowing).await;
        let allowed = shared.allowed(bytes.len());
        let passed = bytes.get(..allowed).unwrap_or(bytes);
        if to.write_all(passed).await.is_err() {
            return;
        }
        if passed.len() < bytes.len() {
            return shared.cut();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

    use super::*;

    /// A server that says one byte after another, as long as it is heard.
    async fn endless() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move { while client.write_all(b"x").await.is_ok() {} });
            }
        });
        address
    }

    #[tokio::test]
    async fn a_cut_is_exact_and_refusals_end() {
        let proxy = Proxy::start(endless().await).await.unwrap();
        proxy.cut_after(1000);
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard.len(), 1000);

        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.read_exact(&mut [0; 2000]).await.unwrap();
        proxy.refuse();
        while TcpStream::connect(proxy.address()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        proxy.accept();
        while TcpStream::connect(proxy.address()).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert!(proxy.accepted() >= 2);
    }
}
