//! The number of connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PATIENCE, config_map};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::ApiServer;
use kinformer_kube::{KubeListerWatcher, KubeObject, client, client_http1};
use kinformer_reflector::{ListerWatcher, WatchEvent, WatchOptions, WatchStream};
use kube_client::Client;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{self, ServerConfig};

/// Opens `count` watches and waits until each has received an event.
async fn watches(
    server: &ApiServer,
    client: Client,
    count: usize,
) -> Vec<WatchStream<KubeObject<ConfigMap>>> {
    let source = KubeListerWatcher::<ConfigMap>::new(client);
    let version = server.version();
    server.create(config_map(&format!("at-{version}"), "1")).unwrap();
    let begin = (0..count).map(async |_| {
        let mut watch = source.watch(WatchOptions::from(version.to_string(), PATIENCE)).await.unwrap();
        let first = watch.next().await.unwrap();
        assert!(matches!(first, Ok(WatchEvent::Added(_))), "{first:?}");
        watch
    });
    tokio::time::timeout(PATIENCE, futures::future::join_all(begin)).await.unwrap()
}

/// The connect timeout: longer than connecting takes, shorter than the time limit of a response.
const CONNECT: Duration = Duration::from_secs(20);

/// Lets all tasks of this thread run until they wait.
async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// A proxy that counts its connections.
struct Proxy {
    address: SocketAddr,
    opened: watch::Receiver<usize>,
    close: watch::Sender<()>,
    task: JoinHandle<()>,
}

/// How the proxy treats a connection.
#[derive(Clone, Copy)]
enum Behavior {
    Forward,
    Close,
    /// Keeps the connection open without a response.
    Silent,
}

impl Proxy {
    async fn in_front_of(server: &ApiServer, behavior: impl Fn(usize) -> Behavior + Send + 'static) -> Self {
        let inside = server.address();
        Self::new(move |number, mut outer| {
            let behavior = behavior(number);
            async move {
                match behavior {
                    Behavior::Forward => {
                        let mut inner = TcpStream::connect(inside).await.unwrap();
                        drop(copy_bidirectional(&mut outer, &mut inner).await);
                    }
                    Behavior::Close => {}
                    Behavior::Silent => std::future::pending().await,
                }
            }
        })
        .await
    }

    /// `connection` handles each connection; it receives its number, from 1, and the stream.
    async fn new<F: Future<Output = ()> + Send + 'static>(
        connection: impl Fn(usize, TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (count, opened) = watch::channel(0);
        let (close, _) = watch::channel(());
        let closes = close.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                let serve = connection(*count.borrow(), stream);
                let mut close = closes.subscribe();
                connections.spawn(async move {
                    tokio::select! {
                        () = serve => {}
                        _ = close.changed() => {}
                    }
                });
            }
        });
        Self { address, opened, close, task }
    }

    /// A client that connects through the proxy, with a long connect timeout.
    fn client(&self, server: &ApiServer) -> Client {
        let mut config = server.config().unwrap();
        config.cluster_url = format!("https://{}", self.address).parse().unwrap();
        config.connect_timeout = Some(CONNECT);
        client(config).unwrap()
    }

    fn opened(&self) -> usize {
        *self.opened.borrow()
    }

    async fn until_opened(&mut self, count: usize) {
        let wait = self.opened.wait_for(|opened| *opened == count);
        tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
    }

    /// Closes all connections.
    fn close_all(&self) {
        self.close.send_replace(());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches that start at the same time share a connection, up to its limit of requests.
// contract: L-12a, L-12b, L-12c
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_watches_share_a_connection() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let proxy = Proxy::in_front_of(&server, |_| Behavior::Forward).await;
    let client = proxy.client(&server);
    let first = watches(&server, client.clone(), 60).await;
    assert_eq!(proxy.opened(), 1);
    // More than a server may allow on one connection at a time: no watch waits for another to end.
    let others = watches(&server, client, 100).await;
    assert_eq!(server.metrics().open_watches, 160);
    assert_eq!(proxy.opened(), 2);
    drop((first, others));
    server.shutdown().await;
}

/// Watches that restart after a lost connection share one new connection.
// contract: L-12a
#[tokio::test]
async fn lost_connection_is_replaced_by_one() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let proxy = Proxy::in_front_of(&server, |_| Behavior::Forward).await;
    let client = proxy.client(&server);
    let lost = watches(&server, client.clone(), 60).await;
    proxy.close_all();
    for mut watch in lost {
        let rest = async { while watch.next().await.is_some_and(|event| event.is_ok()) {} };
        tokio::time::timeout(PATIENCE, rest).await.unwrap();
    }
    // Readers notice the lost connection before the client does.
    let_others_run().await;
    let again = watches(&server, client, 60).await;
    assert_eq!(proxy.opened(), 2);
    drop(again);
    server.shutdown().await;
}

/// A watch that starts much later uses the connection of an open watch.
// contract: L-12a
#[tokio::test]
async fn later_watch_reuses_open_connection() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let proxy = Proxy::in_front_of(&server, |_| Behavior::Forward).await;
    let source = KubeListerWatcher::<ConfigMap>::new(proxy.client(&server));
    let begin = || source.watch(WatchOptions::from("0".to_owned(), Duration::from_secs(3600)));
    let early = begin().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(600)).await;
    tokio::time::resume();
    let late = begin().await.unwrap();
    assert_eq!((proxy.opened(), server.metrics().open_watches), (1, 2));
    drop((early, late));
    server.shutdown().await;
}

/// A peer that is gone without closing the connection does not answer a ping. Its watches end with an error.
// contract: L-12d
#[tokio::test]
async fn unanswered_ping_ends_the_watches() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let inside = server.address();
    let (gone, is_gone) = watch::channel(false);
    let proxy = Proxy::new(move |_, mut outer| {
        let mut gone = is_gone.clone();
        async move {
            let mut inner = TcpStream::connect(inside).await.unwrap();
            tokio::select! {
                _ = copy_bidirectional(&mut outer, &mut inner) => {}
                _ = gone.changed() => {}
            }
            // Both connections stay open.
            std::future::pending().await
        }
    })
    .await;
    let mut watches = watches(&server, proxy.client(&server), 2).await;
    gone.send_replace(true);
    let_others_run().await;
    let ended = async {
        for watch in &mut watches {
            while watch.next().await.is_some_and(|event| event.is_ok()) {}
        }
    };
    let time_passes = async {
        loop {
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(5)).await;
            tokio::time::resume();
            let_others_run().await;
        }
    };
    tokio::select! {
        () = ended => {}
        () = time_passes => {}
    }
    assert_eq!(proxy.opened(), 1);
    server.shutdown().await;
}

/// If the first request cannot connect, the next one connects.
#[tokio::test(flavor = "multi_thread")]
async fn next_request_connects_after_failure() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let proxy =
        Proxy::in_front_of(&server, |number| if number < 3 { Behavior::Close } else { Behavior::Forward })
            .await;
    let source = KubeListerWatcher::<ConfigMap>::new(proxy.client(&server));
    let begin = (0..20).map(|_| source.watch(WatchOptions::from("0".to_owned(), PATIENCE)));
    let watches = tokio::time::timeout(PATIENCE, futures::future::join_all(begin)).await.unwrap();
    assert_eq!(watches.iter().filter(|watch| watch.is_err()).count(), 2);
    assert_eq!(proxy.opened(), 3);
    drop(watches);
    server.shutdown().await;
}

/// If the first request is dropped while it connects, the next one connects.
// contract: L-36
#[tokio::test(flavor = "multi_thread")]
async fn next_request_connects_after_cancellation() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let mut proxy =
        Proxy::in_front_of(&server, |number| if number == 1 { Behavior::Silent } else { Behavior::Forward })
            .await;
    let client = proxy.client(&server);
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.apiserver_version().await }
    });
    proxy.until_opened(1).await;
    let (others, ()) = tokio::join!(watches(&server, client, 20), async { first.abort() });
    assert_eq!(proxy.opened(), 2);
    drop(others);
    server.shutdown().await;
}

/// A connecting request that is not polled delays the others by at most the connect timeout.
#[tokio::test]
async fn unpolled_request_blocks_others_briefly() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let mut proxy =
        Proxy::in_front_of(&server, |number| if number == 1 { Behavior::Silent } else { Behavior::Forward })
            .await;
    let client = proxy.client(&server);
    let mut first = Box::pin(client.apiserver_version());
    tokio::select! {
        answer = &mut first => panic!("{answer:?}"),
        () = proxy.until_opened(1) => {}
    }
    let (others, ()) = tokio::join!(watches(&server, client.clone(), 3), async {
        let_others_run().await;
        tokio::time::pause();
        tokio::time::advance(CONNECT).await;
        tokio::time::resume();
    });
    drop((first, others));
    server.shutdown().await;
}

/// The server speaks TLS without HTTP/2. After the first connection it delays each one until all are open.
#[tokio::test(flavor = "multi_thread")]
async fn http1_connections_open_in_parallel() {
    const ALL: usize = 10;
    let server = ApiServer::builder().start().await.unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let barrier = Arc::new(tokio::sync::Barrier::new(ALL - 1));
    let inside = server.address();
    let proxy = Proxy::new(move |number, outer| {
        let (acceptor, barrier) = (acceptor.clone(), barrier.clone());
        async move {
            if number > 1 {
                barrier.wait().await;
            }
            let mut outer = acceptor.accept(outer).await.unwrap();
            let mut inner = TcpStream::connect(inside).await.unwrap();
            drop(copy_bidirectional(&mut outer, &mut inner).await);
        }
    })
    .await;
    let mut config = server.config().unwrap();
    config.cluster_url = format!("https://{}", proxy.address).parse().unwrap();
    config.root_cert = Some(vec![made.cert.der().to_vec()]);
    config.connect_timeout = Some(CONNECT);
    let watches = watches(&server, client(config).unwrap(), ALL).await;
    assert_eq!(proxy.opened(), ALL);
    drop(watches);
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http1_watches_have_own_connections() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let watches = watches(&server, client_http1(server.config().unwrap()).unwrap(), 10).await;
    assert_eq!(server.metrics().open_connections, 10);
    drop(watches);
    server.shutdown().await;
}

/// A watch that is not read does not block the other watches of its connection.
// contract: L-12e
#[tokio::test(flavor = "multi_thread")]
async fn unread_watch_does_not_block_others() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let client = client(server.config().unwrap()).unwrap();
    let unread = watches(&server, client.clone(), 20).await;
    // Much more than the window of a watch.
    let long = "x".repeat(100_000);
    for number in 0..100 {
        server.create(config_map(&format!("long-{number}"), &long)).unwrap();
    }
    let read = tokio::time::timeout(PATIENCE, watches(&server, client, 1)).await.unwrap();
    drop((unread, read));
    server.shutdown().await;
}
