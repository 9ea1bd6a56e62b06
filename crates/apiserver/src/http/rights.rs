//! Rights that depend on what a write does: to create an object by an update, and to grant rights to others.

use std::sync::Arc;

use serde_json::Value;

use crate::access::{Attributes, Granted, User, check_granted};
use crate::api::{Api, Applied, DryRun, Object, Write};
use crate::apply::Conflicts;
use crate::registry::Resource;
use crate::status::Status;

use super::context::Context;
use super::objects::{Call, Sub};

/// The rights of a user to write an object.
#[derive(Clone, Copy)]
pub(super) struct Rights<'a> {
    context: &'a Context,
    resource: &'a Arc<Resource>,
    user: &'a User,
    namespace: &'a str,
    name: &'a str,
}

impl Rights<'_> {
    /// Whether the object can grant rights that the user may not have.
    pub(super) fn concern_grants(self) -> bool {
        self.context.access.has_roles()
            && !self.user.is_privileged()
            && self.resource.kind.group == "rbac.authorization.k8s.io"
    }

    /// # Errors
    /// 403 for a role or a binding with rights that the user does not have.
    pub(super) fn check_granted(self, before: Option<&Object>, after: &Object) -> Result<(), Status> {
        let Self { context, resource, user, namespace, name } = self;
        let granted = Granted { kind: &resource.kind, namespace, name, before, after };
        check_granted(&context.access, &context.api.registry(), user, &granted)
    }

    /// # Errors
    /// 403 if the object does not exist, and the user may not create it.
    fn check_creation(self) -> Result<(), Status> {
        let Self { context, resource, user, namespace, name } = self;
        if !context.access.has_roles() || resource.store.get(&Api::key(resource, namespace, name)).is_some() {
            return Ok(());
        }
        let kind = &resource.kind;
        let asked = Attributes::of_resource(&kind.group, &kind.plural, namespace, name, "create");
        context.access.check(&context.api.registry(), user, &asked)
    }
}

impl<'a> Call<'a> {
    pub(super) fn rights(&self) -> Rights<'a> {
        Rights {
            context: self.context,
            resource: self.resource,
            user: self.user,
            namespace: self.target.namespace(),
            name: self.target.name.as_deref().unwrap_or(""),
        }
    }

    /// # Errors
    /// As [`Rights::check_granted`].
    pub(super) fn check_granted(&self, before: Option<&Object>, after: &Object) -> Result<(), Status> {
        self.rights().check_granted(before, after)
    }

    /// # Errors
    /// As [`Rights::check_creation`].
    pub(super) fn check_creation(&self) -> Result<(), Status> {
        if matches!(self.sub, Sub::None) { self.rights().check_creation() } else { Ok(()) }
    }

    /// Checks the update of an object.
    ///
    /// # Errors
    /// As [`Rights::check_granted`].
    pub(super) fn check_replaced(&self, after: &Object) -> Result<(), Status> {
        let rights = self.rights();
        if !rights.concern_grants() {
            return Ok(());
        }
        let before = self.api().get(self.resource, rights.namespace, rights.name).ok();
        rights.check_granted(before.map(|stored| stored.parse()).as_ref(), after)
    }

    /// Checks what an apply would store.
    ///
    /// # Errors
    /// As [`Rights::check_granted`]; the errors of the apply.
    pub(super) fn check_applied(
        &self,
        applied: &Value,
        conflicts: Conflicts,
        write: Write<'_>,
    ) -> Result<(), Status> {
        let rights = self.rights();
        if !rights.concern_grants() {
            return Ok(());
        }
        let write = Write { dry_run: DryRun::All, session: None, ..write };
        let before = self.api().get(self.resource, rights.namespace, rights.name).ok();
        let after =
            self.api().apply(self.resource, rights.namespace, rights.name, applied, conflicts, write)?;
        let (Applied::Created(after) | Applied::Updated(after)) = after;
        rights.check_granted(before.map(|stored| stored.parse()).as_ref(), &after.parse())
    }
}
