//! The events of views of metadata, to which nothing has changed when metadata becomes a whole object.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt as _};
use kinformer_processor::{Event, Registration, Updated};

use crate::engine::handlers::{AsyncHandler, Callback, Events, Handler, Object};

/// Whether the event is no more than that the metadata of an object has become the whole object.
fn is_switch(event: &Event<Object>) -> bool {
    matches!(event, Event::Updated(Updated { old, new, .. }) if has_become_whole(old, new))
}

/// Whether nothing is different but that there was metadata only, and that there is the whole object.
pub(crate) fn has_become_whole(old: &Object, new: &Object) -> bool {
    old.is_metadata_only()
        && !new.is_metadata_only()
        && old.resource_version() == new.resource_version()
        && old.uid() == new.uid()
}

impl Handler {
    /// The handler of a view of metadata, for which nothing has changed then.
    pub(crate) fn without_switch(self) -> Self {
        let passed_on = |mut call: Callback| -> Callback {
            Box::new(move |event| {
                if !is_switch(event) {
                    call(event);
                }
            })
        };
        match self {
            Self::Blocking(call) => Self::Blocking(passed_on(call)),
            Self::Inline(call) => Self::Inline(passed_on(call)),
            Self::Async(handler) => Self::Async(Box::new(WithoutSwitch(handler))),
        }
    }
}

/// As [`Handler::without_switch`].
pub(crate) struct WithoutSwitch<H>(pub(crate) H);

impl AsyncHandler for WithoutSwitch<Box<dyn AsyncHandler>> {
    fn begin(&mut self, event: Event<Object>) {
        if !is_switch(&event) {
            self.0.begin(event);
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }

    fn end(&mut self) {
        self.0.end();
    }
}

impl Stream for WithoutSwitch<Box<dyn Events>> {
    type Item = Event<Object>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.0.poll_next_unpin(context)) {
                Some(event) if is_switch(&event) => {}
                event => return Poll::Ready(event),
            }
        }
    }
}

impl Events for WithoutSwitch<Box<dyn Events>> {
    fn registration(&self) -> &Registration {
        self.0.registration()
    }

    fn is_terminated(&self) -> bool {
        self.0.is_terminated()
    }
}
