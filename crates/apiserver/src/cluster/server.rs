//! What a test cluster needs of its server, besides the public methods.

use std::io;

use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::watch;

use crate::access::Token;
use crate::api::{Api, Applied, DryRun, Part, Write};
use crate::apply::Conflicts;
use crate::http::connect;
use crate::server::name_of;
use crate::{ApiServer, Error};

impl ApiServer {
    /// Returns a function that opens a connection to this server within the process.
    pub(super) fn connector(&self) -> impl Fn() -> io::Result<DuplexStream> + Clone + use<> {
        let (context, tasks) = (self.context.clone(), self.tasks.clone());
        move || connect(&context, &tasks)
    }

    /// Signals each write.
    pub(super) fn activity(&self) -> watch::Receiver<()> {
        self.api().activity.subscribe()
    }

    /// Returns the token of the administrator.
    pub(super) fn token(&self) -> Option<&str> {
        self.context.access.administrator().map(Token::secret)
    }

    /// Returns the token of a user, if it has one.
    pub(super) fn token_of(&self, user: &str) -> Option<&str> {
        self.context.access.token_of(user).map(Token::secret)
    }

    /// Whether roles decide about requests.
    pub(super) fn has_roles(&self) -> bool {
        self.context.access.has_roles()
    }

    /// Whether the objects of a kind are in namespaces.
    pub(super) fn is_namespaced(&self, api_version: &str, kind: &str) -> Result<bool, Error> {
        Ok(self.resource(api_version, kind)?.kind.namespaced)
    }

    /// Creates or changes an object by server-side apply, as a client does that takes the fields of other managers.
    pub(super) fn apply(&self, object: Value, manager: &str) -> Result<Value, Error> {
        self.api().writes(|| {
            let (resource, namespace, object) = self.place(object)?;
            let (name, object) = (name_of(&object), Value::Object(object));
            let write = Write::of(Part::Object, DryRun::No, manager);
            let forced = Conflicts::Forced;
            let applied = self.api().apply(&resource, &namespace, &name, &object, forced, write)?;
            let (Applied::Created(stored) | Applied::Updated(stored)) = applied;
            Ok(Value::Object(Api::served(&resource, &stored)))
        })
    }
}
