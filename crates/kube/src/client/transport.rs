//! The transport of requests: the connections of one identity. It adds no credentials but the client certificate, and
//! expects absolute URLs.

#[cfg(feature = "rustls-tls")]
pub(super) use super::pool::{Connections as Transport, Counted as AnswerBody};
#[cfg(not(feature = "rustls-tls"))]
pub(super) use of_kube::{AnswerBody, Transport};

/// kube-client's connections, which support other implementations of TLS.
#[cfg(not(feature = "rustls-tls"))]
mod of_kube {
    use std::task::{Context, Poll};

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use http::uri::PathAndQuery;
    use http::{Request, Response, Uri};
    use kinformer_core::BoxError;
    use kube_client::client::Body;
    use kube_client::config::AuthInfo;
    use kube_client::{Client, Config};
    use tower::Service;

    use crate::client::connecting::Versions;

    pub(in crate::client) type AnswerBody = Body;

    #[derive(Clone)]
    pub(in crate::client) struct Transport(Client);

    impl Transport {
        pub(in crate::client) fn new(config: &Config, _: Versions) -> Result<Self, BoxError> {
            let mut config = config.clone();
            let auth = std::mem::take(&mut config.auth_info);
            config.auth_info = AuthInfo {
                client_certificate: auth.client_certificate,
                client_certificate_data: auth.client_certificate_data,
                client_key: auth.client_key,
                client_key_data: auth.client_key_data,
                ..AuthInfo::default()
            };
            config.headers.clear();
            // The requests already include the path of the server's URL.
            let mut origin = std::mem::take(&mut config.cluster_url).into_parts();
            origin.path_and_query = Some(PathAndQuery::from_static("/"));
            config.cluster_url = Uri::from_parts(origin)?;
            Ok(Self(Client::try_from(config)?))
        }
    }

    impl Service<Request<Body>> for Transport {
        type Response = Response<AnswerBody>;
        type Error = BoxError;
        type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let client = self.0.clone();
            async move { Ok(client.send(request).await?) }.boxed()
        }
    }
}
