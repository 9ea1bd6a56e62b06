//! Owner references.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kinformer::{ObjectKey, PackedObject};
use kube_core::Resource;
use kube_core::discovery::ApiResource;
use serde::Deserialize;

/// An owner could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The object is controlled by another owner.
    #[error("{object:?} is controlled by {kind} {name:?}")]
    AlreadyOwned {
        /// The name of the object.
        object: String,
        /// The kind of its controller.
        kind: String,
        /// The name of its controller.
        name: String,
    },
    /// A namespaced owner owns objects of its own namespace only.
    #[error("{object:?} is not in the namespace {namespace:?} of its owner")]
    OtherNamespace {
        /// The name of the object.
        object: String,
        /// The namespace of the owner.
        namespace: String,
    },
    /// The owner has no UID: it was not read from the API server.
    #[error("the owner {name:?} has no UID")]
    NoUid {
        /// The name of the owner.
        name: String,
    },
}

/// Makes `owner` the controller of `object`: the garbage collector deletes the object with its owner, and
/// [`owns`](crate::ControllerBuilder::owns) enqueues the owner for events of the object. An existing reference to the same
/// owner is replaced.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::set_controller_reference;
///
/// # fn example(owner: &ConfigMap) -> Result<(), kinformer_controller::OwnerError> {
/// let mut deployment = Deployment::default();
/// deployment.metadata.namespace.clone_from(&owner.metadata.namespace);
/// set_controller_reference(owner, &mut deployment)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Another owner controls the object, the owner is in another namespace, or it has no UID. The object is unchanged.
///
/// Follows controller-runtime 0.25 (`controllerutil.SetControllerReference`).
pub fn set_controller_reference<O, K>(owner: &O, object: &mut K) -> Result<(), OwnerError>
where
    O: Resource<DynamicType = ()>,
    K: Resource,
{
    let reference = owner.controller_owner_ref(&());
    let reference =
        reference.map(|reference| OwnerReference { block_owner_deletion: Some(true), ..reference });
    set(reference, owner.meta(), object.meta_mut())
}

fn set(
    reference: Option<OwnerReference>,
    owner: &ObjectMeta,
    object: &mut ObjectMeta,
) -> Result<(), OwnerError> {
    let name = object.name.clone().or_else(|| object.generate_name.clone()).unwrap_or_default();
    let Some(reference) = reference.filter(|reference| !reference.uid.is_empty()) else {
        return Err(OwnerError::NoUid { name: owner.name.clone().unwrap_or_default() });
    };
    if let Some(namespace) = &owner.namespace
        && object.namespace.as_ref() != Some(namespace)
    {
        return Err(OwnerError::OtherNamespace { object: name, namespace: namespace.clone() });
    }
    let references = object.owner_references.get_or_insert_default();
    let controller =
        references.iter().find(|other| other.controller == Some(true) && other.uid != reference.uid);
    if let Some(controller) = controller {
        return Err(OwnerError::AlreadyOwned {
            object: name,
            kind: controller.kind.clone(),
            name: controller.name.clone(),
        });
    }
    references.retain(|other| other.uid != reference.uid);
    references.push(reference);
    Ok(())
}

/// Which owners of an object are enqueued.
#[derive(Clone, Debug)]
pub(crate) struct OwnerKind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) is_namespaced: bool,
    /// Whether only the owner is enqueued that controls the object.
    pub(crate) is_controller: bool,
}

/// An owner reference, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    #[serde(default)]
    controller: Option<bool>,
}

impl OwnerKind {
    pub(crate) fn of(resource: &ApiResource, is_namespaced: bool) -> Self {
        let (group, kind) = (resource.group.clone(), resource.kind.clone());
        Self { group, kind, is_namespaced, is_controller: true }
    }

    /// Appends the keys of the owners of an object. Any version of the kind counts.
    pub(crate) fn keys_of(&self, object: &PackedObject, keys: &mut Vec<ObjectKey>) {
        let references: Vec<Reference> = match object.owner_references_as() {
            Ok(references) => references,
            Err(error) => {
                tracing::error!(key = %object.key(), %error, "owner references cannot be read; no owner is enqueued");
                return;
            }
        };
        let namespace = object.namespace().filter(|_| self.is_namespaced).unwrap_or_default();
        for reference in references {
            let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            let matches = group == self.group && reference.kind == self.kind;
            if !matches || self.is_controller && reference.controller != Some(true) {
                continue;
            }
            let key = match namespace {
                "" => ObjectKey::named(&reference.name),
                namespace => ObjectKey::new(namespace, &reference.name),
            };
            match key {
                Ok(key) => keys.push(key),
                Err(error) => tracing::error!(key = %object.key(), %error, "owner has no valid name"),
            }
        }
    }
}
