//! Objects with Rust types, and in YAML.

use kube_client::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

use super::manifests;
use super::test_cluster::TestCluster;

/// The field manager of [`TestCluster::apply_yaml`].
const MANAGER: &str = "test-cluster";
/// How often a modification is repeated when another write was first.
const ATTEMPTS: usize = 100;

/// These methods call the server without a request: they set and read the state of a test, whatever the faults are, and
/// are not in the log. Requests of a user of the cluster go through [`TestCluster::client`].
///
/// A key is `namespace/name`, or `name`: of a cluster-scoped object, or of one in the namespace `default`.
impl TestCluster {
    /// Stores a new object as it is, including its status. Returns the stored object.
    ///
    /// Custom resources are pruned, defaulted and validated by the schema of their definition, so that no test has an object
    /// that a cluster would refuse.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// # let cluster = kinformer_apiserver::TestCluster::start().await?;
    /// let mut settings = ConfigMap::default();
    /// settings.metadata.name = Some("settings".into());
    /// let settings = cluster.create(&settings)?;
    /// assert!(settings.metadata.uid.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownKind`]; [`Error::Convert`]; [`Error::Status`] with the response that a client would receive.
    pub fn create<K>(&self, object: &K) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        from_value(self.server.create(to_value(object)?)?)
    }

    /// Stores the objects of a text with several documents as they are, in their order.
    ///
    /// # Errors
    /// [`Error::Manifest`], which names the document and the object. The objects before it are stored.
    pub fn create_yaml(&self, text: &str) -> Result<Vec<Value>, Error> {
        self.each(text, |object| self.server.create(object))
    }

    /// Creates or changes the objects of a text by server-side apply, as `kubectl apply --server-side --force-conflicts`
    /// does, by the field manager `test-cluster`. Statuses are ignored where they have a subresource.
    ///
    /// # Errors
    /// As [`Self::create_yaml`].
    pub fn apply_yaml(&self, text: &str) -> Result<Vec<Value>, Error> {
        self.each(text, |object| self.server.apply(object, MANAGER))
    }

    fn each(&self, text: &str, write: impl Fn(Value) -> Result<Value, Error>) -> Result<Vec<Value>, Error> {
        let manifests = manifests::parse("YAML", text)?;
        let write = |manifest: &manifests::Manifest| {
            write(manifest.object.clone()).map_err(|error| manifest.error(&error))
        };
        manifests.iter().map(write).collect()
    }

    /// Returns an object.
    ///
    /// # Errors
    /// [`Error::UnknownKind`]; [`Error::Convert`]; [`Error::Status`] with the code 404 if it does not exist.
    pub fn get<K>(&self, key: &str) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let missing = || {
            let (group, plural) = (K::group(&()), K::plural(&()));
            let subject = crate::status::Subject { group: &group, resource: &plural };
            Error::Status(crate::Status::not_found(subject, key))
        };
        self.get_opt(key)?.ok_or_else(missing)
    }

    /// Returns an object; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error::UnknownKind`]; [`Error::Convert`].
    pub fn get_opt<K>(&self, key: &str) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let (namespace, name) = self.place::<K>(key)?;
        let found = self.server.get(&K::api_version(&()), &K::kind(&()), namespace, name)?;
        found.map(from_value).transpose()
    }

    /// Returns all objects of a kind, ordered by namespace and name.
    ///
    /// # Errors
    /// [`Error::UnknownKind`]; [`Error::Convert`].
    pub fn list<K>(&self) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let objects = self.server.list(&K::api_version(&()), &K::kind(&()), "")?;
        objects.into_iter().map(from_value).collect()
    }

    /// Changes an object, its status included, as another client would. The function is called again if the object was
    /// written meanwhile. Returns the stored object.
    ///
    /// # Errors
    /// As [`Self::create`]; 404 if the object does not exist.
    pub fn modify<K>(&self, key: &str, mut change: impl FnMut(&mut K)) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let mut attempt = 1;
        loop {
            let mut object = self.get(key)?;
            change(&mut object);
            match self.server.update(to_value(&object)?) {
                Err(Error::Status(status)) if status.code() == 409 && attempt < ATTEMPTS => attempt += 1,
                updated => return from_value(updated?),
            }
        }
    }

    /// Deletes an object as a client would: one with finalizers remains until they are removed. What follows, such as the
    /// deletion of its dependents, has happened when this returns.
    ///
    /// # Errors
    /// [`Error::UnknownKind`]; [`Error::Status`] with the response that a client would receive.
    pub fn delete<K: Resource<DynamicType = ()>>(&self, key: &str) -> Result<(), Error> {
        let (namespace, name) = self.place::<K>(key)?;
        self.server.delete(&K::api_version(&()), &K::kind(&()), namespace, name).map(drop)
    }

    fn place<'a, K: Resource<DynamicType = ()>>(&self, key: &'a str) -> Result<(&'a str, &'a str), Error> {
        let namespaced = self.server.is_namespaced(&K::api_version(&()), &K::kind(&()))?;
        Ok(key.split_once('/').unwrap_or((if namespaced { "default" } else { "" }, key)))
    }
}

/// Returns the object with its type, which a Rust value may lack.
fn to_value<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Result<Value, Error> {
    let convert = |source| Error::Convert {
        kind: K::kind(&()).into_owned(),
        key: object.meta().name.clone().unwrap_or_default(),
        source,
    };
    let mut value = serde_json::to_value(object).map_err(convert)?;
    if let Value::Object(fields) = &mut value {
        fields.entry("apiVersion").or_insert_with(|| K::api_version(&()).into());
        fields.entry("kind").or_insert_with(|| K::kind(&()).into());
    }
    Ok(value)
}

fn from_value<K: Resource<DynamicType = ()> + DeserializeOwned>(object: Value) -> Result<K, Error> {
    K::deserialize(&object).map_err(|source| Error::Convert {
        kind: K::kind(&()).into_owned(),
        key: object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("").to_owned(),
        source,
    })
}
