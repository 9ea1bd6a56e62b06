//! `kinformer get`: prints objects with the columns of the server, in kubectl's formats.
//!
//! It requests what kubectl requests. Only `--index` and `--list-indexes` read through an informer.

mod columns;
pub(crate) mod format;
mod index;
mod requests;
mod rows;
mod show;
mod targets;
mod template;
mod watch;

use kinformer::Snapshot;
use serde_json::Value;

use crate::args::{GetArgs, GlobalArgs, SelectorArgs};
use crate::connect::Connection;
use crate::display_fields::DisplayFields;
use crate::exit::{self, Error};
use crate::namespaces::Namespaces;
use crate::output::Output;
use crate::resources::{Catalogue, Served};
use crate::selectors;
use crate::session::Discovered;
use crate::stop::Stop;
use crate::text::{self, Text};

use format::GetFormat;
use requests::{Form, Found, Requests};
use show::Layout;
use targets::{Name, Target, Words};
use template::Path;

/// Prints objects.
///
/// # Errors
/// Any [`Error`]. Of several, the last is returned and the others are printed.
pub(crate) async fn run(args: GetArgs, global: &GlobalArgs, stop: Stop) -> Result<(), Error> {
    selectors::check(&args.selectors)?;
    let words = Words::parse(&args.words, &Namespaces::of(&global.scope, None))?;
    let query = args.index.as_deref().map(index::Query::parse).transpose()?;
    let sort_by = args.sort_by.as_deref().map(str::parse).transpose().map_err(Error::Usage)?;
    check(&args, &words)?;
    let Some(Discovered { connection, catalogue }) = Discovered::begin(global, &stop).await? else {
        return Ok(());
    };
    let targets = words.targets(&catalogue)?;
    let given = connection.namespaces(&global.scope);
    let selected = selected(&connection, &catalogue, &given);
    let Some(namespaces) = stop.unless(selected).await.transpose()? else { return Ok(()) };
    let (output, written) = Output::stdout()?;
    let get = Get {
        args: &args,
        connection: &connection,
        requests: Requests::new(&connection, form(&args), &args.selectors, &namespaces),
        given,
        namespaces,
        sort_by,
        query,
        output: output.clone(),
        stop: &stop,
    };
    let result = if args.watch { get.watch(&targets).await } else { get.read(&targets).await };
    drop(get);
    connection.close().await;
    let written = written.finish(output, Text::default(), &stop).await;
    result.and(written)
}

/// The names of the objects of some resources that a label selector matches.
///
/// # Errors
/// As those of a request.
pub(crate) async fn names_of(
    connection: &Connection,
    served: &[Served],
    namespaces: &Namespaces,
    labels: Option<&str>,
) -> Result<Vec<String>, Error> {
    let selectors = SelectorArgs { selector: labels.map(str::to_owned), field_selector: None };
    let requests = Requests::new(connection, Form::Rows, &selectors, namespaces);
    let mut names = Vec::new();
    for served in served {
        for namespace in namespaces.places(served) {
            if let (Found::Rows(rows), _) = requests.list(served, namespace, None).await? {
                names.extend(rows.rows.iter().map(|row| row.metadata("name").to_owned()));
            }
        }
    }
    Ok(names)
}

/// The namespaces of the command line, with the names of those that are selected by their labels.
///
/// # Errors
/// As those of a request.
async fn selected(
    connection: &Connection,
    catalogue: &Catalogue,
    given: &Namespaces,
) -> Result<Namespaces, Error> {
    let Some(selector) = given.selector() else { return Ok(given.clone()) };
    let served = catalogue.find_all(&["namespaces".to_owned()], &["list"])?;
    Ok(given.within(names_of(connection, &served, &Namespaces::default(), Some(selector)).await?))
}

fn form(args: &GetArgs) -> Form {
    match args.output {
        GetFormat::Table { .. } if args.sort_by.is_some() => Form::RowsWithObjects,
        GetFormat::Table { .. } => Form::Rows,
        _ => Form::Objects,
    }
}

/// Checks flags that do not go with names.
///
/// # Errors
/// [`Error::Usage`].
fn check(args: &GetArgs, words: &Words) -> Result<(), Error> {
    let by_selector = args.selectors.selector.is_some() || args.selectors.field_selector.is_some();
    match words.has_names() {
        true if by_selector => Err(Error::Usage("names and selectors cannot be used together".into())),
        true if args.index.is_some() || args.list_indexes => {
            Err(Error::Usage("names and indexes cannot be used together".into()))
        }
        _ => Ok(()),
    }
}

/// One run of the command.
struct Get<'a> {
    args: &'a GetArgs,
    connection: &'a Connection,
    /// The namespaces of the command line.
    given: Namespaces,
    /// These, with the names of those that are selected by their labels.
    namespaces: Namespaces,
    requests: Requests<'a>,
    sort_by: Option<Path>,
    query: Option<index::Query>,
    output: Output,
    stop: &'a Stop,
}

impl Get<'_> {
    /// Reads and prints the objects, unless a stop comes first.
    async fn read(&self, targets: &[Target]) -> Result<(), Error> {
        if self.args.list_indexes {
            return self.list_indexes(targets).await;
        }
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for target in targets {
            let Some(result) = self.stop.unless(self.find(target, &mut errors)).await else { return Ok(()) };
            match result {
                Ok(objects) => found.push((target, objects)),
                Err(error) => errors.push(error),
            }
        }
        let is_empty = found.iter().all(|(_, objects)| objects.len() == 0);
        // An error means that the reader has closed the output.
        let _ = self.output.lines(self.print(&found)).await;
        let has_table = matches!(
            self.args.output,
            GetFormat::Table { .. } | GetFormat::Name | GetFormat::CustomColumns(_)
        );
        if is_empty && errors.is_empty() && has_table {
            let of_namespace = targets.iter().any(|target| target.served.namespaced);
            text::to_stderr(&show::nothing(self.namespaces.only().filter(|_| of_namespace)));
        }
        if is_empty {
            self.check_namespaces(targets).await;
        }
        let last = errors.pop();
        errors.iter().for_each(exit::print);
        last.map_or(Ok(()), Err)
    }

    /// The namespaces to read of a resource, each by its own request: `None` for all.
    fn places<'n>(&'n self, target: &Target, name: Option<&'n Name>) -> Vec<Option<&'n str>> {
        match name.and_then(|name| name.namespace.as_deref()) {
            Some(namespace) if target.served.namespaced => vec![Some(namespace)],
            _ => self.namespaces.places(&target.served),
        }
    }

    /// Finds the objects of a target. Adds an error for each name without an object.
    async fn find(&self, target: &Target, errors: &mut Vec<Error>) -> Result<Found, Error> {
        let Target { served, names } = target;
        let mut found = if names.is_empty() {
            let mut found = self.list(target, errors).await?;
            if let Some(query) = &self.query {
                let read = self.snapshot(served).await?;
                let keys = read.map(|snapshot| query.keys(&snapshot)).transpose()?.unwrap_or_default();
                found.retain(&keys);
            }
            found
        } else {
            let mut found = self.requests.none();
            for name in names {
                match self.find_named(target, name).await {
                    Ok(one) if one.len() > 0 => found.append(one),
                    Ok(_) => errors.push(Error::NotFound(format!("{} {:?}", served.name(), name.name))),
                    Err(error) => errors.push(error),
                }
            }
            found
        };
        if let Some(path) = &self.sort_by {
            show::sort(&mut found, path);
        }
        Ok(found)
    }

    /// Lists the objects of a target. A namespace that fails hides no other: its error is added.
    async fn list(&self, target: &Target, errors: &mut Vec<Error>) -> Result<Found, Error> {
        let mut found = self.requests.none();
        let (mut failed, mut has_listed) = (Vec::new(), false);
        for namespace in self.places(target, None) {
            match self.requests.list(&target.served, namespace, None).await {
                Ok((one, _)) => {
                    has_listed = true;
                    found.append(one);
                }
                Err(error) => failed.push(error),
            }
        }
        match failed.pop() {
            Some(last) if !has_listed => {
                errors.extend(failed);
                Err(last)
            }
            last => {
                errors.extend(failed.into_iter().chain(last));
                Ok(found)
            }
        }
    }

    /// Reads a resource into an informer.
    async fn snapshot(&self, served: &Served) -> Result<Option<Snapshot<DisplayFields>>, Error> {
        let selectors = &self.args.selectors;
        index::snapshot(self.connection, served, &self.namespaces, selectors, self.stop).await
    }

    /// Finds the objects of a name: those in some namespaces, or in all.
    async fn find_named(&self, target: &Target, name: &Name) -> Result<Found, Error> {
        let mut found = self.requests.none();
        for namespace in self.places(target, Some(name)) {
            if target.served.namespaced && namespace.is_none() {
                found.append(self.requests.list(&target.served, None, Some(&name.name)).await?.0);
            } else if let Some(one) = self.requests.get(&target.served, namespace, &name.name).await? {
                found.append(one);
            }
        }
        Ok(found)
    }

    fn layout(&self, targets: usize, names_have_namespaces: bool) -> Layout {
        Layout {
            wide: matches!(self.args.output, GetFormat::Table { wide: true }),
            namespaces: self.namespaces.only().is_none() || names_have_namespaces,
            kinds: targets > 1,
            labels: self.args.show_labels,
            headers: !self.args.no_headers,
        }
    }

    fn print(&self, found: &[(&Target, Found)]) -> Text {
        let mut text = Text::default();
        let (mut objects, mut is_first) = (Vec::new(), true);
        let names = || found.iter().flat_map(|(target, _)| &target.names);
        let layout = self.layout(found.len(), names().any(|name| name.namespace.is_some()));
        for (target, found) in found {
            match (found, &self.args.output) {
                (Found::Rows(rows), _) if rows.rows.is_empty() => {}
                (Found::Rows(rows), _) => {
                    if !std::mem::take(&mut is_first) {
                        text.line(format_args!(""));
                    }
                    let lines = layout.lines(&target.served, rows, &mut Vec::new());
                    lines.iter().for_each(|line| text.push(line));
                }
                (Found::Objects(some), GetFormat::Name) => {
                    show::names(&target.served, some).iter().for_each(|line| text.push(line));
                }
                (Found::Objects(some), _) => objects.extend(some.iter().cloned()),
            }
        }
        let is_alone = names().count() == 1;
        let has_output = !is_alone || !objects.is_empty();
        match &self.args.output {
            GetFormat::Table { .. } | GetFormat::Name => text,
            GetFormat::CustomColumns(_) if objects.is_empty() => text,
            GetFormat::CustomColumns(columns) => {
                let lines = columns.lines(&objects, layout.headers, &mut Vec::new());
                lines.iter().for_each(|line| text.push(line));
                text
            }
            _ if has_output => show::objects(&self.args.output, &objects, is_alone),
            _ => text,
        }
    }

    async fn list_indexes(&self, targets: &[Target]) -> Result<(), Error> {
        let in_json = matches!(self.args.output, GetFormat::Json);
        for target in targets {
            let Some(snapshot) = self.snapshot(&target.served).await? else { return Ok(()) };
            // An error means that the reader has closed the output.
            let _ = self.output.lines(index::render(&snapshot, in_json)?).await;
        }
        Ok(())
    }

    /// Says which namespaces do not exist, if nothing was found in them.
    async fn check_namespaces(&self, targets: &[Target]) {
        if !targets.iter().any(|target| target.served.namespaced) {
            return;
        }
        for namespace in self.given.names() {
            if self.stop.unless(self.requests.has_no_namespace(namespace)).await == Some(true) {
                text::to_stderr(&text::Line::new(format_args!("there is no namespace {namespace:?}")));
            }
        }
    }
}

impl Found {
    fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.rows.len(),
            Self::Objects(objects) => objects.len(),
        }
    }

    /// Adds the objects of another answer of the same form.
    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Rows(rows), Self::Rows(other)) => {
                if !other.columns.is_empty() {
                    rows.columns = other.columns;
                }
                rows.rows.extend(other.rows);
            }
            (Self::Objects(objects), Self::Objects(other)) => objects.extend(other),
            (Self::Rows(_), Self::Objects(_)) | (Self::Objects(_), Self::Rows(_)) => {}
        }
    }

    /// Keeps the objects of these keys.
    fn retain(&mut self, keys: &index::Keys) {
        let is_kept = |object: &Value| {
            let metadata =
                |field: &str| object.get("metadata").and_then(|metadata| metadata.get(field)?.as_str());
            keys.contains(&index::key(metadata("namespace"), metadata("name").unwrap_or_default()))
        };
        match self {
            Self::Rows(rows) => rows.rows.retain(|row| is_kept(&row.object)),
            Self::Objects(objects) => objects.retain(|object| {
                serde_json::from_str(object.get()).is_ok_and(|object: Value| is_kept(&object))
            }),
        }
    }
}
