//! The facade's accessors, one for each built-in kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::output::{COMMAND, format};
use super::source::{SOURCE, Source, between, rust_files};

/// The folder of the accessors.
const FOLDER: &str = "crates/kinformer/src/generated";

/// Resources that can be listed but not watched, which is not in the sources. client-go generates informers for them
/// nevertheless.
const UNWATCHABLE: [&str; 1] = ["componentstatuses"];

/// Generates all files, by path.
pub(super) fn files(source: &Source) -> Result<BTreeMap<String, String>, String> {
    let files = render(&kinds(source)?, source);
    files.into_iter().map(|(name, text)| Ok((format!("{FOLDER}/{name}"), format(&text)?))).collect()
}

/// Returns all kinds that can be listed in some version.
pub(super) fn kinds(source: &Source) -> Result<Vec<Kind>, String> {
    let mut kinds: BTreeMap<Kind, BTreeSet<u32>> = BTreeMap::new();
    for minor in &source.minors {
        let root = source.folder.join(format!("v1_{minor}"));
        for path in rust_files(&root)? {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let module = path.strip_prefix(&root).unwrap_or(&path).with_extension("");
            let module: Vec<&str> = module.iter().filter_map(|part| part.to_str()).collect();
            let kind = Kind::parse(&module, &text);
            if let Some(kind) = kind.map_err(|problem| format!("{}: {problem}", path.display()))? {
                kinds.entry(kind).or_default().insert(*minor);
            }
        }
    }
    let with_minors = |(kind, minors)| Kind { minors, ..kind };
    Ok(kinds.into_iter().map(with_minors).collect())
}

/// A kind that can be listed and has object metadata.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) version: Version,
    /// The name of the accessor: the plural in snake case.
    method: String,
    pub(super) plural: String,
    pub(super) kind: String,
    /// The path of the Rust type.
    path: String,
    pub(super) namespaced: bool,
    /// The minor versions of Kubernetes with this kind; empty until all are read.
    pub(super) minors: BTreeSet<u32>,
}

impl Kind {
    /// Parses the file of one type; `module` is its path below the folder of the Kubernetes version.
    fn parse(module: &[&str], text: &str) -> Result<Option<Self>, String> {
        let Some(name) = between(text, "\nimpl crate::ListableResource for ", " {") else { return Ok(None) };
        let metadata = format!("\nimpl crate::Metadata for {name} {{");
        let metadata =
            text.split_once(&metadata).map(|(_, rest)| rest.split("\n}").next().unwrap_or_default());
        if !metadata.is_some_and(|body| body.contains("::ObjectMeta;")) {
            return Ok(None);
        }
        let resource = format!("\nimpl crate::Resource for {name} {{");
        let (_, resource) =
            text.split_once(&resource).ok_or(format!("{name} is listable but not a Resource"))?;
        let resource = resource.split("\n}").next().unwrap_or_default();
        let constant = |constant: &str| {
            let found = between(resource, &format!("const {constant}: &'static str = \""), "\";");
            found.map(str::to_owned).ok_or(format!("{name} has no {constant}"))
        };
        let namespaced = match between(resource, "type Scope = crate::", ";") {
            Some("NamespaceResourceScope") => true,
            Some("ClusterResourceScope") => false,
            scope => return Err(format!("{name} has the unknown scope {scope:?}")),
        };
        let (file, folders) = module.split_last().ok_or("a file without a name")?;
        let plural = constant("URL_PATH_SEGMENT")?;
        let method = plural_of(file, &plural).ok_or(format!("{plural:?} is not a plural of {file:?}"))?;
        Ok(Some(Self {
            group: constant("GROUP")?,
            version: Version(constant("VERSION")?),
            method,
            plural,
            kind: constant("KIND")?,
            path: format!("k8s_openapi::{}::{name}", folders.join("::")),
            namespaced,
            minors: BTreeSet::new(),
        }))
    }

    /// The name of the group's accessor: the first part of the group's name, as in client-go.
    fn group_method(&self) -> &str {
        match self.group.split('.').next() {
            None | Some("") => "core",
            Some(first) => first,
        }
    }

    fn doc(&self, gate: &str) -> String {
        let api = if self.group.is_empty() {
            self.version.0.clone()
        } else {
            format!("{}/{}", self.group, self.version.0)
        };
        let scope = if self.namespaced { "namespaced" } else { "cluster-scoped" };
        let unwatchable = if UNWATCHABLE.contains(&self.plural.as_str()) {
            "\n///\n/// API servers list this kind, but do not support watching it."
        } else {
            ""
        };
        format!("/// `{}` of `{api}`, {scope}.{gate}{unwatchable}", self.kind)
    }
}

/// Returns a plural in snake case, from a singular in snake case and the plural in one word: `service_cidr` and
/// `servicecidrs` become `service_cidrs`.
fn plural_of(singular: &str, plural: &str) -> Option<String> {
    let Some((before, _)) = singular.rsplit_once('_') else { return Some(plural.to_owned()) };
    let last = plural.strip_prefix(before.replace('_', "").as_str())?;
    Some(format!("{before}_{last}"))
}

/// An API version. Ordered by the preference of Kubernetes: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version(pub(super) String);

impl Version {
    fn rank(&self) -> (u8, std::cmp::Reverse<u32>, std::cmp::Reverse<u32>, &str) {
        use std::cmp::Reverse;
        let number = |text: &str| Reverse(text.parse().unwrap_or(0));
        let rest = self.0.strip_prefix('v').unwrap_or(&self.0);
        for (stage, word) in [(1, "beta"), (2, "alpha")] {
            if let Some((major, minor)) = rest.split_once(word) {
                return (stage, number(major), number(minor), &self.0);
            }
        }
        (0, number(rest), Reverse(0), &self.0)
    }

    /// `V1beta1`.
    fn type_name(&self) -> String {
        capitalized(&self.0)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// A contiguous range of Kubernetes versions.
struct Gate {
    from: Option<u32>,
    to: Option<u32>,
}

impl Gate {
    /// Returns a gate for each contiguous range of minor versions.
    fn of(minors: &BTreeSet<u32>, all: &BTreeSet<u32>) -> Vec<Self> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for minor in minors {
            match runs.last_mut() {
                Some((_, to)) if *to + 1 == *minor => *to = *minor,
                _ => runs.push((*minor, *minor)),
            }
        }
        let gate = |(from, to)| Self {
            from: (Some(&from) != all.first()).then_some(from),
            to: (Some(&to) != all.last()).then_some(to),
        };
        runs.into_iter().map(gate).collect()
    }

    /// Wraps items so that they only exist in these versions.
    fn around(&self, items: &str) -> String {
        let mut text = items.to_owned();
        for (macro_name, minor) in [("k8s_if_le_1_", self.to), ("k8s_if_ge_1_", self.from)] {
            if let Some(minor) = minor {
                text = format!("k8s_openapi::{macro_name}{minor}! {{\n{}\n}}", indented(&text));
            }
        }
        text
    }

    fn doc(&self) -> String {
        match (self.from, self.to) {
            (None, None) => String::new(),
            (Some(from), None) => format!(" Since Kubernetes 1.{from}."),
            (None, Some(to)) => format!(" Until Kubernetes 1.{to}."),
            (Some(from), Some(to)) if from == to => format!(" Only in Kubernetes 1.{from}."),
            (Some(from), Some(to)) => format!(" From Kubernetes 1.{from} to 1.{to}."),
        }
    }
}

/// rustfmt does not format the contents of a macro.
fn indented(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { String::new() } else { format!("    {line}") };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn union(kinds: &[&Kind]) -> BTreeSet<u32> {
    kinds.iter().flat_map(|kind| &kind.minors).copied().collect()
}

/// Renders all files, unformatted, by their paths in the folder.
fn render(kinds: &[Kind], source: &Source) -> BTreeMap<String, String> {
    let mut groups: BTreeMap<&str, Vec<&Kind>> = BTreeMap::new();
    for kind in kinds {
        groups.entry(kind.group_method()).or_default().push(kind);
    }
    let head =
        format!("// @generated by `{COMMAND}` from {SOURCE} {}; not to be edited.\n\n", source.version);
    let (mut files, mut modules) = (BTreeMap::new(), Vec::new());
    for (group, kinds) in groups {
        let present = union(&kinds);
        let gates = Gate::of(&present, &source.minors);
        let items = format!("mod {group};\npub use self::{group}::*;");
        modules.extend(gates.iter().map(|gate| gate.around(&items)));
        files.insert(
            format!("accessors/{group}.rs"),
            format!("{head}{}", render_group(group, &kinds, &present)),
        );
    }
    let index = format!(
        "{head}//! A method for each built-in kind: `factory.core().v1().pods()`.\n//!\n\
         //! The methods have client-go's names in snake case. The available kinds depend on the version feature\n\
         //! of `k8s-openapi` that the program enables.\n\n{}\n",
        modules.join("\n\n")
    );
    files.insert("accessors/mod.rs".to_owned(), index);
    files.insert("mod.rs".to_owned(), format!("{head}//! Generated code.\n\npub mod accessors;\n"));
    files
}

/// Renders the file of one group, which exists only in the minor versions `present`.
fn render_group(group: &str, kinds: &[&Kind], present: &BTreeSet<u32>) -> String {
    let mut versions: BTreeMap<&Version, Vec<&Kind>> = BTreeMap::new();
    for kind in kinds {
        versions.entry(&kind.version).or_default().push(kind);
    }
    let name = capitalized(group);
    let full = kinds.first().map(|kind| kind.group.as_str()).filter(|group| !group.is_empty());
    let about = full.map_or("the core group".to_owned(), |group| format!("the group `{group}`"));
    let (mut accessors, mut types) = (Vec::new(), Vec::new());
    for (version, kinds) in versions {
        for gate in Gate::of(&union(&kinds), present) {
            let (method, type_name, doc) = (&version.0, format!("{name}{}", version.type_name()), gate.doc());
            accessors.push(gate.around(&format!(
                "/// Version `{method}` of the group.{doc}\n\
                 pub fn {method}(self) -> {type_name}<'a> {{\n    {type_name}(self.0)\n}}"
            )));
            let methods = render_methods(&kinds, &gate, present);
            types.push(gate.around(&format!(
                "/// Kinds of {about}, version `{method}`.{doc}\n#[derive(Clone, Copy, Debug)]\n\
                 pub struct {type_name}<'a>(&'a SharedInformerFactory);\n\n\
                 impl {type_name}<'_> {{\n{}\n}}",
                indented(&methods)
            )));
        }
    }
    format!(
        "//! Kinds of {about}.\n\nuse crate::{{Informer, SharedInformerFactory}};\n\n\
         impl SharedInformerFactory {{\n    /// Kinds of {about}.\n    \
         pub fn {group}(&self) -> {name}<'_> {{\n        {name}(self)\n    }}\n}}\n\n\
         /// Kinds of {about}, by version.\n#[derive(Clone, Copy, Debug)]\n\
         pub struct {name}<'a>(&'a SharedInformerFactory);\n\n\
         impl<'a> {name}<'a> {{\n{}\n}}\n\n{}\n",
        indented(&accessors.join("\n\n")),
        types.join("\n\n")
    )
}

/// Renders the accessors of one version of a group, inside the gate of the version.
fn render_methods(kinds: &[&Kind], outer: &Gate, present: &BTreeSet<u32>) -> String {
    let range = outer.from.unwrap_or(0)..=outer.to.unwrap_or(u32::MAX);
    let within = |minors: &BTreeSet<u32>| minors.range(range.clone()).copied().collect();
    let present = within(present);
    let mut methods = Vec::new();
    for kind in kinds {
        for gate in Gate::of(&within(&kind.minors), &present) {
            let (method, path, doc) = (&kind.method, &kind.path, kind.doc(&gate.doc()));
            methods.push(gate.around(&format!(
                "{doc}\npub fn {method}(self) -> Informer<{path}> {{\n    \
                 self.0.informer::<{path}>()\n}}"
            )));
        }
    }
    methods.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "\n/// A set.\npub struct DaemonSet {}\n\nimpl crate::Resource for DaemonSet {\n    \
        const API_VERSION: &'static str = \"apps.x/v1\";\n    const GROUP: &'static str = \"apps.x\";\n    \
        const KIND: &'static str = \"DaemonSet\";\n    const VERSION: &'static str = \"v1\";\n    \
        const URL_PATH_SEGMENT: &'static str = \"daemonsets\";\n    \
        type Scope = crate::NamespaceResourceScope;\n}\n\n\
        impl crate::ListableResource for DaemonSet {\n    const LIST_KIND: &'static str = \"DaemonSetList\";\n}\n\n\
        impl crate::Metadata for DaemonSet {\n    type Ty = crate::apimachinery::ObjectMeta;\n\n    fn f() {}\n}\n";
    const MODULE: [&str; 4] = ["api", "apps", "v1", "daemon_set"];

    fn set() -> Kind {
        Kind::parse(&MODULE, SET).unwrap().unwrap()
    }

    fn minors(minors: &[u32]) -> BTreeSet<u32> {
        minors.iter().copied().collect()
    }

    #[test]
    fn every_listable_kind_is_found_in_its_versions() {
        let source = Source::find().unwrap();
        let kinds = kinds(&source).unwrap();
        for minor in &source.minors {
            let paths = rust_files(&source.folder.join(format!("v1_{minor}"))).unwrap();
            let texts = paths.iter().map(|path| fs::read_to_string(path).unwrap());
            let listable: usize =
                texts.map(|text| text.matches("impl crate::ListableResource for").count()).sum();
            let found = kinds.iter().filter(|kind| kind.minors.contains(minor)).count();
            assert_eq!((found, found > 70), (listable, true), "Kubernetes 1.{minor}");
        }
        let generated: String = files(&source).unwrap().into_values().collect();
        for kind in &kinds {
            let accessor = format!("pub fn {}(", kind.method);
            assert!(generated.contains(&accessor) && generated.contains(&kind.path), "{kind:?}");
        }
    }

    #[test]
    fn kinds_are_parsed_from_their_files() {
        let expected = Kind {
            group: "apps.x".into(),
            version: Version("v1".into()),
            method: "daemon_sets".into(),
            plural: "daemonsets".into(),
            kind: "DaemonSet".into(),
            path: "k8s_openapi::api::apps::v1::DaemonSet".into(),
            namespaced: true,
            minors: BTreeSet::new(),
        };
        assert_eq!(set(), expected);
        assert_eq!(set().group_method(), "apps");
        assert_eq!(set().doc(" Since."), "/// `DaemonSet` of `apps.x/v1`, namespaced. Since.");
        let status = Kind { plural: "componentstatuses".into(), group: String::new(), ..set() };
        assert!(status.doc("").starts_with("/// `DaemonSet` of `v1`, "));
        assert!(
            status
                .doc("")
                .ends_with("\n///\n/// API servers list this kind, but do not support watching it.")
        );
        assert_eq!(status.group_method(), "core");
    }

    #[test]
    fn unknown_text_is_reported_other_types_skipped() {
        let parse = |text: &str| Kind::parse(&MODULE, text);
        assert_eq!(parse("pub struct DaemonSetSpec {}"), Ok(None));
        assert_eq!(parse(&SET.replace("ObjectMeta", "ListMeta")), Ok(None));
        assert_eq!(parse(&SET.replace("Metadata for", "Other for")), Ok(None));
        for (from, to, expected) in [
            ("Resource for DaemonSet {\n    const API", "Resource for X {\n    const API", "not a Resource"),
            ("NamespaceResourceScope", "SubResourceScope", "the unknown scope Some(\"SubResourceScope\")"),
            ("const KIND", "const NAME", "has no KIND"),
            ("\"daemonsets\"", "\"demons\"", "not a plural"),
        ] {
            let problem = parse(&SET.replace(from, to)).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn plurals_are_split_where_the_singular_is() {
        assert_eq!(plural_of("pod", "pods").as_deref(), Some("pods"));
        assert_eq!(plural_of("service_cidr", "servicecidrs").as_deref(), Some("service_cidrs"));
        assert_eq!(
            plural_of("csi_storage_capacity", "csistoragecapacities").unwrap(),
            "csi_storage_capacities"
        );
        assert_eq!(plural_of("service_cidr", "cidrs"), None);
    }

    #[test]
    fn versions_have_the_order_of_kubernetes() {
        let sorted = ["v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha10", "v1alpha2"];
        let mut versions = sorted.map(|version| Version(version.into()));
        versions.reverse();
        versions.sort();
        assert_eq!(versions.map(|version| version.0), sorted);
        assert_eq!(Version("v1beta1".into()).type_name(), "V1beta1");
    }

    #[test]
    fn items_of_some_versions_are_gated() {
        let all = minors(&[33, 34, 35, 36]);
        let gates = |some: &[u32]| -> Vec<String> {
            let gates = Gate::of(&minors(some), &all);
            gates.iter().map(|gate| format!("{}|{}", gate.around("x"), gate.doc())).collect()
        };
        assert_eq!(gates(&[33, 34, 35, 36]), ["x|"]);
        let since = "k8s_openapi::k8s_if_ge_1_35! {\n    x\n}| Since Kubernetes 1.35.";
        assert_eq!(gates(&[35, 36]), [since]);
        let until = "k8s_openapi::k8s_if_le_1_33! {\n    x\n}| Until Kubernetes 1.33.";
        assert_eq!(gates(&[33]), [until]);
        assert_eq!(gates(&[33, 35, 36]), [until, since], "a gap makes two ranges");
        let both = "k8s_openapi::k8s_if_ge_1_34! {\n    k8s_openapi::k8s_if_le_1_35! {\n        x\n    }\n}";
        assert_eq!(gates(&[34, 35]), [format!("{both}| From Kubernetes 1.34 to 1.35.")]);
        assert!(gates(&[34])[0].ends_with("| Only in Kubernetes 1.34."));
    }

    #[test]
    fn a_gate_is_not_repeated_inside_itself() {
        let all = minors(&[33, 34, 35]);
        let (early, late) =
            (Kind { minors: minors(&[34]), ..set() }, Kind { minors: minors(&[34, 35]), ..set() });
        let late = Kind { method: "others".into(), ..late };
        let text = render_group("apps", &[&early, &late], &all);
        assert_eq!(text.matches("k8s_if_ge_1_34!").count(), 2, "the version's method and its type:\n{text}");
        assert_eq!(text.matches("k8s_if_le_1_34!").count(), 1, "one kind:\n{text}");
        let text = render_group("apps", &[&early, &late], &minors(&[34, 35]));
        assert!(!text.contains("k8s_if_ge"), "the module is gated:\n{text}");
    }
}
