//! A client whose requests stay in memory.

use ::http::{HeaderName, HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube_client::Client;
use kube_client::client::Body;

use crate::{ApiServer, Error};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Returns a client of the server: of the administrator, unless a user is named. Each request has a connection of its own,
/// within the process.
///
/// # Errors
/// [`Error::Client`] if the user agent, the user or a token is not valid in a header.
pub(super) fn client(server: &ApiServer, user_agent: &str, user: Option<&str>) -> Result<Client, Error> {
    let value = |text: String| {
        let invalid = |error: ::http::header::InvalidHeaderValue| Error::Client {
            url: server.url(),
            reason: error.to_string(),
        };
        HeaderValue::try_from(text).map_err(invalid)
    };
    let mut headers = vec![(header::HOST, HeaderValue::from_static("localhost"))];
    if !user_agent.is_empty() {
        headers.push((header::USER_AGENT, value(user_agent.to_owned())?));
    }
    let own = user.and_then(|user| server.token_of(user));
    if let (Some(user), None) = (user, own) {
        headers.push((IMPERSONATE_USER, value(user.to_owned())?));
    }
    if let Some(token) = own.or_else(|| server.token()) {
        headers.push((header::AUTHORIZATION, value(format!("Bearer {token}"))?));
    }
    let connect = server.connector();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        for (name, value) in &headers {
            request.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        let connect = connect.clone();
        async move { send(TokioIo::new(connect()?), request).await }
    });
    Ok(Client::new(service, "default"))
}

async fn send(
    connection: TokioIo<tokio::io::DuplexStream>,
    request: Request<Body>,
) -> Result<Response<Incoming>, BoxError> {
    let (mut sender, connection) = http1::handshake(connection).await?;
    // It ends with the response, and when the request or the response is dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection error");
        }
    });
    Ok(sender.send_request(request).await?)
}
