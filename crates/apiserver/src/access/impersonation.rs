//! Impersonation: requests with the headers `Impersonate-User`, `-Group`, `-Uid` and `-Extra-…`.
//!
//! Follows Kubernetes 1.37 (`WithConstrainedImpersonation`), without its cache: a right that is taken away is gone at once.

use std::collections::{BTreeMap, HashMap};

use ::http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::attributes::Attributes;
use super::decision::Decision;
use super::identity::{
    ANONYMOUS, AUTHENTICATED, MASTERS, NODE_NAME, NODES, UNAUTHENTICATED, User, as_node, as_service_account,
    service_account_groups,
};
use crate::apply::quoted;
use crate::status::Status;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// From how many values on the right to all of them is looked for first.
const MANY: usize = 4;
/// How many users are remembered.
const REMEMBERED: usize = 10_000;

/// Returns the user that a request wants to be, without groups that follow from its name.
///
/// # Errors
/// 400 for other values without a name.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |value: &::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let decoded = percent_decode_str(key).decode_utf8();
            let key = decoded.map_or_else(|_| key.to_owned(), |key| key.into_owned());
            extra.entry(key).or_default().push(text(value));
        }
    }
    let groups = headers.get_all(GROUP).iter().map(text).collect();
    let wanted = User { name: first(USER), uid: first(UID), groups, extra };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == User::default() {
        return Ok(None);
    }
    let why = format!("requested {} without impersonating a user name", go_text(&wanted));
    Err(Status::bad_request(why))
}

/// A user as Go's `%#v` writes it.
fn go_text(user: &User) -> String {
    let list = |list: &[String]| {
        let texts: Vec<String> = list.iter().map(|text| quoted(text)).collect();
        if texts.is_empty() { "[]string(nil)".into() } else { format!("[]string{{{}}}", texts.join(", ")) }
    };
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{}:{}", quoted(key), list(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:map[string][]string{extra}}}",
        quoted(&user.name),
        quoted(&user.uid),
        list(&user.groups)
    )
}

/// A way to get the right to be another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// Whether the mode is for this user.
    fn is_for(self, wanted: &User, requestor: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = as_node(&wanted.name);
        match self {
            Self::AssociatedNode => {
                let own = requestor.extra.get(NODE_NAME).map(Vec::as_slice);
                only_name
                    && as_service_account(&requestor.name).is_some()
                    && node.is_some_and(|node| matches!(own, Some([own]) if own == node))
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && as_service_account(&wanted.name).is_some(),
            Self::UserInfo => node.is_none() && as_service_account(&wanted.name).is_none(),
            Self::Legacy => true,
        }
    }
}

/// The modes that were successful last, by the name of the user who sent the request. They are tried first, and the error
/// is that of the mode that is tried first.
#[derive(Debug, Default)]
pub(super) struct Modes(HashMap<String, Mode>);

impl Modes {
    /// Returns the other user.
    ///
    /// # Errors
    /// 403 without the right.
    pub(super) fn check(
        &mut self,
        requestor: &User,
        wanted: &User,
        asked: &Attributes,
        authorize: &dyn Fn(&Attributes) -> Decision,
    ) -> Result<User, Status> {
        let check = Check { requestor, wanted, asked, authorize };
        let last = self.0.get(&requestor.name).copied();
        let others = MODES.into_iter().filter(|mode| Some(*mode) != last);
        let mut first_error = None;
        for mode in last.into_iter().chain(others).filter(|mode| mode.is_for(wanted, requestor)) {
            match check.by(mode) {
                Ok(user) => {
                    if self.0.len() < REMEMBERED {
                        self.0.insert(requestor.name.clone(), mode);
                    }
                    return Ok(user);
                }
                Err(status) => first_error = first_error.or(Some(status)),
            }
        }
        Err(first_error.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }
}

/// One request of a user to be another one.
struct Check<'a> {
    requestor: &'a User,
    wanted: &'a User,
    asked: &'a Attributes,
    authorize: &'a dyn Fn(&Attributes) -> Decision,
}

impl Check<'_> {
    fn by(&self, mode: Mode) -> Result<User, Status> {
        let verb = match mode {
            Mode::Legacy => "impersonate".to_owned(),
            mode => {
                let name = mode.name();
                self.allow(&self.asked.with_verb(format!("impersonate-on:{name}:{}", self.asked.verb)))?;
                format!("impersonate:{name}")
            }
        };
        let mut user = self.wanted.clone();
        self.name(mode, &verb, &mut user)?;
        if !self.wanted.uid.is_empty() {
            self.allow(&Attributes::of_resource(AUTHENTICATION, "uids", "", &self.wanted.uid, &verb))?;
        }
        self.groups(mode, &verb)?;
        self.extra(mode, &verb)?;
        let has = |user: &User, group: &str| user.is_in(group);
        let known = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !has(&user, UNAUTHENTICATED) && !has(&user, known) {
            user.groups.push(known.into());
        }
        Ok(user)
    }

    fn allow(&self, asked: &Attributes) -> Result<(), Status> {
        let decision = (self.authorize)(asked);
        if decision.allowed { Ok(()) } else { Err(asked.forbidden(&self.requestor.name, &decision.reason)) }
    }

    fn refuse(&self, asked: &Attributes, why: &str) -> Result<(), Status> {
        Err(asked.forbidden(&self.requestor.name, why))
    }

    /// Checks the name, and sets the groups that follow from it.
    fn name(&self, mode: Mode, verb: &str, user: &mut User) -> Result<(), Status> {
        let group = if mode == Mode::Legacy { "" } else { AUTHENTICATION };
        let asked = |resource: &str, namespace: &str, name: &str| {
            Attributes::of_resource(group, resource, namespace, name, verb)
        };
        let wanted = &self.wanted.name;
        match (as_node(wanted), as_service_account(wanted)) {
            (Some(node), _) if mode != Mode::Legacy => {
                user.groups = vec![NODES.into()];
                let node = if mode == Mode::AssociatedNode { "*" } else { node };
                self.allow(&asked("nodes", "", node))
            }
            (_, Some((namespace, name))) => {
                if user.groups.is_empty() {
                    user.groups = service_account_groups(namespace);
                }
                self.allow(&asked("serviceaccounts", namespace, name))
            }
            _ => self.allow(&asked("users", "", wanted)),
        }
    }

    fn groups(&self, mode: Mode, verb: &str) -> Result<(), Status> {
        let groups = &self.wanted.groups;
        let group = if mode == Mode::Legacy { "" } else { AUTHENTICATION };
        let asked = |name: &str| Attributes::of_resource(group, "groups", "", name, verb);
        if mode != Mode::Legacy {
            if groups.iter().any(String::is_empty) {
                return self.refuse(&asked(""), "impersonating the empty string group is not allowed");
            }
            if self.wanted.is_in(MASTERS) {
                return self.refuse(&asked(MASTERS), "impersonating the system:masters group is not allowed");
            }
            if groups.len() >= MANY && self.allow(&asked("*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|name| self.allow(&asked(name)))
    }

    fn extra(&self, mode: Mode, verb: &str) -> Result<(), Status> {
        let extra = &self.wanted.extra;
        let asked = |key: &str, value: &str| {
            Attributes::of_subresource(AUTHENTICATION, ("userextras", key), value, verb)
        };
        if mode != Mode::Legacy && !extra.is_empty() {
            if let Some(why) = extra_fault(extra) {
                return self.refuse(&asked("", ""), &why);
            }
            let count: usize = extra.values().map(Vec::len).sum();
            if (extra.len() >= MANY || count >= MANY) && self.allow(&asked("*", "*")).is_ok() {
                return Ok(());
            }
        }
        let mut all = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        all.try_for_each(|(key, value)| self.allow(&asked(key, value)))
    }
}

/// Returns why extra values cannot be those of another user. Follows Kubernetes 1.37 (`validateExtra`).
fn extra_fault(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    extra.iter().find_map(|(key, values)| {
        let why = match key.split_once('/') {
            _ if key.is_empty() => "the empty string key in extra is not allowed".to_owned(),
            Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
                if !values.iter().any(String::is_empty) {
                    return None;
                }
                "the empty string value in extra is not allowed".to_owned()
            }
            _ => format!(
                "an invalid key in extra is not allowed: extra.key: Invalid value: {}: must be a domain-prefixed path \
                 (such as \"acme.io/foo\")",
                quoted(key)
            ),
        };
        Some(format!("impersonating {why}"))
    })
}
