//! Kubeconfigs, as kubectl reads them.

use std::collections::HashMap;
use std::fmt;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use kinformer_core::internal::with_causes;
use kube_client::Config;
use kube_client::config::{AuthInfo, AuthProviderConfig, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::Error;
use crate::client::{normalize, parse_server, pem};

/// The extension of a cluster that is passed to exec plugins.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// Returns the configuration that kubectl would use: of the current context of the [kubeconfig](Kubeconfig::read), or
/// of the pod that the program runs in.
///
/// # Errors
/// [`Error::Kubeconfig`] or [`Error::Config`] if the kubeconfig cannot be used, [`Error::NoCluster`] if there is neither
/// a kubeconfig nor a pod.
#[doc(alias("BuildConfigFromFlags", "GetConfigOrDie", "InClusterConfig"))]
pub fn config() -> Result<Config, Error> {
    match Kubeconfig::read()?.filter(|kubeconfig| !kubeconfig.is_empty()) {
        Some(kubeconfig) => kubeconfig.config(None),
        None => Config::incluster().map_err(|source| Error::NoCluster { source: source.into() }),
    }
}

/// One or more kubeconfig files. Entries are checked when they are used, so that a broken entry affects its own contexts
/// only.
///
/// `kube_client::config::Kubeconfig` refuses a file with a broken entry, and keeps empty fields. Otherwise both read the
/// same: files are merged, the first entry of a name is used, and relative paths start at the folder of their file.
/// Follows client-go 0.37 (`tools/clientcmd`), which refuses a file with an entry of another type as well. Of a repeated
/// key in YAML, the last value is used, as in client-go.
#[doc(alias = "BuildConfigFromFlags")]
#[derive(Clone, Default)]
pub struct Kubeconfig {
    origin: String,
    current_context: Option<String>,
    clusters: Vec<Entry>,
    users: Vec<Entry>,
    contexts: Vec<Entry>,
    /// The cluster of every context, instead of its own.
    cluster: Option<String>,
    /// The user of every context, instead of its own.
    user: Option<String>,
}

/// A named cluster, user or context, and the folder of its file.
#[derive(Clone)]
struct Entry {
    name: String,
    value: Value,
    folder: Option<PathBuf>,
}

/// The fields of an object, and the folder of its file.
#[derive(Clone, Default)]
struct Fields {
    values: Map<String, Value>,
    folder: Option<PathBuf>,
}

/// A CA bundle in PEM, and its file if it comes from one.
struct CaBundle {
    pem: Vec<u8>,
    file: Option<PathBuf>,
}

impl fmt::Debug for Kubeconfig {
    /// Formats the names of the contexts, since the entries contain credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig")
            .field("origin", &self.origin)
            .field("current_context", &self.current_context)
            .field("contexts", &self.contexts().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Kubeconfig {
    /// Reads the files of the environment variable `KUBECONFIG` that exist, or else `~/.kube/config`. Returns `None` if
    /// there is no file.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`] if a file cannot be read, or is not a kubeconfig.
    pub fn read() -> Result<Option<Self>, Error> {
        let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
        let paths: Vec<_> = match &named {
            Some(value) => std::env::split_paths(value).collect(),
            None => std::env::home_dir().map(|home| home.join(".kube").join("config")).into_iter().collect(),
        };
        let mut merged: Option<Self> = None;
        for path in paths.iter().filter(|path| path.is_file()) {
            let next = Self::read_from(path)?;
            merged = Some(match merged {
                None => next,
                Some(before) => Self { origin: "KUBECONFIG".to_owned(), ..before.merge(next) },
            });
        }
        Ok(merged)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`] if it cannot be read, or is not a kubeconfig.
    pub fn read_from(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let origin = format!("kubeconfig {}", path.display());
        let text = std::fs::read(path).map_err(|error| error.to_string()).and_then(|bytes| text(&bytes));
        match text {
            Ok(text) => Self::parse(&text, origin, path.parent()),
            Err(reason) => Err(Error::Kubeconfig { origin, reason }),
        }
    }

    /// Reads a text in YAML or JSON. Relative paths in it start at the current folder.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`] if it is not a kubeconfig.
    pub fn from_yaml(text: &str) -> Result<Self, Error> {
        Self::parse(text, "kubeconfig".to_owned(), None)
    }

    fn parse(text: &str, origin: String, folder: Option<&Path>) -> Result<Self, Error> {
        // Without a snippet of the text, which contains credentials.
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::LastWins,
            with_snippet: false,
        };
        let failed = |reason: String| Error::Kubeconfig { origin: origin.clone(), reason };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
                // The first line has the error and its position.
                failed(with_causes(&error).lines().next().unwrap_or_default().to_owned())
            })?;
        let mut merged = Self::default();
        for document in documents {
            let next = match document {
                Value::Null => continue,
                Value::Object(values) => Self::of(values, folder).map_err(&failed)?,
                _ => return Err(failed("it is not a mapping".to_owned())),
            };
            merged = merged.merge(next);
        }
        merged.origin = origin;
        Ok(merged)
    }

    fn of(mut values: Map<String, Value>, folder: Option<&Path>) -> Result<Self, String> {
        let current_context = match values.remove("current-context") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name).filter(|name| !name.is_empty()),
            Some(_) => return Err("current-context is not a text".to_owned()),
        };
        let mut entries = |list: &str, field: &str| match values.remove(list) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(entries)) => {
                Ok(entries.into_iter().filter_map(|entry| Entry::new(entry, field, folder)).collect())
            }
            Some(_) => Err(format!("{list} is not a list")),
        };
        Ok(Self {
            origin: String::new(),
            current_context,
            clusters: entries("clusters", "cluster")?,
            users: entries("users", "user")?,
            contexts: entries("contexts", "context")?,
            ..Self::default()
        })
    }

    /// Adds the entries of the next file whose names are new.
    fn merge(mut self, next: Self) -> Self {
        self.current_context = self.current_context.or(next.current_context);
        for (entries, next) in [
            (&mut self.clusters, next.clusters),
            (&mut self.users, next.users),
            (&mut self.contexts, next.contexts),
        ] {
            for entry in next {
                if entries.iter().all(|known| known.name != entry.name) {
                    entries.push(entry);
                }
            }
        }
        self
    }

    /// Where it comes from, for messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The name of the current context.
    pub fn current_context(&self) -> Option<&str> {
        self.current_context.as_deref()
    }

    /// The names of the contexts.
    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        self.contexts.iter().map(|context| context.name.as_str())
    }

    /// Whether it has neither a context nor the name of one, like an empty file.
    pub fn is_empty(&self) -> bool {
        self.current_context.is_none() && self.contexts.is_empty()
    }

    /// The names of the clusters.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.iter().map(|cluster| cluster.name.as_str())
    }

    /// The names of the users.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.users.iter().map(|user| user.name.as_str())
    }

    /// Uses a cluster of this kubeconfig with every context, instead of the context's own, as `kubectl --cluster`. Then the
    /// kubeconfig needs no current context.
    #[must_use]
    pub fn with_cluster(self, name: impl Into<String>) -> Self {
        Self { cluster: Some(name.into()), ..self }
    }

    /// Uses a user of this kubeconfig with every context, instead of the context's own, as `kubectl --user`.
    #[must_use]
    pub fn with_user(self, name: impl Into<String>) -> Self {
        Self { user: Some(name.into()), ..self }
    }

    /// Returns the configuration of a context; `None` for the current one. A CA file is read now, and again by
    /// [`client`](crate::client) when it has changed.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`] if there is no such context or it has no cluster, [`Error::Config`] if a field is invalid.
    pub fn config(&self, context: Option<&str>) -> Result<Config, Error> {
        let failed = |reason: String| Error::Kubeconfig { origin: self.origin.clone(), reason };
        let name = context.or(self.current_context());
        let context = match name {
            Some(name) => find(&self.contexts, name, "context")?
                .ok_or_else(|| failed(format!("it has no context {name:?}, only {}", self.listed())))?,
            None if self.cluster.is_some() => Fields::default(),
            None => return Err(failed(format!("it has no current context, only {}", self.listed()))),
        };
        let named = |what: &str, entry: &str, given: bool| {
            let by = name.filter(|_| !given).map(|name| format!(", which the context {name:?} names"));
            failed(format!("it has no {what} {entry:?}{}", by.unwrap_or_default()))
        };
        let cluster = self.cluster.clone().map_or_else(|| context.text("cluster"), |name| Ok(Some(name)))?;
        let cluster = cluster.unwrap_or_default();
        let cluster = find(&self.clusters, &cluster, "cluster")?
            .ok_or_else(|| named("cluster", &cluster, self.cluster.is_some()))?;
        let user = match self.user.clone().map_or_else(|| context.text("user"), |name| Ok(Some(name)))? {
            None => Fields::default(),
            Some(user) => {
                find(&self.users, &user, "user")?.ok_or_else(|| named("user", &user, self.user.is_some()))?
            }
        };
        let mut config = cluster.cluster()?;
        if let Some(namespace) = context.text("namespace")? {
            config.default_namespace = namespace;
        }
        config.auth_info = user.auth_info(&cluster)?;
        normalize(&mut config)?;
        Ok(config)
    }

    /// The names of the contexts, for messages.
    fn listed(&self) -> String {
        let names: Vec<_> = self.contexts().collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

impl Entry {
    /// `None` if it has no name: nothing can refer to it.
    fn new(entry: Value, field: &str, folder: Option<&Path>) -> Option<Self> {
        let Value::Object(mut entry) = entry else { return None };
        let Some(Value::String(name)) = entry.remove("name") else { return None };
        let value = entry.remove(field).unwrap_or_default();
        Some(Self { name, value, folder: folder.map(Path::to_owned) })
    }
}

/// Returns the fields of the entry of a name.
///
/// # Errors
/// [`Error::Config`] if its value is not a mapping.
fn find(entries: &[Entry], name: &str, field: &'static str) -> Result<Option<Fields>, Error> {
    let Some(entry) = entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
    let values = match &entry.value {
        Value::Null => Map::new(),
        Value::Object(values) => values.clone(),
        _ => return Err(invalid(field, "is not a mapping")),
    };
    Ok(Some(Fields { values, folder: entry.folder.clone() }))
}

impl Fields {
    /// A text that is not empty.
    fn text(&self, field: &'static str) -> Result<Option<String>, Error> {
        match self.values.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(_) => Err(invalid(field, "is not a text")),
        }
    }

    fn flag(&self, field: &'static str) -> Result<bool, Error> {
        match self.values.get(field) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(invalid(field, "is neither true nor false")),
        }
    }

    fn list(&self, field: &'static str) -> Result<Vec<Value>, Error> {
        match self.values.get(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list.clone()),
            Some(_) => Err(invalid(field, "is not a list")),
        }
    }

    fn texts(&self, field: &'static str) -> Result<Vec<String>, Error> {
        self.list(field)?.into_iter().map(|value| text_of(value, field)).collect()
    }

    fn object(&self, field: &'static str) -> Result<Option<Self>, Error> {
        match self.values.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(values)) => {
                Ok(Some(Self { values: values.clone(), folder: self.folder.clone() }))
            }
            Some(_) => Err(invalid(field, "is not a mapping")),
        }
    }

    /// A path. A relative one starts at the folder of the file.
    fn path(&self, field: &'static str) -> Result<Option<String>, Error> {
        let Some(path) = self.text(field)? else { return Ok(None) };
        let Some(folder) = &self.folder else { return Ok(Some(path)) };
        match folder.join(path).into_os_string().into_string() {
            Ok(path) => Ok(Some(path)),
            Err(_) => Err(invalid(field, "is in a folder whose name is not UTF-8")),
        }
    }

    /// Data in base64.
    fn data(&self, field: &'static str) -> Result<Option<Vec<u8>>, Error> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        let data = pem::base64(&text).ok_or_else(|| invalid(field, "is not base64"))?;
        Ok(Some(data).filter(|data| !data.is_empty()))
    }

    /// Data in base64, which stays encoded.
    fn encoded(&self, field: &'static str) -> Result<Option<String>, Error> {
        Ok(if self.data(field)?.is_some() { self.text(field)? } else { None })
    }

    fn ca(&self) -> Result<Option<CaBundle>, Error> {
        if let Some(pem) = self.data("certificate-authority-data")? {
            return Ok(Some(CaBundle { pem, file: None }));
        }
        let Some(path) = self.path("certificate-authority")? else { return Ok(None) };
        match std::fs::read(&path) {
            Ok(pem) => Ok(Some(CaBundle { pem, file: Some(path.into()) })),
            Err(error) => Err(invalid("certificate-authority", &format!("{path:?} cannot be read: {error}"))),
        }
    }

    /// The configuration of a cluster.
    fn cluster(&self) -> Result<Config, Error> {
        let server = self.text("server")?.ok_or_else(|| invalid("server", "is missing"))?;
        let mut config = Config::new(parse_server(&server)?);
        config.accept_invalid_certs = self.flag("insecure-skip-tls-verify")?;
        config.disable_compression = self.flag("disable-compression")?;
        config.tls_server_name = self.text("tls-server-name")?;
        let proxy = self.text("proxy-url")?.map(|url| url.parse()).transpose();
        config.proxy_url = proxy.map_err(|error| invalid("proxy-url", &format!("is not a URL: {error}")))?;
        if let Some(CaBundle { pem, file }) = self.ca()? {
            let certificates = pem::certificates(&pem);
            if certificates.is_empty() {
                return Err(invalid("certificate-authority", "has no certificate"));
            }
            config.root_cert = Some(certificates);
            config.root_cert_file = file;
        }
        Ok(config)
    }

    /// The credentials of a user of a cluster.
    fn auth_info(&self, cluster: &Self) -> Result<AuthInfo, Error> {
        let extra = self.object("as-user-extra")?.unwrap_or_default();
        let extra = extra.values.into_iter().map(|(key, values)| match values {
            Value::Null => Ok((key, Vec::new())),
            Value::Array(values) => {
                let values: Result<_, _> =
                    values.into_iter().map(|value| text_of(value, "as-user-extra")).collect();
                Ok((key, values?))
            }
            _ => Err(invalid("as-user-extra", "has a value that is not a list")),
        });
        let provider = self.object("auth-provider")?.map(|provider| provider.auth_provider()).transpose()?;
        let exec = self.object("exec")?.map(|exec| exec.exec(cluster)).transpose()?;
        Ok(AuthInfo {
            username: self.text("username")?,
            password: self.text("password")?.map(Into::into),
            token: self.text("token")?.map(Into::into),
            token_file: self.path("tokenFile")?,
            client_certificate: self.path("client-certificate")?,
            client_certificate_data: self.encoded("client-certificate-data")?,
            client_key: self.path("client-key")?,
            client_key_data: self.encoded("client-key-data")?.map(Into::into),
            impersonate: self.text("as")?,
            impersonate_uid: self.text("as-uid")?,
            impersonate_groups: Some(self.texts("as-groups")?),
            impersonate_user_extra: Some(extra.collect::<Result<_, Error>>()?),
            auth_provider: provider,
            exec,
            ..AuthInfo::default()
        })
    }

    fn auth_provider(&self) -> Result<AuthProviderConfig, Error> {
        let name = self.text("name")?.ok_or_else(|| invalid("auth-provider", "has no name"))?;
        let config = self.object("config")?.unwrap_or_default().values;
        let config = config.into_iter().map(|(key, value)| Ok((key, text_of(value, "auth-provider")?)));
        Ok(AuthProviderConfig {
            name,
            config: config.collect::<Result<_, Error>>()?,
            ..AuthProviderConfig::default()
        })
    }

    /// An exec plugin for a cluster.
    fn exec(&self, cluster: &Self) -> Result<ExecConfig, Error> {
        let command = match self.text("command")? {
            None => return Err(invalid("exec", "has no command")),
            // A bare name is found in `PATH`.
            Some(command) if command.contains(MAIN_SEPARATOR) => self.path("command")?,
            command => command,
        };
        let interactive_mode = match self.text("interactiveMode")?.as_deref() {
            None => None,
            Some("Never") => Some(ExecInteractiveMode::Never),
            Some("IfAvailable") => Some(ExecInteractiveMode::IfAvailable),
            Some("Always") => Some(ExecInteractiveMode::Always),
            Some(_) => return Err(invalid("interactiveMode", "is none of Never, IfAvailable and Always")),
        };
        let env = self.list("env")?.into_iter().map(|variable| {
            let Value::Object(variable) = variable else {
                return Err(invalid("env", "is not a list of mappings"));
            };
            let text = |field: &str| text_of(variable.get(field).cloned().unwrap_or_default(), "env");
            let name = text("name")?;
            if name.is_empty() {
                return Err(invalid("env", "has a variable without a name"));
            }
            Ok(HashMap::from([("name".to_owned(), name), ("value".to_owned(), text("value")?)]))
        });
        let provide_cluster_info = self.flag("provideClusterInfo")?;
        Ok(ExecConfig {
            api_version: self.text("apiVersion")?,
            command,
            args: Some(self.texts("args")?),
            env: Some(env.collect::<Result<_, Error>>()?),
            install_hint: self.text("installHint")?,
            interactive_mode,
            provide_cluster_info,
            cluster: if provide_cluster_info { Some(cluster.exec_cluster()?) } else { None },
            ..ExecConfig::default()
        })
    }

    /// The description of a cluster for an exec plugin.
    fn exec_cluster(&self) -> Result<ExecAuthCluster, Error> {
        let extensions = self.list("extensions")?;
        let mut extensions = extensions.iter().filter_map(Value::as_object);
        let extension = extensions
            .find(|extension| extension.get("name").and_then(Value::as_str) == Some(EXEC_EXTENSION));
        Ok(ExecAuthCluster {
            server: self.text("server")?,
            insecure_skip_tls_verify: self.flag("insecure-skip-tls-verify")?.then_some(true),
            certificate_authority_data: self.ca()?.map(|bundle| bundle.pem),
            proxy_url: self.text("proxy-url")?,
            tls_server_name: self.text("tls-server-name")?,
            config: extension.and_then(|extension| extension.get("extension")).cloned(),
        })
    }
}

/// A text within a list or a mapping. Null is an empty text, as in Go.
fn text_of(value: Value, field: &'static str) -> Result<String, Error> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text),
        _ => Err(invalid(field, "has a value that is not a text")),
    }
}

fn invalid(field: &'static str, problem: &str) -> Error {
    Error::Config { field, problem: problem.to_owned() }
}

/// Decodes UTF-8, or UTF-16 with a byte order mark.
fn text(bytes: &[u8]) -> Result<String, String> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks(2).map(|two| two.try_into().map(unit));
        let units: Result<Vec<_>, _> = units.collect();
        units.ok().and_then(|units| String::from_utf16(&units).ok())
    };
    let text = match bytes {
        [0xff, 0xfe, bytes @ ..] => utf16(bytes, u16::from_le_bytes),
        [0xfe, 0xff, bytes @ ..] => utf16(bytes, u16::from_be_bytes),
        bytes => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        }
    };
    text.ok_or_else(|| "it is not a text in UTF-8 or UTF-16".to_owned())
}
