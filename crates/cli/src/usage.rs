//! What this process has used.

use std::sync::OnceLock;
use std::time::Duration;

/// Memory and processor time of this process so far; `None` where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// The most memory that was resident at one time.
    pub(crate) peak_memory_bytes: Option<u64>,
    /// Time on processors, in user and in kernel mode together.
    pub(crate) cpu_seconds: Option<f64>,
}

/// What a program had used that became this one by exec, as cargo does.
static BEFORE: OnceLock<Duration> = OnceLock::new();

/// To be called first: what was used before is not this program's.
pub(crate) fn begin() {
    if let Some(time) = cpu_time() {
        BEFORE.get_or_init(|| time);
    }
}

impl Usage {
    /// Asks the operating system.
    pub(crate) fn now() -> Self {
        let before = BEFORE.get().copied().unwrap_or_default();
        let cpu_seconds = cpu_time().map(|time| time.saturating_sub(before).as_secs_f64());
        Self { peak_memory_bytes: peak_memory_bytes(), cpu_seconds }
    }
}

/// Linux's `ru_maxrss` counts what the parent had before exec; `VmHWM` does not.
#[cfg(target_os = "linux")]
fn peak_memory_bytes() -> Option<u64> {
    let kibibytes = procfs::process::Process::myself().ok()?.status().ok()?.vmhwm?;
    Some(kibibytes * 1024)
}

#[cfg(target_vendor = "apple")]
fn peak_memory_bytes() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    // In bytes there, unlike everywhere else.
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
}
