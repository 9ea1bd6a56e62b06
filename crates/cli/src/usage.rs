//! Memory and processor time of this process.

use std::sync::OnceLock;
use std::time::Duration;

/// Memory and processor time that this process has used so far; `None` where the system does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// The peak resident memory.
    pub(crate) peak_memory_bytes: Option<u64>,
    /// Processor time in user and kernel mode together.
    pub(crate) cpu_seconds: Option<f64>,
}

/// Processor time used before this program replaced its predecessor by exec, as under `cargo run`.
static BEFORE: OnceLock<Duration> = OnceLock::new();

/// Records the processor time used before `main`. Call it first.
pub(crate) fn begin() {
    if let Some(time) = cpu_time() {
        BEFORE.get_or_init(|| time);
    }
}

impl Usage {
    /// Reads the current figures from the operating system.
    pub(crate) fn now() -> Self {
        let before = BEFORE.get().copied().unwrap_or_default();
        let cpu_seconds = cpu_time().map(|time| time.saturating_sub(before).as_secs_f64());
        Self { peak_memory_bytes: peak_memory_bytes(), cpu_seconds }
    }
}

/// Linux's `ru_maxrss` includes the memory of the process before exec; `VmHWM` does not.
#[cfg(target_os = "linux")]
fn peak_memory_bytes() -> Option<u64> {
    peak_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Reads the line `VmHWM:     1234 kB` of `/proc/PID/status`.
#[cfg(target_os = "linux")]
fn peak_of(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(target_vendor = "apple")]
fn peak_memory_bytes() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    // macOS reports bytes, all other systems kibibytes.
    u64::try_from(getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss()).ok()
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn peak_memory_bytes() -> Option<u64> {
    None
}

#[cfg(unix)]
fn cpu_time() -> Option<Duration> {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Some(Duration::from_micros(u64::try_from(microseconds).ok()?))
}

#[cfg(not(unix))]
fn cpu_time() -> Option<Duration> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_used_something() {
        let usage = Usage::now();
        assert!(usage.peak_memory_bytes.is_some_and(|bytes| bytes > 100_000), "{usage:?}");
        assert!(usage.cpu_seconds.is_some_and(|seconds| seconds >= 0.0), "{usage:?}");
    }

    #[test]
    fn peak_memory_is_read_from_the_status() {
        assert_eq!(
            peak_of("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 8 kB\n"),
            Some(1_263_616)
        );
        assert_eq!(peak_of("Name:\tVmHWM:\nVmHWM:\t1234\n"), None);
        assert_eq!(peak_of(""), None);
    }
}
