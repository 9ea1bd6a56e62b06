//! Events for views of metadata, which do not receive the switch from metadata to a whole object.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt as _};
use kinformer_processor::{Event, Registration, Updated};

use crate::engine::handlers::{AsyncHandler, Callback, Events, Handler, Object};

/// Whether the only change in this update is that the metadata of an object became the whole object.
fn is_switch(event: &Event<Object>) -> bool {
    matches!(event, Event::Updated(Updated { old, new, .. }) if has_become_whole(old, new))
}

/// Whether the only difference is that `old` is metadata only and `new` is the whole object.
pub(crate) fn has_become_whole(old: &Object, new: &Object) -> bool {
    old.is_metadata_only()
        && !new.is_metadata_only()
        && old.resource_version() == new.resource_version()
        && old.uid() == new.uid()
}

impl Handler {
    /// Returns the handler of a view of metadata, which does not receive the switch to whole objects.
    pub(crate) fn without_switch(self) -> Self {
        let filtered = |mut call: Callback| -> Callback {
            Box::new(move |event| {
                if !is_switch(event) {
                    call(event);
                }
            })
        };
        match self {
            Self::Blocking(call) => Self::Blocking(filtered(call)),
            Self::Inline(call) => Self::Inline(filtered(call)),
            Self::Async(handler) => Self::Async(Box::new(WithoutSwitch(handler))),
        }
    }
}

/// Filters events as [`Handler::without_switch`].
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
