//! Publishes new changes to the open streams, once they are encoded.
//!
//! A stream that waited for an encoding would be woken twice for each change, through its connection: by the change, and by
//! the encoding. So one task waits for the encodings, and then wakes all streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::app::App;
use crate::streams::Second;

/// How many changes are read from the memory at a time.
const BATCH: usize = 50;
/// How long an encoded change waits for others that are published with it.
const WAIT: Duration = Duration::from_millis(10);

/// Publishes changes until shutdown, and then ends the streams.
pub(crate) async fn run(app: Arc<App>) {
    app.shutdown.run_until_cancelled(publish(&app)).await;
    app.streams.end();
}

async fn publish(app: &Arc<App>) {
    let mut changes = app.memory.subscribe();
    // A stream may have opened, and changes may have come, before this task runs for the first time.
    changes.mark_changed();
    let mut second = Second::new(app.settings.limits.changes_per_second);
    loop {
        while app.streams.len() == 0 {
            app.streams.opened().await;
            // Older changes are encoded for streams that resume from them.
            app.streams.publish(*changes.borrow_and_update());
        }
        if changes.changed().await.is_err() {
            // Not reached: the memory belongs to the application.
            return;
        }
        let last = *changes.borrow_and_update();
        if app.streams.published() < last {
            publish_until(app, last, &mut second).await;
        }
    }
}

/// Encodes the changes until this one that a stream selects, as many as a stream sends in a second, and publishes them.
/// Further ones are encoded by a stream that has not sent as many.
async fn publish_until(app: &Arc<App>, last: u64, second: &mut Second) {
    let mut done = app.streams.published();
    let mut began = Instant::now();
    while done < last {
        let (changes, _) = app.memory.after(done, BATCH);
        for change in &changes {
            done = change.id;
            second.renew();
            if second.left == 0 || !app.streams.select(change) || !second.take() {
                continue;
            }
            if let Err(error) = app.encoded(change).await {
                // The streams try again, and send the error.
                tracing::debug!(error = error.message, "a change was not encoded");
            }
            if began.elapsed() >= WAIT {
                app.streams.publish(done);
                began = Instant::now();
            }
        }
        if changes.is_empty() {
            // The memory has dropped them.
            done = last;
        }
        tokio::task::yield_now().await;
    }
    app.streams.publish(done);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::future::poll_fn;
    use std::pin::Pin;

    use axum::body::Body;
    use futures::poll;
    use http::HeaderMap;
    use http_body::Body as _;
    use k8s_openapi::api::core::v1::Pod;
    use kinformer::SharedInformerFactory;
    use kube_client::{Client, Config};

    use super::*;
    use crate::app::{Settings, Surface};
    use crate::checks::Checks;
    use crate::events::events;
    use crate::guard::Guard;
    use crate::hidden::HiddenFields;
    use crate::limits::Limits;
    use crate::memory::tests::add;
    use crate::metrics::{Figures, Metrics};
    use crate::query::Query;

    /// An application with an informer that is not started, and with a publisher.
    fn publishing(limits: Limits) -> Arc<App> {
        let guard = Guard {
            token: None,
            hosts: Vec::new(),
            address: [127, 0, 0, 1].into(),
            is_health_public: true,
            any_host: false,
        };
        let settings = Settings {
            guard,
            hidden: HiddenFields::default(),
            show_secrets: false,
            cluster: String::new(),
            limits,
            clients: HashMap::new(),
            index_fields: HashMap::new(),
            failures: HashMap::new(),
            checks: Checks::default(),
            controllers: None,
            surface: Surface::All,
            access: None,
        };
        let app = Arc::new(App::new(settings, Metrics::new(Vec::new(), None).unwrap()));
        let client = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        app.add(SharedInformerFactory::new(client).informer::<Pod>().dynamic()).unwrap();
        tokio::spawn(run(app.clone()));
        app
    }

    /// Opens a stream, and reads its state.
    async fn open(app: &Arc<App>, query: &str) -> Body {
        let uri = format!("/api/v1/events?{query}").parse().unwrap();
        let mut body = events(app.clone(), &Query::of(&uri), &HeaderMap::new()).unwrap().into_body();
        next(&mut body, "event: state").await;
        body
    }

    /// Reads until an event has a text; returns how often the stream was polled.
    async fn next(body: &mut Body, text: &str) -> usize {
        let mut polls = 0;
        loop {
            let frame = poll_fn(|context| {
                polls += 1;
                Pin::new(&mut *body).poll_frame(context)
            });
            let event = frame.await.unwrap().unwrap().into_data().unwrap();
            if std::str::from_utf8(&event).unwrap().contains(text) {
                return polls;
            }
        }
    }

    fn encoded(app: &App) -> String {
        let text = app.metrics.text(&Figures { streams: 0, views: (0, 0), changes: (0, 0, 0) }).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("kinformer_serve_encoded_changes_total "));
        line.unwrap().to_owned()
    }

    /// Not by the change, which is not encoded then, and again by the encoding.
    // contract: H-10h
    #[tokio::test(start_paused = true)]
    async fn stream_is_woken_once_for_a_change() {
        let app = publishing(Limits::default());
        let mut body = open(&app, "").await;
        for number in 0..3 {
            add(&app.memory, &format!("web-{number}"));
            let polls = next(&mut body, "event: change").await;
            assert_eq!(polls, 2, "one before the change is published, one after");
        }
        for number in 0..20 {
            add(&app.memory, &format!("burst-{number}"));
        }
        let polls = next(&mut body, "\"name\":\"burst-19\"").await;
        assert_eq!(polls, 21, "all of a burst are published together");
    }

    // contract: H-10i
    #[tokio::test(start_paused = true)]
    async fn only_changes_that_a_stream_selects_are_encoded() {
        let app = publishing(Limits::default());
        add(&app.memory, "before");
        let mut one = open(&app, "key=shop/web").await;
        for name in ["other", "web", "another"] {
            add(&app.memory, name);
        }
        next(&mut one, "\"name\":\"web\"").await;
        assert_eq!(encoded(&app), "1");
        drop(one);
        add(&app.memory, "web");
        while app.streams.published() < app.memory.last() {
            tokio::task::yield_now().await;
        }
        let mut two = open(&app, "").await;
        add(&app.memory, "last");
        next(&mut two, "\"name\":\"last\"").await;
        assert_eq!(encoded(&app), "2", "without a stream, changes are not encoded");
    }

    // contract: H-10h
    #[tokio::test(start_paused = true)]
    async fn changes_before_the_first_turn_of_the_publisher_are_published() {
        let app = publishing(Limits::default());
        let uri = "/api/v1/events".parse().unwrap();
        let mut body = events(app.clone(), &Query::of(&uri), &HeaderMap::new()).unwrap().into_body();
        add(&app.memory, "web");
        tokio::time::timeout(Duration::from_secs(10), next(&mut body, "\"name\":\"web\"")).await.unwrap();
    }

    /// Before the publisher ends it. A stream that goes on never returns from a poll.
    #[tokio::test(start_paused = true)]
    async fn stream_that_waits_for_the_next_second_ends_at_shutdown() {
        let app = publishing(Limits::default().changes_per_second(1));
        let mut body = open(&app, "").await;
        for name in ["sent", "waiting"] {
            add(&app.memory, name);
        }
        next(&mut body, "\"name\":\"sent\"").await;
        assert!(poll!(poll_fn(|context| Pin::new(&mut body).poll_frame(context))).is_pending());
        app.shutdown.cancel();
        while poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await.is_some() {}
    }

    // contract: H-10c, H-10i
    #[tokio::test(start_paused = true)]
    async fn skipped_changes_are_not_encoded() {
        let app = publishing(Limits::default().changes_per_second(10));
        let mut body = open(&app, "").await;
        for number in 0..100 {
            add(&app.memory, &format!("web-{number}"));
        }
        next(&mut body, "\"skipped\":80").await;
        next(&mut body, "\"name\":\"web-99\"").await;
        assert_eq!(encoded(&app), "20", "ten in each second");
    }
}
