//! Requests for single objects, and all writes.

use std::sync::Arc;

use ::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::api::{
    self, Api, Applied, DeleteOptions, DryRun, Object, Part, ScaleWrite, Write, converted, scale_of,
};
use crate::apply::Conflicts;
use crate::faults::{RequestFaults, Verb};
use crate::patch::{Patch, PatchFormat};
use crate::protobuf::MEDIA_TYPE;
use crate::registry::{Kind, Resource, ScalePaths};
use crate::status::{Status, success};
use crate::storage::Stored;
use crate::table::{self, Columns, IncludeObject};

use super::answer::{self, Answer};
use super::binary;
use super::context::Context;
use super::differences::{self, Creation};
use super::field_manager::{OptionsOf, WriteOptions, conflicts};
use super::list::{write_malformed, write_metadata};
use super::negotiate::{self, Encoding, Form};
use super::request::{Query, Target, decode_applied, decode_object, media_type, read_body};
use super::warnings::Warnings;

/// The subresource in a path.
pub(super) enum Sub {
    None,
    Status,
    Finalize,
    Scale(ScalePaths),
    Binding,
    Eviction,
}

impl Sub {
    /// # Errors
    /// 501 for a subresource of Kubernetes that this server does not have, 404 for any other.
    fn of(kind: &Kind, name: Option<&str>) -> Result<Self, Status> {
        Ok(match name {
            None => Self::None,
            Some("status") if kind.has_status => Self::Status,
            Some("finalize") if kind.is("", "namespaces") => Self::Finalize,
            Some("binding") if kind.is("", "pods") => Self::Binding,
            Some("eviction") if kind.is("", "pods") => Self::Eviction,
            Some("scale") => Self::Scale(kind.scale.clone().ok_or_else(Status::no_such_path)?),
            Some(name) => return Err(differences::refusal(&kind.group, &kind.plural, Some(name))),
        })
    }

    fn part(&self) -> Part {
        match self {
            Self::Status => Part::Status,
            Self::Finalize => Part::Finalize,
            _ => Part::Object,
        }
    }
}

pub(super) async fn answer(
    context: &Arc<Context>,
    request: Request<Incoming>,
    query: &Query,
    target: &Target,
    mut resource: Arc<Resource>,
    verb: Verb,
    mut faults: RequestFaults,
) -> Result<Answer, Status> {
    let (parts, body) = request.into_parts();
    let form = negotiate::form(&parts.headers, context.protobuf_for(&resource))?;
    let include = IncludeObject::parse(query.get("includeObject"))?;
    // An unknown subresource is an error before the body is read.
    drop(Sub::of(&resource.kind, target.subresource.as_deref())?);
    let body = read_body(body).await?;
    context.api.writes(|| {
        if resource.store.is_closed() {
            // The state was replaced while the body was read.
            resource = target.resource(&context.api.registry()).ok_or_else(Status::no_such_path)?;
        }
        let sub = Sub::of(&resource.kind, target.subresource.as_deref())?;
        let (headers, warnings) = (&parts.headers, Warnings::default());
        let mut call = Call { context, query, target, resource: &resource, headers, body, sub, warnings };
        let result = call.answer(verb, form, include, &mut faults);
        let answer = result.unwrap_or_else(|status| answer::failure(&status));
        Ok(call.warnings.on(answer))
    })
}

fn object_answer(
    context: &Context,
    resource: &Resource,
    stored: &Stored,
    code: StatusCode,
    (form, encoding): (Form, Encoding),
    include: IncludeObject,
) -> Answer {
    if encoding == Encoding::Protobuf {
        let mut answer = answer::bytes_as(MEDIA_TYPE, binary::object(resource, stored, form));
        *answer.status_mut() = code;
        return answer;
    }
    match form {
        Form::Objects => answer::json_bytes(code, converted(resource, stored)),
        Form::Metadata => {
            let mut out = Vec::new();
            write_metadata(&mut out, stored);
            answer::json_bytes(code, out.into())
        }
        Form::Table => {
            let metadata = json!({"resourceVersion": stored.version().to_string()});
            let table = table::of(resource, std::iter::once(stored), include, &context.api.clock);
            answer::json(code, &table.to_json(metadata, Columns::Shown))
        }
    }
}

enum Made {
    Object(Arc<Stored>),
    Answer(Answer),
}

enum Written {
    Object(Applied),
    Answer(Answer),
}

/// The body of a write.
enum Change {
    Replace(Object),
    Patch(Patch),
    Apply(Value, Conflicts),
}

impl Change {
    /// The fields that the write names; `None` for a JSON patch.
    fn fields(&self) -> Option<&Object> {
        match self {
            Self::Replace(fields) | Self::Patch(Patch::Strategic(fields)) => Some(fields),
            Self::Apply(fields, _) | Self::Patch(Patch::Merge(fields)) => fields.as_object(),
            Self::Patch(Patch::Json(_)) => None,
        }
    }
}

pub(super) struct Call<'a> {
    pub(super) context: &'a Context,
    pub(super) query: &'a Query,
    pub(super) target: &'a Target,
    pub(super) resource: &'a Arc<Resource>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: Bytes,
    pub(super) sub: Sub,
    pub(super) warnings: Warnings,
}

impl<'a> Call<'a> {
    pub(super) fn api(&self) -> &'a Api {
        &self.context.api
    }

    fn answer(
        &mut self,
        verb: Verb,
        form: (Form, Encoding),
        include: IncludeObject,
        faults: &mut RequestFaults,
    ) -> Result<Answer, Status> {
        let (code, stored) = match verb {
            Verb::Get => return self.get(form, include, faults),
            Verb::Create => match self.create()? {
                Made::Object(stored) => (StatusCode::CREATED, stored),
                Made::Answer(answer) => return Ok(answer),
            },
            Verb::Update | Verb::Patch => match self.write(verb)? {
                Written::Object(Applied::Created(stored)) => (StatusCode::CREATED, stored),
                Written::Object(Applied::Updated(stored)) => (StatusCode::OK, stored),
                Written::Answer(answer) => return Ok(answer),
            },
            Verb::Delete => return self.delete(),
            Verb::DeleteCollection => return self.delete_collection(),
            _ => return Err(Status::method_not_allowed()),
        };
        Ok(object_answer(self.context, self.resource, &stored, code, form, include))
    }

    /// # Errors
    /// 405 for a request without the required name.
    pub(super) fn name(&self) -> Result<&'a str, Status> {
        self.target.name.as_deref().ok_or_else(Status::method_not_allowed)
    }

    /// # Errors
    /// 405 for a write of a namespaced object without a namespace.
    pub(super) fn namespace(&self) -> Result<&'a str, Status> {
        let namespace = self.target.namespace();
        if self.resource.kind.namespaced && namespace.is_empty() {
            return Err(Status::method_not_allowed());
        }
        Ok(namespace)
    }

    /// The version of a write that is answered by a `Status`. A dry run has none.
    pub(super) fn version_of(&self, stored: &Stored, dry_run: DryRun) -> Option<u64> {
        (self.context.kubernetes >= 38 && dry_run == DryRun::No).then(|| stored.version())
    }

    pub(super) fn object(&self) -> Result<Object, Status> {
        decode_object(&media_type(self.headers), &self.body)
    }

    fn get(
        &self,
        form: (Form, Encoding),
        include: IncludeObject,
        faults: &mut RequestFaults,
    ) -> Result<Answer, Status> {
        if matches!(self.sub, Sub::Binding | Sub::Eviction | Sub::Finalize) {
            return Err(Status::method_not_allowed());
        }
        let current = self.resource.store.version();
        let requested = match self.query.text("resourceVersion") {
            "" => 0,
            text => text.parse().map_err(|_| {
                Status::bad_request(format!("invalid resource version: {text:?} is not a number"))
            })?,
        };
        if requested > current {
            return Err(Status::too_large_version(requested, current));
        }
        let stored = self.api().get(self.resource, self.target.namespace(), self.name()?)?;
        if let Sub::Scale(paths) = &self.sub {
            let scale = scale_of(&Api::served(self.resource, &stored), paths);
            return Ok(answer::json(StatusCode::OK, &Value::Object(scale)));
        }
        if faults.corrupts_object(0) {
            let mut out = Vec::new();
            write_malformed(&mut out, self.resource, &stored);
            return Ok(answer::json_bytes(StatusCode::OK, out.into()));
        }
        Ok(object_answer(self.context, self.resource, &stored, StatusCode::OK, form, include))
    }

    fn create(&mut self) -> Result<Made, Status> {
        let created = |stored: &Stored, dry_run| {
            let mut status = success(self.version_of(stored, dry_run));
            if let Some(status) = status.as_object_mut() {
                status.insert("code".into(), 201.into());
            }
            Ok(Made::Answer(answer::json(StatusCode::CREATED, &status)))
        };
        let options = WriteOptions::parse(self.query, self.headers, OptionsOf::Create)?;
        match (&self.sub, self.target.name.as_deref()) {
            (Sub::None, None) => {
                let write = Write::of(Part::Object, options.dry_run, &options.manager);
                let mut object = self.object()?;
                self.check_fields(&mut object, options.validation)?;
                self.warn_of_differences(Creation::Yes, &object);
                let notes = self.notes_on_definition(&object);
                let stored = self.api().create(self.resource, self.namespace()?, object, write)?;
                self.warnings.extend(notes);
                Ok(Made::Object(stored))
            }
            (Sub::Binding, Some(name)) => {
                let binding = self.object()?;
                let (namespace, dry_run) = (self.namespace()?, options.dry_run);
                let bound = api::bind(self.api(), self.resource, namespace, name, &binding, dry_run)?;
                created(&bound, dry_run)
            }
            (Sub::Eviction, Some(name)) => {
                let eviction = self.object()?;
                let options = match eviction.get("deleteOptions") {
                    Some(options) if !options.is_null() => DeleteOptions::parse(options)?,
                    _ => DeleteOptions::default(),
                };
                let evicted = api::evict(self.api(), self.resource, self.namespace()?, name, &options)?;
                created(&evicted, options.dry_run)
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn write(&mut self, verb: Verb) -> Result<Written, Status> {
        let (name, namespace) = (self.name()?, self.namespace()?);
        let media_type = media_type(self.headers);
        let of = match verb {
            Verb::Patch if media_type == PatchFormat::APPLY => OptionsOf::Apply,
            Verb::Patch => OptionsOf::Patch,
            _ => OptionsOf::Update,
        };
        let options = WriteOptions::parse(self.query, self.headers, of)?;
        let write = Write::of(self.sub.part(), options.dry_run, &options.manager);
        if matches!(self.sub, Sub::Binding | Sub::Eviction) {
            return Err(Status::method_not_allowed());
        }
        let change = match of {
            OptionsOf::Apply => Change::Apply(decode_applied(&self.body)?, conflicts(self.query)),
            OptionsOf::Patch => Change::Patch(self.patch(&media_type)?),
            OptionsOf::Create | OptionsOf::Update => Change::Replace(self.object()?),
        };
        if let Sub::Scale(paths) = &self.sub {
            return self.write_scale(name, namespace, paths, change, write);
        }
        let is_object = matches!(self.sub, Sub::None);
        if is_object && let Some(object) = change.fields() {
            self.warn_of_differences(Creation::No, object);
        }
        let written = match change {
            Change::Apply(applied, conflicts) => {
                let written = self.api().apply(self.resource, namespace, name, &applied, conflicts, write)?;
                if is_object
                    && let Value::Object(applied) = &applied
                    && matches!(written, Applied::Created(_))
                {
                    self.warn_of_differences(Creation::Yes, applied);
                }
                Ok(written)
            }
            Change::Patch(patch) => {
                self.write_patch(name, namespace, &patch, write, options.validation).map(Applied::Updated)
            }
            Change::Replace(mut object) => {
                self.check_fields(&mut object, options.validation)?;
                let may_create = is_object && self.resource.kind.creates_on_update();
                let fields = may_create.then(|| object.clone());
                let written = self.api().update(self.resource, namespace, name, object, write)?;
                if let (Some(fields), Applied::Created(_)) = (fields, &written) {
                    self.warn_of_differences(Creation::Yes, &fields);
                }
                Ok(written)
            }
        };
        written.map(Written::Object)
    }

    /// Returns what kube-apiserver warns of when a definition is created.
    fn notes_on_definition(&self, object: &Object) -> Vec<String> {
        let is_definition = self.resource.kind.is("apiextensions.k8s.io", "customresourcedefinitions");
        if is_definition { crate::schema::definition::notes(object) } else { Vec::new() }
    }

    fn warn_of_differences(&mut self, creation: Creation, object: &Object) {
        let kind = &self.resource.kind;
        self.warnings.extend(differences::warnings(&kind.group, &kind.plural, creation, object));
    }

    fn write_scale(
        &self,
        name: &str,
        namespace: &str,
        paths: &ScalePaths,
        change: Change,
        write: Write<'_>,
    ) -> Result<Written, Status> {
        let change = match change {
            Change::Replace(scale) => ScaleWrite::Replace(scale),
            Change::Patch(patch) => ScaleWrite::Patch(patch),
            Change::Apply(applied, conflicts) => ScaleWrite::Apply(applied, conflicts),
        };
        let stored = self.api().write_scale(self.resource, namespace, name, paths, &change, write)?;
        let scale = scale_of(&Api::served(self.resource, &stored), paths);
        Ok(Written::Answer(answer::json(StatusCode::OK, &Value::Object(scale))))
    }

    fn patch(&self, media_type: &str) -> Result<Patch, Status> {
        let strategic = !self.resource.kind.custom;
        let format =
            PatchFormat::of(media_type).filter(|format| strategic || *format != PatchFormat::Strategic);
        let Some(format) = format else {
            let mut accepted = vec![PatchFormat::JSON, PatchFormat::MERGE];
            if strategic {
                accepted.push(PatchFormat::STRATEGIC);
            }
            accepted.push(PatchFormat::APPLY);
            return Err(Status::unsupported_media_type(&accepted.join(", ")));
        };
        Patch::decode(format, &self.body)
    }
}
