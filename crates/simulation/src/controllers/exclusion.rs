//! Processes that elect a leader: only one of them reconciles at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::trace::Recorder;

/// The running reconciliations of each process, and the process of this handle.
#[derive(Clone)]
pub(crate) struct Exclusion {
    running: Arc<Mutex<BTreeMap<usize, usize>>>,
    process: usize,
}

impl Exclusion {
    pub(crate) fn new() -> Self {
        Self { running: Arc::default(), process: 0 }
    }

    /// Returns the handle of another process.
    pub(crate) fn of_process(&self, process: usize) -> Self {
        Self { running: self.running.clone(), process }
    }

    /// A reconciliation begins. It ends when the returned guard is dropped.
    pub(crate) fn begin(&self, recorder: &Recorder) -> Running {
        let mut running = self.running.lock();
        let others = running.iter().any(|(process, count)| *process != self.process && *count > 0);
        *running.entry(self.process).or_default() += 1;
        drop(running);
        if others {
            recorder.violation(format_args!("process {} reconciles while another one does", self.process));
        }
        Running(self.clone())
    }
}

/// A running reconciliation.
pub(crate) struct Running(Exclusion);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(count) = self.0.running.lock().get_mut(&self.0.process) {
            *count -= 1;
        }
    }
}
