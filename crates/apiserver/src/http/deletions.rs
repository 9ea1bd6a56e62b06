//! Requests that delete objects.

use std::sync::Arc;

use ::http::StatusCode;
use serde_json::Value;

use crate::admission::Session;
use crate::api::{DeleteOptions, Deleted, ListItem, Preconditions, converted, write_object};
use crate::registry::Resource;
use crate::status::{Status, deleted};
use crate::storage::{ManagedFields, write_json};
use crate::table::IncludeObject;

use super::answer::{self, Answer};
use super::collection::Collection;
use super::conversion::Reply;
use super::list;
use super::negotiate::Representation;
use super::objects::{Call, Sub, object_answer};
use super::params::ListParams;

/// Follows Kubernetes 1.37 (`deleteOptionWarnings` of jobs).
const JOB_ORPHANS: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
const NOT_COLLECTED: &str = "garbage collection is switched off in this server: propagationPolicy and \
    orphanDependents have no effect; enable it with Builder::garbage_collection";

impl Call<'_> {
    /// Reads the options from the body, or from the query if there is no body.
    ///
    /// # Errors
    /// 400 and 422 for invalid options.
    fn delete_options(&self) -> Result<DeleteOptions, Status> {
        if !self.body.iter().all(u8::is_ascii_whitespace) {
            return DeleteOptions::parse(&Value::Object(self.object()?));
        }
        let given = |name: &str| self.query.get(name).filter(|value| !value.is_empty());
        let precondition = |name: &str| given(name).map(str::to_owned);
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: precondition("uid"),
                version: precondition("resourceVersion"),
            },
            grace: self.query.number("gracePeriodSeconds")?,
            orphan_dependents: self.query.optional_flag("orphanDependents"),
            ..DeleteOptions::default()
        };
        let dry_run: Vec<&str> = self.query.all("dryRun").collect();
        options.validated(self.query.get("propagationPolicy"), &dry_run)
    }

    /// Adds what a client is to know about a deletion with these options.
    fn warn_of_deletion(&mut self, options: &DeleteOptions) {
        let jobs = self.resource.kind.is("batch", "jobs") && !options.names_propagation();
        let switched_off = !self.api().collects() && options.names_propagation();
        let warnings = [(jobs, JOB_ORPHANS), (switched_off, NOT_COLLECTED)];
        self.warnings.extend(warnings.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text));
    }

    pub(super) fn delete(&mut self, managed_fields: ManagedFields) -> Result<Reply, Status> {
        if !matches!(self.sub, Sub::None) {
            return Err(Status::method_not_allowed());
        }
        let (name, namespace) = (self.name()?, self.namespace()?);
        let options = self.delete_options()?;
        let kind = &self.resource.kind;
        self.warn_of_deletion(&options);
        let done = self.api().delete_admitted(self.resource, namespace, name, &options, self.session)?;
        let answer = match done {
            Deleted::Gone(stored) if kind.returns_deleted() => {
                answer::json_bytes(StatusCode::OK, converted(self.resource, &stored, managed_fields))
            }
            Deleted::Gone(stored) => {
                let version = self.version_of(&stored, options.dry_run);
                let value = deleted(kind.resource_subject(), name, stored.uid(), version);
                answer::json(StatusCode::OK, &value)
            }
            Deleted::Terminating(stored) => {
                let code = match options.orphan_dependents {
                    Some(false) => StatusCode::ACCEPTED,
                    _ => StatusCode::OK,
                };
                let (form, include) =
                    (Representation { managed_fields, ..Representation::OBJECTS }, IncludeObject::default());
                return Ok(object_answer(self.context, self.resource, &stored, code, form, include));
            }
        };
        Ok(Reply::Ready(answer))
    }

    /// The resource for the objects of an answer.
    fn shown(&self) -> Arc<Resource> {
        let converts = self.session.is_some_and(Session::converts);
        if converts { Arc::new(self.resource.of_converted()) } else { self.resource.clone() }
    }

    /// Deletes the objects of a list, or of one of its pages, and answers with them as they were before.
    /// Objects that others delete concurrently are skipped.
    pub(super) fn delete_collection(
        &mut self,
        collection: &mut Collection,
        managed_fields: ManagedFields,
    ) -> Result<Answer, Status> {
        if !matches!(self.sub, Sub::None) {
            return Err(Status::method_not_allowed());
        }
        let shards = self.context.shards;
        let params = ListParams::parse(shards, self.query, self.target, self.resource, false)?;
        let options = self.delete_options()?;
        let Collection { page, deleted } = collection;
        let page = match page {
            Some(page) => page,
            None => page.insert(list::page(&params, self.resource)?),
        };
        self.warn_of_deletion(&options);
        for stored in page.items.iter().skip(*deleted) {
            let (namespace, name) = (stored.key().namespace(), stored.key().name());
            let result = self.api().delete_admitted(self.resource, namespace, name, &options, self.session);
            match result {
                Err(status) if status.code() != 404 => return Err(status),
                _ => *deleted += 1,
            }
            if let Some(session) = self.session {
                session.next_object();
            }
        }
        let kind = &self.resource.kind;
        let shown = self.shown();
        let mut out = Vec::new();
        out.extend_from_slice(b"{\"kind\":");
        write_json(&mut out, &kind.list_kind);
        out.extend_from_slice(b",\"apiVersion\":");
        write_json(&mut out, &kind.api_version());
        out.extend_from_slice(b",\"metadata\":");
        write_json(&mut out, &page.metadata_of(self.resource));
        out.extend_from_slice(b",\"items\":[");
        for (position, stored) in page.items.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            write_object(&mut out, &shown, stored, ListItem::Yes, managed_fields);
        }
        out.extend_from_slice(b"]}");
        Ok(answer::json_bytes(StatusCode::OK, out.into()))
    }
}
