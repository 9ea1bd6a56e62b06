//! Rights that depend on what a write does: to create an object by an update, and to grant rights to others.

use std::sync::Arc;

use crate::access::{Attributes, Granted, User, check_granted};
use crate::api::{Api, Object};
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
    /// # Errors
    /// 403 for a role or a binding with rights that the user does not have.
    fn check_granted(self, before: Option<&Object>, after: &Object) -> Result<(), Status> {
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
    fn rights(&self) -> Rights<'a> {
        Rights {
            context: self.context,
            resource: self.resource,
            user: self.user,
            namespace: self.target.namespace(),
            name: self.target.name.as_deref().unwrap_or(""),
        }
    }

    /// Returns the check of what the write grants.
    pub(super) fn grant_check(&self) -> impl Fn(Option<&Object>, &Object) -> Result<(), Status> + use<'a> {
        let rights = self.rights();
        move |before, after| rights.check_granted(before, after)
    }

    /// # Errors
    /// As [`Rights::check_creation`].
    pub(super) fn check_creation(&self) -> Result<(), Status> {
        if matches!(self.sub, Sub::None) { self.rights().check_creation() } else { Ok(()) }
    }
}
