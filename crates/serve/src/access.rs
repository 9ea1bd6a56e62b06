//! Access that the API server decides: who sends a request, and whether the path is allowed.
//!
//! Follows controller-runtime 0.25 (`filters.WithAuthenticationAndAuthorization`), with the times of its caches.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, header};
use kinformer_core::internal::with_causes;
use kube_client::Client;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use crate::guard::{bearer, unauthorized};
use crate::reply::Failure;

/// How long a request waits for the API server.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the user of a token is kept, or that it has none.
const USER_AGE: Duration = Duration::from_secs(60);
/// How long it is kept that a user is allowed to read a path, and that it is not.
const ALLOWED_AGE: Duration = Duration::from_secs(300);
const DENIED_AGE: Duration = Duration::from_secs(30);
/// The most answers of each kind that are kept.
const KEPT: usize = 1024;
/// The longest token, and the longest text of a user and a path for which an answer is kept.
const TOKEN_BYTES: usize = 16 * 1024;
const KEY_BYTES: usize = 10_000;
/// How many reviews are requested at the same time.
const REVIEWS: usize = 16;

/// The prefix of reviewed paths that start with `/api`.
const PREFIX: &str = "/kinformer";

const TOKENS: (&str, &str) = ("authentication.k8s.io", "TokenReview");
const ACCESS: (&str, &str) = ("authorization.k8s.io", "SubjectAccessReview");

/// The checks by the API server.
pub(crate) struct Access {
    client: Client,
    users: Cache<Option<Arc<User>>>,
    decisions: Cache<bool>,
    reviews: Semaphore,
}

/// A user as a TokenReview names it.
#[derive(Debug)]
struct User {
    name: String,
    /// The fields of a SubjectAccessReview that name it.
    spec: Map<String, Value>,
    /// Their text.
    identity: String,
}

impl Access {
    pub(crate) fn new(client: Client) -> Self {
        let (users, decisions) = (Cache::default(), Cache::default());
        Self { client, users, decisions, reviews: Semaphore::new(REVIEWS) }
    }

    /// # Errors
    /// 401: there is no token, or it is none of a user. 403: the user is not allowed to read the path. 500: the API server
    /// has not answered in time, or with an error.
    pub(crate) async fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Failure> {
        let token = bearer(headers).filter(|token| token.len() <= TOKEN_BYTES).ok_or_else(|| {
            unauthorized(
                "this server requires the header Authorization: Bearer TOKEN, with a token of the cluster",
            )
        })?;
        let checked = tokio::time::timeout(TIMEOUT, self.decide(method, path, token)).await;
        checked.unwrap_or_else(|_| Err(failed(&format!("no answer within {} s", TIMEOUT.as_secs()))))
    }

    async fn decide(&self, method: &Method, path: &str, token: &str) -> Result<(), Failure> {
        let Some(user) = self.users.get(token, self.user(token)).await? else {
            return Err(unauthorized("the token is not one of a user of the cluster"));
        };
        let verb = method.as_str().to_ascii_lowercase();
        let path = reviewed(path);
        let key = format!("{verb} {path} {}", user.identity);
        let review = self.is_allowed(&user, &verb, &path);
        let is_allowed = match key.len() > KEY_BYTES {
            true => review.await?.0,
            false => self.decisions.get(&key, review).await?,
        };
        if is_allowed {
            return Ok(());
        }
        let message = format!("the user {:?} is not allowed to {verb} the path {path:?}", user.name);
        Err(Failure::new(StatusCode::FORBIDDEN, "Forbidden", message))
    }

    /// Requests a TokenReview.
    async fn user(&self, token: &str) -> Result<(Option<Arc<User>>, Duration), Failure> {
        let status = self.review(TOKENS, json!({"token": token})).await?;
        if status.get("authenticated") != Some(&Value::Bool(true)) {
            return Ok((None, USER_AGE));
        }
        let field = |name: &str| status.pointer(&format!("/user/{name}")).cloned().unwrap_or_default();
        let name = field("username").as_str().unwrap_or_default().to_owned();
        let fields = [("user", "username"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra")];
        let spec: Map<_, _> = fields.iter().map(|(to, from)| ((*to).to_owned(), field(from))).collect();
        let identity = Value::from(spec.clone()).to_string();
        Ok((Some(Arc::new(User { name, spec, identity })), USER_AGE))
    }

    /// Requests a SubjectAccessReview.
    async fn is_allowed(&self, user: &User, verb: &str, path: &str) -> Result<(bool, Duration), Failure> {
        let mut spec = user.spec.clone();
        spec.insert("nonResourceAttributes".to_owned(), json!({"verb": verb, "path": path}));
        let status = self.review(ACCESS, spec.into()).await?;
        Ok(match status.get("allowed") {
            Some(Value::Bool(true)) => (true, ALLOWED_AGE),
            _ => (false, DENIED_AGE),
        })
    }

    /// Returns the status of a review.
    async fn review(&self, (group, kind): (&str, &str), spec: Value) -> Result<Value, Failure> {
        let review = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
        let request = Request::post(format!("/apis/{group}/v1/{}s", kind.to_ascii_lowercase()))
            .header(header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| failed(&error.to_string()))?;
        // Never closed.
        let _permit = self.reviews.acquire().await.ok();
        match self.client.request::<Value>(request).await {
            Ok(answer) => Ok(answer.get("status").cloned().unwrap_or_default()),
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(review = kind, %error, "the API server has not decided about a request");
                Err(failed(&error))
            }
        }
    }
}

/// The path of a review: decoded, as in Go. In every cluster, the role `system:discovery` allows all users to read `/api/*`,
/// which is the discovery of kube-apiserver, so paths of that name have a prefix of their own.
fn reviewed(path: &str) -> String {
    let path = percent_decode_str(path).decode_utf8_lossy();
    let prefix = if path.starts_with("/api") { PREFIX } else { "" };
    format!("{prefix}{path}")
}

fn failed(error: &str) -> Failure {
    Failure::internal(format!("the API server has not decided whether the request is allowed: {error}"))
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

/// Answers that are kept for a time. Of the same answer, one is requested at a time.
struct Cache<T>(Mutex<Table<T>>);

struct Table<T> {
    cells: HashMap<Box<str>, Cell<T>>,
    /// The keys of the cells, each once, in the order in which they were added.
    order: VecDeque<Box<str>>,
}

type Cell<T> = Arc<OnceCell<(T, Instant)>>;

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::new(Table { cells: HashMap::new(), order: VecDeque::new() }))
    }
}

impl<T: Clone> Cache<T> {
    /// Returns a kept answer, or requests one. If the request fails, or is dropped, the next caller repeats it.
    async fn get(
        &self,
        key: &str,
        request: impl Future<Output = Result<(T, Duration), Failure>>,
    ) -> Result<T, Failure> {
        let cell = self.cell(key);
        let requested = async {
            let (answer, age) = request.await?;
            Ok::<_, Failure>((answer, Instant::now() + age))
        };
        let (answer, _) = cell.get_or_try_init(|| requested).await?;
        Ok(answer.clone())
    }

    fn cell(&self, key: &str) -> Cell<T> {
        let mut table = self.0.lock();
        if let Some(cell) = table.cells.get(key)
            && cell.get().is_none_or(|(_, until)| Instant::now() < *until)
        {
            return cell.clone();
        }
        let cell = Cell::default();
        if table.cells.insert(key.into(), cell.clone()).is_none() {
            table.order.push_back(key.into());
        }
        if table.order.len() > KEPT
            && let Some(oldest) = table.order.pop_front()
        {
            table.cells.remove(&oldest);
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(cache: &Cache<usize>, key: &str, answer: usize) -> usize {
        cache.get(key, async { Ok((answer, USER_AGE)) }).await.unwrap()
    }

    // contract: H-33c
    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_a_time() {
        let cache = Cache::default();
        assert_eq!(get(&cache, "a", 1).await, 1);
        tokio::time::advance(USER_AGE - Duration::from_millis(1)).await;
        assert_eq!(get(&cache, "a", 2).await, 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(get(&cache, "a", 2).await, 2);
    }

    // contract: H-33c
    #[tokio::test(start_paused = true)]
    async fn number_of_answers_is_limited() {
        let cache = Cache::default();
        for number in 0..=KEPT {
            get(&cache, &number.to_string(), number).await;
        }
        let table = cache.0.lock();
        assert_eq!((table.cells.len(), table.order.len()), (KEPT, KEPT));
        assert!(!table.cells.contains_key("0") && table.cells.contains_key("1"));
    }

    /// One caller requests for all; if it fails or goes away, the next one does.
    // contract: H-33d
    #[tokio::test(start_paused = true)]
    async fn one_request_at_a_time() {
        let (cache, release) = (Cache::default(), Semaphore::new(0));
        let first = cache.get("a", async {
            release.acquire().await.unwrap().forget();
            Err(failed("no"))
        });
        let second = cache.get("a", async { Ok((2, USER_AGE)) });
        let third = cache.get("a", async { panic!("requested twice") });
        let (mut first, mut second, third) = (Box::pin(first), Box::pin(second), Box::pin(third));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        release.add_permits(1);
        assert!(first.await.is_err());
        assert_eq!((second.await.unwrap(), third.await.unwrap()), (2, 2));
        let dropped = cache.get("b", std::future::pending());
        assert!(futures::poll!(Box::pin(dropped)).is_pending());
        assert_eq!(get(&cache, "b", 3).await, 3);
    }
}
