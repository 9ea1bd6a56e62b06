//! Contained panics of user code.

use std::panic::resume_unwind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use kinformer_core::BoxError;
use kinformer_core::internal::{contain, contain_async, drop_contained};

/// A value whose drop panics, in the end with a payload whose drop panics.
struct PanicsOnDrop(u32);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        match self.0 {
            0 => panic!("dropped"),
            more => resume_unwind(Box::new(Self(more - 1))),
        }
    }
}

fn poll<R>(future: impl Future<Output = Result<R, BoxError>>) -> Poll<Result<R, String>> {
    let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    polled.map(|ended| ended.map_err(|error| error.to_string()))
}

/// The drop of a payload that panics, any number of times, is contained.
// contract: P-09d
#[test]
fn panicking_payloads_are_contained() {
    for drops in 0..3 {
        let panic = || -> u32 { resume_unwind(Box::new(PanicsOnDrop(drops))) };
        assert_eq!(contain(panic).unwrap_err().to_string(), "panicked: no message");
        assert_eq!(poll(contain_async(async { panic() })), Poll::Ready(Err("panicked: no message".into())));
        let message = if drops == 0 { "panicked: dropped" } else { "panicked: no message" };
        assert_eq!(drop_contained(PanicsOnDrop(drops)).unwrap_err().to_string(), message);
    }
}

/// A future that panics when it is dropped.
struct Ready(#[expect(dead_code, reason = "it is dropped")] PanicsOnDrop);

impl Future for Ready {
    type Output = u32;

    fn poll(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
        Poll::Ready(1)
    }
}

// contract: P-09d
#[test]
fn contained_future_may_panic_in_its_drop() {
    assert_eq!(poll(contain_async(async { 1 })), Poll::Ready(Ok(1)));
    assert_eq!(poll(contain_async(std::future::pending::<()>())), Poll::Pending);
    let ended = poll(contain_async(Ready(PanicsOnDrop(0))));
    assert_eq!(ended, Poll::Ready(Err("panicked: dropped".to_owned())));
}
