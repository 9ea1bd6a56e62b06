//! Requests for single objects, and all writes.

use std::sync::Arc;

use ::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::access::User;
use crate::admission::Session;
use crate::api::{
    self, Api, Applied, DeleteOptions, DryRun, GrantCheck, Object, Part, ScaleWrite, Write, check_scale,
    read_scale, scale_kind, scale_of,
};
use crate::apply::Conflicts;
use crate::faults::{RequestFaults, Verb};
use crate::patch::{Patch, PatchFormat};
use crate::registry::{Kind, Resource, ScalePaths};
use crate::schema::definition;
use crate::status::{Status, success};
use crate::storage::Stored;
use crate::table::IncludeObject;

use super::admission::{self, Asking};
use super::answer::{self, Answer};
use super::collection::Collection;
use super::context::Context;
use super::conversion::{Deferred, Reply};
use super::differences::{self, Creation};
use super::field_manager::{OptionsOf, Validation, WriteOptions, conflicts};
use super::list;
use super::negotiate::{self, Representation};
use super::params::{ListParams, version};
use super::request::{Query, Target, decode_applied, decode_object, media_type, read_body};
use super::serialized::{self, write_malformed};
use super::warnings::Warnings;

/// The subresource in a path.
pub(super) enum Sub {
    None,
    Status,
    Finalize,
    Scale(ScalePaths),
    Binding,
    Eviction,
    Token,
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
            Some("token") if kind.is("", "serviceaccounts") => Self::Token,
            Some("scale") => Self::Scale(kind.scale.clone().ok_or_else(Status::no_such_path)?),
            Some(name) => return Err(differences::refusal(&kind.group, &kind.plural, Some(name))),
        })
    }

    /// Whether a verb is served, with the name in the path.
    fn allows(&self, kind: &Kind, verb: Verb, target: &Target) -> bool {
        if kind.namespaced && target.namespace.is_none() {
            return false;
        }
        match (self, verb) {
            (Self::None, Verb::Get | Verb::Update | Verb::Patch | Verb::Delete) => target.name.is_some(),
            (Self::None, Verb::Create) => target.name.is_none(),
            (Self::None, Verb::DeleteCollection) => !kind.is("", "namespaces"),
            (Self::Status | Self::Scale(_), Verb::Get | Verb::Update | Verb::Patch)
            | (Self::Finalize, Verb::Update)
            | (Self::Binding | Self::Eviction | Self::Token, Verb::Create) => true,
            _ => false,
        }
    }

    /// Checks a request before its body is read.
    ///
    /// # Errors
    /// 404, 405 and 400 for another path, method or name; 415 for a type of patches that the kind does not take.
    fn check(&self, kind: &Kind, verb: Verb, target: &Target, headers: &HeaderMap) -> Result<(), Status> {
        if kind.namespaced && target.namespace.is_none() && (target.name.is_some() || kind.custom) {
            return Err(Status::no_such_path());
        }
        if !self.allows(kind, verb, target) {
            return Err(Status::method_not_allowed());
        }
        if let Some(why) = target.name.as_deref().and_then(segment_fault) {
            return Err(Status::bad_request(format!("Name parameter invalid: {why}")));
        }
        if verb == Verb::Patch { check_patch_type(kind, &media_type(headers)) } else { Ok(()) }
    }

    fn part(&self) -> Part {
        match self {
            Self::Status => Part::Status,
            Self::Finalize => Part::Finalize,
            _ => Part::Object,
        }
    }
}

/// How an object is requested, and by whom.
pub(super) struct By {
    pub(super) verb: Verb,
    pub(super) user: User,
    /// When the request ends, if it says so.
    pub(super) end: Option<Instant>,
}

pub(super) async fn answer(
    context: &Arc<Context>,
    request: Request<Incoming>,
    query: &Query,
    target: &Target,
    mut resource: Arc<Resource>,
    By { verb, user, end }: By,
    mut faults: RequestFaults,
) -> Result<Answer, Status> {
    let (parts, body) = request.into_parts();
    let sub = Sub::of(&resource.kind, target.subresource.as_deref())?;
    sub.check(&resource.kind, verb, target, &parts.headers)?;
    let representation = negotiate::representation(&parts.headers, context.offers_for(&resource))?;
    let include = IncludeObject::parse(query.get("includeObject"))?;
    let body = read_body(body).await?;
    let asking = Asking { resource: &resource, target, query, user: &user, kind: sub.kind() };
    let session = if verb == Verb::Get { None } else { asking.session(context) };
    let session = session.as_ref();
    let first = resource.clone();
    let mut collection = Collection::default();
    if verb == Verb::DeleteCollection && resource.is_converted() {
        let params = ListParams::parse(context.shards, query, target, &resource, false)?;
        collection.page = Some(list::page_in_version(context, &params, &resource).await?.1);
    }
    let mut attempt = || {
        if resource.store.is_closed() {
            // The state was replaced while the body was read, or a webhook was called.
            resource = target.resource(&context.api.registry()).ok_or_else(Status::no_such_path)?;
        }
        let sub = Sub::of(&resource.kind, target.subresource.as_deref())?;
        let (headers, warnings) = (&parts.headers, Warnings::about(&resource.kind));
        let (user, body, resource) = (&user, body.clone(), &resource);
        let mut call = Call { context, query, target, resource, headers, body, sub, warnings, user, session };
        let result = call.answer(verb, (representation, include), &mut faults, &mut collection);
        let reply = result.unwrap_or_else(|status| Reply::Ready(answer::failure(&status)));
        call.warnings.extend(session.map(Session::warnings).unwrap_or_default());
        Ok((reply, call.warnings))
    };
    let (reply, warnings) = match session {
        None if verb == Verb::Get => context.api.reads(attempt),
        None => context.api.writes(attempt),
        Some(session) => admission::answer(context, session, (verb, &first.kind, end), &mut attempt).await,
    }?;
    Ok(warnings.on(reply.finish(context).await))
}

/// Returns why a name cannot be in a path. Follows Kubernetes 1.37 (`IsValidPathSegmentName`).
fn segment_fault(name: &str) -> Option<String> {
    let why = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ => format!("may not contain '{}'", name.chars().find(|c| *c == '%')?),
    };
    Some(format!("{name:?}: {why}"))
}

/// # Errors
/// 415 for a type of patches that the kind does not take.
fn check_patch_type(kind: &Kind, media_type: &str) -> Result<(), Status> {
    let is_known = match PatchFormat::of(media_type) {
        Some(PatchFormat::Strategic) => !kind.custom,
        Some(PatchFormat::Json | PatchFormat::Merge) => true,
        None => media_type == PatchFormat::APPLY,
    };
    if is_known { Ok(()) } else { Err(unsupported_patch(kind)) }
}

fn unsupported_patch(kind: &Kind) -> Status {
    let strategic = (!kind.custom).then_some(PatchFormat::STRATEGIC);
    let accepted =
        [PatchFormat::JSON, PatchFormat::MERGE].into_iter().chain(strategic).chain([PatchFormat::APPLY]);
    Status::unsupported_media_type(&accepted.collect::<Vec<_>>().join(", "))
}

pub(super) fn object_answer(
    context: &Context,
    resource: &Arc<Resource>,
    stored: &Arc<Stored>,
    code: StatusCode,
    representation: Representation,
    include: IncludeObject,
) -> Reply {
    if resource.is_converted() {
        let (resource, stored) = (resource.clone(), stored.clone());
        return Reply::Deferred(Deferred { resource, stored, code, representation, include, scale: None });
    }
    Reply::Ready(serialized::object(context, resource, stored, code, representation, include))
}

enum Made {
    Object(Arc<Stored>),
    Answer(Answer),
}

enum Written {
    Object(Applied),
    Reply(Reply),
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
            Self::Replace(fields) | Self::Patch(Patch::Strategic(fields) | Patch::Merge(fields)) => {
                Some(fields)
            }
            Self::Apply(fields, _) => fields.as_object(),
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
    pub(super) user: &'a User,
    /// `None` if no webhook concerns the request.
    pub(super) session: Option<&'a Session>,
}

impl<'a> Call<'a> {
    pub(super) fn api(&self) -> &'a Api {
        &self.context.api
    }

    fn answer(
        &mut self,
        verb: Verb,
        (representation, include): (Representation, IncludeObject),
        faults: &mut RequestFaults,
        collection: &mut Collection,
    ) -> Result<Reply, Status> {
        let (code, stored) = match verb {
            Verb::Get => return self.get(representation, include, faults),
            Verb::Create => match self.create()? {
                Made::Object(stored) => (StatusCode::CREATED, stored),
                Made::Answer(answer) => return Ok(Reply::Ready(answer)),
            },
            Verb::Update | Verb::Patch => match self.write(verb)? {
                Written::Object(Applied::Created(stored)) => (StatusCode::CREATED, stored),
                Written::Object(Applied::Updated(stored)) => (StatusCode::OK, stored),
                Written::Reply(reply) => return Ok(reply),
            },
            Verb::Delete => return self.delete(representation.managed_fields),
            Verb::DeleteCollection => {
                return self.delete_collection(collection, representation.managed_fields).map(Reply::Ready);
            }
            _ => return Err(Status::method_not_allowed()),
        };
        Ok(object_answer(self.context, self.resource, &stored, code, representation, include))
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
        representation: Representation,
        include: IncludeObject,
        faults: &mut RequestFaults,
    ) -> Result<Reply, Status> {
        if matches!(self.sub, Sub::Binding | Sub::Eviction | Sub::Finalize | Sub::Token) {
            return Err(Status::method_not_allowed());
        }
        if self.query.flag("export") {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(why));
        }
        let current = self.resource.store.version();
        let requested = match self.query.text("resourceVersion") {
            "" => 0,
            text => version(text)?,
        };
        if requested > current {
            return Err(Status::too_large_version(requested, current));
        }
        let stored = self.api().get(self.resource, self.target.namespace(), self.name()?)?;
        if let Sub::Scale(paths) = &self.sub {
            if self.resource.is_converted() {
                return Ok(self.deferred_scale(stored, paths));
            }
            let scale = read_scale(&self.resource.kind, &Api::served(self.resource, &stored), paths)?;
            return Ok(Reply::Ready(answer::json(StatusCode::OK, &Value::Object(scale))));
        }
        if faults.corrupts_object(0) {
            let mut out = Vec::new();
            write_malformed(&mut out, self.resource, &stored);
            return Ok(Reply::Ready(answer::json_bytes(StatusCode::OK, out.into())));
        }
        Ok(object_answer(self.context, self.resource, &stored, StatusCode::OK, representation, include))
    }

    fn deferred_scale(&self, stored: Arc<Stored>, paths: &ScalePaths) -> Reply {
        let (resource, representation) = (self.resource.clone(), Representation::OBJECTS);
        let (include, scale) = (IncludeObject::default(), Some(paths.clone()));
        Reply::Deferred(Deferred { resource, stored, code: StatusCode::OK, representation, include, scale })
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
                let resource = self.resource;
                let form = self.check_fields(&resource.kind, &mut object, options.validation)?;
                let grants = self.grant_check();
                let grants = Some(GrantCheck(&grants));
                let write = Write { form, session: self.session, grants, ..write };
                self.drop_duplicate_owners(&mut object);
                self.warn_of_differences(Creation::Yes, &object);
                let warnings =
                    if self.is_definition() { definition::warnings(&object, None) } else { Vec::new() };
                let found = Mutex::default();
                let write = Write { warnings: Some(&found), ..write };
                let stored = self.api().create(self.resource, self.namespace()?, object, write);
                self.warnings.extend(found.into_inner());
                let stored = stored?;
                self.warnings.extend(warnings);
                Ok(Made::Object(stored))
            }
            (Sub::Binding, Some(name)) => {
                let binding = self.admitted(self.object()?, &options.manager)?;
                let (namespace, dry_run) = (self.namespace()?, options.dry_run);
                let bound = api::bind(self.api(), self.resource, namespace, name, &binding, dry_run)?;
                created(&bound, dry_run)
            }
            (Sub::Token, Some(name)) => self.token(name, &options).map(Made::Answer),
            (Sub::Eviction, Some(name)) => {
                let eviction = self.admitted(self.object()?, &options.manager)?;
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
        let grants = self.grant_check();
        let grants = Some(GrantCheck(&grants));
        let write = Write { session: self.session, grants, ..write };
        if matches!(self.sub, Sub::Binding | Sub::Eviction | Sub::Token) {
            return Err(Status::method_not_allowed());
        }
        let change = self.change(of, &media_type)?;
        if let Sub::Scale(paths) = &self.sub {
            let paths = paths.clone();
            let change = self.checked_scale(change, options.validation)?;
            return self.write_scale(name, namespace, &paths, change, (write, options.validation));
        }
        if matches!(self.sub, Sub::None)
            && let Some(object) = change.fields()
        {
            self.warn_of_differences(Creation::No, object);
        }
        let before = self.definition(name);
        let warnings = Mutex::default();
        let write = Write { warnings: Some(&warnings), ..write };
        let written = match change {
            Change::Apply(applied, conflicts) => self.apply(name, namespace, &applied, conflicts, write),
            Change::Patch(patch) => {
                self.write_patch(name, namespace, &patch, write, options.validation).map(Applied::Updated)
            }
            Change::Replace(object) => self.replace(name, namespace, object, write, options.validation),
        };
        self.warnings.extend(warnings.into_inner());
        let written = written?;
        if let Some(before) = before {
            let (Applied::Created(stored) | Applied::Updated(stored)) = &written;
            self.warnings.extend(definition::warnings(&stored.parse(), Some(&before)));
        }
        Ok(Written::Object(written))
    }

    fn is_definition(&self) -> bool {
        matches!(self.sub, Sub::None) && self.resource.kind.is_definition()
    }

    /// Returns the definition that a request changes, empty if there is none.
    fn definition(&self, name: &str) -> Option<Object> {
        let present = self.is_definition().then(|| self.api().get(self.resource, "", name))?;
        Some(present.map(|stored| stored.parse()).unwrap_or_default())
    }

    fn apply(
        &mut self,
        name: &str,
        namespace: &str,
        applied: &Value,
        conflicts: Conflicts,
        write: Write<'_>,
    ) -> Result<Applied, Status> {
        self.check_creation()?;
        let written = self.api().apply(self.resource, namespace, name, applied, conflicts, write)?;
        if matches!(self.sub, Sub::None)
            && let Value::Object(applied) = applied
            && matches!(written, Applied::Created(_))
        {
            self.warn_of_differences(Creation::Yes, applied);
        }
        Ok(written)
    }

    fn replace(
        &mut self,
        name: &str,
        namespace: &str,
        mut object: Object,
        write: Write<'_>,
        validation: Validation,
    ) -> Result<Applied, Status> {
        let resource = self.resource;
        let form = self.check_fields(&resource.kind, &mut object, validation)?;
        let write = Write { form, ..write };
        self.drop_duplicate_owners(&mut object);
        let may_create = matches!(self.sub, Sub::None) && self.resource.kind.creates_on_update();
        if may_create {
            self.check_creation()?;
        }
        let fields = may_create.then(|| object.clone());
        let written = self.api().update(self.resource, namespace, name, object, write)?;
        if let (Some(fields), Applied::Created(_)) = (fields, &written) {
            self.warn_of_differences(Creation::Yes, &fields);
        }
        Ok(written)
    }

    fn change(&self, of: OptionsOf, media_type: &str) -> Result<Change, Status> {
        Ok(match of {
            OptionsOf::Apply => Change::Apply(decode_applied(&self.body)?, conflicts(self.query)),
            OptionsOf::Patch => Change::Patch(self.patch(media_type)?),
            OptionsOf::Create | OptionsOf::Update => Change::Replace(self.object()?),
        })
    }

    fn drop_duplicate_owners(&mut self, object: &mut Object) {
        let dropped = crate::owner_references::drop_duplicates(object);
        self.warnings.extend(crate::owner_references::duplicates_warning(&dropped, ""));
    }

    fn warn_of_differences(&mut self, creation: Creation, object: &Object) {
        let kind = &self.resource.kind;
        if self.context.access.has_roles() && kind.group == "rbac.authorization.k8s.io" {
            return;
        }
        self.warnings.extend(differences::warnings(&kind.group, &kind.plural, creation, object));
    }

    /// # Errors
    /// 400 for an update that is not a Scale of the object.
    fn checked_scale(&mut self, change: Change, validation: Validation) -> Result<Change, Status> {
        let Change::Replace(mut scale) = change else { return Ok(change) };
        self.check_fields(&scale_kind(), &mut scale, validation)?;
        self.drop_duplicate_owners(&mut scale);
        check_scale(&mut scale, self.resource, self.namespace()?, self.name()?)?;
        Ok(Change::Replace(scale))
    }

    fn write_scale(
        &mut self,
        name: &str,
        namespace: &str,
        paths: &ScalePaths,
        change: Change,
        (write, validation): (Write<'_>, Validation),
    ) -> Result<Written, Status> {
        let mut found = Vec::new();
        let write_scale =
            |change| self.api().write_scale(self.resource, namespace, name, paths, change, write);
        let stored = match change {
            Change::Replace(scale) => write_scale(ScaleWrite::Replace(scale)),
            Change::Patch(patch) => write_scale(ScaleWrite::Patch(&mut |scale| {
                Self::patched(&scale_kind(), &patch, scale, validation, &mut found)
            })),
            Change::Apply(applied, conflicts) => write_scale(ScaleWrite::Apply(applied, conflicts)),
        };
        self.warnings.extend(found);
        let stored = stored?;
        if self.resource.is_converted() {
            return Ok(Written::Reply(self.deferred_scale(stored, paths)));
        }
        let scale = scale_of(&Api::served(self.resource, &stored), paths);
        Ok(Written::Reply(Reply::Ready(answer::json(StatusCode::OK, &Value::Object(scale)))))
    }

    fn patch(&self, media_type: &str) -> Result<Patch, Status> {
        let format = PatchFormat::of(media_type).ok_or_else(|| unsupported_patch(&self.resource.kind))?;
        Patch::decode(format, &self.body)
    }
}
