//! How many connections it takes.

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

/// So many watches, each of which has been told of something.
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

/// How long connecting may take: longer than it ever does, and less than an answer may.
const CONNECT: Duration = Duration::from_secs(20);

/// All tasks of this thread, as far as they get without waiting.
async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// What stands before a server, and counts.
struct Door {
    address: SocketAddr,
    opened: watch::Receiver<usize>,
    cut: watch::Sender<()>,
    task: JoinHandle<()>,
}

/// What becomes of a connection.
#[derive(Clone, Copy)]
enum Fate {
    Passed,
    Closed,
    /// Nothing is ever answered.
    Silent,
}

impl Door {
    async fn before(server: &ApiServer, fate: impl Fn(usize) -> Fate + Send + 'static) -> Self {
        let inside = server.address();
        Self::new(move |number, mut outer| {
            let fate = fate(number);
            async move {
                match fate {
                    Fate::Passed => {
                        let mut inner = TcpStream::connect(inside).await.unwrap();
                        drop(copy_bidirectional(&mut outer, &mut inner).await);
                    }
                    Fate::Closed => {}
                    Fate::Silent => std::future::pending().await,
                }
            }
        })
        .await
    }

    /// With what is done about each connection: its number from 1 on, and itself.
    async fn new<F: Future<Output = ()> + Send + 'static>(
        connection: impl Fn(usize, TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (count, opened) = watch::channel(0);
        let (cut, _) = watch::channel(());
        let cuts = cut.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                let talk = connection(*count.borrow(), stream);
                let mut cut = cuts.subscribe();
                connections.spawn(async move {
                    tokio::select! {
                        () = talk => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, opened, cut, task }
    }

    /// A client that goes through the door, and is patient while its first connection is made.
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

    /// Ends all connections.
    fn cut(&self) {
        self.cut.send_replace(());
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// contract: L-12a, L-12b, L-12c
#[tokio::test(flavor = "multi_thread")]
async fn watches_that_begin_together_share_a_connection() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let door = Door::before(&server, |_| Fate::Passed).await;
    let client = door.client(&server);
    let first = watches(&server, client.clone(), 60).await;
    assert_eq!(door.opened(), 1);
    // More than a server may allow at a time on one connection: none of them waits for another to end.
    let others = watches(&server, client, 100).await;
    assert_eq!(server.metrics().open_watches, 160);
    assert_eq!(door.opened(), 2);
    drop((first, others));
    server.shutdown().await;
}

// contract: L-12a
#[tokio::test]
async fn after_a_connection_is_lost_there_is_one_again() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let door = Door::before(&server, |_| Fate::Passed).await;
    let client = door.client(&server);
    let lost = watches(&server, client.clone(), 60).await;
    door.cut();
    for mut watch in lost {
        let rest = async { while watch.next().await.is_some_and(|event| event.is_ok()) {} };
        tokio::time::timeout(PATIENCE, rest).await.unwrap();
    }
    // Those who read hear of it before the client does.
    let_others_run().await;
    let again = watches(&server, client, 60).await;
    assert_eq!(door.opened(), 2);
    drop(again);
    server.shutdown().await;
}

// contract: L-12a
#[tokio::test]
async fn a_watch_keeps_its_connection_for_those_that_begin_later() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let door = Door::before(&server, |_| Fate::Passed).await;
    let source = KubeListerWatcher::<ConfigMap>::new(door.client(&server));
    let begin = || source.watch(WatchOptions::from("0".to_owned(), Duration::from_secs(3600)));
    let early = begin().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(600)).await;
    tokio::time::resume();
    let late = begin().await.unwrap();
    assert_eq!((door.opened(), server.metrics().open_watches), (1, 2));
    drop((early, late));
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_first_fails_to_connect_the_next_one_does() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let door = Door::before(&server, |number| if number < 3 { Fate::Closed } else { Fate::Passed }).await;
    let source = KubeListerWatcher::<ConfigMap>::new(door.client(&server));
    let begin = (0..20).map(|_| source.watch(WatchOptions::from("0".to_owned(), PATIENCE)));
    let watches = tokio::time::timeout(PATIENCE, futures::future::join_all(begin)).await.unwrap();
    assert_eq!(watches.iter().filter(|watch| watch.is_err()).count(), 2);
    assert_eq!(door.opened(), 3);
    drop(watches);
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_first_is_given_up_the_next_one_connects() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let mut door =
        Door::before(&server, |number| if number == 1 { Fate::Silent } else { Fate::Passed }).await;
    let client = door.client(&server);
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.apiserver_version().await }
    });
    door.until_opened(1).await;
    let (others, ()) = tokio::join!(watches(&server, client, 20), async { first.abort() });
    assert_eq!(door.opened(), 2);
    drop(others);
    server.shutdown().await;
}

#[tokio::test]
async fn one_that_is_not_polled_stops_the_others_only_for_so_long() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let mut door =
        Door::before(&server, |number| if number == 1 { Fate::Silent } else { Fate::Passed }).await;
    let client = door.client(&server);
    let mut first = Box::pin(client.apiserver_version());
    tokio::select! {
        answer = &mut first => panic!("{answer:?}"),
        () = door.until_opened(1) => {}
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

/// A server of TLS that knows nothing of HTTP/2. Beyond the first, it has connections wait until there are so many.
#[tokio::test(flavor = "multi_thread")]
async fn with_http1_they_connect_side_by_side() {
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
    let door = Door::new(move |number, outer| {
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
    config.cluster_url = format!("https://{}", door.address).parse().unwrap();
    config.root_cert = Some(vec![made.cert.der().to_vec()]);
    config.connect_timeout = Some(CONNECT);
    let watches = watches(&server, client(config).unwrap(), ALL).await;
    assert_eq!(door.opened(), ALL);
    drop(watches);
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_http2_each_watch_has_one_of_its_own() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let watches = watches(&server, client_http1(server.config().unwrap()).unwrap(), 10).await;
    assert_eq!(server.metrics().open_connections, 10);
    drop(watches);
    server.shutdown().await;
}

// contract: L-12e
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_not_read_does_not_stop_the_others() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let client = client(server.config().unwrap()).unwrap();
    let unread = watches(&server, client.clone(), 20).await;
    // Much more than such a watch may be sent.
    let long = "x".repeat(100_000);
    for number in 0..100 {
        server.create(config_map(&format!("long-{number}"), &long)).unwrap();
    }
    let read = tokio::time::timeout(PATIENCE, watches(&server, client, 1)).await.unwrap();
    drop((unread, read));
    server.shutdown().await;
}
