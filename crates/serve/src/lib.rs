//! HTTP and JSON over informers.
