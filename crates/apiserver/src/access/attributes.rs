//! What a request asks for, as roles name it.

use ::http::Method;
use percent_encoding::percent_decode_str;

use crate::apply::quoted;
use crate::status::{Status, Subject};

/// What a request asks for. Follows Kubernetes 1.37 (`RequestInfo`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributes {
    /// Whether it is for a resource; otherwise for a path.
    pub(super) is_resource: bool,
    pub(crate) verb: String,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(super) path: String,
}

impl Attributes {
    pub(crate) fn of_request(method: &Method, path: &str, query: &str) -> Self {
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _version, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _version, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => {
                let verb = method.as_str().to_ascii_lowercase();
                return Self { verb, path, ..Self::default() };
            }
        };
        let (special, rest) = match rest {
            [verb @ ("proxy" | "watch"), rest @ ..] if !rest.is_empty() => (Some(*verb), rest),
            rest => (None, rest),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, inner @ ..] => match inner {
                [] | ["status" | "finalize", ..] => (*namespace, rest),
                inner => (*namespace, inner),
            },
            rest => ("", rest),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or("").to_owned();
        let verb = special.unwrap_or(match method.as_str() {
            "POST" => "create",
            "GET" | "HEAD" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        });
        let subresource = if verb == "proxy" { String::new() } else { part(2) };
        let mut attributes = Self {
            is_resource: true,
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: part(0),
            subresource,
            namespace: namespace.to_owned(),
            name: part(1),
            path: String::new(),
        };
        attributes.path = path;
        attributes.without_name(query);
        attributes
    }

    /// Sets the verb of a request for all objects, and the name that it selects.
    fn without_name(&mut self, query: &str) {
        if !self.name.is_empty() {
            return;
        }
        match self.verb.as_str() {
            "delete" => "deletecollection".clone_into(&mut self.verb),
            "get" => {
                let watch = parameter(query, "watch");
                let watches = watch.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
                if watches { "watch" } else { "list" }.clone_into(&mut self.verb);
                let selected =
                    parameter(query, "fieldSelector").and_then(|selector| selected_name(&selector));
                self.name = selected.unwrap_or_default();
            }
            _ => {}
        }
    }

    /// The same with another verb.
    pub(crate) fn with_verb(&self, verb: impl Into<String>) -> Self {
        Self { verb: verb.into(), ..self.clone() }
    }

    pub(crate) fn of_resource(group: &str, resource: &str, namespace: &str, name: &str, verb: &str) -> Self {
        Self {
            is_resource: true,
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..Self::default()
        }
    }

    pub(super) fn of_subresource(
        group: &str,
        (resource, subresource): (&str, &str),
        name: &str,
        verb: &str,
    ) -> Self {
        Self { subresource: subresource.into(), ..Self::of_resource(group, resource, "", name, verb) }
    }

    /// The resource with its subresource, as in roles: `pods/log`.
    pub(super) fn combined(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }

    /// 403, with the words of kube-apiserver. Follows Kubernetes 1.37 (`ForbiddenStatusError`).
    pub(crate) fn forbidden(&self, user: &str, reason: &str) -> Status {
        let (user, verb) = (quoted(user), &self.verb);
        let message = if self.is_resource {
            let (resource, group) = (quoted(&self.combined()), quoted(&self.group));
            let scope = match self.namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quoted(namespace)),
            };
            format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
        } else {
            format!("User {user} cannot {verb} path {}", quoted(&self.path))
        };
        let mut why = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        Status::not_authorized(Subject { group: &self.group, resource: &self.resource }, &self.name, &why)
    }
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.into_iter().find(|(other, _)| *other == name)?;
    Some(percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned())
}

/// Returns the name that a field selector requires.
fn selected_name(selector: &str) -> Option<String> {
    let terms = selector.split(',').filter_map(|term| term.split_once('='));
    let names = terms.filter(|(field, _)| *field == "metadata.name");
    let name = names.map(|(_, value)| value.strip_prefix('=').unwrap_or(value)).next()?;
    let is_segment = name != "." && name != ".." && !name.contains(['/', '%']);
    is_segment.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: E-25a
    #[test]
    fn requests_have_the_verbs_and_names_of_kubernetes() {
        let shown = |method: &Method, uri: &str| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let all = Attributes::of_request(method, path, query);
            if !all.is_resource {
                return format!("{} {}", all.verb, all.path);
            }
            format!("{} {} {} in {:?} {:?}", all.verb, all.group, all.combined(), all.namespace, all.name)
        };
        for (method, uri, expected) in [
            (Method::GET, "/api/v1/pods", "list  pods in \"\" \"\""),
            (Method::HEAD, "/api/v1/pods", "list  pods in \"\" \"\""),
            (Method::GET, "/api/v1/pods?watch", "watch  pods in \"\" \"\""),
            (Method::GET, "/api/v1/watch/pods", "watch  pods in \"\" \"\""),
            (Method::GET, "/api/v1/pods?watch=0&fieldSelector=metadata.name%3Da", "list  pods in \"\" \"a\""),
            (Method::GET, "/api/v1/namespaces/a", "get  namespaces in \"a\" \"a\""),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update  namespaces/finalize in \"a\" \"a\""),
            (Method::POST, "/api/v1/namespaces/a/pods/b/eviction", "create  pods/eviction in \"a\" \"b\""),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection apps deployments in \"a\" \"\"",
            ),
            (Method::PATCH, "/apis/a.b/v1/xs/c/status/d", "patch a.b xs/status in \"\" \"c\""),
            (Method::OPTIONS, "/api/v1/pods", "  pods in \"\" \"\""),
            (Method::GET, "/apis/apps/v1", "get /apis/apps/v1"),
            (Method::POST, "/healthz", "post /healthz"),
        ] {
            assert_eq!(shown(&method, uri), expected, "{method} {uri}");
        }
    }
}
