//! What a request writes, by its path.

use http::{Method, Uri};
use kube_core::discovery::ApiResource;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

/// The resource, and for most requests the object, of a request that writes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    /// `None` for the requests of a collection.
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// Whether this is a method by which the API writes objects. Only such a response has a written object to record; a request with
/// another method is passed on as it is.
pub(crate) fn is_write(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}

impl Target {
    /// Returns what a request writes: `None` if its path is not that of a resource, or if it only connects to an object.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let version = segments.next()?;
        let rest: Vec<String> =
            segments.map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned()).collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let (namespace, rest) = match rest.as_slice() {
            // Subresources of a namespace, as kube-apiserver knows them.
            ["namespaces", _, "status" | "finalize"] => (None, rest.as_slice()),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(*name), None),
            [plural, name, subresource] => (plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        if matches!(subresource, Some("exec" | "attach" | "portforward" | "proxy")) {
            return None;
        }
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: (*plural).to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    }

    /// Returns the pod that is bound by a request to the collection of bindings, or this target.
    pub(crate) fn bound_pod(self, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Binding {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            name: String,
        }
        if !self.group.is_empty() || self.plural != "bindings" {
            return self;
        }
        let Ok(Binding { metadata }) = serde_json::from_slice(body) else { return self };
        let (plural, subresource) = ("pods".to_owned(), Some("binding".to_owned()));
        Self { plural, name: Some(metadata.name), subresource, ..self }
    }

    /// Whether this is an object of a resource, in the same version.
    pub(crate) fn is_of(&self, resource: &ApiResource) -> bool {
        (&self.group, &self.version, &self.plural) == (&resource.group, &resource.version, &resource.plural)
    }
}

/// Whether a request changes nothing, by its parameters or by the options in the body of a deletion or an eviction.
pub(crate) fn is_dry_run(method: &Method, uri: &Uri, target: &Target, body: &[u8]) -> bool {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct DeleteOptions {
        dry_run: Option<Vec<String>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Eviction {
        delete_options: DeleteOptions,
    }
    let query = uri.query().unwrap_or_default();
    let options = match target.subresource.as_deref() {
        Some("eviction") => serde_json::from_slice(body).map(|Eviction { delete_options }| delete_options),
        _ if *method == Method::DELETE => serde_json::from_slice(body),
        _ => Ok(DeleteOptions::default()),
    };
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name == "dryRun" && !value.is_empty())
        || options.is_ok_and(|options| options.dry_run.is_some_and(|stages| !stages.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Option<String> {
        let Target { group, version, plural, namespace, name, subresource } =
            Target::of(&path.parse().unwrap())?;
        let text = |part: Option<String>| part.unwrap_or_else(|| "-".into());
        Some(format!("{group}/{version} {plural} {} {} {}", text(namespace), text(name), text(subresource)))
    }

    #[test]
    fn paths_are_parsed() {
        for (path, expected) in [
            ("/api/v1/namespaces/team-a/pods", Some("/v1 pods team-a - -")),
            ("/api/v1/namespaces/team-a/pods/web?dryRun=All", Some("/v1 pods team-a web -")),
            ("/api/v1/namespaces/team-a/pods/web/eviction", Some("/v1 pods team-a web eviction")),
            ("/api/v1/namespaces", Some("/v1 namespaces - - -")),
            ("/api/v1/namespaces/team-a", Some("/v1 namespaces - team-a -")),
            ("/api/v1/namespaces/team-a/finalize", Some("/v1 namespaces - team-a finalize")),
            ("/apis/apps/v1/namespaces/a/deployments/web/scale", Some("apps/v1 deployments a web scale")),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                Some("rbac.authorization.k8s.io/v1 clusterroles - system:node -"),
            ),
            ("/api/v1/namespaces/team-a/pods/web/exec", None),
            ("/api/v1/namespaces/team-a/services/web/proxy/a/b", None),
            ("/version", None),
            ("/apis/apps/v1", None),
        ] {
            assert_eq!(target(path).as_deref(), expected, "{path}");
        }
    }

    // contract: C-08e
    #[test]
    fn dry_runs_are_recognized() {
        let uri: Uri = "/api/v1/pods".parse().unwrap();
        let dry: Uri = "/api/v1/pods?a=b&dryRun=All".parse().unwrap();
        let is_dry_run = |method: Method, uri: &Uri, body: &str| {
            is_dry_run(&method, uri, &Target::of(uri).unwrap(), body.as_bytes())
        };
        let all = r#"{"dryRun": ["All"]}"#;
        assert!(is_dry_run(Method::POST, &dry, ""));
        assert!(!is_dry_run(Method::POST, &uri, all), "of an object");
        assert!(is_dry_run(Method::DELETE, &uri, all));
        assert!(!is_dry_run(Method::DELETE, &uri, r#"{"propagationPolicy": "Orphan"}"#));
        assert!(!is_dry_run(Method::DELETE, &uri, ""));
        let eviction: Uri = "/api/v1/namespaces/a/pods/web/eviction".parse().unwrap();
        assert!(is_dry_run(Method::POST, &eviction, &format!(r#"{{"deleteOptions": {all}}}"#)));
        for body in [all, r#"{"deleteOptions": {}}"#, "{}", ""] {
            assert!(!is_dry_run(Method::POST, &eviction, body), "{body}");
        }
    }

    // contract: C-08q
    #[test]
    fn binding_is_of_its_pod() {
        let of = |path: &str, body: &str| {
            let Target { plural, name, .. } =
                Target::of(&path.parse().unwrap()).unwrap().bound_pod(body.as_bytes());
            (plural, name.unwrap_or_default())
        };
        let body = r#"{"metadata": {"name": "web"}, "target": {"name": "node-1"}}"#;
        let web = ("pods".to_owned(), "web".to_owned());
        assert_eq!(of("/api/v1/namespaces/a/bindings", body), web);
        assert_eq!(of("/api/v1/namespaces/a/pods/web/binding", body), web);
        assert_eq!(of("/apis/example.com/v1/namespaces/a/bindings", body).0, "bindings");
    }
}
