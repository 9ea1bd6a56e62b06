//! Metrics of this process.

use std::fmt;

use procfs::process::{LimitValue, Process};
use procfs::{ProcError, WithCurrentSystemInfo as _};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads `/proc/self` at each scrape. What cannot be read is left out.
///
/// The names follow Go's `prometheus/client_golang` 1.23 (`NewProcessCollector`), which controller-runtime registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessCollector;

struct Figures {
    cpu_seconds: f64,
    open_fds: u64,
    max_fds: LimitValue,
    virtual_bytes: u64,
    virtual_max_bytes: LimitValue,
    resident_bytes: u64,
    start_seconds: f64,
    received: u64,
    sent: u64,
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "seconds and clock ticks are far below 2^52")]
    fn read() -> Result<Self, ProcError> {
        let process = Process::myself()?;
        let (stat, limits, devices) = (process.stat()?, process.limits()?, process.dev_status()?);
        let ticks = procfs::ticks_per_second() as f64;
        let booted = procfs::boot_time_secs()? as f64;
        Ok(Self {
            cpu_seconds: stat.utime.saturating_add(stat.stime) as f64 / ticks,
            open_fds: process.fd_count()?.try_into().unwrap_or(u64::MAX),
            max_fds: limits.max_open_files.soft_limit,
            virtual_bytes: stat.vsize,
            virtual_max_bytes: limits.max_address_space.soft_limit,
            resident_bytes: stat.rss_bytes().get(),
            start_seconds: booted + stat.starttime as f64 / ticks,
            received: devices.values().map(|device| device.recv_bytes).sum(),
            sent: devices.values().map(|device| device.sent_bytes).sum(),
        })
    }
}

/// The value of a limit; -1 without one, as in Go.
fn limit(limit: LimitValue) -> i64 {
    match limit {
        LimitValue::Unlimited => -1,
        LimitValue::Value(value) => gauge(value),
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(figures) = Figures::read() else { return Ok(()) };
        let gauges = [
            ("process_open_fds", "Number of open file descriptors", gauge(figures.open_fds)),
            ("process_max_fds", "Maximum number of open file descriptors", limit(figures.max_fds)),
            ("process_virtual_memory_bytes", "Virtual memory size in bytes", gauge(figures.virtual_bytes)),
            (
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes",
                limit(figures.virtual_max_bytes),
            ),
            ("process_resident_memory_bytes", "Resident memory size in bytes", gauge(figures.resident_bytes)),
        ];
        for (name, help, value) in gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        let help = "Start time of the process since the epoch in seconds";
        let metric =
            encoder.encode_descriptor("process_start_time_seconds", help, None, MetricType::Gauge)?;
        ConstGauge::new(figures.start_seconds).encode(metric)?;
        let help = "Total user and system CPU time in seconds";
        let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(figures.cpu_seconds).encode(metric)?;
        for (name, help, value) in [
            ("process_network_receive_bytes", "Bytes received by the network namespace", figures.received),
            ("process_network_transmit_bytes", "Bytes sent by the network namespace", figures.sent),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        Ok(())
    }
}
