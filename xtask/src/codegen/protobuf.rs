//! The tables of `kinformer-wire`, written from what Kubernetes' Go types say of themselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use super::{COMMAND, difference, format};
use crate::{e2e, files};

const FILE: &str = "crates/wire/src/protobuf/tables.rs";
/// The Go program that prints the types.
const PROGRAM: &str = "e2e/protobuf-tables";

/// Writes the tables, where Go is present.
pub(super) fn run() -> Result<(), String> {
    let Some(text) = generate()? else { return Ok(()) };
    let path = files::root().join(FILE);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("codegen: {FILE}");
    Ok(())
}

/// Tells whether the committed tables are not what would be written, where Go is present.
pub(super) fn problems() -> Result<Vec<String>, String> {
    let Some(text) = generate()? else { return Ok(Vec::new()) };
    let committed = fs::read_to_string(files::root().join(FILE)).unwrap_or_default();
    Ok(difference(&committed, &text, FILE).into_iter().collect())
}

/// Nothing where there is no Go, which is told.
fn generate() -> Result<Option<String>, String> {
    if let Some(missing) = e2e::missing() {
        println!("codegen: skipped {FILE}: {missing}");
        return Ok(None);
    }
    let mut go = Command::new("go");
    go.args(["run", ".", "tables"]).current_dir(files::root().join(PROGRAM)).stderr(Stdio::inherit());
    let output = go.output().map_err(|error| format!("go: {error}"))?;
    if !output.status.success() {
        return Err(format!("{PROGRAM}: {}", output.status));
    }
    let text = String::from_utf8(output.stdout).map_err(|error| format!("{PROGRAM}: {error}"))?;
    format(&Tables::parse(&text)?.render()?).map(Some)
}

/// What the program prints.
#[derive(Debug, Default)]
struct Tables {
    /// Go modules and their versions.
    modules: Vec<String>,
    /// Version, kind, message; sorted by version and kind.
    kinds: BTreeMap<(String, String), String>,
    /// Sorted by name; a message's number is its place.
    messages: BTreeMap<String, Vec<Field>>,
}

#[derive(Debug)]
struct Field {
    number: u8,
    name: String,
    card: String,
    kind: String,
    message: Option<String>,
    rule: String,
}

impl Tables {
    fn parse(text: &str) -> Result<Self, String> {
        let mut tables = Self::default();
        let mut last = None;
        for line in text.lines() {
            let given = |word: &str| (word != "-").then(|| word.to_owned());
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["module", module, version] => tables.modules.push(format!("{module} {version}")),
                ["kind", version, kind, message] => {
                    tables.kinds.insert(((*version).to_owned(), (*kind).to_owned()), (*message).to_owned());
                }
                ["message", name] => last = Some(tables.messages.entry((*name).to_owned()).or_default()),
                ["field", number, name, card, kind, message, rule] => {
                    let number = number.parse().map_err(|error| format!("{line}: {error}"))?;
                    let fields = last.as_mut().ok_or(format!("{line}: of no message"))?;
                    fields.push(Field {
                        number,
                        name: given(name).unwrap_or_default(),
                        card: (*card).to_owned(),
                        kind: (*kind).to_owned(),
                        message: given(message),
                        rule: given(rule).unwrap_or("Plain".into()),
                    });
                }
                _ => return Err(format!("{PROGRAM}: {line:?} is not understood")),
            }
        }
        Ok(tables)
    }

    fn render(&self) -> Result<String, String> {
        let numbers: BTreeMap<&str, usize> =
            self.messages.keys().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
        let number_of = |name: &str| numbers.get(name).copied().ok_or(format!("there is no message {name}"));
        let mut names = Names::default();
        let (mut fields, mut starts, mut count) = (String::new(), String::new(), 0_usize);
        for (name, message) in &self.messages {
            write!(starts, "{count}, ").map_err(|error| error.to_string())?;
            count += message.len();
            fields.push_str(&format!("// {name}\n"));
            for field in message {
                let inner = field.message.as_deref().map_or(Ok(0), number_of)?;
                let (at, length) = names.add(&field.name);
                let Field { number, name, card, kind, rule, .. } = field;
                fields.push_str(&format!(
                    "Field::new({number}, Shape::new({card}, {kind}, {inner}), {rule}, {at}, {length}), // {name}\n"
                ));
            }
        }
        starts.push_str(&count.to_string());
        let mut kinds = String::new();
        for ((version, kind), message) in &self.kinds {
            kinds.push_str(&format!("Schema::new({version:?}, {kind:?}, {}),\n", number_of(message)?));
        }
        Ok(format!(
            "// @generated by `{COMMAND}` from {}; not to be edited.\n\n\
             //! What the messages of Kubernetes look like.\n\n\
             use super::schema::Card::*;\nuse super::schema::Kind::*;\nuse super::schema::Rule::*;\n\
             use super::schema::{{Field, Schema, Shape}};\n\n\
             /// Every kind of objects, sorted.\n\
             pub(super) static KINDS: [Schema; {}] = [\n{kinds}];\n\n\
             /// Where the fields of each message begin, and at last where they end.\n\
             #[rustfmt::skip]\npub(super) static MESSAGES: [u16; {}] = [\n{}\n];\n\n\
             /// The names in JSON, one behind the other.\n\
             #[rustfmt::skip]\npub(super) static NAMES: &str = \"{}\";\n\n\
             /// The fields of all messages, of each by ascending number.\n\
             pub(super) static FIELDS: [Field; {count}] = [\n{fields}];\n",
            self.modules.join(", "),
            self.kinds.len(),
            self.messages.len() + 1,
            wrapped(&starts, 100),
            names.text,
        ))
    }
}

/// Breaks a line at its spaces.
fn wrapped(line: &str, width: usize) -> String {
    let mut lines = vec![String::from("   ")];
    for word in line.split_whitespace() {
        if lines.last().is_some_and(|last| last.len() + word.len() >= width) {
            lines.push("   ".into());
        }
        if let Some(last) = lines.last_mut() {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines.join("\n")
}

/// Every name once.
#[derive(Default)]
struct Names {
    text: String,
    places: BTreeMap<String, usize>,
}

impl Names {
    /// Where the name begins, and how long it is.
    fn add(&mut self, name: &str) -> (usize, usize) {
        if name.is_empty() {
            return (0, 0);
        }
        let text = &mut self.text;
        let place = *self.places.entry(name.to_owned()).or_insert_with(|| {
            text.push_str(name);
            text.len() - name.len()
        });
        (place, name.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "module k8s.io/api v0.37.1\nkind v1 Pod p.Pod\nmessage p.Pod\n\
        field 1 metadata One Message p.Meta -\nfield 2 - One Message p.Meta Inline\nmessage p.Meta\n\
        field 11 labels Map Text - -\nfield 2 metadata One Text - OmitZero\n";

    #[test]
    fn what_is_printed_becomes_tables() {
        let text = Tables::parse(PRINTED).unwrap().render().unwrap();
        for part in [
            "from k8s.io/api v0.37.1;",
            "KINDS: [Schema; 1] = [\nSchema::new(\"v1\", \"Pod\", 1),\n];",
            "MESSAGES: [u16; 3] = [\n    0, 2, 4\n];",
            "NAMES: &str = \"labelsmetadata\";",
            "FIELDS: [Field; 4] = [\n// p.Meta\nField::new(11, Shape::new(Map, Text, 0), Plain, 0, 6), // labels\n\
             Field::new(2, Shape::new(One, Text, 0), OmitZero, 6, 8), // metadata\n// p.Pod\n\
             Field::new(1, Shape::new(One, Message, 0), Plain, 6, 8), // metadata\n\
             Field::new(2, Shape::new(One, Message, 0), Inline, 0, 0), // \n];",
        ] {
            assert!(text.contains(part), "{part}\n---\n{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_told() {
        let told = |text: &str| Tables::parse(text).and_then(|tables| tables.render()).unwrap_err();
        assert!(told("fields").contains("\"fields\" is not understood"));
        assert!(told("field 1 a One Text - -").contains("of no message"));
        assert!(told("message m\nfield 300 a One Text - -").contains("field 300"));
        assert!(told("message m\nfield 1 a One Message n -").contains("no message n"));
        assert!(told("kind v1 Pod p").contains("no message p"));
    }

    #[test]
    fn long_lines_are_broken() {
        assert_eq!(wrapped("1, 2, 3", 10), "    1, 2,\n    3");
    }
}
