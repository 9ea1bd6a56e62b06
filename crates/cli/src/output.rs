//! Standard output: one buffered writer on a thread of its own.
//!
//! Whoever prints hands over lines and waits only while the writer is [`BACKLOG`] batches behind, without
//! holding a thread of the runtime; so a reader that has stopped reading stops nothing but the printing.

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
/// How long after a signal a reader may take to read what is left.
const UNREAD: Duration = Duration::from_secs(3);

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

    /// Hands over lines. Waits while the writer is far behind.
    ///
    /// Cancel safe: lines are handed over as a whole or not at all.
    ///
    /// # Errors
    /// [`Gone`]: it is no use to print any more.
    pub(crate) async fn lines(&self, lines: Text) -> Result<(), Gone> {
        self.lines.send(lines.into_bytes()).await.map_err(|_| Gone)
    }

    /// Completes when nothing can be written any more. Cancel safe.
    pub(crate) async fn gone(&self) {
        self.failed.cancelled().await;
    }
}

impl Written {
    /// Hands over the last lines, and waits until everything is written; after a signal for a little while only.
    /// All other clones of the output must have been dropped.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) async fn finish(self, output: Output, last: Text, stop: &Stop) -> Result<(), Error> {
        let finish = async {
            // What became of them is told below.
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
                Err(_) => Err(Error::Output(io::Error::other("the writer has died"))),
            },
            () = unread => Err(Error::Output(io::Error::other("the reader has stopped reading"))),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc as blocking;

    use parking_lot::Mutex;

    use super::*;

    /// Keeps what is written, and counts how often.
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

    /// Takes nothing until its other end is dropped.
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

    #[tokio::test]
    async fn a_reader_that_has_gone_is_told() {
        let (reader, writer) = blocking::channel();
        let (output, written) = Output::to(Stuck(writer)).expect("a thread");
        output.lines(text("x")).await.expect("there");
        drop(reader);
        output.gone().await;
        assert_eq!(output.lines(text("y")).await, Err(Gone));
        let Err(Error::Output(error)) = written.finish(output, Text::default(), &Stop::new()).await else {
            panic!("written")
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_has_stopped_reading_cannot_keep_the_program() {
        let (_reader, writer) = blocking::channel();
        let (output, written) = Output::to(Stuck(writer)).expect("a thread");
        // Until there is no room any more.
        while tokio::time::timeout(Duration::from_secs(1), output.lines(text(&"x".repeat(BUFFER_BYTES))))
            .await
            .is_ok()
        {}
        let stop = Stop::new();
        stop.now();
        let error = written.finish(output, text("last"), &stop).await.expect_err("nothing is read");
        assert_eq!(error.to_string(), "cannot write the output: the reader has stopped reading");
    }
}
