//! Requests that the server did not process.

use std::error::Error as _;
use std::sync::Arc;

use crate::common::http2::{ENHANCE_YOUR_CALM, Http2, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM};
use crate::common::tls_server::TlsServer;
use futures::future::join_all;
use http::Request;
use kinformer_kube::Error;
use kube_client::Client;
use kube_client::client::Body;
use kube_client::error::Error as KubeError;
use parking_lot::Mutex;

/// The bodies of the requests that a server has received or processed.
type Bodies = Arc<Mutex<Vec<String>>>;

async fn post(client: &Client, body: &str) -> Result<String, KubeError> {
    client.request_text(Request::post("/").body(body.into()).unwrap()).await
}

/// Answers all requests of a connection with their body.
async fn echo(mut http2: Http2, processed: &Bodies) {
    while let Some((stream, body)) = http2.request().await {
        http2.respond(stream, &body).await;
        processed.lock().push(body);
    }
}

/// The server processes one of three writes, and closes the connection before the others, also because of an error.
// contract: L-39a
#[tokio::test]
async fn writes_above_last_stream_are_repeated() {
    for code in [NO_ERROR, INTERNAL_ERROR, ENHANCE_YOUR_CALM] {
        let processed = Bodies::default();
        let log = processed.clone();
        let server = TlsServer::new(&["h2"], move |number, stream| {
            let log = log.clone();
            async move {
                let mut http2 = Http2::accept(stream).await;
                if number == 1 {
                    let (first, body) = http2.request().await.unwrap();
                    for _ in 0..2 {
                        http2.request().await.unwrap();
                    }
                    http2.go_away(first, code).await;
                    http2.respond(first, &body).await;
                    log.lock().push(body);
                }
                echo(http2, &log).await;
            }
        })
        .await;
        let client = server.client();
        let bodies = ["a", "b", "c"];
        let answers = join_all(bodies.map(|body| post(&client, body))).await;
        assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), bodies, "{code}");
        processed.lock().sort();
        assert_eq!(*processed.lock(), bodies, "{code}");
    }
}

/// A write waits for the only stream of a connection when the server closes the connection, in good order or not.
// contract: L-39a
#[tokio::test]
async fn write_that_waits_for_a_stream_is_repeated() {
    for closes in ["in good order", "with an error", "at once"] {
        let processed = Bodies::default();
        let log = processed.clone();
        let server = TlsServer::new(&["h2"], move |number, stream| {
            let log = log.clone();
            async move {
                let mut http2 = Http2::accept_limited(stream, 1).await;
                if number == 1 {
                    let (first, body) = http2.request().await.unwrap();
                    http2.respond(first, &body).await;
                    let (second, body) = http2.request().await.unwrap();
                    match closes {
                        "in good order" => http2.go_away(second, NO_ERROR).await,
                        "with an error" => http2.go_away(second, INTERNAL_ERROR).await,
                        _ => return,
                    }
                    http2.respond(second, &body).await;
                }
                echo(http2, &log).await;
            }
        })
        .await;
        let client = server.client();
        assert_eq!(post(&client, "a").await.unwrap(), "a");
        let [b, c] = join_all(["b", "c"].map(|body| post(&client, body))).await.try_into().unwrap();
        assert_eq!(b.is_ok(), closes != "at once", "{closes}: {b:?}");
        assert_eq!(c.unwrap(), "c", "{closes}");
        assert_eq!(*processed.lock(), ["c"], "{closes}");
    }
}

/// A refused stream leaves the connection open.
// contract: L-39a
#[tokio::test]
async fn refused_stream_is_repeated() {
    let server = TlsServer::new(&["h2"], |_, stream| async {
        let mut http2 = Http2::accept(stream).await;
        let (refused, _) = http2.request().await.unwrap();
        http2.reset(refused, REFUSED_STREAM).await;
        echo(http2, &Bodies::default()).await;
    })
    .await;
    assert_eq!(post(&server.client(), "a").await.unwrap(), "a");
    assert_eq!(server.opened(), 1);
}

/// What the server may have processed is an error, and not repeated.
// contract: L-39b
#[tokio::test]
async fn other_requests_are_not_repeated() {
    for end in ["below and closed", "reset", "closed"] {
        let received = Bodies::default();
        let log = received.clone();
        let server = TlsServer::new(&["h2"], move |_, stream| {
            let log = log.clone();
            async move {
                let mut http2 = Http2::accept(stream).await;
                while let Some((stream, body)) = http2.request().await {
                    log.lock().push(body);
                    match end {
                        "reset" => http2.reset(stream, INTERNAL_ERROR).await,
                        "closed" => break,
                        _ => {
                            http2.go_away(stream, NO_ERROR).await;
                            break;
                        }
                    }
                }
            }
        })
        .await;
        let client = server.client();
        post(&client, "a").await.expect_err(end);
        assert_eq!(*received.lock(), ["a"], "{end}");
    }
}

/// A body that is read as it arrives, here that of another response, cannot be sent twice.
// contract: L-39d
#[tokio::test]
async fn stream_as_body_is_not_repeated() {
    let server = TlsServer::new(&["h2"], |_, stream| async {
        let mut http2 = Http2::accept(stream).await;
        let (first, _) = http2.request().await.unwrap();
        http2.respond(first, "stream").await;
        let (refused, body) = http2.request().await.unwrap();
        assert_eq!(body, "stream");
        http2.reset(refused, REFUSED_STREAM).await;
        assert_eq!(http2.request().await, None);
    })
    .await;
    let client = server.client();
    let body = client.send(Request::get("/").body(Body::empty()).unwrap()).await.unwrap().into_body();
    let error = client.send(Request::post("/").body(body).unwrap()).await.unwrap_err();
    let KubeError::Service(error) = error else { panic!("{error:?}") };
    let ours = error.downcast_ref::<Error>().unwrap();
    assert!(matches!(ours, Error::NotRepeatable { .. }) && ours.source().is_some(), "{ours}");
    assert!(ours.to_string().contains("cannot be sent again"), "{ours}");
}
