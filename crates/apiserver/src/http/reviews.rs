//! Requests for reviews and tokens, which are answered and not stored.

use std::sync::{Arc, LazyLock};

use ::http::{HeaderMap, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::access::{self, ReviewOf, User};
use crate::api::{Object, Origin, check_type};
use crate::apply::{FieldManager, Filter, Schema, Versions, Writer, unpack};
use crate::protobuf;
use crate::registry::Kind;
use crate::status::Status;

use super::answer::{self, Answer};
use super::context::Context;
use super::field_manager::{OptionsOf, WriteOptions};
use super::fields::fields_warnings;
use super::negotiate::{self, Form, Offers};
use super::objects::Call;
use super::request::{Query, Target, decode_object, media_type, read_body};
use super::warnings::Warnings;

/// A kind of reviews.
#[derive(Debug)]
pub(super) struct Review {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
}

const fn review(group: &'static str, plural: &'static str, kind: &'static str) -> Review {
    Review { group, plural, kind, namespaced: false }
}

/// All of them, in the order of discovery. Their version is `v1`.
pub(super) const REVIEWS: [Review; 6] = [
    review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    review("authentication.k8s.io", "tokenreviews", "TokenReview"),
    Review {
        namespaced: true,
        ..review("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview")
    },
    review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
];

static TOKEN_REQUEST: LazyLock<Kind> = LazyLock::new(|| kind("authentication.k8s.io", "TokenRequest"));

fn kind(group: &str, kind: &str) -> Kind {
    Kind { group: group.into(), version: "v1".into(), kind: kind.into(), ..Kind::default() }
}

/// The types of objects that are not stored, which have one version.
struct OneVersion;

impl Versions for OneVersion {
    fn schema(&self) -> &Schema {
        Schema::builtin()
    }

    fn convert(&self, object: &Value, _: &str) -> Option<Value> {
        Some(object.clone())
    }
}

impl Review {
    pub(super) fn kind(&self) -> Kind {
        kind(self.group, self.kind)
    }

    pub(super) fn of(target: &Target) -> Option<&'static Self> {
        REVIEWS.iter().find(|review| {
            (review.group, "v1", review.plural) == (&*target.group, &*target.version, &*target.plural)
        })
    }

    /// Answers a review.
    ///
    /// # Errors
    /// 404 for another path, 405 for another method, 400 and 422 for an invalid review.
    pub(super) async fn answer(
        &self,
        context: &Arc<Context>,
        request: Request<Incoming>,
        query: &Query,
        target: &Target,
        user: &User,
    ) -> Result<Answer, Status> {
        if target.name.is_some() || target.watch || target.namespace.is_some() != self.namespaced {
            return Err(Status::no_such_path());
        }
        if request.method() != ::http::Method::POST {
            return Err(Status::method_not_allowed());
        }
        let (parts, body) = request.into_parts();
        let form = form(&parts.headers)?;
        let options = WriteOptions::parse(query, &parts.headers, OptionsOf::Create)?;
        let body = read_body(body).await?;
        let of = self.kind();
        let mut warnings = Warnings::default();
        let namespace = target.namespace();
        let answer = decode(&of, &parts.headers, &body, &options, &mut warnings).and_then(|mut object| {
            set_namespace(&mut object, namespace)?;
            record(&of, "", &mut object, &options.manager, &context.api.clock.rfc3339());
            self.answered(context, user, namespace, object)
        });
        let answer = answer.map(|answer| answer_in(form, answer));
        Ok(warnings.on(answer.unwrap_or_else(|status| answer::failure(&status))))
    }

    fn answered(
        &self,
        context: &Context,
        user: &User,
        namespace: &str,
        mut object: Object,
    ) -> Result<Value, Status> {
        let (control, registry, clock) = (&context.access, context.api.registry(), &context.api.clock);
        let of = match self.plural {
            "selfsubjectreviews" => return Ok(access::self_review(user, &clock.rfc3339())),
            "selfsubjectrulesreviews" => return access::rules_review(control, &registry, user, &object),
            "tokenreviews" => {
                let status = access::token_review(control, &registry, clock, &object)?;
                object.insert("status".into(), status);
                return Ok(Value::Object(object));
            }
            "selfsubjectaccessreviews" => ReviewOf::Own(user),
            "localsubjectaccessreviews" => ReviewOf::Local(namespace),
            _ => ReviewOf::Named,
        };
        let status = access::access_review(control, &registry, of, &object)?;
        object.insert("status".into(), status);
        Ok(Value::Object(object))
    }
}

impl Call<'_> {
    /// Issues a token for a service account.
    ///
    /// # Errors
    /// 404 without the service account, 400, 409 and 422 for an invalid request.
    pub(super) fn token(&mut self, name: &str, options: &WriteOptions) -> Result<Answer, Status> {
        let form = form(self.headers)?;
        let (registry, clock, namespace) = (self.api().registry(), self.api().clock, self.namespace()?);
        let mut object = decode(&TOKEN_REQUEST, self.headers, &self.body, options, &mut self.warnings)?;
        if let Value::Object(spec) = object.entry("spec").or_insert_with(|| json!({})) {
            let seconds = spec.entry("expirationSeconds").or_insert(Value::Null);
            if seconds.is_null() {
                *seconds = 3600.into();
            }
        }
        set_namespace(&mut object, namespace)?;
        record(&TOKEN_REQUEST, "token", &mut object, &options.manager, &clock.rfc3339());
        if let Some(session) = self.session {
            object = session.mutate(None, object)?;
        }
        if let Some(namespaces) = registry.get("", "v1", "namespaces") {
            self.api().get(namespaces, "", namespace)?;
        }
        access::check_token_request(&registry, &clock, (namespace, name), &mut object)?;
        if let Some(session) = self.session {
            object = session.validate(None, object)?;
        }
        let status = access::new_token(&self.context.access, &registry, &clock, &object)?;
        object.insert("status".into(), status);
        Ok(answer_in(form, Value::Object(object)))
    }
}

/// # Errors
/// 406 for a form that reviews do not have.
fn form(headers: &HeaderMap) -> Result<Form, Status> {
    match negotiate::representation(headers, Offers::JSON)?.form {
        form @ (Form::Objects | Form::Metadata) => Ok(form),
        Form::Table => Err(Status::not_acceptable("application/json")),
    }
}

fn answer_in(form: Form, object: Value) -> Answer {
    let object = match form {
        Form::Metadata => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": object.get("metadata")}),
        _ => object,
    };
    answer::json(StatusCode::CREATED, &object)
}

/// Decodes an object into the form that it has in Go: without unknown fields, and without values that are not written.
///
/// # Errors
/// 400 and 415 for an object of another type or form.
fn decode(
    of: &Kind,
    headers: &HeaderMap,
    body: &[u8],
    options: &WriteOptions,
    warnings: &mut Warnings,
) -> Result<Object, Status> {
    let mut object = decode_object(&media_type(headers), body)?;
    warnings.extend(fields_warnings(of, headers, &mut object, options.validation)?.1);
    check_type(&mut object, of, Origin::Client)?;
    let (api_version, kind) = (of.api_version(), &of.kind);
    let message = protobuf::message(&api_version, kind, &object).unwrap_or_default();
    let decoded = protobuf::decode(&protobuf::envelope(&api_version, kind, &message));
    let mut object = decoded.map_err(|error| Status::internal(error.to_string()))?;
    object.entry("metadata").or_insert_with(|| json!({}));
    Ok(object)
}

/// # Errors
/// 400 for another namespace than that of the request.
pub(super) fn set_namespace(object: &mut Object, namespace: &str) -> Result<(), Status> {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return Ok(()) };
    if namespace.is_empty() {
        // Follows Kubernetes 1.37: the namespace of an object without one is dropped.
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or("");
    if !given.is_empty() && given != namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    metadata.insert("namespace".into(), namespace.into());
    Ok(())
}

/// Records the manager, as in objects that are stored.
pub(super) fn record(of: &Kind, subresource: &'static str, object: &mut Object, manager: &str, now: &str) {
    let managers = FieldManager {
        versions: &OneVersion,
        api_version: &of.api_version(),
        kind: &of.kind,
        subresource,
        filter: Filter::default(),
    };
    let mut new = Value::Object(std::mem::take(object));
    managers.record(&Value::Object(Object::new()), &mut new, Writer { manager, now });
    if let Value::Object(mut new) = new {
        unpack(&mut new);
        *object = new;
    }
}
