//! Whether the rules of a user cover those that the user grants to others.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{Rule, has, url_covers};
use crate::apply::quoted;

/// Returns the granted rules that the owner's do not cover, as text, one a line; empty if all are covered.
///
/// Follows Kubernetes 1.37 (`Covers`, `CompactRules`, `CompactString`).
pub(super) fn missing(owned: &[&Rule], granted: &[Rule]) -> String {
    let parts = granted.iter().flat_map(parts);
    let missing: Vec<Rule> = parts.filter(|part| !owned.iter().any(|rule| covers(rule, part))).collect();
    let texts: BTreeSet<String> = compacted(missing).iter().map(text).collect();
    texts.into_iter().collect::<Vec<_>>().join("\n")
}

/// Splits a rule into rules with one verb, one resource or URL, and at most one name.
fn parts(rule: &Rule) -> Vec<Rule> {
    let mut parts = Vec::new();
    let one = |text: &String| vec![text.clone()];
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = Rule {
                    api_groups: one(group),
                    resources: one(resource),
                    verbs: one(verb),
                    ..Rule::default()
                };
                if rule.resource_names.is_empty() {
                    parts.push(part);
                    continue;
                }
                let named = rule.resource_names.iter();
                parts.extend(named.map(|name| Rule { resource_names: one(name), ..part.clone() }));
            }
        }
    }
    for url in &rule.non_resource_urls {
        let verbs = rule.verbs.iter();
        parts.extend(verbs.map(|verb| Rule {
            non_resource_urls: one(url),
            verbs: one(verb),
            ..Rule::default()
        }));
    }
    parts
}

/// Whether a rule covers one with at most one entry in each list.
fn covers(owner: &Rule, part: &Rule) -> bool {
    let all =
        |owned: &[String], wanted: &[String]| has(owned, "*") || wanted.iter().all(|one| has(owned, one));
    let has_resource = |resource: &String| {
        let of_any = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        has(&owner.resources, "*")
            || has(&owner.resources, resource)
            || of_any.is_some_and(|of_any| has(&owner.resources, &of_any))
    };
    let has_name = owner.resource_names.is_empty()
        || !part.resource_names.is_empty()
            && part.resource_names.iter().all(|name| has(&owner.resource_names, name));
    let mut owned_urls = part
        .non_resource_urls
        .iter()
        .map(|url| owner.non_resource_urls.iter().any(|owned| url_covers(owned, url)));
    all(&owner.verbs, &part.verbs)
        && all(&owner.api_groups, &part.api_groups)
        && part.resources.iter().all(has_resource)
        && has_name
        && owned_urls.all(|owned| owned)
}

/// Merges the verbs of rules that differ in nothing else.
fn compacted(rules: Vec<Rule>) -> Vec<Rule> {
    let mut simple: BTreeMap<[Vec<String>; 3], Vec<String>> = BTreeMap::new();
    let mut compacted = Vec::new();
    for rule in rules {
        if rule.non_resource_urls.is_empty() {
            let key = [rule.api_groups, rule.resources, rule.resource_names];
            simple.entry(key).or_default().extend(rule.verbs);
        } else {
            compacted.push(rule);
        }
    }
    compacted.extend(simple.into_iter().map(|([api_groups, resources, resource_names], verbs)| Rule {
        verbs,
        api_groups,
        resources,
        resource_names,
        ..Rule::default()
    }));
    compacted
}

/// A rule as in messages: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
fn text(rule: &Rule) -> String {
    let lists = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts = lists.iter().filter(|(_, list)| !list.is_empty());
    let parts: Vec<String> = parts.map(|(name, list)| format!("{name}:{}", quoted_list(list))).collect();
    format!("{{{}}}", parts.join(", "))
}

/// A list as Go's `%q` writes it: `["a" "b"]`.
pub(super) fn quoted_list(list: &[String]) -> String {
    let texts: Vec<String> = list.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            ..Rule::default()
        }
    }

    // contract: E-25f
    #[test]
    fn rights_that_are_missing_are_named() {
        let owned = rule(&["get", "list"], &[""], &["pods", "*/status"], &[]);
        let named = rule(&["get"], &[""], &["secrets"], &["a"]);
        let missing = |granted: Rule| missing(&[&owned, &named], &[granted]);
        assert_eq!(missing(rule(&["list"], &[""], &["pods", "nodes/status"], &["x"])), "");
        assert_eq!(missing(rule(&["get"], &[""], &["secrets"], &["a"])), "");
        assert_eq!(
            missing(rule(&["get"], &[""], &["secrets"], &[])),
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#
        );
        assert_eq!(
            missing(rule(&["get", "*"], &["", "apps"], &["pods"], &["a"])),
            "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"*\"]}\n\
             {APIGroups:[\"apps\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"get\" \"*\"]}"
        );
    }
}
