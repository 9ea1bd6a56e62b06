//! Query parameters of requests.

use std::fmt;

use kinformer_core::ResourceVersion;
use kinformer_reflector::{ListOptions, VersionMatch, WatchOptions};

/// The query parameters of a list or watch, which a tweak may change before the request is sent.
///
/// ```
/// use kinformer_kube::Params;
///
/// let tweak = |params: &mut Params| {
///     params.labels("app in (web, api)");
///     params.fields("spec.nodeName=node-1");
///     params.set("limit", 500); // by the name of the parameter
/// };
/// let mut params = Params::default();
/// tweak(&mut params);
/// assert_eq!(params.get("labelSelector"), Some("app in (web, api)"));
/// assert_eq!(params.get("fieldSelector"), Some("spec.nodeName=node-1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Sets a parameter, replacing its value.
    pub fn set(&mut self, name: impl Into<String>, value: impl fmt::Display) {
        let name = name.into();
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value.to_string()));
    }

    /// Restricts the objects to those that this label selector matches, as [`Self::set`] of `labelSelector`.
    pub fn labels(&mut self, selector: impl fmt::Display) {
        self.set("labelSelector", selector);
    }

    /// Restricts the objects to those that this field selector matches, as [`Self::set`] of `fieldSelector`.
    pub fn fields(&mut self, selector: impl fmt::Display) {
        self.set("fieldSelector", selector);
    }

    /// Removes a parameter.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Returns the value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the request is a watch.
    pub fn is_watch(&self) -> bool {
        self.get("watch").is_some()
    }

    pub(crate) fn of_list<T>(options: &ListOptions<T>) -> Self {
        let mut params = Self::default();
        params.version(&options.resource_version, options.version_match);
        if let Some(limit) = options.limit {
            params.set("limit", limit);
        }
        if let Some(token) = &options.continue_token {
            params.set("continue", token);
        }
        params
    }

    pub(crate) fn of_watch(options: &WatchOptions) -> Self {
        let mut params = Self::default();
        params.set("watch", 1);
        params.version(&options.resource_version, options.version_match);
        params.set("timeoutSeconds", options.timeout.as_secs().max(1));
        if options.bookmarks {
            params.set("allowWatchBookmarks", true);
        }
        if options.send_initial_events {
            params.set("sendInitialEvents", true);
        }
        params
    }

    /// Requests objects at this version or a later one, or their most recent state if it is unset, where an older one would do.
    pub(crate) fn at_least(&mut self, version: &ResourceVersion) {
        let lists = !self.is_watch() || self.get("sendInitialEvents").is_some();
        let is_exact = self.get("resourceVersionMatch") == Some("Exact");
        let Some(requested) = self.get("resourceVersion").filter(|_| lists && !is_exact) else { return };
        if version.is_unset() {
            self.remove("resourceVersion");
            if !self.is_watch() {
                self.remove("resourceVersionMatch");
            }
        } else if !ResourceVersion::from(requested).reaches(version) {
            self.set("resourceVersion", version);
            self.set("resourceVersionMatch", "NotOlderThan");
        }
    }

    fn version(&mut self, version: &ResourceVersion, version_match: Option<VersionMatch>) {
        if !version.is_unset() {
            self.set("resourceVersion", version);
        }
        match version_match {
            Some(VersionMatch::NotOlderThan) => self.set("resourceVersionMatch", "NotOlderThan"),
            Some(VersionMatch::Exact) => self.set("resourceVersionMatch", "Exact"),
            _ => {}
        }
    }

    pub(crate) fn query(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }
}
