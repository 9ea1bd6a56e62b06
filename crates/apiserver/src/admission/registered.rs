//! The webhooks and policies of the storage.

use std::sync::Arc;

use serde_json::Value;

use crate::registry::{Derived, Each, Registry, Stores};
use crate::storage::Stored;

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

/// The webhooks of each configuration of a kind.
pub(super) type Configurations = Each<Vec<Hook>>;

/// All webhooks at one time, in the order of the names of their configurations.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    pub(super) mutating: Configurations,
    pub(super) validating: Configurations,
    #[cfg(feature = "cel")]
    pub(super) policies: Policies,
}

impl Hooks {
    /// Reads what was written since the former state.
    fn read(stores: &Stores, former: Option<&Self>) -> Self {
        let [mutating, validating, policies, bindings] = stores.each_ref().map(Option::as_deref);
        #[cfg(not(feature = "cel"))]
        let _ = (policies, bindings);
        Self {
            mutating: Each::read(mutating, former.map(|former| &former.mutating), hooks_of),
            validating: Each::read(validating, former.map(|former| &former.validating), hooks_of),
            #[cfg(feature = "cel")]
            policies: Policies::read(policies, bindings, former.map(|former| &former.policies)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_policies() && self.mutating.iter().chain(self.validating.iter()).flatten().next().is_none()
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

fn hooks_of(stored: &Stored) -> Vec<Hook> {
    let mut configuration = stored.parse();
    let all = configuration.remove("webhooks");
    let read = |hook: &Value| {
        let mut hook = Hook::read(hook);
        if let Some(error) = &hook.fault {
            tracing::warn!(configuration = stored.key().name(), error, "malformed webhook fails all writes");
        }
        hook.conditions = Conditions::compile(&hook.match_conditions);
        hook
    };
    all.as_ref().and_then(Value::as_array).into_iter().flatten().map(read).collect()
}

/// The webhooks; a configuration is parsed again after it was written.
#[derive(Default)]
pub(crate) struct Webhooks(Derived<Hooks>);

impl Webhooks {
    /// Returns the present webhooks.
    pub(crate) fn get(&self, registry: &Registry) -> Arc<Hooks> {
        self.0.get(registry, GROUP, RESOURCES, Hooks::read)
    }
}
