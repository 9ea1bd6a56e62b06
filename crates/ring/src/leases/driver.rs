//! The run of one process: its state machine, and what it reads and writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kinformer_reflector::{ListOptions, ListerWatcher as _};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::calls::{Calls, Panicked};
use super::error::RunError;
use super::inner::{Inner, Source};
use super::reads::{News, Reads};
use super::shards::Shards;
use super::writes::{Writer, Written};
use crate::machine::{Machine, Problem};
use crate::slots::Slots;
use crate::view::{Input, Output, StopReason, Target};

/// One run of a process.
pub(crate) struct Driver<'a, S> {
    ring: &'a Inner,
    machine: Machine,
    /// When the last step was, by the clock of the ring.
    stepped: Duration,
    /// When the last view was.
    seen: Duration,
    reads: Arc<Reads>,
    source: Source,
    writer: Writer,
    writes: JoinSet<Written>,
    /// A list beside the watch, which has shown nothing for too long.
    lists: JoinSet<()>,
    /// The repair of a label, and when the last one began.
    labels: JoinSet<Option<Arc<str>>>,
    relabeled: Duration,
    calls: Calls<S>,
    has_left: bool,
}

impl<'a, S: Shards> Driver<'a, S> {
    pub(crate) fn new(
        ring: &'a Inner,
        reads: Arc<Reads>,
        source: Source,
        writer: Writer,
        shards: Arc<S>,
    ) -> Self {
        let now = ring.owned.now();
        Self {
            ring,
            machine: ring.machine(),
            stepped: now,
            seen: now,
            reads,
            source,
            writer,
            writes: JoinSet::new(),
            lists: JoinSet::new(),
            labels: JoinSet::new(),
            relabeled: Duration::ZERO,
            calls: Calls::new(shards),
            has_left: false,
        }
    }

    /// Takes part in the ring until the token is cancelled and the slots are handed over.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), RunError> {
        let until_stopped = stop.clone().cancelled_owned();
        let result = match self.serve(until_stopped).await {
            Ok(()) => {
                let left = timeout(self.ring.leave_timeout, self.leave()).await;
                left.unwrap_or(Ok(()))
            }
            panicked => panicked,
        };
        let slots = self.machine.owned();
        self.ring.owned.end();
        let stopped = match slots.is_empty() {
            true => Ok(()),
            false => self.calls.stop(slots.clone(), StopReason::Ended),
        };
        let ring = self.ring.text();
        match result.and(stopped) {
            Err(Panicked(function)) => Err(RunError::Panicked { ring, function, slots }),
            Ok(()) if !self.has_left => Err(RunError::NotHandedOver { ring, slots }),
            Ok(()) => Ok(()),
        }
    }

    async fn serve(&mut self, stop: impl Future<Output = ()>) -> Result<(), Panicked> {
        tokio::pin!(stop);
        self.step(Input::Tick)?;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                input = self.next() => self.step(input?)?,
            }
        }
    }

    async fn leave(&mut self) -> Result<(), Panicked> {
        self.step(Input::Leave)?;
        while !self.has_left {
            let input = self.next().await?;
            self.step(input)?;
        }
        Ok(())
    }

    /// Waits for the next input of the state machine.
    ///
    /// # Cancel safety
    /// No input is lost.
    async fn next(&mut self) -> Result<Input, Panicked> {
        let since = self.ring.owned.now().saturating_sub(self.stepped);
        let next = self.machine.next_step_in().saturating_sub(since);
        loop {
            tokio::select! {
                biased;
                news = self.reads.news() => {
                    if let Some(input) = self.read(news)? {
                        return Ok(input);
                    }
                }
                Some(Ok(written)) = self.writes.join_next() => return Ok(self.written(written)),
                input = self.calls.next() => return input,
                Some(_) = self.lists.join_next() => {}
                Some(relabeled) = self.labels.join_next() => {
                    if let Ok(Some(error)) = relabeled {
                        self.report(Some(error));
                    }
                }
                () = sleep(next) => {
                    self.list_if_silent();
                    return Ok(Input::Tick);
                }
            }
        }
    }

    fn read(&mut self, news: News) -> Result<Option<Input>, Panicked> {
        self.seen = self.ring.owned.now();
        if news.went_back {
            self.restart()?;
        }
        Ok(news.view.map(Input::View))
    }

    fn written(&self, written: Written) -> Input {
        let Written { target, result, error } = written;
        self.report(error);
        Input::Written { target, result }
    }

    fn report(&self, error: Option<Arc<str>>) {
        if let Some(error) = &error {
            tracing::warn!(ring = %self.ring.text(), %error, "could not write a lease of the ring");
        }
        self.ring.set_error(error);
    }

    /// Writes the label of a Lease that the reads do not have, once in a renew period.
    fn relabel(&mut self, problem: Option<&Problem>) {
        let target = match problem {
            Some(Problem::TableHidden) => Target::Table,
            Some(Problem::LeaseHidden(identity)) => Target::Member(identity.clone()),
            _ => return,
        };
        if self.labels.is_empty() && self.stepped.saturating_sub(self.relabeled) >= self.ring.renew_period() {
            self.relabeled = self.stepped;
            self.labels.spawn(self.writer.clone().relabel(target));
        }
    }

    /// Lists the Leases if the watch has not shown this process's own renewals.
    fn list_if_silent(&mut self) {
        let silent = self.ring.owned.now().saturating_sub(self.seen);
        if !self.lists.is_empty() || silent < self.ring.renew_period() * 2 {
            return;
        }
        let (reads, source, limit) = (self.reads.clone(), self.source.clone(), self.writer.limit);
        self.lists.spawn(async move {
            let list = timeout(limit, source.list(ListOptions::default())).await;
            if let Ok(Ok(list)) = list
                && list.undecodable.is_empty()
            {
                reads.listed(list.objects, &list.resource_version);
            }
        });
    }

    /// The server was restored from a backup: what this process knows of its versions is not true any more. It stops, and joins
    /// again.
    fn restart(&mut self) -> Result<(), Panicked> {
        tracing::warn!(ring = %self.ring.text(), "the server's versions have gone back: joining the ring again");
        self.writes = JoinSet::new();
        let slots = self.machine.owned();
        self.machine = self.ring.machine();
        self.ring.owned.publish(&self.machine, self.stepped);
        match slots.is_empty() {
            true => Ok(()),
            false => self.calls.stop(slots, StopReason::TableLost),
        }
    }

    fn step(&mut self, input: Input) -> Result<(), Panicked> {
        let now = self.ring.owned.now();
        let elapsed = now.saturating_sub(self.stepped);
        self.stepped = now;
        let outputs = self.machine.step(elapsed, input);
        // before the outputs: what is stopped must not be owned any more, and what begins is owned
        self.ring.owned.publish(&self.machine, now);
        for output in outputs {
            self.output(output)?;
        }
        let status = self.machine.status();
        self.relabel(status.problem.as_ref());
        self.ring.publish(status);
        Ok(())
    }

    fn output(&mut self, output: Output) -> Result<(), Panicked> {
        let ring = || self.ring.text();
        match output {
            Output::Write(write) => {
                let read = self.reads.lease(&write.target);
                self.writes.spawn(self.writer.clone().send(write, read));
                Ok(())
            }
            Output::Own { slots, list } => {
                tracing::info!(ring = %ring(), %slots, "own slots");
                add(&self.ring.counters.begun, &slots);
                self.calls.own(slots, list)
            }
            Output::Release { slots } => {
                tracing::info!(ring = %ring(), %slots, "release slots");
                add(&self.ring.counters.released, &slots);
                self.calls.release(slots)
            }
            Output::Stop { slots, reason } => {
                tracing::warn!(ring = %ring(), %slots, %reason, "stop slots");
                add(&self.ring.counters.stopped, &slots);
                self.calls.stop(slots, reason)
            }
            Output::Left => {
                self.has_left = true;
                Ok(())
            }
        }
    }
}

fn add(counter: &AtomicU64, slots: &Slots) {
    counter.fetch_add(u64::try_from(slots.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
}
