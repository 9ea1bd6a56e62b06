//! A connection that fails: a proxy that can cut what it carries, hold it up, and refuse to carry more.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Carries connections to a port on loopback, byte by byte. It ends with this value, and so do they.
pub struct Proxy {
    port: u16,
    target: u16,
    shared: Arc<Shared>,
    /// `None` while it refuses connections.
    accepting: Option<JoinHandle<()>>,
}

/// What all connections go by.
struct Shared {
    flow: watch::Sender<Flow>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    /// How many bytes of answers were carried.
    carried: AtomicU64,
    /// How many bytes of answers are carried before everything is cut.
    allowed: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    /// How often everything was cut: a connection lives in one of these ages.
    age: u64,
    stalled: bool,
    /// Of the first so many connections nothing is carried, ever.
    frozen: usize,
}

impl Flow {
    fn moves(&self, connection: usize) -> bool {
        !self.stalled && connection >= self.frozen
    }
}

/// No end to what is carried.
const UNLIMITED: u64 = u64::MAX;

impl Proxy {
    /// Begins to carry connections to this port.
    ///
    /// # Errors
    /// There is no port to be had.
    pub async fn start(target: u16) -> io::Result<Self> {
        let shared = Shared {
            flow: watch::Sender::new(Flow::default()),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            carried: AtomicU64::new(0),
            allowed: AtomicU64::new(UNLIMITED),
        };
        let mut proxy = Self { port: 0, target, shared: Arc::new(shared), accepting: None };
        proxy.accept().await?;
        Ok(proxy)
    }

    /// Where it takes connections.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections it has taken.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// How many of them are still there.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// How many bytes of answers it has carried.
    pub fn carried(&self) -> u64 {
        self.shared.carried.load(Ordering::Relaxed)
    }

    /// Cuts every connection that there is.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Cuts every connection after so many more bytes of answers, wherever that is.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.allowed.store(bytes, Ordering::Relaxed);
    }

    /// Nothing is carried any more; connections stay, and are taken.
    pub fn stall(&self) {
        self.shared.flow.send_modify(|flow| flow.stalled = true);
    }

    /// What was held up is carried again, and so is what follows.
    pub fn resume(&self) {
        self.shared.flow.send_modify(|flow| flow.stalled = false);
    }

    /// On the connections that there are nothing is carried any more, ever, and nobody is told: as where something
    /// between the two has forgotten them. Others are carried.
    pub fn freeze(&self) {
        let there_are = self.connections();
        self.shared.flow.send_modify(|flow| flow.frozen = there_are);
    }

    /// Cuts every connection and refuses others.
    pub async fn refuse(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            // The port is free when the task has gone.
            let _ = accepting.await;
        }
        self.cut();
    }

    /// Takes connections again, at the same port.
    ///
    /// # Errors
    /// Somebody else has taken the port.
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
        self.cut();
    }
}

impl Shared {
    fn cut(&self) {
        self.allowed.store(UNLIMITED, Ordering::Relaxed);
        self.flow.send_modify(|flow| flow.age += 1);
    }

    async fn connect(self: Arc<Self>, number: usize, client: TcpStream, target: SocketAddr) {
        let mut flow = self.flow.subscribe();
        let age = flow.borrow_and_update().age;
        let carry = async {
            let server = TcpStream::connect(target).await?;
            let (client_read, client_write) = client.into_split();
            let (server_read, server_write) = server.into_split();
            let questions = self.carry(number, client_read, server_write, Direction::Questions);
            let answers = self.carry(number, server_read, client_write, Direction::Answers);
            // One side that ends is the end: nobody here half-closes.
            tokio::select! { end = questions => end, end = answers => end }
        };
        tokio::select! {
            // How a connection ends is a matter of those that it connects.
            _ = carry => {}
            _ = flow.wait_for(|flow| flow.age != age) => {}
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
            let carried = count.min(usize::try_from(allowed).unwrap_or(usize::MAX));
            to.write_all(read.get(..carried).unwrap_or(read)).await?;
            self.carried.fetch_add(carried as u64, Ordering::Relaxed);
            if carried < count {
                self.cut();
                return Ok(());
            }
            if allowed != UNLIMITED {
                self.allowed.fetch_sub(carried as u64, Ordering::Relaxed);
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

    /// A server that repeats what it hears.
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

    /// What comes until the connection ends, in whatever way.
    async fn rest(connection: &mut TcpStream) -> Vec<u8> {
        let mut heard = Vec::new();
        let _ = connection.read_to_end(&mut heard).await;
        heard
    }

    #[tokio::test]
    async fn it_carries_and_cuts() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut connection = connect(&proxy).await;
        connection.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        connection.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        assert_eq!(proxy.open(), 1);
        proxy.cut();
        assert_eq!(rest(&mut connection).await, b"");
        assert_eq!(proxy.connections(), 1);
    }

    #[tokio::test]
    async fn it_cuts_in_the_middle_once() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut connection = connect(&proxy).await;
        proxy.cut_after(3);
        connection.write_all(b"hello").await.unwrap();
        assert_eq!(rest(&mut connection).await, b"hel");
        assert_eq!(proxy.carried(), 3);
        let mut connection = connect(&proxy).await;
        connection.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        connection.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
    }

    #[tokio::test]
    async fn what_it_freezes_stays_so_and_others_are_carried() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut frozen = connect(&proxy).await;
        frozen.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        frozen.read_exact(&mut heard).await.unwrap();
        proxy.freeze();
        frozen.write_all(b"again").await.unwrap();
        let mut other = connect(&proxy).await;
        other.write_all(b"hello").await.unwrap();
        other.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        let held_up = tokio::time::timeout(Duration::from_millis(200), frozen.read(&mut heard)).await;
        assert!(held_up.is_err());
    }

    #[tokio::test]
    async fn it_stalls_and_refuses() {
        let mut proxy = Proxy::start(echo().await).await.unwrap();
        proxy.stall();
        let mut connection = connect(&proxy).await;
        connection.write_all(b"hello").await.unwrap();
        let held_up = tokio::time::timeout(Duration::from_millis(200), connection.peek(&mut [0])).await;
        assert!(held_up.is_err());
        proxy.resume();
        let mut heard = [0; 5];
        connection.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");

        proxy.refuse().await;
        assert_eq!(rest(&mut connection).await, b"");
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        proxy.accept().await.unwrap();
        let mut connection = connect(&proxy).await;
        connection.write_all(b"again").await.unwrap();
        connection.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"again");
    }
}
