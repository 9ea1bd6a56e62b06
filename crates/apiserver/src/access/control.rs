//! The decisions: who the user is, and whether a request is allowed.

use std::ops::ControlFlow;
use std::sync::Arc;

use ::http::HeaderMap;
use parking_lot::Mutex;

use super::attributes::Attributes;
use super::config::{Access, StaticUser};
use super::covers::quoted_list;
use super::decision::Decision;
use super::identity::User;
use super::impersonation::{self, Modes};
use super::issued::{AUDIENCE, Issued};
use super::policy::{Policy, PolicyCache};
use super::token::{Token, bearer};
use crate::clock::Clock;
use crate::registry::Registry;
use crate::status::Status;

/// The access rules of a server.
pub(crate) struct AccessControl {
    /// Whether roles decide; otherwise every request is allowed.
    has_roles: bool,
    /// The token of the administrator.
    administrator: Option<Token>,
    users: Vec<StaticUser>,
    pub(super) issued: Issued,
    policies: PolicyCache,
    impersonation: Mutex<Modes>,
}

impl AccessControl {
    /// With the token of the administrator; without one, one is made up if roles decide.
    pub(crate) fn new(access: Option<&Access>, token: Option<Token>) -> Self {
        let made_up = || Token::new(uuid::Uuid::new_v4().simple().to_string());
        Self {
            has_roles: access.is_some(),
            administrator: token.or_else(|| access.map(|_| made_up())),
            users: access.map(|access| access.users.clone()).unwrap_or_default(),
            issued: Issued::default(),
            policies: PolicyCache::default(),
            impersonation: Mutex::default(),
        }
    }

    /// Whether roles decide.
    pub(crate) fn has_roles(&self) -> bool {
        self.has_roles
    }

    /// The token of the administrator, for kubeconfigs.
    pub(crate) fn administrator(&self) -> Option<&Token> {
        self.administrator.as_ref()
    }

    /// Whether a request without a token is that of the administrator: nothing protects the server from web pages then.
    pub(crate) fn is_open(&self) -> bool {
        self.administrator.is_none()
    }

    /// Whether a user has a token of its own.
    #[cfg(feature = "test-cluster")]
    pub(crate) fn token_of(&self, user: &str) -> Option<&Token> {
        self.users.iter().find(|known| known.user.name == user).map(|known| &known.token)
    }

    /// Returns the user of a request.
    ///
    /// # Errors
    /// 401 for an unknown token, and without roles for none, unless the path is public.
    pub(crate) fn authenticate(
        &self,
        registry: &Registry,
        clock: &Clock,
        headers: &HeaderMap,
        path: &str,
    ) -> Result<User, Status> {
        let Some(given) = bearer(headers) else {
            return match &self.administrator {
                None => Ok(User::administrator()),
                Some(_) if self.has_roles || is_public(path) => Ok(User::anonymous()),
                Some(_) => Err(Status::unauthorized()),
            };
        };
        match self.user_of(registry, clock, given, &[AUDIENCE.to_owned()]) {
            Ok((user, _)) => Ok(user),
            // Tokens are no matter there.
            Err(_) if self.is_open() => Ok(User::administrator()),
            Err(_) => Err(Status::unauthorized()),
        }
    }

    /// Returns the user of a token that is meant for one of the audiences, and those of its audiences.
    ///
    /// # Errors
    /// Why the token is not accepted.
    pub(super) fn user_of(
        &self,
        registry: &Registry,
        clock: &Clock,
        given: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), String> {
        const INVALID: &str = "invalid bearer token";
        // All tokens are compared, so that the time does not depend on them.
        let known = self.users.iter().fold(None, |found, known| {
            if known.token.is(given) { found.or(Some(known.user.clone())) } else { found }
        });
        let administrator = self.administrator.as_ref().filter(|token| token.is(given));
        let known = known.or_else(|| administrator.map(|_| User::administrator()));
        if let Some(user) = known {
            let is_meant = audiences.iter().any(|audience| audience == AUDIENCE);
            return if is_meant { Ok((user, vec![AUDIENCE.into()])) } else { Err(INVALID.into()) };
        }
        match self.issued.user_of(registry, clock, given) {
            None => Err(INVALID.into()),
            Some(Err(why)) => Err(format!("[{INVALID}, {why}]")),
            Some(Ok((user, own))) => {
                let both: Vec<String> = own.iter().filter(|one| audiences.contains(one)).cloned().collect();
                if both.is_empty() {
                    let (own, audiences) = (quoted_list(&own), quoted_list(audiences));
                    let why =
                        format!("token audiences {own} is invalid for the target audiences {audiences}");
                    return Err(format!("[{INVALID}, {why}]"));
                }
                Ok((user, both))
            }
        }
    }

    /// Returns the user that the request wants to be.
    ///
    /// # Errors
    /// 400 for headers without a user, 403 without the right to be it.
    pub(crate) fn impersonate(
        &self,
        registry: &Registry,
        user: User,
        headers: &HeaderMap,
        asked: impl FnOnce() -> Attributes,
    ) -> Result<User, Status> {
        let Some(wanted) = impersonation::wanted(headers)? else { return Ok(user) };
        let authorize = |asked: &Attributes| self.decide(registry, &user, asked);
        self.impersonation.lock().check(&user, &wanted, &asked(), &authorize)
    }

    /// Decides about a request, or about what a review asks. Follows Kubernetes 1.37 (`RBACAuthorizer`).
    pub(crate) fn decide(&self, registry: &Registry, user: &User, asked: &Attributes) -> Decision {
        if !self.has_roles || user.is_privileged() {
            return Decision::allowed();
        }
        let policy = self.policies.get(registry);
        let mut decision = Decision::default();
        let errors = policy.visit(user, &asked.namespace, |bound| {
            if !bound.rule.allows(asked) {
                return ControlFlow::Continue(());
            }
            decision = Decision { allowed: true, reason: format!("RBAC: allowed by {bound}") };
            ControlFlow::Break(())
        });
        let errors = errors.text();
        if !decision.allowed && !errors.is_empty() {
            decision.reason = format!("rbac: RBAC: {errors}");
        }
        decision
    }

    /// # Errors
    /// 403 if the user may not do this.
    pub(crate) fn check(&self, registry: &Registry, user: &User, asked: &Attributes) -> Result<(), Status> {
        match self.decide(registry, user, asked) {
            Decision { allowed: true, .. } => Ok(()),
            Decision { reason, .. } => Err(asked.forbidden(&user.name, &reason)),
        }
    }

    pub(super) fn policy(&self, registry: &Registry) -> Arc<Policy> {
        self.policies.get(registry)
    }
}

/// Whether a path is public. Follows Kubernetes 1.37 (`system:public-info-viewer`).
fn is_public(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("healthz" | "livez" | "readyz" | "version"))
}
