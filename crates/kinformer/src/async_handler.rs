//! Handlers whose callbacks are futures, without an allocation per event.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use kinformer_kube::Packed;
use kinformer_processor::Event;

use crate::callbacks::{AsyncHandler, Object};

/// A closure as a handler. The memory of its futures is allocated once.
pub(crate) struct Closure<K, H, F> {
    handler: H,
    running: Pin<Box<Option<F>>>,
    kind: PhantomData<fn() -> K>,
}

impl<K, H, F> Closure<K, H, F> {
    pub(crate) fn new(handler: H) -> Self {
        Self { handler, running: Box::pin(None), kind: PhantomData }
    }
}

impl<K, H, F> AsyncHandler for Closure<K, H, F>
where
    H: FnMut(Event<Packed<K>>) -> F + Send,
    F: Future<Output = ()> + Send,
{
    fn begin(&mut self, event: Event<Object>) {
        let future = (self.handler)(event.map(Packed::new));
        self.running.set(Some(future));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.running.as_mut().as_pin_mut().map_or(Poll::Ready(()), |running| running.poll(context))
    }

    fn end(&mut self) {
        self.running.set(None);
    }
}

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// A handler with methods: each of its futures owns the handler and returns it at completion.
pub(crate) struct Methods<K, H, M, F> {
    handler: Option<H>,
    on_event: M,
    running: Pin<Box<Option<F>>>,
    kind: PhantomData<fn() -> K>,
}

impl<K, H, M, F> Methods<K, H, M, F> {
    pub(crate) fn new(handler: H, on_event: M) -> Self {
        Self { handler: Some(handler), on_event, running: Box::pin(None), kind: PhantomData }
    }
}

impl<K, H, M, F> AsyncHandler for Methods<K, H, M, F>
where
    H: Send,
    M: FnMut(H, Event<Packed<K>>) -> F + Send,
    F: Future<Output = (H, Result<(), Panic>)> + Send,
{
    fn begin(&mut self, event: Event<Object>) {
        let future = self.handler.take().map(|handler| (self.on_event)(handler, event.map(Packed::new)));
        self.running.set(future);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(running) = self.running.as_mut().as_pin_mut() else { return Poll::Ready(()) };
        let (handler, ended) = ready!(running.poll(context));
        self.handler = Some(handler);
        // Resumed, because the processor contains all panics of handlers.
        ended.unwrap_or_else(|panic| resume_unwind(panic));
        Poll::Ready(())
    }

    /// A future that has not completed is dropped only together with the handler.
    fn end(&mut self) {
        self.running.set(None);
    }
}
