//! Parameters of lists and watches.

use serde_json::json;

use crate::causes;
use crate::registry::Resource;
use crate::selectors::{FieldSelector, LabelSelector, Selection, ShardSelector};
use crate::status::{Cause, Status, Subject};

use super::context::ShardSelectors;
use super::request::{Query, Target, why_no_number};

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Unset,
    Exact,
    NotOlderThan,
}

/// Validated `ListOptions`.
#[derive(Debug)]
pub(super) struct ListParams {
    pub(super) selection: Selection,
    /// `None` if not set; 0 for any version.
    pub(super) version: Option<u64>,
    pub(super) version_match: Match,
    pub(super) limit: Option<usize>,
    pub(super) continue_token: Option<String>,
    pub(super) timeout_seconds: Option<u64>,
    pub(super) bookmarks: bool,
    pub(super) initial_events: Option<bool>,
}

impl ListParams {
    /// Follows Kubernetes 1.37 (`ValidateListOptions`, `SetListOptionsDefaults`).
    ///
    /// # Errors
    /// 400 for values that do not parse, 422 for invalid combinations, 500 for an invalid shard selector.
    pub(super) fn parse(
        shards: ShardSelectors,
        query: &Query,
        target: &Target,
        resource: &Resource,
        watch: bool,
    ) -> Result<Self, Status> {
        let limit =
            query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        let timeout_seconds = query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        let continue_token = query.get("continue").filter(|token| !token.is_empty()).map(str::to_owned);
        let version_text = query.text("resourceVersion");
        let mut initial_events = query.optional_flag("sendInitialEvents");
        let mut match_text = query.text("resourceVersionMatch");
        if watch && initial_events.is_none() && match_text.is_empty() && matches!(version_text, "" | "0") {
            (initial_events, match_text) = (Some(true), "NotOlderThan");
        }
        let causes = if watch {
            watch_faults(match_text, initial_events, continue_token.is_some())
        } else {
            list_faults(match_text, version_text, initial_events, continue_token.is_some())
        };
        if !causes.is_empty() {
            let subject = Subject { group: "meta.k8s.io", resource: "ListOptions" };
            return Err(Status::invalid(subject, "", causes));
        }
        let version = match version_text {
            "" => None,
            text if watch => Some(version(text)?),
            text => Some(version(text).map_err(|status| {
                Status::bad_request(format!("invalid resource version: {}", status.message()))
            })?),
        };
        let fields = fields(query, target, resource)?;
        Ok(Self {
            selection: Selection {
                namespace: target.namespace().to_owned(),
                labels: LabelSelector::parse(query.text("labelSelector"))?,
                fields,
                shards: shard_selector(shards, query)?,
            },
            version,
            version_match: match match_text {
                "Exact" => Match::Exact,
                "NotOlderThan" => Match::NotOlderThan,
                _ => Match::Unset,
            },
            limit,
            continue_token,
            timeout_seconds,
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events,
        })
    }
}

/// # Errors
/// 500 for a text that is not a number, as kube-apiserver answers reads of an object, and watches.
pub(super) fn version(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|error| {
        let why = why_no_number(&error);
        let message =
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}");
        Status::new(500, "", message)
    })
}

/// # Errors
/// 500 for a text that does not parse, as kube-apiserver answers.
fn shard_selector(shards: ShardSelectors, query: &Query) -> Result<ShardSelector, Status> {
    match query.text("shardSelector") {
        text if shards == ShardSelectors::Honoured && !text.is_empty() => ShardSelector::parse(text)
            .map_err(|error| Status::new(500, "", format!("invalid shard selector: {error}"))),
        _ => Ok(ShardSelector::default()),
    }
}

fn fields(query: &Query, target: &Target, resource: &Resource) -> Result<FieldSelector, Status> {
    let fields = FieldSelector::parse(query.text("fieldSelector"), resource)?;
    match &target.name {
        Some(name) if fields.is_empty() => Ok(FieldSelector::by_name(name)),
        Some(name) if fields.exact("metadata.name") != Some(name) => {
            Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"))
        }
        _ => Ok(fields),
    }
}

const MATCH: &str = "resourceVersionMatch";

fn list_faults(match_text: &str, version: &str, initial_events: Option<bool>, continues: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !match_text.is_empty() {
        if version.is_empty() {
            causes.push(causes::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if continues {
            causes.push(causes::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(match_text, "Exact" | "NotOlderThan") {
            causes.push(causes::not_supported(MATCH, &json!(match_text), &["Exact", "NotOlderThan", ""]));
        }
        if match_text == "Exact" && version == "0" {
            causes.push(causes::forbidden(
                MATCH,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if initial_events.is_some() {
        causes.push(causes::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    causes
}

fn watch_faults(match_text: &str, initial_events: Option<bool>, continues: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    if initial_events.is_some() && match_text != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(causes::forbidden(MATCH, why));
    }
    if !match_text.is_empty() {
        if initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(causes::forbidden(MATCH, why));
        }
        if match_text != "NotOlderThan" {
            causes.push(causes::not_supported(MATCH, &json!(match_text), &["NotOlderThan"]));
        }
        if continues {
            causes.push(causes::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
    }
    causes
}
