//! The figures in the last line of the line printer, which is not counted.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) peak_memory_bytes: Option<u64>,
    pub(crate) cpu_seconds: Option<f64>,
}
