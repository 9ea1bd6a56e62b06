//! The managers of the scale subresource, which are those of the replica count of its object.

use serde_json::Value;

use super::fields::FieldSet;
use super::managers::{Managed, VersionedSet};
use super::path::PathElement;

const SCALE_VERSION: &str = "autoscaling/v1";

/// Translates `managedFields` between an object and its scale. Follows Kubernetes 1.37 (`managedfields.ScaleHandler`).
pub(crate) struct ScaleManagers {
    managed: Managed,
    api_version: String,
    /// The path of the replica count, the same in all versions.
    replicas: Vec<PathElement>,
}

impl ScaleManagers {
    /// # Errors
    /// Invalid entries.
    pub(crate) fn new(
        entries: Option<&Value>,
        api_version: &str,
        replicas: &[String],
    ) -> Result<Self, String> {
        Ok(Self {
            managed: Managed::decode(entries)?,
            api_version: api_version.to_owned(),
            replicas: replicas.iter().map(|name| PathElement::Field(name.as_str().into())).collect(),
        })
    }

    fn replicas_of_scale() -> FieldSet {
        FieldSet::of_names(&[&["spec", "replicas"]])
    }

    /// The entries of the scale.
    pub(crate) fn to_scale(&self) -> Option<Value> {
        let mut scale = Managed::default();
        for (id, versioned) in &self.managed.managers {
            if versioned.set.has(&self.replicas) {
                let set = Self::replicas_of_scale();
                let api_version = SCALE_VERSION.to_owned();
                let is_applied = versioned.is_applied;
                scale.managers.insert(id.clone(), VersionedSet { set, api_version, is_applied });
                if let Some(time) = self.managed.times.get(id) {
                    scale.times.insert(id.clone(), time.clone());
                }
            }
        }
        scale.encode()
    }

    /// The entries of the object after a write to the scale, from those of the scale.
    ///
    /// # Errors
    /// Invalid entries.
    pub(crate) fn to_object(&self, scale: Option<&Value>) -> Result<Option<Value>, String> {
        let mut scale = Managed::decode(scale)?;
        let replicas = FieldSet::of_path(&self.replicas);
        let mut object = Managed { times: self.managed.times.clone(), ..Managed::default() };
        for (id, versioned) in &self.managed.managers {
            let mut left = versioned.clone();
            if versioned.set.has(&self.replicas) && scale.managers.remove(id).is_none() {
                left.set = left.set.difference(&replicas);
                if left.set.is_empty() {
                    continue;
                }
            }
            object.managers.insert(id.clone(), left);
        }
        for (id, versioned) in scale.managers {
            if versioned.set.has(&[PathElement::Field("spec".into()), PathElement::Field("replicas".into())])
            {
                let api_version = self.api_version.clone();
                let set =
                    VersionedSet { set: replicas.clone(), api_version, is_applied: versioned.is_applied };
                object.managers.insert(id, set);
            }
        }
        Ok(object.encode())
    }
}
