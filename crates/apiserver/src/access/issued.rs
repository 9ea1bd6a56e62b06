//! The tokens of service accounts that the server has issued.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::identity::{NODE_NAME, User, service_account_user};
use super::token::Token;
use crate::clock::Clock;
use crate::registry::Registry;
use crate::storage::{Key, Stored};

/// The audience of the server, and the issuer of its tokens.
pub(super) const AUDIENCE: &str = "https://kubernetes.default.svc";
/// How long after its expiration a token is accepted, in seconds. Follows Kubernetes 1.37 (`jwt.DefaultLeeway`).
const LEEWAY: i64 = 60;

/// An object to which a token is bound: it ends with the object.
#[derive(Clone, Debug)]
pub(crate) struct BoundObject {
    /// In the order of the claim: `pod`, `secret` or `node`.
    pub(crate) claim: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The node of a pod, with its UID.
    pub(crate) node: Option<(String, String)>,
}

/// What a token says.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) audiences: Vec<String>,
    pub(super) bound: Option<BoundObject>,
    pub(super) seconds: i64,
}

struct Kept {
    token: Token,
    claims: Claims,
    expires: i64,
}

/// The tokens by their ids, until they expire.
#[derive(Default)]
pub(super) struct Issued(Mutex<HashMap<String, Arc<Kept>>>);

impl Issued {
    /// Issues a token, a JWT with the claims of Kubernetes. Its signature can only be verified here.
    pub(super) fn issue(&self, claims: Claims, now: Timestamp) -> String {
        let id = uuid::Uuid::new_v4().to_string();
        let now = now.as_second();
        let expires = now.saturating_add(claims.seconds);
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = encode(&json!({"alg": "ES256", "kid": "kinformer-apiserver"}));
        let body = encode(&claims.to_json(&id, now, expires));
        let random = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4(), uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
        let signature = URL_SAFE_NO_PAD.encode(random.map(uuid::Uuid::into_bytes).concat());
        let token = format!("{head}.{body}.{signature}");
        let kept = Arc::new(Kept { token: Token::new(token.clone()), claims, expires });
        let mut all = self.0.lock();
        all.retain(|_, kept| kept.expires.saturating_add(LEEWAY) >= now);
        all.insert(id, kept);
        token
    }

    /// Returns the user of a token and its audiences; `None` for a token of another issuer, `Some(Err)` for one that is
    /// not valid.
    pub(super) fn user_of(
        &self,
        registry: &Registry,
        clock: &Clock,
        given: &str,
    ) -> Option<Result<(User, Vec<String>), String>> {
        let body = URL_SAFE_NO_PAD.decode(given.split('.').nth(1)?).ok()?;
        let body: Value = serde_json::from_slice(&body).ok()?;
        if body.get("iss")? != AUDIENCE {
            return None;
        }
        let id = body.get("jti")?.as_str()?;
        let kept = self.0.lock().get(id).cloned();
        let Some(kept) = kept.filter(|kept| kept.token.is(given)) else {
            return Some(Err("go-jose/go-jose: error in cryptographic primitive".into()));
        };
        if clock.now().as_second() > kept.expires.saturating_add(LEEWAY) {
            return Some(Err("service account token has expired".into()));
        }
        Some(kept.claims.user(registry, id).map(|user| (user, kept.claims.audiences.clone())))
    }
}

impl Claims {
    fn to_json(&self, id: &str, now: i64, expires: i64) -> Value {
        let mut kubernetes = json!({"namespace": self.namespace,
            "serviceaccount": {"name": self.name, "uid": self.uid}});
        if let (Some(bound), Some(claims)) = (&self.bound, kubernetes.as_object_mut()) {
            claims.insert(bound.claim.into(), json!({"name": bound.name, "uid": bound.uid}));
            if let Some((name, uid)) = &bound.node {
                claims.insert("node".into(), json!({"name": name, "uid": uid}));
            }
        }
        json!({"aud": self.audiences, "exp": expires, "iat": now, "iss": AUDIENCE, "jti": id,
            "kubernetes.io": kubernetes, "nbf": now, "sub": service_account_user(&self.namespace, &self.name)})
    }

    /// Follows Kubernetes 1.37 (`validator.Validate`).
    fn user(&self, registry: &Registry, id: &str) -> Result<User, String> {
        let account = object(registry, "serviceaccounts", &self.namespace, &self.name)
            .ok_or_else(|| format!("serviceaccounts {:?} not found", self.name))?;
        if account.uid() != self.uid {
            return Err(format!(
                "service account UID ({}) does not match claim ({})",
                account.uid(),
                self.uid
            ));
        }
        let mut user = User::service_account(&self.namespace, &self.name, &self.uid);
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(key.into(), vec![value.to_owned()]);
            }
        };
        extra("authentication.kubernetes.io/credential-id", &format!("JTI={id}"));
        if let Some(bound) = &self.bound {
            let present = object(registry, bound.plural, &bound.namespace, &bound.name);
            if present.is_none_or(|present| present.uid() != bound.uid) {
                return Err("service account token has been invalidated".into());
            }
            match (bound.claim, &bound.node) {
                ("pod", node) => {
                    extra("authentication.kubernetes.io/pod-name", &bound.name);
                    extra("authentication.kubernetes.io/pod-uid", &bound.uid);
                    if let Some((name, uid)) = node {
                        extra(NODE_NAME, name);
                        extra("authentication.kubernetes.io/node-uid", uid);
                    }
                }
                ("node", _) => {
                    extra(NODE_NAME, &bound.name);
                    extra("authentication.kubernetes.io/node-uid", &bound.uid);
                }
                _ => {}
            }
        }
        Ok(user)
    }
}

/// Returns an object of the core group; `namespace` is empty for a cluster-scoped kind.
pub(super) fn object(registry: &Registry, plural: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
    let resource = registry.get("", "v1", plural)?;
    resource.store.get(&Key::new(namespace, name))
}
