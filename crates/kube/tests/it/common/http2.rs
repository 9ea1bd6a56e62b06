//! The server's end of HTTP/2, scripted by frames.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// The flag of a frame that ends its stream, or acknowledges one of the peer.
const END: u8 = 1;
const END_HEADERS: u8 = 4;
/// A setting.
const MAX_CONCURRENT_STREAMS: u8 = 3;

/// Codes of errors.
pub const NO_ERROR: u32 = 0;
pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED_STREAM: u32 = 7;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// The server's end of an HTTP/2 connection.
pub struct Http2 {
    stream: TlsStream<TcpStream>,
    /// The bodies of the streams that have not ended.
    bodies: BTreeMap<u32, Vec<u8>>,
}

impl Http2 {
    pub async fn accept(stream: TlsStream<TcpStream>) -> Self {
        Self::accept_with(stream, &[]).await
    }

    /// Allows this number of concurrent streams.
    pub async fn accept_limited(stream: TlsStream<TcpStream>, streams: u8) -> Self {
        Self::accept_with(stream, &[0, MAX_CONCURRENT_STREAMS, 0, 0, 0, streams]).await
    }

    async fn accept_with(mut stream: TlsStream<TcpStream>, settings: &[u8]) -> Self {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        let mut http2 = Self { stream, bodies: BTreeMap::new() };
        http2.send(SETTINGS, 0, 0, settings).await;
        http2
    }

    /// Returns the stream and the body of the next complete request; `None` if the connection has ended.
    pub async fn request(&mut self) -> Option<(u32, String)> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut payload).await.ok()?;
            match kind {
                HEADERS => drop(self.bodies.insert(stream, Vec::new())),
                DATA => self.bodies.get_mut(&stream).unwrap().extend(payload),
                SETTINGS | PING if flags & END == 0 => {
                    let payload = if kind == PING { &payload[..] } else { &[] };
                    self.send(kind, END, 0, payload).await;
                }
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END != 0 {
                return Some((stream, String::from_utf8(self.bodies.remove(&stream).unwrap()).unwrap()));
            }
        }
    }

    /// Answers a request with 200 and a body.
    pub async fn respond(&mut self, stream: u32, body: &str) {
        // `:status: 200` in the static table of HPACK.
        self.send(HEADERS, END_HEADERS, stream, &[0x88]).await;
        self.send(DATA, END, stream, body.as_bytes()).await;
    }

    pub async fn reset(&mut self, stream: u32, code: u32) {
        self.send(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    pub async fn go_away(&mut self, last_stream: u32, code: u32) {
        self.send(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat()).await;
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        // The client sees an error of the connection as well.
        let _ = self.stream.write_all(&frame).await;
        let _ = self.stream.flush().await;
    }
}
