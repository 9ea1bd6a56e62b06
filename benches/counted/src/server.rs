//! A kube-apiserver of one list and one watch, without a socket.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kinformer_wire::Encoding;
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// The size of a piece of a response, as from a socket.
const PIECE: usize = 16 * 1024;

type Pieces = BoxStream<'static, Result<Frame<Bytes>, Infallible>>;

/// Returns a client of a server that responds to each list with this body and to the first watch with the sent events.
pub(crate) fn client(encoding: Encoding, list: &Bytes) -> (Client, mpsc::Sender<Bytes>) {
    let (sender, events) = mpsc::channel(1);
    let events = Arc::new(Mutex::new(Some(events)));
    let list = list.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=1"));
        let pieces: Pieces = match is_watch.then(|| events.lock().take()) {
            None => stream::iter(pieces(&list)).map(|piece| Ok(Frame::data(piece))).boxed(),
            Some(None) => stream::pending().boxed(),
            Some(Some(mut events)) => stream::poll_fn(move |context| events.poll_recv(context))
                .map(|piece| Ok(Frame::data(piece)))
                .boxed(),
        };
        let content_type = match (encoding, is_watch) {
            (Encoding::Protobuf, true) => format!("{};stream=watch", encoding.media_type()),
            _ => encoding.media_type().to_owned(),
        };
        let response = Response::builder().header("content-type", content_type).body(StreamBody::new(pieces));
        std::future::ready(Ok::<_, Infallible>(response.unwrap()))
    });
    (Client::new(service, "default"), sender)
}

fn pieces(body: &Bytes) -> Vec<Bytes> {
    let starts = (0..body.len()).step_by(PIECE);
    starts.map(|start| body.slice(start..body.len().min(start + PIECE))).collect()
}
