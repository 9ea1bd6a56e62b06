//! Callbacks that are futures, without an allocation for each.

use std::pin::Pin;
use std::task::{Context, Poll};

use kinformer_kube::Packed;
use kinformer_processor::Event;

use crate::engine::{AsyncHandler, Object};

/// A handler and the place of its futures, which is allocated once.
pub(crate) struct InPlace<H, F> {
    handler: H,
    running: Pin<Box<Option<F>>>,
}

impl<H, F> InPlace<H, F> {
    pub(crate) fn new(handler: H) -> Self {
        Self { handler, running: Box::pin(None) }
    }
}

/// A handler of a kind as one of any kind.
pub(crate) struct Typed<K, H, F> {
    place: InPlace<H, F>,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K, H, F> Typed<K, H, F> {
    pub(crate) fn new(handler: H) -> Self {
        Self { place: InPlace::new(handler), kind: std::marker::PhantomData }
    }
}

impl<K, H, F> AsyncHandler for Typed<K, H, F>
where
    H: FnMut(Event<Packed<K>>) -> F + Send,
    F: Future<Output = ()> + Send,
{
    fn begin(&mut self, event: Event<Object>) {
        let future = (self.place.handler)(event.map(Packed::new));
        self.place.running.set(Some(future));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.place.running.as_mut().as_pin_mut().map_or(Poll::Ready(()), |running| running.poll(context))
    }

    fn end(&mut self) {
        self.place.running.set(None);
    }
}
