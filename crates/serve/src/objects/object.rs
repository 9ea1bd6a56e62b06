//! A single object.

use axum::response::Response;
use http::{HeaderMap, StatusCode, header};
use kinformer::ObjectKey;

use crate::app::App;
use crate::query::Query;
use crate::reply::{Failure, body_of, hash, tagged};
use crate::watched::Watched;

/// The text of an object in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
}

/// `GET …/objects/{namespace}/{name}`.
pub(crate) fn object(
    app: &App,
    watched: &Watched,
    key: &ObjectKey,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    watched.check_shown()?;
    let form = form(query, headers)?;
    let snapshot = watched.snapshot();
    let object = snapshot.as_ref().and_then(|snapshot| snapshot.get(key)).ok_or_else(|| {
        Failure::not_found(format!(
            "the store of {} has no object {key}; its explanation (…/explain) says why",
            watched.name()
        ))
    })?;
    let value = watched.json_of(object.object(), &app.settings.hidden).map_err(|error| {
        Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "DecodeFailed",
            format!("{key} cannot be decoded: {}", watched.text_of_decoding(&error)),
        )
    })?;
    let (content_type, body) = match form {
        Form::Json => ("application/json", value.to_string()),
        Form::Yaml => ("application/yaml", yaml(&value)?),
    };
    // The version does not identify the content: a server may return other content for it, and there are two forms.
    let tag = format!("{}-{:016x}", object.resource_version(), hash(&body));
    Ok(tagged(headers, &tag, || body_of(content_type, body)))
}

fn yaml(value: &serde_json::Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|error| Failure::internal(format!("YAML: {error}")))
}

fn form(query: &Query, headers: &HeaderMap) -> Result<Form, Failure> {
    match query.get("format") {
        Some("json") => return Ok(Form::Json),
        Some("yaml") => return Ok(Form::Yaml),
        Some(other) => {
            return Err(Failure::bad_request(format!("format={other:?} is neither json nor yaml")));
        }
        None => {}
    }
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types =
        accepted.flat_map(|value| value.split(',')).map(|one| one.split(';').next().unwrap_or(one).trim());
    let first = types.find(|one| matches!(*one, "application/yaml" | "application/json" | "*/*"));
    Ok(if first == Some("application/yaml") { Form::Yaml } else { Form::Json })
}
