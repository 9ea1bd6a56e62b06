//! The messages of Kubernetes' Go types, printed by a Go program that reads the struct tags.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::{e2e, files};

/// The Go program.
const PROGRAM: &str = "e2e/protobuf-tables";

/// The parsed output of the program.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Go modules with their versions.
    pub(super) modules: Vec<String>,
    /// Version, kind, message; sorted by version and kind.
    pub(super) kinds: BTreeMap<(String, String), String>,
    /// Sorted by name; the number of a message is its position.
    pub(super) messages: BTreeMap<String, Vec<Field>>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u8,
    pub(super) name: String,
    pub(super) card: String,
    pub(super) kind: String,
    pub(super) message: Option<String>,
    pub(super) rule: String,
}

impl Messages {
    /// Runs the program. Returns nothing without Go, and prints a message.
    pub(super) fn of_go() -> Result<Option<Self>, String> {
        if let Some(missing) = e2e::missing() {
            println!("codegen: skipped the output of {PROGRAM}: {missing}");
            return Ok(None);
        }
        let mut go = Command::new("go");
        go.args(["run", ".", "tables"]).current_dir(files::root().join(PROGRAM)).stderr(Stdio::inherit());
        let output = go.output().map_err(|error| format!("go: {error}"))?;
        if !output.status.success() {
            return Err(format!("{PROGRAM}: {}", output.status));
        }
        let text = String::from_utf8(output.stdout).map_err(|error| format!("{PROGRAM}: {error}"))?;
        Self::parse(&text).map(Some)
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut messages = Self::default();
        let mut last = None;
        for line in text.lines() {
            let given = |word: &str| (word != "-").then(|| word.to_owned());
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["module", module, version] => messages.modules.push(format!("{module} {version}")),
                ["kind", version, kind, message] => {
                    messages.kinds.insert(((*version).to_owned(), (*kind).to_owned()), (*message).to_owned());
                }
                ["message", name] => last = Some(messages.messages.entry((*name).to_owned()).or_default()),
                ["field", number, name, card, kind, message, rule] => {
                    let number = number.parse().map_err(|error| format!("{line}: {error}"))?;
                    let fields = last.as_mut().ok_or(format!("{line}: a field without a message"))?;
                    fields.push(Field {
                        number,
                        name: given(name).unwrap_or_default(),
                        card: (*card).to_owned(),
                        kind: (*kind).to_owned(),
                        message: given(message),
                        rule: given(rule).unwrap_or("Plain".into()),
                    });
                }
                _ => return Err(format!("{PROGRAM}: unknown line {line:?}")),
            }
        }
        Ok(messages)
    }
}
