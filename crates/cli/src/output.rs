//! Standard output: one buffered writer on a thread of its own.
//!
//! Whoever prints hands over lines and waits only while the writer is [`BACKLOG`] batches behind, without
//! holding a thread of the runtime; so a reader that has stopped reading stops nothing but the printing.

use std::io::{self, BufWriter, Write};
use std::thread;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::exit::Error;

/// How many batches of lines may wait for the writer.
const BACKLOG: usize = 256;
const BUFFER_BYTES: usize = 64 * 1024;

/// Takes lines for standard output. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    lines: mpsc::Sender<Vec<u8>>,
    failed: CancellationToken,
}

/// The writer's end: what became of the lines.
#[derive(Debug)]
pub(crate) struct Written {
    done: oneshot::Receiver<io::Result<()>>,
}

/// The output is gone: nobody reads it, or it cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Output {
    /// Standard output.
    ///
    /// # Errors
    /// [`Error::Runtime`]: no thread can be started.
    pub(crate) fn stdout() -> Result<(Self, Written), Error> {
        Self::to(io::stdout())
    }

    fn to(writer: impl Write + Send + 'static) -> Result<(Self, Written), Error> {
        let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(BACKLOG);
        let (tell, done) = oneshot::channel();
        let failed = CancellationToken::new();
        let failing = failed.clone();
        let write = move || {
            let result = write(&mut waiting, BufWriter::with_capacity(BUFFER_BYTES, writer));
            // Whoever sends from now on hears that it is over.
            drop(waiting);
            failing.cancel();
            let _ = tell.send(result);
        };
        thread::Builder::new().name("output".into()).spawn(write).map_err(Error::Runtime)?;
        Ok((Self { lines, failed }, Written { done }))
    }

    /// Hands over whole lines, each with its newline. Waits while the writer is far behind.
    ///
    /// Cancel safe: lines are handed over as a whole or not at all.
    ///
    /// # Errors
    /// [`Gone`]: it is no use to print any more.
    pub(crate) async fn lines(&self, lines: Vec<u8>) -> Result<(), Gone> {
        self.lines.send(lines).await.map_err(|_| Gone)
    }

    /// Completes when nothing can be written any more. Cancel safe.
    pub(crate) async fn gone(&self) {
        self.failed.cancelled().await;
    }
}

impl Written {
    /// Waits until everything is written that was handed over before the last [`Output`] was dropped.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) async fn finished(self) -> Result<(), Error> {
        match self.done.await {
            Ok(result) => result.map_err(Error::Output),
            Err(_) => Err(Error::Output(io::Error::other("the writer has died"))),
        }
    }
}

/// Writes what comes, and flushes whenever nothing more is waiting.
fn write(waiting: &mut mpsc::Receiver<Vec<u8>>, mut writer: impl Write) -> io::Result<()> {
    while let Some(lines) = waiting.blocking_recv() {
        writer.write_all(&lines)?;
        while let Ok(lines) = waiting.try_recv() {
            writer.write_all(&lines)?;
        }
        writer.flush()?;
    }
    writer.flush()
}
