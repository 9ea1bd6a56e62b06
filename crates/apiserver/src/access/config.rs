//! Configuration of access control.

use super::identity::User;
use super::token::Token;
use crate::Error;

/// Access control by roles (RBAC), with users of bearer tokens, as of `kube-apiserver --authorization-mode=RBAC
/// --token-auth-file=FILE`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kinformer_apiserver::{Access, AccessUser, ApiServer};
///
/// let alice = AccessUser::new("t0ken", "alice").groups(["developers"]);
/// let server = ApiServer::builder().access(Access::rbac().user(alice)).start().await?;
/// // The kubeconfig is that of an administrator; Alice needs a binding.
/// println!("kubectl --server {} --token t0ken auth can-i list pods", server.url());
/// # Ok(())
/// # }
/// ```
///
/// * A request without a token is that of `system:anonymous`. An unknown token gets 401.
/// * The administrator, whose token is in the kubeconfig of the server, and every other user in `system:masters` may do
///   everything. The in-process API is not restricted.
/// * Users are impersonated by headers (`kubectl --as`), if they may be.
/// * Service accounts have the tokens that `TokenRequest` issues (`kubectl create token`). Only this server can verify their
///   signatures.
/// * The server starts with the roles and bindings of kube-apiserver. As by kube-controller-manager, cluster roles are
///   aggregated, and each namespace has the service account `default`.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is given to a builder"]
pub struct Access {
    pub(super) users: Vec<StaticUser>,
    pub(super) has_controllers: bool,
}

/// A user with a token.
#[derive(Clone, Debug)]
pub(super) struct StaticUser {
    pub(super) token: Token,
    pub(super) user: User,
}

impl Access {
    /// Requests are allowed by roles and bindings.
    pub fn rbac() -> Self {
        Self { users: Vec::new(), has_controllers: true }
    }

    /// Adds a user.
    pub fn user(mut self, user: AccessUser) -> Self {
        let AccessUser { token, name, uid, groups } = user;
        self.users.push(StaticUser { token, user: User::authenticated(&name, &uid, groups) });
        self
    }

    /// Adds the users of a token file of kube-apiserver: a line for each, `token,user,uid,"group1,group2"`. The groups are
    /// optional.
    ///
    /// # Errors
    /// [`Error::TokenFile`] for a line with fewer than three values, or with a quote that does not end. It names no token.
    pub fn token_file(mut self, text: &str) -> Result<Self, Error> {
        for (line, text) in (1..).zip(text.lines()) {
            if text.is_empty() {
                continue;
            }
            let values = values(text).ok_or(Error::TokenFile { line, reason: "a quote does not end" })?;
            let mut values = values.into_iter();
            let (Some(token), Some(name), Some(uid)) = (values.next(), values.next(), values.next()) else {
                return Err(Error::TokenFile { line, reason: "expected token,user,uid" });
            };
            let groups = values.next();
            let groups = groups.iter().flat_map(|groups| groups.split(','));
            let groups: Vec<&str> = groups.filter(|group| !group.is_empty()).collect();
            self = self.user(AccessUser::new(token, name).uid(uid).groups(groups));
        }
        Ok(self)
    }

    /// Leaves out what kube-controller-manager does: cluster roles are not aggregated, and no service accounts are created.
    pub fn without_controllers(mut self) -> Self {
        self.has_controllers = false;
        self
    }

    pub(crate) fn has_controllers(&self) -> bool {
        self.has_controllers
    }

    /// Whether all tokens are valid in an HTTP header.
    pub(crate) fn is_usable(&self) -> bool {
        self.users.iter().all(|user| user.token.is_usable())
    }
}

/// A user, identified by a bearer token.
#[doc(alias("AddUser", "AuthenticatedUser"))]
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is given to `Access`"]
pub struct AccessUser {
    token: Token,
    name: String,
    uid: String,
    groups: Vec<String>,
}

impl AccessUser {
    /// A user without groups, besides `system:authenticated`.
    pub fn new(token: impl Into<String>, name: impl Into<String>) -> Self {
        let token = Token::new(token.into());
        Self { token, name: name.into(), uid: String::new(), groups: Vec::new() }
    }

    /// Sets the groups.
    pub fn groups(mut self, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.groups = groups.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the UID. Default: none.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }
}

/// Splits a line of comma-separated values, with or without quotes; `None` for a quote that does not end.
fn values(line: &str) -> Option<Vec<String>> {
    let mut values = Vec::new();
    let mut rest = line;
    loop {
        let value = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (value, after) = rest.split_at(end);
                rest = after;
                value.to_owned()
            }
            Some(quoted) => {
                let mut value = String::new();
                rest = quoted;
                loop {
                    let (text, after) = rest.split_once('"')?;
                    value.push_str(text);
                    rest = after;
                    match rest.strip_prefix('"') {
                        Some(after) => {
                            value.push('"');
                            rest = after;
                        }
                        None => break value,
                    }
                }
            }
        };
        values.push(value);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None => return Some(values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: E-25m
    #[test]
    fn token_files_are_those_of_kube_apiserver() {
        let file = "t1,alice,1,\"dev,ops\"\n\nt2,\"b \"\"q\"\"\",2\nt3,carol,3,dev\n";
        let access = Access::rbac().token_file(file).unwrap();
        let users: Vec<_> = access
            .users
            .iter()
            .map(|one| (one.token.secret(), one.user.name.as_str(), &one.user.groups))
            .collect();
        let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            users,
            [
                ("t1", "alice", &groups(&["dev", "ops", "system:authenticated"])),
                ("t2", "b \"q\"", &groups(&["system:authenticated"])),
                ("t3", "carol", &groups(&["dev", "system:authenticated"])),
            ]
        );
        for (file, line) in [("s3cret,alice", 1), ("t1,a,1\ns3cret,\"b", 2)] {
            let error = Access::rbac().token_file(file).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line}")) && !error.contains("s3cret"), "{error}");
        }
    }
}
