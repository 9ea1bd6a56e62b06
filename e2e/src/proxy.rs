//! A proxy that simulates network failures: it closes, stalls, freezes and refuses connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections to a loopback port, byte by byte. Dropping the proxy closes its connections.
pub struct Proxy {
    port: u16,
    target: u16,
    shared: Arc<Shared>,
    /// `None` while connections are refused.
    accepting: Option<JoinHandle<()>>,
}

/// The state shared by all connections.
struct Shared {
    flow: watch::Sender<Flow>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    /// The bytes forwarded from the server.
    forwarded: AtomicU64,
    /// The number of server bytes after which all connections are closed.
    allowed: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    /// How often all connections have been closed; a connection belongs to one generation.
    generation: u64,
    stalled: bool,
    /// The number of connections that are frozen, counted from the first one.
    frozen: usize,
}

impl Flow {
    fn moves(&self, connection: usize) -> bool {
        !self.stalled && connection >= self.frozen
    }
}

/// No limit on the forwarded bytes.
const UNLIMITED: u64 = u64::MAX;

impl Proxy {
    /// Starts forwarding connections to this port.
    ///
    /// # Errors
    /// No port is available.
    pub async fn start(target: u16) -> io::Result<Self> {
        let shared = Shared {
            flow: watch::Sender::new(Flow::default()),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            forwarded: AtomicU64::new(0),
            allowed: AtomicU64::new(UNLIMITED),
        };
        let mut proxy = Self { port: 0, target, shared: Arc::new(shared), accepting: None };
        proxy.accept().await?;
        Ok(proxy)
    }

    /// Returns the port of the proxy.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of accepted connections.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes forwarded from the server.
    pub fn forwarded(&self) -> u64 {
        self.shared.forwarded.load(Ordering::Relaxed)
    }

    /// Closes all open connections.
    pub fn disconnect(&self) {
        self.shared.disconnect();
    }

    /// Closes all open connections after this many further bytes from the server, wherever that is.
    pub fn disconnect_after(&self, bytes: u64) {
        self.shared.allowed.store(bytes, Ordering::Relaxed);
    }

    /// Stops forwarding; connections stay open, and new ones are accepted.
    pub fn stall(&self) {
        self.shared.flow.send_modify(|flow| flow.stalled = true);
    }

    /// Continues forwarding, starting with the delayed bytes.
    pub fn resume(&self) {
        self.shared.flow.send_modify(|flow| flow.stalled = false);
    }

    /// Stops forwarding on all existing connections permanently, without closing them, as if a middlebox had dropped
    /// its state. New connections are forwarded.
    pub fn freeze(&self) {
        let there_are = self.connections();
        self.shared.flow.send_modify(|flow| flow.frozen = there_are);
    }

    /// Closes all open connections and refuses new ones.
    pub async fn refuse(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            // The port is released when the task has ended.
            let _ = accepting.await;
        }
        self.disconnect();
    }

    /// Accepts connections again on the same port.
    ///
    /// # Errors
    /// Another process has taken the port.
    pub async fn accept(&mut self) -> io::Result<()> {
        if self.accepting.is_some() {
            return Ok(());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await?;
        self.port = listener.local_addr()?.port();
        let (shared, target) = (self.shared.clone(), (Ipv4Addr::LOCALHOST, self.target).into());
        self.accepting = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
                shared.open.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(shared.clone().connect(number, client, target));
            }
        }));
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
        self.disconnect();
    }
}

impl Shared {
    fn disconnect(&self) {
        self.allowed.store(UNLIMITED, Ordering::Relaxed);
        self.flow.send_modify(|flow| flow.generation += 1);
    }

    async fn connect(self: Arc<Self>, number: usize, client: TcpStream, target: SocketAddr) {
        let mut flow = self.flow.subscribe();
        let generation = flow.borrow_and_update().generation;
        let carry = async {
            let server = TcpStream::connect(target).await?;
            let (client_read, client_write) = client.into_split();
            let (server_read, server_write) = server.into_split();
            let questions = self.carry(number, client_read, server_write, Direction::Questions);
            let answers = self.carry(number, server_read, client_write, Direction::Answers);
            // When one side closes, the connection is closed; no client here half-closes.
            tokio::select! { end = questions => end, end = answers => end }
        };
        tokio::select! {
            // Errors are visible to both ends of the connection.
            _ = carry => {}
            _ = flow.wait_for(|flow| flow.generation != generation) => {}
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    async fn carry(
        &self,
        number: usize,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        direction: Direction,
    ) -> io::Result<()> {
        let mut flow = self.flow.subscribe();
        let mut bytes = vec![0; 16 * 1024];
        loop {
            let count = from.read(&mut bytes).await?;
            let Some(read) = bytes.get(..count).filter(|read| !read.is_empty()) else { return Ok(()) };
            if flow.wait_for(|flow| flow.moves(number)).await.is_err() {
                return Ok(());
            }
            if let Direction::Questions = direction {
                to.write_all(read).await?;
                continue;
            }
            let allowed = self.allowed.load(Ordering::Relaxed);
            let forwarded = count.min(usize::try_from(allowed).unwrap_or(usize::MAX));
            to.write_all(read.get(..forwarded).unwrap_or(read)).await?;
            self.forwarded.fetch_add(forwarded as u64, Ordering::Relaxed);
            if forwarded < count {
                self.disconnect();
                return Ok(());
            }
            if allowed != UNLIMITED {
                self.allowed.fetch_sub(forwarded as u64, Ordering::Relaxed);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Questions,
    Answers,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A server that echoes its input.
    async fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = connection.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        port
    }

    async fn connect(proxy: &Proxy) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap()
    }

    /// Reads until the connection ends or fails.
    async fn rest(connection: &mut TcpStream) -> Vec<u8> {
        let mut received = Vec::new();
        let _ = connection.read_to_end(&mut received).await;
        received
    }

    #[tokio::test]
    async fn connections_are_forwarded_and_closed() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut connection = connect(&proxy).await;
        connection.write_all(b"hello").await.unwrap();
        let mut received = [0; 5];
        connection.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"hello");
        assert_eq!(proxy.open(), 1);
        proxy.disconnect();
        assert_eq!(rest(&mut connection).await, b"");
        assert_eq!(proxy.connections(), 1);
    }

    #[tokio::test]
    async fn disconnect_after_closes_connections_once() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut connection = connect(&proxy).await;
        proxy.disconnect_after(3);
        connection.write_all(b"hello").await.unwrap();
        assert_eq!(rest(&mut connection).await, b"hel");
        assert_eq!(proxy.forwarded(), 3);
        let mut connection = connect(&proxy).await;
        connection.write_all(b"hello").await.unwrap();
        let mut received = [0; 5];
        connection.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"hello");
    }

    #[tokio::test]
    async fn freezing_affects_only_existing_connections() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut frozen = connect(&proxy).await;
        frozen.write_all(b"hello").await.unwrap();
        let mut received = [0; 5];
        frozen.read_exact(&mut received).await.unwrap();
        proxy.freeze();
        frozen.write_all(b"again").await.unwrap();
        let mut other = connect(&proxy).await;
        other.write_all(b"hello").await.unwrap();
        other.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"hello");
        let stalled = tokio::time::timeout(Duration::from_millis(200), frozen.read(&mut received)).await;
        assert!(stalled.is_err());
    }

    #[tokio::test]
    async fn connections_are_stalled_and_refused() {
        let mut proxy = Proxy::start(echo().await).await.unwrap();
        proxy.stall();
        let mut connection = connect(&proxy).await;
        connection.write_all(b"hello").await.unwrap();
        let stalled = tokio::time::timeout(Duration::from_millis(200), connection.peek(&mut [0])).await;
        assert!(stalled.is_err());
        proxy.resume();
        let mut received = [0; 5];
        connection.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"hello");

        proxy.refuse().await;
        assert_eq!(rest(&mut connection).await, b"");
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        proxy.accept().await.unwrap();
        let mut connection = connect(&proxy).await;
        connection.write_all(b"again").await.unwrap();
        connection.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"again");
    }
}
