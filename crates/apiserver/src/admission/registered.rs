//! The webhooks and policies of the storage.

use std::sync::Arc;

use serde_json::Value;

use crate::registry::{Derived, Registry, Stores};
use crate::storage::ResourceStore;

use super::conditions::Conditions;
use super::hooks::Hook;
#[cfg(feature = "cel")]
use super::policy::Policies;

const GROUP: &str = "admissionregistration.k8s.io";
/// The policies of the last two act with the feature `cel` only.
const RESOURCES: [&str; 4] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// All webhooks at one time, in the order of the names of their configurations.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    pub(super) mutating: Vec<Hook>,
    pub(super) validating: Vec<Hook>,
    #[cfg(feature = "cel")]
    pub(super) policies: Policies,
}

impl Hooks {
    fn read(stores: &Stores) -> Self {
        let [mutating, validating, policies, bindings] = stores.each_ref().map(Option::as_deref);
        #[cfg(not(feature = "cel"))]
        let _ = (policies, bindings);
        Self {
            mutating: mutating.map(hooks_of).unwrap_or_default(),
            validating: validating.map(hooks_of).unwrap_or_default(),
            #[cfg(feature = "cel")]
            policies: policies
                .zip(bindings)
                .map(|(own, bindings)| Policies::read(own, bindings))
                .unwrap_or_default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && !self.has_policies()
    }

    /// Whether a policy may refuse a write.
    #[cfg(feature = "cel")]
    pub(super) fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    #[cfg(not(feature = "cel"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    pub(super) fn has_policies(&self) -> bool {
        false
    }
}

fn hooks_of(store: &ResourceStore) -> Vec<Hook> {
    let mut hooks = Vec::new();
    for stored in store.snapshot().objects.values() {
        let mut configuration = stored.parse();
        let all = configuration.remove("webhooks");
        for hook in all.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let mut hook = Hook::read(hook);
            if let Some(error) = &hook.fault {
                tracing::warn!(
                    configuration = stored.key().name(),
                    error,
                    "malformed webhook fails all writes"
                );
            }
            hook.conditions = Conditions::compile(&hook.match_conditions);
            hooks.push(hook);
        }
    }
    hooks
}

/// The webhooks, parsed again after a configuration was written.
#[derive(Default)]
pub(crate) struct Webhooks(Derived<Hooks>);

impl Webhooks {
    /// Returns the present webhooks.
    pub(crate) fn get(&self, registry: &Registry) -> Arc<Hooks> {
        self.0.get(registry, GROUP, RESOURCES, Hooks::read)
    }
}
