//! Proxies.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::head;
use super::tls_server::TlsServer;

/// What a proxy was asked for: the first line of a request, and the credentials.
pub type Log = Arc<Mutex<Vec<String>>>;

/// Serves an HTTP proxy: opens tunnels, and answers all other requests with `forwarded`.
pub async fn http(mut stream: impl AsyncRead + AsyncWrite + Unpin, log: Log) {
    let head = head(&mut stream).await;
    let line = head.lines().next().unwrap();
    let user = head.lines().find(|line| line.to_lowercase().starts_with("proxy-auth"));
    let user = user.and_then(|line| line.split_once(": ")).map(|(_, user)| format!(" {user}"));
    log.lock().push(format!("{line}{}", user.unwrap_or_default()));
    let Some(server) = line.strip_prefix("CONNECT ").and_then(|line| line.split(' ').next()) else {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nforwarded").await.unwrap();
        return;
    };
    let mut server = TcpStream::connect(server).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    drop(copy_bidirectional(&mut stream, &mut server).await);
}

/// Serves a SOCKS5 proxy. It requires a user if the client has one.
pub async fn socks(mut stream: TcpStream, log: Log) {
    let [version, methods] = read(&mut stream).await;
    let mut offered = vec![0; methods.into()];
    stream.read_exact(&mut offered).await.unwrap();
    let mut user = String::new();
    if offered.contains(&2) {
        stream.write_all(&[version, 2]).await.unwrap();
        let [version] = read(&mut stream).await;
        user = format!(" {}:{}", text(&mut stream).await, text(&mut stream).await);
        stream.write_all(&[version, 0]).await.unwrap();
    } else {
        stream.write_all(&[version, 0]).await.unwrap();
    }
    let [_, command, _, kind] = read(&mut stream).await;
    assert_eq!(command, 1);
    let host = match kind {
        1 => read::<4>(&mut stream).await.map(|part| part.to_string()).join("."),
        _ => text(&mut stream).await,
    };
    let port = stream.read_u16().await.unwrap();
    log.lock().push(format!("CONNECT {host}:{port}{user}"));
    // The code of a host that cannot be reached.
    let Ok(mut server) = TcpStream::connect((host, port)).await else {
        stream.write_all(&[5, 4, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        return;
    };
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    drop(copy_bidirectional(&mut stream, &mut server).await);
}

async fn read<const LENGTH: usize>(stream: &mut TcpStream) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

/// Reads a text after its length.
async fn text(stream: &mut TcpStream) -> String {
    let [length] = read(stream).await;
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Serves each connection to a port; dropping the set ends them.
pub async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream, Log) -> F + Send + 'static,
) -> (u16, Log, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, log, mut task) = (listener.local_addr().unwrap().port(), Log::default(), JoinSet::new());
    let shared = log.clone();
    task.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream, shared.clone()));
        }
    });
    (port, log, task)
}

/// An HTTP proxy with TLS.
pub async fn https() -> (TlsServer, Log) {
    let log = Log::default();
    let shared = log.clone();
    (TlsServer::new(&[], move |_, stream| http(stream, shared.clone())).await, log)
}
