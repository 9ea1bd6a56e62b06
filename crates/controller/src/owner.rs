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
    #[doc(alias = "AlreadyOwnedError")]
    #[error("{object:?} is controlled by {kind} {name:?} with the UID {uid:?}")]
    AlreadyOwned {
        /// The name of the object.
        object: String,
        /// The kind of its controller.
        kind: String,
        /// The name of its controller.
        name: String,
        /// The UID of its controller.
        uid: String,
    },
    /// A namespaced owner owns objects of its own namespace only.
    #[error("{object:?} is not in the namespace {namespace:?} of its owner")]
    OtherNamespace {
        /// The name of the object.
        object: String,
        /// The namespace of the owner.
        namespace: String,
    },
    /// The owner has no name or no UID: it was not read from the API server.
    #[error("the owner {name:?} has no UID")]
    NoUid {
        /// The name of the owner.
        name: String,
    },
}

/// Makes `owner` the controller of `object`, as [`Owner::control`] does.
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
    Owner::new(owner)?.control(object)
}

/// The owner of other objects, whose references it sets and removes.
///
/// Owners are compared by group, kind and name. A reference to an owner that was deleted and made again has its old UID, as after
/// a restore; setting it again replaces it.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::Owner;
///
/// # fn example(config_map: &ConfigMap, deployment: &mut Deployment) -> Result<(), kinformer_controller::OwnerError> {
/// let owner = Owner::new(config_map)?.without_block_owner_deletion();
/// owner.control(deployment)?;
/// assert!(owner.is_owner_of(deployment) && owner.is_controller_of(deployment));
/// # Ok(())
/// # }
/// ```
///
/// Follows controller-runtime 0.25 (`controllerutil`).
#[doc(alias = "OwnerReferenceOption")]
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    /// The reference of a controller.
    reference: OwnerReference,
    namespace: Option<String>,
    blocks_deletion: bool,
}

impl Owner {
    /// Creates the owner of a kind with a type.
    ///
    /// # Errors
    /// [`OwnerError::NoUid`] if the object has no name or no UID.
    pub fn new<O: Resource<DynamicType = ()>>(owner: &O) -> Result<Self, OwnerError> {
        Self::dynamic(owner, &())
    }

    /// As [`Self::new`], of a kind without a type, such as `DynamicObject` with its `ApiResource`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn dynamic<O: Resource>(owner: &O, kind: &O::DynamicType) -> Result<Self, OwnerError> {
        let reference = owner.controller_owner_ref(kind).filter(|reference| !reference.uid.is_empty());
        let no_uid = || OwnerError::NoUid { name: owner.meta().name.clone().unwrap_or_default() };
        let namespace = owner.meta().namespace.clone();
        Ok(Self { reference: reference.ok_or_else(no_uid)?, namespace, blocks_deletion: true })
    }

    /// Leaves out `blockOwnerDeletion` of the references of a controller. With it, a foreground deletion of the owner waits for
    /// the object; a cluster that checks permissions for this (`OwnerReferencesPermissionEnforcement`, as OpenShift) requires
    /// the verb `update` for the `finalizers` of the owner.
    ///
    /// Follows controller-runtime 0.25 (`WithBlockOwnerDeletion`).
    #[doc(alias = "WithBlockOwnerDeletion")]
    #[must_use]
    pub fn without_block_owner_deletion(self) -> Self {
        Self { blocks_deletion: false, ..self }
    }

    /// Makes it the controller of an object: the garbage collector deletes the object with its owner, and
    /// [`owns`](crate::ControllerBuilder::owns) enqueues the owner for events of the object. A reference to the same owner is
    /// replaced.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kinformer_controller::{Owner, OwnerError};
    ///
    /// fn owner(name: &str) -> Result<Owner, OwnerError> {
    ///     let mut map = ConfigMap::default();
    ///     map.metadata.name = Some(name.to_owned());
    ///     map.metadata.uid = Some(format!("uid-of-{name}"));
    ///     Owner::new(&map)
    /// }
    ///
    /// let mut deployment = Deployment::default();
    /// owner("settings")?.control(&mut deployment)?;
    /// let refused = owner("other")?.control(&mut deployment);
    /// assert!(matches!(refused, Err(OwnerError::AlreadyOwned { .. })), "an object has one controller");
    /// # Ok::<(), OwnerError>(())
    /// ```
    ///
    /// # Errors
    /// Another owner controls the object, or the owner is in another namespace. The object is unchanged.
    #[doc(alias = "SetControllerReference")]
    pub fn control<K: Resource>(&self, object: &mut K) -> Result<(), OwnerError> {
        self.check_namespace(object.meta())?;
        let controller = references(object.meta()).iter().find(|other| other.controller == Some(true));
        if let Some(controller) = controller.filter(|controller| !self.is_same(controller)) {
            return Err(OwnerError::AlreadyOwned {
                object: name_of(object.meta()),
                kind: controller.kind.clone(),
                name: controller.name.clone(),
                uid: controller.uid.clone(),
            });
        }
        let block_owner_deletion = self.blocks_deletion.then_some(true);
        self.set(object.meta_mut(), OwnerReference { block_owner_deletion, ..self.reference.clone() });
        Ok(())
    }

    /// Makes it an owner of an object, not the controlling one: the garbage collector deletes the object with the last of its
    /// owners. A reference to the same owner is replaced, also that of the controller.
    ///
    /// # Errors
    /// The owner is in another namespace. The object is unchanged.
    ///
    /// Follows controller-runtime 0.25 (`SetOwnerReference`).
    #[doc(alias = "SetOwnerReference")]
    pub fn own<K: Resource>(&self, object: &mut K) -> Result<(), OwnerError> {
        self.check_namespace(object.meta())?;
        let reference =
            OwnerReference { controller: None, block_owner_deletion: None, ..self.reference.clone() };
        self.set(object.meta_mut(), reference);
        Ok(())
    }

    /// Whether the object has a reference to this owner.
    #[doc(alias = "HasOwnerReference")]
    pub fn is_owner_of(&self, object: &impl Resource) -> bool {
        references(object.meta()).iter().any(|reference| self.is_same(reference))
    }

    /// Whether this owner controls the object.
    #[doc(alias = "HasControllerReference")]
    pub fn is_controller_of(&self, object: &impl Resource) -> bool {
        let is_controller = |other: &OwnerReference| other.controller == Some(true) && self.is_same(other);
        references(object.meta()).iter().any(is_controller)
    }

    /// Removes the reference to this owner. Returns whether there was one.
    #[doc(alias("RemoveControllerReference", "RemoveOwnerReference"))]
    pub fn remove_from(&self, object: &mut impl Resource) -> bool {
        let Some(references) = &mut object.meta_mut().owner_references else { return false };
        let before = references.len();
        references.retain(|reference| !self.is_same(reference));
        references.len() != before
    }

    /// Follows controller-runtime 0.25 (`referSameObject`).
    fn is_same(&self, other: &OwnerReference) -> bool {
        let own = &self.reference;
        (group(&own.api_version), &own.kind, &own.name)
            == (group(&other.api_version), &other.kind, &other.name)
    }

    fn check_namespace(&self, object: &ObjectMeta) -> Result<(), OwnerError> {
        match &self.namespace {
            Some(namespace) if object.namespace.as_ref() != Some(namespace) => {
                Err(OwnerError::OtherNamespace { object: name_of(object), namespace: namespace.clone() })
            }
            _ => Ok(()),
        }
    }

    fn set(&self, object: &mut ObjectMeta, reference: OwnerReference) {
        let references = object.owner_references.get_or_insert_default();
        references.retain(|other| !self.is_same(other));
        references.push(reference);
    }
}

fn references(object: &ObjectMeta) -> &[OwnerReference] {
    object.owner_references.as_deref().unwrap_or_default()
}

fn name_of(object: &ObjectMeta) -> String {
    object.name.clone().or_else(|| object.generate_name.clone()).unwrap_or_default()
}

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
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
            let matches = group(&reference.api_version) == self.group && reference.kind == self.kind;
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
