//! Bodies in chunks, whose borders come from the seed.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use futures::stream::{self, BoxStream, StreamExt as _};
use http_body::Frame;
use http_body_util::StreamBody;

use super::faults::Stop;
use super::state::{Connection, Shared};
use super::watch::{Step, Watch};

/// The body of a response.
pub type AnswerBody = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

/// A body that is being sent.
pub(crate) struct Sender {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Connection,
    pub(crate) rng: Rng,
    /// The bytes that are ready.
    pub(crate) ready: BytesMut,
    /// Where the bytes after these come from; `None` if there are no more.
    pub(crate) watch: Option<Watch>,
    /// The number of bytes after which the body stops early.
    pub(crate) stop: Option<(usize, Stop)>,
    /// Counts this body by its clones.
    pub(crate) _body: Arc<()>,
}

impl Sender {
    pub(crate) fn into_body(self) -> AnswerBody {
        let chunks = stream::unfold(Some(self), |sender| async {
            let mut sender = sender?;
            match sender.next().await {
                Next::Chunk(chunk) => Some((Ok(Frame::data(chunk)), Some(sender))),
                Next::Broken => Some((Err(io::ErrorKind::ConnectionReset.into()), None)),
                Next::Ended => None,
            }
        });
        StreamBody::new(chunks.boxed())
    }

    async fn next(&mut self) -> Next {
        loop {
            match self.stop {
                Some((0, Stop::Ended)) => return Next::Ended,
                Some((0, Stop::Broken)) => return Next::Broken,
                Some((0, Stop::Silent)) => {
                    self.shared.broken(self.connection).await;
                    return Next::Broken;
                }
                _ => {}
            }
            if !self.ready.is_empty() {
                let chunk = self.chunk();
                // Other tasks run while the reader has a part of a line.
                if self.rng.bool() {
                    tokio::task::yield_now().await;
                }
                return Next::Chunk(chunk);
            }
            let Some(watch) = &mut self.watch else { return Next::Ended };
            match watch.next(&self.shared).await {
                Step::Lines(lines) => self.ready.extend_from_slice(&lines),
                Step::Broken => return Next::Broken,
                Step::Ended => return Next::Ended,
            }
        }
    }

    /// Takes the next chunk of the ready bytes.
    fn chunk(&mut self) -> Bytes {
        let longest = if self.rng.bool() { self.ready.len() } else { self.ready.len().min(64) };
        let mut length = self.rng.usize(1..=longest);
        if let Some((left, _)) = &mut self.stop {
            length = length.min(*left);
            *left -= length;
        }
        self.ready.split_to(length).freeze()
    }
}

enum Next {
    Chunk(Bytes),
    Broken,
    Ended,
}
