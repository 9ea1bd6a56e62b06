//! Conversion webhooks: objects of a definition with `strategy: Webhook` are converted by them between its versions.
//!
//! An object is stored in the storage version. What a request of another version reads is converted before the request is
//! answered, without a lock: an object, each object of a list, and each event of a watch. A write, which is synchronous,
//! reaches points at which it needs a conversion: the present object, and the object that is stored. It stops there as for
//! admission webhooks: the outcome becomes a part of its session
//! ([`Session::convert`](crate::admission::Session::convert)). The object that was stored is converted back for the answer.
//!
//! Versions that need no conversion are read and written as before. The in-process API of the server calls no webhooks: it
//! only changes the `apiVersion`.
//!
//! Follows Kubernetes 1.37 (`apiextensions-apiserver/pkg/apiserver/conversion`).

mod call;
mod review;
mod unreadable;

pub(crate) use call::convert;
pub(crate) use unreadable::{MAX_UNREADABLE, Unreadable, unlistable, unreadable, unwritable};

use serde::Deserialize;
use serde_json::Value;

use crate::admission::ClientConfig;

/// The webhook of a definition.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ConversionWebhook {
    client_config: ClientConfig,
    conversion_review_versions: Vec<String>,
}

impl ConversionWebhook {
    /// Returns the webhook of a `spec` that is valid; `None` if its objects are not converted.
    pub(crate) fn of(spec: &Value) -> Option<Self> {
        let conversion = spec.get("conversion")?;
        let is_called = conversion.get("strategy").is_some_and(|strategy| strategy == "Webhook");
        Self::deserialize(conversion.get("webhook").filter(|_| is_called)?).ok()
    }
}
