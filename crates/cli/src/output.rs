//! Standard output, written by one buffered writer on its own thread.
//!
//! Printing tasks hand over lines, and wait only while the writer is [`BACKLOG`] batches behind. Waiting blocks no
//! runtime thread, so a stalled reader stalls only the printing.

use std::io::{self, BufWriter, Write};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::exit::Error;
use crate::stop::Stop;
use crate::text::Text;

/// How many batches of lines may wait for the writer.
const BACKLOG: usize = 256;
const BUFFER_BYTES: usize = 64 * 1024;
/// How long a reader may take to read the remaining output after a signal.
const UNREAD: Duration = Duration::from_secs(3);

/// Whether standard output is a terminal with colours.
pub(crate) fn has_colours() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// The sending half of standard output. Clones share one writer.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    lines: mpsc::Sender<Vec<u8>>,
    failed: CancellationToken,
}

/// The writer thread; resolves with its result.
#[derive(Debug)]
pub(crate) struct WriterHandle {
    done: oneshot::Receiver<io::Result<()>>,
}

/// The output is closed: its reader is gone, or it cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputClosed;

impl Output {
    /// Starts a writer for standard output.
    ///
    /// # Errors
    /// [`Error::Runtime`]: the thread cannot be started.
    pub(crate) fn stdout() -> Result<(Self, WriterHandle), Error> {
        Self::to(io::stdout())
    }

    fn to(writer: impl Write + Send + 'static) -> Result<(Self, WriterHandle), Error> {
        let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(BACKLOG);
        let (result_sender, done) = oneshot::channel();
        let failed = CancellationToken::new();
        let failing = failed.clone();
        let write = move || {
            let result = write(&mut waiting, BufWriter::with_capacity(BUFFER_BYTES, writer));
            // Closes the channel, so that senders fail from now on.
            drop(waiting);
            failing.cancel();
            let _ = result_sender.send(result);
        };
        thread::Builder::new().name("output".into()).spawn(write).map_err(Error::Runtime)?;
        Ok((Self { lines, failed }, WriterHandle { done }))
    }

    /// Hands over lines. Waits while the writer is [`BACKLOG`] batches behind.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, none of the lines is written.
    ///
    /// # Errors
    /// [`OutputClosed`]: the output has been closed.
    pub(crate) async fn lines(&self, lines: Text) -> Result<(), OutputClosed> {
        self.lines.send(lines.into_bytes()).await.map_err(|_| OutputClosed)
    }

    /// Waits until the output is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost: the end of the output is kept, and a later call returns at once.
    pub(crate) async fn closed(&self) {
        self.failed.cancelled().await;
    }
}

impl WriterHandle {
    /// Writes the last lines and waits until all output is written. After a signal, waits at most [`UNREAD`]. All
    /// other clones of the output must have been dropped.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) async fn finish(self, output: Output, last: Text, stop: &Stop) -> Result<(), Error> {
        let finish = async {
            // A failure is reported by the writer's result below.
            let _ = output.lines(last).await;
            drop(output);
            self.done.await
        };
        let unread = async {
            stop.requested().await;
            tokio::time::sleep(UNREAD).await;
        };
        tokio::select! {
            biased;
            done = finish => match done {
                Ok(result) => result.map_err(Error::Output),
                Err(_) => Err(Error::Output(io::Error::other("writer thread panicked"))),
            },
            () = unread => Err(Error::Output(io::Error::other("the reader stopped reading"))),
        }
    }
}

/// Writes lines as they arrive, and flushes whenever the channel is empty.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc as blocking;

    use parking_lot::Mutex;

    use super::*;

    /// Records the written bytes and the number of writes.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut kept = self.0.lock();
            kept.0.extend_from_slice(bytes);
            kept.1 += 1;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Blocks until its other end is dropped, and then records.
    struct Gated(blocking::Receiver<()>, Kept);

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Blocks until its other end is dropped.
    struct Stuck(blocking::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text(line: &str) -> Text {
        let mut text = Text::default();
        text.line(format_args!("{line}"));
        text
    }

    #[tokio::test]
    async fn lines_are_written_in_order_and_few_writes() {
        let kept = Kept::default();
        let (output, written) = Output::to(kept.clone()).expect("a thread");
        let mut expected = Vec::new();
        for number in 0..20_000 {
            expected.extend_from_slice(format!("{number}\n").as_bytes());
            output.lines(text(&number.to_string())).await.expect("there");
        }
        written.finish(output, text("last"), &Stop::new()).await.expect("written");
        expected.extend_from_slice(b"last\n");
        let (bytes, writes) = std::mem::take(&mut *kept.0.lock());
        assert_eq!(bytes, expected);
        assert!(writes < 20_000, "{writes} writes");
    }

    /// Lines whose future is dropped while it waits for the writer are not written; all others are.
    #[tokio::test(start_paused = true)]
    async fn dropped_lines_are_not_written() {
        let (reader, writer) = blocking::channel();
        let kept = Kept::default();
        let (output, written) = Output::to(Gated(writer, kept.clone())).expect("a thread");
        let mut expected = Vec::new();
        let line = "x".repeat(BUFFER_BYTES);
        // Until the writer is stuck and the backlog is full.
        while tokio::time::timeout(Duration::from_secs(1), output.lines(text(&line))).await.is_ok() {
            expected.extend_from_slice(format!("{line}\n").as_bytes());
        }
        {
            let mut dropped = Box::pin(output.lines(text("dropped")));
            assert!(futures::poll!(&mut dropped).is_pending());
        }
        drop(reader);
        written.finish(output, text("last"), &Stop::new()).await.expect("written");
        expected.extend_from_slice(b"last\n");
        assert!(kept.0.lock().0 == expected);
    }

    #[tokio::test]
    async fn a_closed_reader_is_reported() {
        let (reader, writer) = blocking::channel();
        let (output, written) = Output::to(Stuck(writer)).expect("a thread");
        output.lines(text("x")).await.expect("there");
        drop(reader);
        output.closed().await;
        assert_eq!(output.lines(text("y")).await, Err(OutputClosed));
        let Err(Error::Output(error)) = written.finish(output, Text::default(), &Stop::new()).await else {
            panic!("written")
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_reader_does_not_block_the_exit() {
        let (_reader, writer) = blocking::channel();
        let (output, written) = Output::to(Stuck(writer)).expect("a thread");
        // Until the pipe is full.
        while tokio::time::timeout(Duration::from_secs(1), output.lines(text(&"x".repeat(BUFFER_BYTES))))
            .await
            .is_ok()
        {}
        let stop = Stop::new();
        stop.now();
        let error = written.finish(output, text("last"), &stop).await.expect_err("nothing is read");
        assert_eq!(error.to_string(), "cannot write the output: the reader stopped reading");
    }
}
