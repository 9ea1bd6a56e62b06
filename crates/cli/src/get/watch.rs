//! `kinformer get --watch`: one watch, as with kubectl, or one for each namespace. It ends when the server ends one.

use futures::{StreamExt, stream};

use super::requests::{Change, Found};
use super::rows::Column;
use super::targets::Target;
use super::{Get, GetFormat, show};
use crate::exit::Error;
use crate::text::Text;

impl Get<'_> {
    /// Prints the objects of one resource, and then each of their changes.
    pub(super) async fn watch(&self, targets: &[Target]) -> Result<(), Error> {
        let [target] = targets else {
            return Err(Error::Usage(
                "--watch needs a single resource; kinformer watch takes several".into(),
            ));
        };
        if target.names.len() > 1 {
            return Err(Error::Usage("--watch needs a single name, or none".into()));
        }
        let watching = self.watch_target(target);
        tokio::select! {
            () = self.output.closed() => Ok(()),
            ended = self.stop.unless(watching) => ended.unwrap_or(Ok(())),
        }
    }

    /// Watches each namespace, until the first watch ends.
    async fn watch_target(&self, target: &Target) -> Result<(), Error> {
        let name = target.names.first();
        let places = self.places(target, name);
        let name = name.map(|name| name.name.as_str());
        let (mut all, mut versions) = (self.requests.none(), Vec::new());
        for namespace in places {
            let (found, version) = self.requests.list(&target.served, namespace, name).await?;
            all.append(found);
            versions.push((namespace, version));
        }
        let columns = match &all {
            Found::Rows(rows) => rows.columns.clone(),
            Found::Objects(_) => Vec::new(),
        };
        let mut widths = Vec::new();
        let first = self.lines(target, &all, true, &mut widths);
        if self.output.lines(first).await.is_err() {
            return Ok(());
        }
        let mut watches = Vec::new();
        for (namespace, version) in versions {
            let changes = self.requests.watch(&target.served, namespace, name, &version).await?;
            watches.push(changes.map(Some).chain(stream::iter([None])).boxed());
        }
        let mut changes = stream::select_all(watches);
        while let Some(Some(change)) = changes.next().await {
            let Some(found) = self.found(target, change?, &columns)? else { continue };
            let lines = self.lines(target, &found, false, &mut widths);
            if self.output.lines(lines).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The object of a change; `None` for a bookmark.
    fn found(&self, target: &Target, change: Change, columns: &[Column]) -> Result<Option<Found>, Error> {
        let failed = |reason: String| Error::BadResponse {
            server: self.connection.server.clone(),
            what: format!("watch {}", target.served.name()),
            reason,
        };
        match change.kind.as_str() {
            "BOOKMARK" => Ok(None),
            "ERROR" => Err(failed(show::status_message(&change.object))),
            _ => match self.args.output {
                GetFormat::Table { .. } => match show::row_of(&change.object, columns) {
                    Some(rows) => Ok(Some(Found::Rows(rows))),
                    None => Err(failed("an event has no object".into())),
                },
                _ => Ok(Some(Found::Objects(vec![change.object]))),
            },
        }
    }

    fn lines(&self, target: &Target, found: &Found, is_first: bool, widths: &mut Vec<u16>) -> Text {
        let mut text = Text::default();
        match (found, &self.args.output) {
            (Found::Rows(rows), _) => {
                let has_namespaces = target.names.iter().any(|name| name.namespace.is_some());
                let layout = self.layout(1, has_namespaces);
                let layout = show::Layout { headers: layout.headers && is_first, ..layout };
                if !(is_first && rows.rows.is_empty()) {
                    layout.lines(&target.served, rows, widths).iter().for_each(|line| text.push(line));
                }
            }
            (Found::Objects(objects), GetFormat::Name) => {
                show::names(&target.served, objects).iter().for_each(|line| text.push(line));
            }
            (Found::Objects(objects), GetFormat::CustomColumns(columns)) => {
                let headers = is_first && !self.args.no_headers;
                if !(is_first && objects.is_empty()) {
                    columns.lines(objects, headers, widths).iter().for_each(|line| text.push(line));
                }
            }
            (Found::Objects(objects), format) => {
                for object in objects {
                    if matches!(format, GetFormat::Yaml) {
                        text.line(format_args!("---"));
                    }
                    text.append(show::objects(format, std::slice::from_ref(object), true));
                }
            }
        }
        text
    }
}
