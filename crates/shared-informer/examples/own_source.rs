//! A source of your own: the files of a folder. There is no server, and a key is a path with any number of slashes.
//!
//! `Folder` implements `ListerWatcher`. A list reads the folder; a watch reads it again and again and compares the two
//! states, since a folder has no events of its own here. The version counts the changes. The source keeps one state and no
//! history, so a watch from any other version is expired, and the reflector lists again. Everything else is the informer
//! that Kubernetes objects have: a store with indexes, and events for additions, changes and deletions. The program works
//! in a temporary folder, and ends by itself.
//!
//! `cargo run -p kinformer-shared-informer --example own_source`
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use kinformer_core::{KeyRef, Object, ResourceVersion};
use kinformer_processor::Event;
use kinformer_reflector::{
    Backoff, List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions, WatchStream,
};
use kinformer_shared_informer::SharedIndexInformer;
use kinformer_store::IndexFunction;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The time between two looks at the folder.
const INTERVAL: Duration = Duration::from_millis(10);

struct File {
    path: String,
    text: String,
    version: u64,
}

impl Object for File {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(&self.path) // a name, with all its slashes, and no namespace
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }
}

/// The files of a folder. Clones share the state that was read last.
#[derive(Clone)]
struct Folder {
    root: PathBuf,
    last: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    version: u64,
    /// By their paths in the folder.
    files: BTreeMap<String, Arc<File>>,
}

impl Folder {
    /// Reads the folder. Returns the version before, and the changes since then: one for each version.
    fn read(&self) -> io::Result<(u64, Vec<WatchEvent<File>>)> {
        let mut found = BTreeMap::new();
        read_into(&mut found, &self.root, "")?; // a large folder would be read on another thread
        let mut last = self.last.lock();
        let State { version, files } = &mut *last;
        let (before, mut changes) = (*version, Vec::new());
        for (path, file) in files.extract_if(.., |path, _| !found.contains_key(path)) {
            *version += 1;
            let text = file.text.clone();
            changes.push(WatchEvent::Deleted(Arc::new(File { path, text, version: *version })));
        }
        for (path, text) in found {
            if files.get(&path).is_some_and(|file| file.text == text) {
                continue;
            }
            *version += 1;
            let file = Arc::new(File { path: path.clone(), text, version: *version });
            let old = files.insert(path, file.clone());
            changes.push(if old.is_none() { WatchEvent::Added(file) } else { WatchEvent::Modified(file) });
        }
        Ok((before, changes))
    }

    /// Returns the changes since a version, which must be the last one.
    fn changes_since(&self, seen: u64) -> Vec<Result<WatchEvent<File>, SourceError>> {
        match self.read() {
            Ok((before, changes)) if before == seen => changes.into_iter().map(Ok).collect(),
            Ok(_) => vec![Err(SourceError::expired("another reader has taken the changes"))],
            Err(error) => vec![Err(SourceError::other(error))],
        }
    }
}

/// Reads all files below a folder.
fn read_into(found: &mut BTreeMap<String, String>, folder: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => read_into(found, &entry.path(), &format!("{path}/"))?,
            false => drop(found.insert(path, fs::read_to_string(entry.path())?)),
        }
    }
    Ok(())
}

#[async_trait]
impl ListerWatcher<File> for Folder {
    async fn list(&self, _: ListOptions<File>) -> Result<List<File>, SourceError> {
        self.read().map_err(SourceError::other)?;
        let last = self.last.lock();
        Ok(List::new(last.files.values().cloned(), last.version))
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<File>, SourceError> {
        let seen: u64 = options.resource_version.to_string().parse().map_err(SourceError::other)?;
        let batches = stream::unfold((self.clone(), seen), |(folder, seen)| async move {
            tokio::time::sleep(INTERVAL).await;
            let changes = folder.changes_since(seen);
            let seen = seen + changes.len() as u64; // nothing is read after an error
            Some((stream::iter(changes), (folder, seen)))
        });
        Ok(batches.flatten().boxed())
    }
}

fn by_parent() -> IndexFunction<File> {
    IndexFunction::new(|file: &Arc<File>, values| {
        if let Some((parent, _)) = file.path.rsplit_once('/') {
            values.push(parent);
        }
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = tempfile::tempdir()?;
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(root.path()))?;
        fs::write(path, text)
    };
    write("etc/app/app.toml", "workers = 2")?;
    write("etc/app/conf.d/a.toml", "port = 80")?;

    let folder = Folder { root: root.path().to_owned(), last: Arc::default() };
    let informer = SharedIndexInformer::builder(folder.clone())
        .name("files")
        .index("folder", by_parent())
        .reflector(|options| options.backoff(Backoff::exponential(INTERVAL, INTERVAL))) // it is no shared server
        .build()?;
    let mut events = informer.stream()?;
    let cancel = CancellationToken::new();
    let running = informer.spawn(cancel.clone());
    let mut print_next = async || match events.next().await {
        Some(Event::Added(added)) => println!("added {}: {}", added.object.path, added.object.text),
        Some(Event::Updated(change)) => {
            println!("changed {}: {} -> {}", change.new.path, change.old.text, change.new.text);
        }
        other => println!("deleted {}", other.map(|event| event.key().to_string()).unwrap_or_default()),
    };

    println!("# the list");
    print_next().await;
    print_next().await;
    println!("# changes");
    write("etc/app/conf.d/b.toml", "port = 81")?;
    print_next().await;
    write("etc/app/conf.d/b.toml", "port = 8081")?;
    print_next().await;
    fs::remove_file(root.path().join("etc/app/conf.d/a.toml"))?;
    print_next().await;

    println!("# another reader takes a change, and the informer lists again");
    write("etc/app/conf.d/tls/c.toml", "cert = 'web'")?;
    folder.list(ListOptions::at_version("")).await?;
    print_next().await;
    println!("relists: {}", informer.metrics().reflector.relists);

    println!("# the store");
    let tls = informer.get(KeyRef::named("etc/app/conf.d/tls/c.toml")).ok_or("not stored")?;
    println!("{}: {}", tls.path, tls.text);
    for key in informer.store().index_keys("folder", "etc/app/conf.d")? {
        println!("in etc/app/conf.d: {key}");
    }

    cancel.cancel();
    running.await??;
    Ok(())
}
