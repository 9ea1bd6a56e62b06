//! Flags that are accepted before and after the command.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::values::duration;
use crate::token::TokenArgs;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct GlobalArgs {
    /// Log verbosity: -v logs the program, -vv its informers, -vvv everything; RUST_LOG overrides it
    #[arg(short, long = "verbose", action = ArgAction::Count, global = true)]
    pub(crate) verbosity: u8,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Which namespaces are read.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster, for watch, get, serve and version")]
pub(crate) struct ScopeArgs {
    /// Only these namespaces, separated by commas; by default, the namespace of the kubeconfig context. Of several such
    /// flags, the last counts
    #[arg(
        id = "namespace",
        short,
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        action = ArgAction::Set,
        overrides_with = "namespace",
        global = true
    )]
    pub(crate) namespaces: Vec<String>,
    /// All namespaces but this one; several are separated by commas, or the flag is repeated
    #[arg(
        id = "exclude-namespace",
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        action = ArgAction::Append,
        global = true
    )]
    pub(crate) excluded: Vec<String>,
    /// All namespaces with these labels: team=a,env!=test
    #[arg(long, value_name = "SELECTOR", allow_hyphen_values = true, global = true)]
    pub(crate) namespace_selector: Option<String>,
    /// All namespaces
    #[arg(
        short = 'A',
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        action = ArgAction::Set,
        global = true
    )]
    pub(crate) all_namespaces: bool,
}

impl ScopeArgs {
    pub(crate) fn is_given(&self) -> bool {
        !self.namespaces.is_empty()
            || !self.excluded.is_empty()
            || self.namespace_selector.is_some()
            || self.all_namespaces
    }

    /// Returns the message about flags that exclude each other.
    pub(super) fn conflict(&self) -> Option<&'static str> {
        let is_chosen = self.namespace_selector.is_some() || !self.excluded.is_empty();
        (is_chosen && !self.namespaces.is_empty())
            .then_some("--namespace names all namespaces to read, and cannot be used with --exclude-namespace or --namespace-selector")
    }
}

/// Which cluster to connect to, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Cluster, for watch, get, serve and version")]
pub(crate) struct ClusterArgs {
    /// The kubeconfig file; by default $KUBECONFIG, then ~/.kube/config, then the in-cluster configuration
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig context to use
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,
    /// The cluster of the kubeconfig to use, instead of that of the context
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) cluster: Option<String>,
    /// The user of the kubeconfig to use, instead of that of the context
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) user: Option<String>,
    /// The URL of the API server
    #[arg(short, long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    /// The user to impersonate
    #[arg(long = "as", value_name = "USER", global = true)]
    pub(crate) impersonate: Option<String>,
    /// A group to impersonate; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", global = true)]
    pub(crate) impersonate_groups: Vec<String>,
    /// The UID to impersonate
    #[arg(long = "as-uid", value_name = "UID", global = true)]
    pub(crate) impersonate_uid: Option<String>,
    /// A file with the certificates of the authorities that the server's certificate is verified with
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// The name that the server's certificate is verified with, instead of that of the URL
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) tls_server_name: Option<String>,
    /// Accept any server certificate. This is insecure: connections can be intercepted and changed
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// How long a request may take (5s, 2m), and connecting; 0 for no limit. Watches of informers are not limited
    #[arg(long, value_name = "DURATION", value_parser = request_timeout, global = true)]
    pub(crate) request_timeout: Option<Duration>,
    /// Use the simulated in-memory cluster of the demo instead of a real one
    #[arg(long, global = true)]
    pub(crate) embedded: bool,
}

impl ClusterArgs {
    /// Returns the message about flags that exclude each other.
    pub(super) fn conflict(&self) -> Option<&'static str> {
        let Self { embedded, request_timeout, .. } = *self;
        let without = Self { embedded, request_timeout, ..Self::default() };
        if embedded && *self != without {
            return Some(
                "--embedded uses a cluster of its own, and cannot be used with flags that name another one",
            );
        }
        (self.certificate_authority.is_some() && self.insecure_skip_tls_verify)
            .then_some("--certificate-authority cannot be used with --insecure-skip-tls-verify")
    }
}

/// A number without a unit is in seconds, as with kubectl.
fn request_timeout(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| duration(text))
}
