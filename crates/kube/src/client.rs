//! The client.

use std::time::Duration;

use kube_client::{Client, Config};

use crate::Error;

/// How long connecting may take where the configuration does not say it.
const CONNECT: Duration = Duration::from_secs(10);

/// Made of any configuration, a client for reflectors.
///
/// All its watches share one connection where the server speaks HTTP/2 over TLS, as every kube-apiserver does; pings
/// notice a peer that is gone. Beyond 100 requests at a time there is one connection for each hundred.
/// kube-client's own retries are switched off, which would hide 429 and 503 answers from the reflector for minutes, and
/// connecting takes 10 s at most where the configuration has no limit.
///
/// Authentication, TLS and headers are those of kube-client. With a proxy in the configuration, or without the feature
/// `rustls-tls`, it is [`client_http1`].
///
/// # Errors
/// [`Error::Client`]: certificates or credentials of the configuration do not work.
pub fn client(config: Config) -> Result<Client, Error> {
    #[cfg(feature = "rustls-tls")]
    if config.proxy_url.is_none() {
        return shared::client(prepared(config)).map_err(|source| Error::Client { source: Box::new(source) });
    }
    client_http1(config)
}

/// As [`client`], with a connection of HTTP/1.1 for each watch, as kube-client has it: for a server, or something
/// before it, whose HTTP/2 is no good.
///
/// # Errors
/// As [`client`].
pub fn client_http1(config: Config) -> Result<Client, Error> {
    Client::try_from(prepared(config)).map_err(|source| Error::Client { source: Box::new(source) })
}

fn prepared(mut config: Config) -> Config {
    config.default_retry = false;
    config.connect_timeout.get_or_insert(CONNECT);
    config
}

#[cfg(feature = "rustls-tls")]
mod shared {
    //! kube-client's stack on connections that are shared.

    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use bytes::Bytes;
    use futures::future::BoxFuture;
    use http::{Request, Response};
    use http_body::{Frame, SizeHint};
    use hyper::body::Incoming;
    use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
    use hyper_timeout::TimeoutConnector;
    use hyper_util::client::legacy;
    use hyper_util::client::legacy::connect::HttpConnector;
    use hyper_util::rt::{TokioExecutor, TokioTimer};
    use kube_client::client::{Body, ConfigExt};
    use kube_client::{Client, Config, Error};
    use parking_lot::Mutex;
    use tower::{Service, ServiceBuilder};

    /// A server that allows fewer at a time on one connection would have the others wait, and a watch does not end.
    /// This is what careful servers and load balancers allow; kube-apiserver allows 1000.
    const MAX_STREAMS: usize = 100;
    /// As client-go: a peer that has said nothing for so long is asked whether it is there,
    const PING_AFTER: Duration = Duration::from_secs(30);
    /// and has so long to answer.
    const PING_TIMEOUT: Duration = Duration::from_secs(15);
    /// What a watch may have been sent without having been read, as in Go. A watch that is not read stops there,
    const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
    /// and does not stop the others on the connection.
    const CONNECTION_WINDOW: u32 = 1024 * 1024 * 1024;

    pub(super) fn client(config: Config) -> Result<Client, Error> {
        let auth = config.auth_layer()?;
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(auth)
            .layer(config.extra_headers_layer()?)
            .map_err(tower::BoxError::from)
            .service(Connections { connector: connector(&config)?, open: Arc::default() });
        Ok(Client::new(service, config.default_namespace))
    }

    type Connector = TimeoutConnector<HttpsConnector<HttpConnector>>;

    fn connector(config: &Config) -> Result<Connector, Error> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // kube-client's own, which is not used, says what is wrong with the configuration.
        config.rustls_https_connector_with_connector(tcp.clone())?;
        let mut tls =
            HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
        if let Some(name) = config.tls_server_name.clone().and_then(|name| name.try_into().ok()) {
            tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let mut connector = TimeoutConnector::new(tls.enable_all_versions().wrap_connector(tcp));
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        connector.set_reset_reader_on_write(config.reset_reader_on_write);
        Ok(connector)
    }

    /// As many pools as it takes to have no more than [`MAX_STREAMS`] requests in each: with HTTP/2 a pool is one
    /// connection.
    #[derive(Clone)]
    struct Connections {
        connector: Connector,
        open: Arc<Mutex<Vec<Pool>>>,
    }

    struct Pool {
        client: legacy::Client<Connector, Body>,
        /// Held by each request until its answer has been read or dropped.
        requests: Arc<()>,
    }

    impl Connections {
        /// A pool that has room, and a place in it.
        fn pool(&self) -> (legacy::Client<Connector, Body>, Arc<()>) {
            let mut open = self.open.lock();
            let with_room = open.iter().find(|pool| Arc::strong_count(&pool.requests) <= MAX_STREAMS);
            if let Some(pool) = with_room {
                return (pool.client.clone(), pool.requests.clone());
            }
            let client = legacy::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .http2_keep_alive_interval(PING_AFTER)
                .http2_keep_alive_timeout(PING_TIMEOUT)
                .http2_initial_stream_window_size(STREAM_WINDOW)
                .http2_initial_connection_window_size(CONNECTION_WINDOW)
                .build(self.connector.clone());
            let pool = Pool { client: client.clone(), requests: Arc::new(()) };
            let place = pool.requests.clone();
            open.push(pool);
            (client, place)
        }
    }

    impl Service<Request<Body>> for Connections {
        type Response = Response<Counted>;
        type Error = legacy::Error;
        type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let (client, place) = self.pool();
            let answer = client.request(request);
            Box::pin(async move { Ok(answer.await?.map(|body| Counted { body, _place: place })) })
        }
    }

    /// A body that has its place in a pool until it is dropped.
    struct Counted {
        body: Incoming,
        _place: Arc<()>,
    }

    impl http_body::Body for Counted {
        type Data = Bytes;
        type Error = hyper::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
            Pin::new(&mut self.body).poll_frame(context)
        }

        fn is_end_stream(&self) -> bool {
            self.body.is_end_stream()
        }

        fn size_hint(&self) -> SizeHint {
            self.body.size_hint()
        }
    }
}
