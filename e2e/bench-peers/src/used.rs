//! The resources used by a process, read from `/proc` for every peer, and not from `getrusage`, which includes the
//! memory of the parent before exec.

/// The resources used so far.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    /// The CPU time of all threads, in user and system mode.
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_mebibytes: f64,
    /// The peak resident memory since the start or the last reset.
    pub(crate) peak_mebibytes: f64,
}

#[cfg(target_os = "linux")]
mod kernel {
    use procfs::ProcResult;
    use procfs::process::{ClearRefs, Process};

    use super::Used;

    fn process(id: u32) -> ProcResult<Process> {
        Process::new(i32::try_from(id).unwrap_or_default())
    }

    /// Returns the resources that this process has used so far.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub(crate) fn used(id: u32) -> Result<Used, String> {
        let read = || {
            let process = process(id)?;
            ProcResult::Ok((process.stat()?, process.status()?))
        };
        let (stat, status) = read().map_err(|error| error.to_string())?;
        let mebibytes = |kibibytes: Option<u64>| {
            kibibytes
                .map(|kibibytes| kibibytes as f64 / 1024.0)
                .ok_or("the kernel does not report the resident memory")
        };
        Ok(Used {
            cpu_seconds: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
            resident_mebibytes: mebibytes(status.vmrss)?,
            peak_mebibytes: mebibytes(status.vmhwm)?,
        })
    }

    /// Resets the peak memory.
    ///
    /// # Errors
    /// The kernel rejects it.
    pub(crate) fn forget_peak(id: u32) -> Result<(), String> {
        let cleared = process(id).and_then(|process| process.clear_refs(ClearRefs::PeakRSS));
        cleared.map_err(|error| error.to_string())
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::Used;

    const UNKNOWN: &str = "what a process has used is only known on Linux";

    pub(crate) fn used(_: u32) -> Result<Used, String> {
        Err(UNKNOWN.into())
    }

    pub(crate) fn forget_peak(_: u32) -> Result<(), String> {
        Err(UNKNOWN.into())
    }
}

pub(crate) use kernel::{forget_peak, used};
