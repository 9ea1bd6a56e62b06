//! Webhooks for objects of subresources that are not stored.

use serde_json::Value;

use crate::api::{Object, Origin, check_type};
use crate::registry::Kind;
use crate::status::Status;

use super::objects::{Call, Sub};
use super::reviews::{record, set_namespace};

impl Sub {
    /// The kind of the objects of a subresource; `None` for that of the resource.
    pub(super) fn kind(&self) -> Option<Kind> {
        let (group, kind) = match self {
            Self::None | Self::Status | Self::Finalize => return None,
            Self::Scale(_) => ("autoscaling", "Scale"),
            Self::Binding => ("", "Binding"),
            Self::Eviction => ("policy", "Eviction"),
            Self::Token => ("authentication.k8s.io", "TokenRequest"),
        };
        Some(Kind { group: group.into(), version: "v1".into(), kind: kind.into(), ..Kind::default() })
    }
}

impl Call<'_> {
    /// Returns the object of a subresource that is not stored, after all webhooks.
    ///
    /// # Errors
    /// A refusal; 400 for an object of another type or with another name.
    pub(super) fn admitted(&self, mut object: Object, manager: &str) -> Result<Object, Status> {
        let subresource = match self.sub {
            Sub::Binding => "binding",
            Sub::Eviction => "eviction",
            _ => return Ok(object),
        };
        let Some(kind) = self.sub.kind() else { return Ok(object) };
        // the other version of evictions, whose fields are the same
        if matches!(self.sub, Sub::Eviction)
            && object.get("apiVersion").is_some_and(|version| version == "policy/v1beta1")
        {
            object.insert("apiVersion".into(), kind.api_version().into());
        }
        check_type(&mut object, &kind, Origin::Client)?;
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("creationTimestamp");
        }
        set_namespace(&mut object, self.namespace()?)?;
        if let Some(session) = self.session {
            record(&kind, subresource, &mut object, manager, &self.api().clock.rfc3339());
            object = session.mutate(None, object)?;
        }
        let name = object.get("metadata").and_then(|metadata| metadata.get("name"));
        if name.and_then(Value::as_str) != Some(self.name()?) {
            let why = format!("name in URL does not match name in {} object", kind.kind);
            return Err(Status::bad_request(why));
        }
        match self.session {
            Some(session) => session.validate(None, object),
            None => Ok(object),
        }
    }
}
