//! Resources by the names that kubectl accepts.

use kinformer::discovery_client;
use kinformer_core::internal::with_causes;
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::discovery::v2::APIGroupDiscoveryList;

use crate::exit::Error;
use crate::text::{self, Line};

/// How similar a name must be to be suggested, from 0 to 1.
const NEAR: f64 = 0.8;

/// A resource that the server serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    verbs: Vec<String>,
}

impl Served {
    /// The unambiguous name that kubectl prints: `pods`, `deployments.apps`.
    pub(crate) fn name(&self) -> String {
        match self.resource.group.as_str() {
            "" => self.resource.plural.clone(),
            group => format!("{}.{group}", self.resource.plural),
        }
    }

    /// The name that `kubectl -o name` prints before that of an object: `pod`, `deployment.apps`.
    pub(crate) fn kind_name(&self) -> String {
        let kind = self.resource.kind.to_ascii_lowercase();
        match self.resource.group.as_str() {
            "" => kind,
            group => format!("{kind}.{group}"),
        }
    }

    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// All resources of the server, in kubectl's search order: the core group, then the other groups in the server's
/// order, each with its preferred version first.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    served: Vec<Served>,
    /// The groups and versions whose resources the server does not know now, such as `metrics.k8s.io/v1beta1`.
    unavailable: Vec<String>,
}

impl Catalogue {
    /// Discovers the resources with two requests, which a busy server may delay. A server before 1.26 takes one more for
    /// each version of each group.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Refused`], [`Error::BadResponse`].
    pub(crate) async fn discover(client: &Client, server: &str) -> Result<Self, Error> {
        let client = &discovery_client(client);
        let failed = |error| Error::from_request(server, "list its API resources", &error);
        // A server may have no core group.
        let core = unless_not_found(client.list_core_api_versions_aggregated().await).map_err(failed)?;
        // A server without aggregated discovery answers with another kind, which decodes to nothing here.
        let is_aggregated = |list: &APIGroupDiscoveryList| !list.items.is_empty();
        if core.as_ref().is_none_or(is_aggregated) {
            let groups = client.list_api_groups_aggregated().await;
            let groups = if core.is_some() { unless_not_found(groups) } else { groups.map(Some) };
            let groups = groups.map_err(failed)?.unwrap_or_default();
            if core.is_some() || is_aggregated(&groups) {
                return Ok(Self::aggregated(core.into_iter().chain([groups])));
            }
        }
        Self::discover_one_by_one(client).await.map_err(failed)
    }

    fn aggregated(lists: impl IntoIterator<Item = APIGroupDiscoveryList>) -> Self {
        let mut catalogue = Self::default();
        for group in lists.into_iter().flat_map(|list| list.items) {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            for version in group.versions {
                let version_name = version.version.unwrap_or_default();
                // A stale version may have the resources that its backend served last.
                if version.freshness.as_deref() == Some("Stale") && version.resources.is_empty() {
                    catalogue.unavailable.push(api_version(&name, &version_name));
                }
                for found in version.resources {
                    // An entry without a kind only has subresources.
                    let Some(kind) = found.response_kind.and_then(|kind| kind.kind) else { continue };
                    catalogue.served.push(Served {
                        resource: resource(&name, &version_name, kind, found.resource.unwrap_or_default()),
                        namespaced: found.scope.as_deref() == Some("Namespaced"),
                        singular: found.singular_resource.unwrap_or_default(),
                        short_names: found.short_names,
                        categories: found.categories,
                        verbs: found.verbs,
                    });
                }
            }
        }
        catalogue
    }

    async fn discover_one_by_one(client: &Client) -> Result<Self, kube_client::Error> {
        let mut catalogue = Self::default();
        let core = unless_not_found(client.list_core_api_versions().await)?.unwrap_or_default();
        for version in core.versions {
            let list = client.list_core_api_resources(&version).await?;
            catalogue.served.extend(one_by_one("", &version, list.resources));
        }
        for group in client.list_api_groups().await?.groups {
            let preferred = group.preferred_version.map(|version| version.version);
            let mut versions: Vec<String> = group.versions.into_iter().map(|v| v.version).collect();
            versions.sort_by_key(|version| Some(version) != preferred.as_ref());
            for version in versions {
                // An unavailable group does not hide the others.
                match client.list_api_group_resources(&format!("{}/{version}", group.name)).await {
                    Ok(list) => {
                        catalogue.served.extend(one_by_one(&group.name, &version, list.resources));
                    }
                    Err(error) => {
                        let what = api_version(&group.name, &version);
                        let reason = with_causes(&error);
                        let line = format!("warning: skipping unavailable API group {what}: {reason}");
                        text::to_stderr(&Line::new(format_args!("{line}")));
                        catalogue.unavailable.push(api_version(&group.name, &version));
                    }
                }
            }
        }
        Ok(catalogue)
    }

    /// The names to type of all resources with a verb, each once.
    pub(crate) fn names(&self, verb: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for served in self.served.iter().filter(|served| served.can(verb)) {
            let first = self.first(&served.resource.plural, |_| true);
            let is_clear = first.is_some_and(|first| first.name() == served.name());
            let name = if is_clear { served.resource.plural.clone() } else { served.name() };
            // Another version of a resource has the same name.
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Resolves the given names to resources with these verbs, without duplicates, in the given order. A category, such as
    /// `all`, resolves to several.
    ///
    /// # Errors
    /// [`Error::Usage`]: a name is unknown, or its resource does not have the verbs.
    pub(crate) fn find_all(&self, names: &[String], verbs: &[&str]) -> Result<Vec<Served>, Error> {
        let mut found: Vec<Served> = Vec::new();
        for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            let served = self.find(name, verbs)?;
            for other in self.also_named(name) {
                text::to_stderr(&Line::new(format_args!(
                    "warning: the short name {name:?} could also match lower priority resource {}",
                    other.name()
                )));
            }
            for served in served {
                if !found.contains(served) {
                    found.push(served.clone());
                }
            }
        }
        if found.is_empty() {
            return Err(Error::Usage("no resource is named".into()));
        }
        Ok(found)
    }

    /// Follows kubectl 1.37: accepts `pods`, `po`, `pod`, `Pod`, `deployments.apps` and `deployments.v1.apps`, where
    /// the group may be abbreviated to a prefix. A plural takes precedence over a short name, that over a singular or
    /// kind, and that over a category.
    fn find(&self, name: &str, verbs: &[&str]) -> Result<Vec<&Served>, Error> {
        let found = self.resolve(name, verbs);
        let Some(first) = found.first() else { return Err(self.unknown(name)) };
        match found.iter().find_map(|served| verbs.iter().find(|verb| !served.can(verb))) {
            Some(verb) => Err(Error::Usage(format!("{} cannot be {verb}ed", first.name()))),
            None => Ok(found),
        }
    }

    /// The other resources with this short name, unless it is a full name as well. Follows kubectl 1.37
    /// (`expandResourceShortcut`).
    fn also_named(&self, name: &str) -> Vec<&Served> {
        let lower = name.to_ascii_lowercase();
        if self.served.iter().any(|served| served.resource.plural == lower || served.singular == lower) {
            return Vec::new();
        }
        let mut found: Vec<&Served> = Vec::new();
        for served in self.served.iter().filter(|served| served.short_names.contains(&lower)) {
            if !found.iter().any(|other| other.name() == served.name()) {
                found.push(served);
            }
        }
        found.split_off(found.len().min(1))
    }

    fn resolve(&self, name: &str, verbs: &[&str]) -> Vec<&Served> {
        let lower = name.to_ascii_lowercase();
        let parts: Vec<&str> = lower.splitn(3, '.').collect();
        let one = match parts.as_slice() {
            [resource, version, group] => self
                .first(resource, |served| served.version == *version && served.group == *group)
                .or_else(|| self.in_group(resource, &format!("{version}.{group}"))),
            [resource, group] => self.in_group(resource, group),
            _ => self.first(&lower, |_| true),
        };
        if let Some(one) = one {
            return vec![one];
        }
        let mut members: Vec<&Served> = Vec::new();
        for served in self.served.iter().filter(|served| served.categories.contains(&lower)) {
            // Another version of a resource that is included already has the same objects.
            let same = |other: &&Served| other.name() == served.name();
            if !members.iter().any(same) && verbs.iter().all(|verb| served.can(verb)) {
                members.push(served);
            }
        }
        members
    }

    fn in_group(&self, resource: &str, group: &str) -> Option<&Served> {
        self.first(resource, |served| served.group == group)
            .or_else(|| self.first(resource, |served| served.group.starts_with(group)))
    }

    /// The first resource with this name.
    fn first(&self, name: &str, wanted: impl Fn(&ApiResource) -> bool) -> Option<&Served> {
        let has = |names: &dyn Fn(&Served) -> bool| {
            self.served.iter().find(|served| wanted(&served.resource) && names(served))
        };
        has(&|served| served.resource.plural == name)
            .or_else(|| has(&|served| served.short_names.iter().any(|short| short == name)))
            .or_else(|| {
                has(&|served| served.singular == name || served.resource.kind.eq_ignore_ascii_case(name))
            })
    }

    fn unknown(&self, name: &str) -> Error {
        let lower = name.to_ascii_lowercase();
        let of_name = |group_version: &&String| {
            let group = group_version.split('/').next().unwrap_or_default();
            lower.strip_suffix(group).is_some_and(|rest| rest.ends_with('.'))
        };
        if let Some(group_version) = self.unavailable.iter().find(of_name) {
            return Error::UnavailableGroup { name: name.to_owned(), group_version: group_version.clone() };
        }
        let mut text = format!("the server has no resource {name:?}");
        if !self.unavailable.is_empty() {
            let groups = self.unavailable.join(", ");
            text = format!("{text}, but the resources of {groups} are not available now");
        }
        if let Some(near) = self.nearest(name) {
            text = format!("{text}; did you mean {near:?}?");
        }
        Error::Usage(text)
    }

    fn nearest(&self, name: &str) -> Option<String> {
        let lower = name.to_ascii_lowercase();
        let mut best: Option<(f64, String)> = None;
        for served in &self.served {
            let kind = served.resource.kind.to_ascii_lowercase();
            let short_names = served.short_names.iter().filter(|short| short.len() > 2).cloned();
            // The candidates are spellings; the suggestion is the name to type.
            let ways = [served.resource.plural.clone(), served.singular.clone(), kind, served.name()];
            for way in ways.into_iter().chain(short_names) {
                let likeness = strsim::jaro_winkler(&lower, &way);
                if likeness >= NEAR && best.as_ref().is_none_or(|(most, _)| likeness > *most) {
                    let qualified =
                        lower.contains('.') || self.resolve(&served.resource.plural, &[]) != [served];
                    let typed = if qualified { served.name() } else { served.resource.plural.clone() };
                    best = Some((likeness, typed));
                }
            }
        }
        best.map(|(_, name)| name)
    }
}

/// Returns `None` for 404.
fn unless_not_found<L>(list: Result<L, kube_client::Error>) -> Result<Option<L>, kube_client::Error> {
    match list {
        Err(kube_client::Error::Api(status)) if status.code == 404 => Ok(None),
        list => list.map(Some),
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn resource(group: &str, version: &str, kind: String, plural: String) -> ApiResource {
    let api_version = api_version(group, version);
    ApiResource { group: group.to_owned(), version: version.to_owned(), api_version, kind, plural }
}

fn one_by_one(
    group: &str,
    version: &str,
    resources: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource>,
) -> impl Iterator<Item = Served> {
    resources.into_iter().filter(|found| !found.name.contains('/')).map(move |found| Served {
        resource: resource(group, version, found.kind, found.name),
        namespaced: found.namespaced,
        singular: found.singular_name,
        short_names: found.short_names.unwrap_or_default(),
        categories: found.categories.unwrap_or_default(),
        verbs: found.verbs,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(group: &str, version: &str, plural: &str, kind: &str, short: &str, category: &str) -> Served {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Served {
            resource: resource(group, version, kind.to_owned(), plural.to_owned()),
            namespaced: true,
            singular: kind.to_ascii_lowercase(),
            short_names: words(short),
            categories: words(category),
            verbs: words("get list watch"),
        }
    }

    fn catalogue() -> Catalogue {
        let mut bindings = served("", "v1", "bindings", "Binding", "", "");
        bindings.verbs = vec!["create".into()];
        let served = vec![
            served("", "v1", "pods", "Pod", "po", "all"),
            served("", "v1", "events", "Event", "ev", ""),
            bindings,
            served("apps", "v1", "deployments", "Deployment", "deploy", "all"),
            served("apps", "v1beta1", "deployments", "Deployment", "deploy", "all"),
            served("events.k8s.io", "v1", "events", "Event", "ev", ""),
            served("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", "", ""),
            served("stable.example.com", "v1", "crontabs", "CronTab", "ct", ""),
        ];
        Catalogue { served, unavailable: Vec::new() }
    }

    const BOTH: [&str; 2] = ["list", "watch"];

    fn found(name: &str) -> Vec<String> {
        let catalogue = catalogue();
        let found = catalogue.find(name, &BOTH).unwrap_or_default();
        found
            .iter()
            .map(|served| format!("{} {}", served.resource.api_version, served.resource.plural))
            .collect()
    }

    #[test]
    fn all_spellings_of_a_name_are_found() {
        for name in ["pods", "po", "pod", "Pod", "PODS", "pods.v1."] {
            assert_eq!(found(name), ["v1 pods"], "{name}");
        }
        for name in ["deploy", "deployment", "deployments.apps", "Deployment.apps", "deployments.v1.apps"] {
            assert_eq!(found(name), ["apps/v1 deployments"], "{name}");
        }
        assert_eq!(found("deployments.v1beta1.apps"), ["apps/v1beta1 deployments"]);
        assert_eq!(found("crontabs.stable.example.com"), ["stable.example.com/v1 crontabs"]);
        assert_eq!(found("ct.v1.stable.example.com"), ["stable.example.com/v1 crontabs"]);
    }

    // contract: T-06c
    #[test]
    fn the_core_group_comes_first() {
        assert_eq!(found("events"), ["v1 events"]);
        assert_eq!(found("ev"), ["v1 events"]);
        let also = |name| catalogue().also_named(name).iter().map(|served| served.name()).collect::<Vec<_>>();
        assert_eq!(also("EV"), ["events.events.k8s.io"]);
        // Full names, one resource in two versions, and names of a group are clear.
        for name in ["events", "event", "deploy", "ev.events.k8s.io", "all", "unknown"] {
            assert!(also(name).is_empty(), "{name}");
        }
        assert_eq!(found("events.events.k8s.io"), ["events.k8s.io/v1 events"]);
        assert_eq!(found("pods.metrics"), ["metrics.k8s.io/v1beta1 pods"]);
    }

    #[test]
    fn a_category_resolves_to_its_resources() {
        assert_eq!(found("all"), ["v1 pods", "apps/v1 deployments"]);
    }

    #[test]
    fn resources_are_unique_and_in_order() {
        let names = ["deploy", "po", "pods", "deployments.apps"].map(str::to_owned);
        let found = catalogue().find_all(&names, &BOTH).expect("all are known");
        assert_eq!(found.iter().map(Served::name).collect::<Vec<_>>(), ["deployments.apps", "pods"]);
        assert!(catalogue().find_all(&[String::new()], &BOTH).is_err());
    }

    /// What kube-apiserver 1.37 answers for an API service without a backend, and for one whose backend has gone.
    // contract: T-06b
    #[test]
    fn unavailable_api_services_are_named() {
        let things = json!({"resource": "things", "scope": "Namespaced", "verbs": ["list", "watch"],
            "responseKind": {"group": "gone.example.com", "version": "v1", "kind": "Thing"}});
        let groups = json!({"items": [
            {"metadata": {"name": "foo.example.com"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
            {"metadata": {"name": "gone.example.com"},
                "versions": [{"version": "v1", "freshness": "Stale", "resources": [things]}]},
        ]});
        let catalogue = Catalogue::aggregated([serde_json::from_value(groups).expect("is a list")]);
        for name in ["things.foo.example.com", "Things.v1.foo.example.com"] {
            let error = catalogue.find(name, &BOTH).expect_err(name);
            assert!(matches!(error, Error::UnavailableGroup { .. }), "{error}");
            assert!(error.to_string().contains("foo.example.com/v1"), "{error}");
        }
        for name in ["other", "things.barfoo.example.com"] {
            let error = catalogue.find(name, &BOTH).expect_err(name);
            assert!(
                matches!(&error, Error::Usage(text) if text.contains("of foo.example.com/v1 are not available now")),
                "{error}"
            );
        }
        assert_eq!(catalogue.find("things", &BOTH).expect("is known").len(), 1);
    }

    #[test]
    fn unknown_name_error_has_the_nearest_name() {
        let error = |name: &str| catalogue().find(name, &BOTH).expect_err(name).to_string();
        for (name, part) in [
            ("pots", "did you mean \"pods\"?"),
            ("deplyments", "did you mean \"deployments\"?"),
            ("crontab.stable.exmple.com", "did you mean \"crontabs.stable.example.com\"?"),
            ("podmetric", "did you mean \"pods.metrics.k8s.io\"?"),
            ("zzz", "no resource \"zzz\""),
            ("bindings", "bindings cannot be listed"),
        ] {
            assert!(error(name).contains(part), "{}", error(name));
        }
        assert!(!error("zzz").contains("did you mean"));
    }
}
