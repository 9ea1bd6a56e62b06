//! Requests for objects and for their tables.

use std::time::Duration;

use form_urlencoded::Serializer;
use futures::stream::BoxStream;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http::header::ACCEPT;
use k8s_openapi::api::core::v1::Namespace;
use kinformer::{ClientError, discovery_client};
use kinformer_core::internal::with_causes;
use kube_client::Client;
use kube_core::discovery::ApiResource;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::rows::{Rows, Wire};
use crate::args::SelectorArgs;
use crate::connect::Connection;
use crate::exit::Error;
use crate::namespaces::Namespaces;
use crate::resources::Served;

/// How long a request may take, unless the command line says otherwise.
const LIMIT: Duration = Duration::from_secs(120);
/// How many objects a page of a list has, as with kubectl.
const PAGE: &str = "500";
/// A table, or what a server without tables answers.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// What is requested of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The rows of the server's table, with the metadata of their objects.
    Rows,
    /// The rows of the server's table, with their objects.
    RowsWithObjects,
    /// Objects.
    Objects,
}

/// The objects of one answer.
#[derive(Debug)]
pub(super) enum Found {
    Rows(Rows),
    Objects(Vec<Box<RawValue>>),
}

/// A change of a watched resource.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) object: Box<RawValue>,
}

/// Requests of one command.
pub(super) struct Requests<'a> {
    connection: &'a Connection,
    client: Client,
    form: Form,
    selectors: &'a SelectorArgs,
    /// The field selector that leaves namespaces out of a request for all of them.
    without: Vec<String>,
}

impl<'a> Requests<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        form: Form,
        selectors: &'a SelectorArgs,
        namespaces: &Namespaces,
    ) -> Self {
        let client = discovery_client(&connection.client);
        let excluded = namespaces.excluded().iter();
        let without = excluded.map(|name| format!("metadata.namespace!={name}")).collect();
        Self { connection, client, form, selectors, without }
    }

    /// Lists the objects that the selectors select, or those of one name. Returns the version of the list as well.
    ///
    /// # Errors
    /// [`Error::Usage`] for an impossible namespace, [`Error::Refused`], [`Error::Unreachable`], [`Error::BadResponse`],
    /// [`Error::Timeout`].
    pub(super) async fn list(
        &self,
        served: &Served,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(Found, String), Error> {
        let path = path_of(kinformer::path_of_resource(&served.resource, namespace))?;
        let what = format!("list {}", in_words(served, namespace));
        let mut found = Found::none(self.form);
        let (mut from, mut paged) = (String::new(), true);
        loop {
            let limit = paged.then_some(("limit", PAGE));
            let next_page = Some(("continue", from.as_str())).filter(|_| !from.is_empty());
            let more: Vec<_> = limit.into_iter().chain(next_page).collect();
            let fields = self.fields(served, namespace, name);
            let text = match self.request(&what, &self.target(&path, &fields, &more)).await? {
                Answer::Text(text) => text,
                // The list has become too old between two pages: all of it in one piece.
                Answer::Expired(_) if !from.is_empty() => {
                    (found, from, paged) = (Found::none(self.form), String::new(), false);
                    continue;
                }
                Answer::NotFound(error) | Answer::Expired(error) => return Err(error),
            };
            let wire = Wire::of_list(&text).map_err(|reason| self.bad(&what, reason))?;
            let metadata = wire.metadata();
            found.extend(wire, served);
            from = metadata.next_page;
            if from.is_empty() {
                return Ok((found, metadata.resource_version));
            }
        }
    }

    /// Reads one object; `None` if there is none.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub(super) async fn get(
        &self,
        served: &Served,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Found>, Error> {
        let path = path_of(kinformer::path_of_object(&served.resource, namespace, name))?;
        let what = format!("get {}", in_words(served, namespace));
        let text = match self.request(&what, &self.target(&path, "", &[])).await? {
            Answer::Text(text) => text,
            Answer::NotFound(_) => return Ok(None),
            Answer::Expired(error) => return Err(error),
        };
        let mut found = Found::none(self.form);
        found.extend(Wire::of_object(&text).map_err(|reason| self.bad(&what, reason))?, served);
        Ok(Some(found))
    }

    /// Watches the objects that the selectors select, or that of one name, from a version. The stream ends when the server
    /// ends it.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub(super) async fn watch(
        &self,
        served: &Served,
        namespace: Option<&str>,
        name: Option<&str>,
        version: &str,
    ) -> Result<BoxStream<'static, Result<Change, Error>>, Error> {
        let path = path_of(kinformer::path_of_resource(&served.resource, namespace))?;
        let fields = self.fields(served, namespace, name);
        let target = self.target(&path, &fields, &[("watch", "true"), ("resourceVersion", version)]);
        let what = format!("watch {}", in_words(served, namespace));
        let server = self.connection.server.clone();
        let failed = |error| Error::from_request(&server, &what, &error);
        let lines = self.client.request_stream(self.http(&target)).await.map_err(failed)?.lines();
        Ok(lines
            .map_err({
                let server = server.clone();
                move |error| Error::Unreachable { server: server.clone(), reason: with_causes(&error) }
            })
            .and_then(move |line| {
                let change = serde_json::from_str(&line).map_err(|error| Error::BadResponse {
                    server: server.clone(),
                    what: what.clone(),
                    reason: error.to_string(),
                });
                futures::future::ready(change)
            })
            .boxed())
    }

    /// An answer without objects.
    pub(super) fn none(&self) -> Found {
        Found::none(self.form)
    }

    /// Whether a namespace certainly does not exist.
    pub(super) async fn has_no_namespace(&self, namespace: &str) -> bool {
        let namespaces = ApiResource::erase::<Namespace>(&());
        let Ok(target) = kinformer::path_of_object(&namespaces, None, namespace) else { return true };
        let answer = self.request("read its namespaces", &target).await;
        matches!(answer, Ok(Answer::NotFound(_)))
    }

    /// The field selector of a list or watch.
    fn fields(&self, served: &Served, namespace: Option<&str>, name: Option<&str>) -> String {
        let name = name.map(|name| format!("metadata.name={name}"));
        let given = name.or_else(|| self.selectors.field_selector.clone()).filter(|given| !given.is_empty());
        let is_of_all = served.namespaced && namespace.is_none();
        let without = self.without.iter().filter(|_| is_of_all).cloned();
        given.into_iter().chain(without).collect::<Vec<_>>().join(",")
    }

    fn target(&self, path: &str, fields: &str, more: &[(&str, &str)]) -> String {
        let mut query = Serializer::new(String::new());
        if let Some(selector) = &self.selectors.selector {
            query.append_pair("labelSelector", selector);
        }
        if !fields.is_empty() {
            query.append_pair("fieldSelector", fields);
        }
        if self.form == Form::RowsWithObjects {
            query.append_pair("includeObject", "Object");
        }
        query.extend_pairs(more);
        let query = query.finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    fn http(&self, target: &str) -> http::Request<Vec<u8>> {
        let accept = if self.form == Form::Objects { "application/json" } else { TABLE };
        let mut request = http::Request::new(Vec::new());
        // A path and a query with all other characters escaped.
        *request.uri_mut() = target.parse().unwrap_or_default();
        request.headers_mut().insert(ACCEPT, http::HeaderValue::from_static(accept));
        request
    }

    async fn request(&self, what: &str, target: &str) -> Result<Answer, Error> {
        let request = async {
            let failed = |error| Error::from_request(&self.connection.server, what, &error);
            match self.client.request_text(self.http(target)).await {
                Ok(text) => Ok(Answer::Text(text)),
                Err(error) => match &error {
                    kube_client::Error::Api(status) if status.code == 404 => {
                        Ok(Answer::NotFound(failed(error)))
                    }
                    kube_client::Error::Api(status) if status.code == 410 => {
                        Ok(Answer::Expired(failed(error)))
                    }
                    _ => Err(failed(error)),
                },
            }
        };
        self.connection.in_time(Some(LIMIT), &format!("the request to {what}"), request).await
    }

    fn bad(&self, what: &str, reason: String) -> Error {
        Error::BadResponse { server: self.connection.server.clone(), what: what.to_owned(), reason }
    }
}

/// The body of an answer, or one of two errors that are not always failures.
enum Answer {
    Text(String),
    NotFound(Error),
    Expired(Error),
}

impl Found {
    fn none(form: Form) -> Self {
        match form {
            Form::Rows | Form::RowsWithObjects => Self::Rows(Rows::default()),
            Form::Objects => Self::Objects(Vec::new()),
        }
    }

    fn extend(&mut self, wire: Wire, served: &Served) {
        match self {
            Self::Rows(rows) => rows.extend(wire),
            Self::Objects(objects) => objects.extend(wire.into_objects(served)),
        }
    }
}

fn path_of(path: Result<String, ClientError>) -> Result<String, Error> {
    path.map_err(|error| Error::Usage(with_causes(&error)))
}

/// The objects of a request, for messages: `pods in namespace "default"`.
fn in_words(served: &Served, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{} in namespace {namespace:?}", served.name()),
        None => served.name(),
    }
}
