//! The transport of requests.

use std::task::{Context, Poll};

use futures::{FutureExt, TryFutureExt};
use futures::future::BoxFuture;
use http::{Request, Response};
use kinformer_core::BoxError;
use kube_client::client::Body;
use kube_client::config::AuthInfo;
use kube_client::{Client, Config};
use tower::Service;

use super::connecting::Versions;
#[cfg(feature = "rustls-tls")]
use super::pool::{Connections, Counted};

#[cfg(feature = "rustls-tls")]
pub(super) type AnswerBody = http_body_util::Either<Counted, Body>;
#[cfg(not(feature = "rustls-tls"))]
pub(super) type AnswerBody = Body;

/// The connections of one identity. Adds no credentials but the client certificate, and expects absolute URLs.
#[derive(Clone)]
pub(super) enum Transport {
    #[cfg(feature = "rustls-tls")]
    Pool(Connections),
    /// kube-client's connections, which support proxies and other implementations of TLS.
    Kube(Client),
}

impl Transport {
    #[cfg_attr(not(feature = "rustls-tls"), allow(unused_variables, reason = "only for TLS"))]
    pub(super) fn new(config: &Config, versions: Versions) -> Result<Self, BoxError> {
        #[cfg(feature = "rustls-tls")]
        if config.proxy_url.is_none() {
            return Ok(Self::Pool(Connections::new(config, versions)?));
        }
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
        origin.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        config.cluster_url = http::Uri::from_parts(origin)?;
        Ok(Self::Kube(Client::try_from(config)?))
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
        match self {
            #[cfg(feature = "rustls-tls")]
            Self::Pool(connections) => {
                connections.call(request).map_ok(|answer| answer.map(http_body_util::Either::Left)).boxed()
            }
            Self::Kube(client) => {
                let client = client.clone();
                async move {
                    let answer = client.send(request).await?;
                    #[cfg(feature = "rustls-tls")]
                    let answer = answer.map(http_body_util::Either::Right);
                    Ok(answer)
                }
                .boxed()
            }
        }
    }
}
