//! The webhooks of the storage, parsed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::registry::Registry;
use crate::storage::ResourceStore;

use super::conditions::{Condition, Conditions};
#[cfg(feature = "cel")]
use super::policy::Policies;
use super::rule::Rule;

const GROUP: &str = "admissionregistration.k8s.io";
/// The policies of the last two act with the feature `cel` only.
const RESOURCES: [&str; 4] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

type Stores = [Option<Arc<ResourceStore>>; 4];

/// Where a webhook is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    pub(super) url: Option<String>,
    pub(super) service: Option<Service>,
    /// Certificates in PEM, in base64.
    pub(super) ca_bundle: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) path: String,
    pub(super) port: Option<u16>,
}

/// A webhook of a configuration. Missing fields have the defaults of Kubernetes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) client_config: ClientConfig,
    pub(super) rules: Vec<Rule>,
    failure_policy: String,
    match_policy: String,
    pub(super) namespace_selector: Value,
    pub(super) object_selector: Value,
    side_effects: String,
    timeout_seconds: Option<u64>,
    reinvocation_policy: String,
    pub(super) admission_review_versions: Vec<String>,
    match_conditions: Vec<Condition>,
    #[serde(skip)]
    pub(super) conditions: Conditions,
}

impl Hook {
    /// Whether a write goes on when the webhook cannot be called.
    pub(super) fn ignores_failures(&self) -> bool {
        self.failure_policy == "Ignore"
    }

    /// Whether the rules also match other versions of their resources.
    pub(super) fn matches_equivalents(&self) -> bool {
        self.match_policy != "Exact"
    }

    /// Whether the webhook may be called for a dry run.
    pub(super) fn allows_dry_run(&self) -> bool {
        matches!(self.side_effects.as_str(), "None" | "NoneOnDryRun")
    }

    /// Whether the webhook is called again after later ones have changed the object.
    pub(super) fn is_reinvoked(&self) -> bool {
        self.reinvocation_policy == "IfNeeded"
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.unwrap_or(10))
    }
}

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
            match Hook::deserialize(hook) {
                Ok(mut hook) => {
                    hook.conditions = Conditions::compile(&hook.match_conditions);
                    hooks.push(hook);
                }
                Err(error) => {
                    tracing::warn!(configuration = stored.key().name(), %error, "malformed webhook is not called");
                }
            }
        }
    }
    hooks
}

/// The webhooks, parsed again after a configuration was written.
#[derive(Default)]
pub(crate) struct Webhooks(Mutex<Option<Cached>>);

struct Cached {
    stores: Stores,
    versions: [u64; 4],
    hooks: Arc<Hooks>,
}

impl Webhooks {
    /// Returns the present webhooks.
    pub(crate) fn get(&self, registry: &Registry) -> Arc<Hooks> {
        let stores =
            RESOURCES.map(|plural| registry.get(GROUP, "v1", plural).map(|resource| resource.store.clone()));
        // Before the objects are read: a write between them is found by the next call.
        let versions = stores.each_ref().map(|store| store.as_ref().map_or(0, |store| store.last_write()));
        let is_same = |cached: &Cached| {
            let address = |store: &Option<Arc<ResourceStore>>| store.as_ref().map(Arc::as_ptr);
            cached.versions == versions
                && cached.stores.each_ref().map(address) == stores.each_ref().map(address)
        };
        if let Some(cached) = self.0.lock().as_ref().filter(|cached| is_same(cached)) {
            return cached.hooks.clone();
        }
        let hooks = Arc::new(Hooks::read(&stores));
        let replaced = self.0.lock().replace(Cached { stores, versions, hooks: hooks.clone() });
        drop(replaced);
        hooks
    }
}
