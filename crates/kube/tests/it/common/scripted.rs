//! An API server with scripted responses, and the bytes of lists and events in both encodings.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, reason = "a test fails by a panic")]

use std::sync::Arc;
use std::time::Duration;

use kinformer_kube::Encoding;
use kube_client::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The time limit for every wait.
const PATIENCE: Duration = Duration::from_secs(60);

pub const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Protobuf];

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    params: Vec<(String, String)>,
}

impl Request {
    fn new(head: &str) -> Self {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self { params: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn is_watch(&self) -> bool {
        self.param("watch").is_some()
    }

    pub fn is_watch_list(&self) -> bool {
        self.param("sendInitialEvents").is_some()
    }

    /// A short form: `list 7`, `list 7 limit`, `list continue token`, `watch 7`, `watch-list`.
    pub fn text(&self) -> String {
        let version = self.param("resourceVersion").unwrap_or("-");
        match (self.is_watch(), self.param("continue")) {
            (true, _) if self.is_watch_list() => format!("watch-list {version}"),
            (true, _) => format!("watch {version}"),
            (false, Some(token)) => format!("list continue {token}"),
            (false, None) if self.param("limit").is_some() => format!("list {version} limit"),
            (false, None) => format!("list {version}"),
        }
    }
}

/// A scripted response.
pub struct Answer {
    status: String,
    content_type: Option<String>,
    body: Vec<u8>,
    stays_open: bool,
}

impl Answer {
    /// A success in this encoding, which ends after its body.
    pub fn ok(encoding: Encoding, body: Vec<u8>) -> Self {
        let content_type = Some(encoding.media_type().to_owned());
        Self { status: "200 OK".to_owned(), content_type, body, stays_open: false }
    }

    /// Leaves the response open after the body.
    pub fn stays_open(mut self) -> Self {
        self.stays_open = true;
        self
    }

    pub fn status(mut self, status: &str) -> Self {
        status.clone_into(&mut self.status);
        self
    }

    pub fn content_type(mut self, content_type: &str) -> Self {
        self.content_type = Some(content_type.to_owned());
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("HTTP/1.1 {}\r\nconnection: close\r\n", self.status).into_bytes();
        if let Some(content_type) = &self.content_type {
            bytes.extend_from_slice(format!("content-type: {content_type}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A server on loopback. The script receives each request, and the short forms of the earlier ones.
pub struct Scripted {
    config: Config,
    requests: watch::Receiver<Vec<String>>,
}

impl Scripted {
    pub async fn start(answer: impl Fn(&Request, &[String]) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let (sender, requests) = watch::channel(Vec::new());
        let (answer, sender) = (Arc::new(answer), Arc::new(sender));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), sender.clone()));
            }
        });
        Self { config, requests }
    }

    pub fn client(&self) -> Client {
        kinformer_kube::client(self.config.clone()).unwrap()
    }

    /// The requests received so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }

    /// Waits until this request was received.
    pub async fn requested(&self, text: &str) {
        let mut requests = self.requests.clone();
        let there = requests.wait_for(|requests| requests.iter().any(|request| request == text));
        if tokio::time::timeout(PATIENCE, there).await.is_err() {
            panic!("{text} was never requested: {:?}", self.requests());
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: Arc<impl Fn(&Request, &[String]) -> Answer>,
    requests: Arc<watch::Sender<Vec<String>>>,
) {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => head.extend_from_slice(buffer.get(..read).unwrap()),
            _ => return,
        }
    }
    let request = Request::new(&String::from_utf8_lossy(&head));
    let mut before = Vec::new();
    requests.send_modify(|requests| {
        before.clone_from(requests);
        requests.push(request.text());
    });
    let answer = answer(&request, &before);
    let _ = stream.write_all(&answer.bytes()).await;
    if answer.stays_open {
        // Reads until the client hangs up.
        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    }
}

/// The damage of a pod in a list or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    None,
    /// The line or frame is not an event.
    Frame,
    /// The type of the event cannot be read.
    Type,
    /// The metadata cannot be read.
    Metadata,
    /// The name is missing; everything else is valid.
    Name,
    /// The object cannot be decoded, but its key can be read.
    Spec,
}

/// A pod of the namespace `default`.
#[derive(Clone, Copy, Debug)]
pub struct TestPod {
    pub name: &'static str,
    pub version: u64,
    pub damage: Damage,
    /// Its API version and kind.
    pub types: (&'static str, &'static str),
}

pub fn pod(name: &'static str, version: u64) -> TestPod {
    TestPod { name, version, damage: Damage::None, types: ("v1", "Pod") }
}

impl TestPod {
    /// Sets the API version and kind; an empty one is left out.
    pub fn of(mut self, api_version: &'static str, kind: &'static str) -> Self {
        self.types = (api_version, kind);
        self
    }

    pub fn damaged(mut self, damage: Damage) -> Self {
        self.damage = damage;
        self
    }

    fn json(self) -> Value {
        let metadata =
            json!({"name": self.name, "namespace": "default", "resourceVersion": self.version.to_string()});
        let mut pod = json!({"metadata": metadata});
        for (name, text) in [("apiVersion", self.types.0), ("kind", self.types.1)] {
            if !text.is_empty() {
                pod[name] = json!(text);
            }
        }
        match self.damage {
            Damage::Metadata => pod["metadata"] = json!(7),
            Damage::Name => drop(pod["metadata"].as_object_mut().unwrap().remove("name")),
            Damage::Spec => pod["spec"] = json!(7),
            Damage::None | Damage::Frame | Damage::Type => {}
        }
        pod
    }

    fn protobuf(self) -> Vec<u8> {
        let name = if self.damage == Damage::Name { "" } else { self.name };
        let fields = [(1, name), (3, "default"), (6, &self.version.to_string())];
        let mut metadata: Vec<u8> =
            fields.iter().filter(|(_, text)| !text.is_empty()).flat_map(|(n, s)| field(*n, s)).collect();
        if self.damage == Damage::Metadata {
            // A length beyond the end.
            metadata = vec![0x0a, 0x7f];
        }
        let mut pod = field(1, metadata);
        if self.damage == Damage::Spec {
            pod.extend(field(2, [0x0a, 0x7f]));
        }
        pod
    }
}

/// A length-delimited field.
fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 128 {
        field.push(length as u8 | 128);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(bytes);
    field
}

fn envelope(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let types = [field(1, api_version), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, types), field(2, object)].concat()
}

/// A list of pods.
pub fn list(encoding: Encoding, version: &str, pods: &[TestPod]) -> Vec<u8> {
    list_of(encoding, "v1", "PodList", version, "", pods)
}

/// A list with this API version and kind; an empty one is left out.
pub fn list_of(
    encoding: Encoding,
    api_version: &str,
    kind: &str,
    version: &str,
    continue_token: &str,
    pods: &[TestPod],
) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => {
            let metadata = [field(2, version), field(3, continue_token)].concat();
            let items = pods.iter().flat_map(|pod| field(2, pod.protobuf()));
            envelope(api_version, kind, &field(1, metadata).into_iter().chain(items).collect::<Vec<_>>())
        }
        _ => {
            let mut list =
                json!({"metadata": {}, "items": pods.iter().map(|pod| pod.json()).collect::<Vec<_>>()});
            let texts =
                [("/metadata", "resourceVersion", version), ("/metadata", "continue", continue_token)];
            for (place, name, text) in
                [("", "apiVersion", api_version), ("", "kind", kind)].into_iter().chain(texts)
            {
                if !text.is_empty() {
                    list.pointer_mut(place).unwrap()[name] = json!(text);
                }
            }
            list.to_string().into_bytes()
        }
    }
}

/// An event of a watch of pods.
pub fn event(encoding: Encoding, event_type: &str, pod: TestPod) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => {
            let event_type = match pod.damage {
                Damage::Type => b"\xffDDED".to_vec(),
                _ => event_type.as_bytes().to_vec(),
            };
            let mut object = envelope(pod.types.0, pod.types.1, &pod.protobuf());
            if pod.damage == Damage::Frame {
                *object.first_mut().unwrap() ^= 1;
            }
            let event = [field(1, event_type), field(2, field(1, object))].concat();
            frame(&event)
        }
        _ => {
            let mut event = json!({"type": event_type, "object": pod.json()});
            if pod.damage == Damage::Type {
                event["type"] = json!(7);
            }
            let mut line = event.to_string();
            if pod.damage == Damage::Frame {
                line = line.replace("metadata", "metad\u{1}ta");
            }
            line.push('\n');
            line.into_bytes()
        }
    }
}

/// A bookmark, optionally with the annotation that ends the initial events.
pub fn bookmark(encoding: Encoding, version: u64, ends_initial_events: bool) -> Vec<u8> {
    const END: &str = "k8s.io/initial-events-end";
    match encoding {
        Encoding::Protobuf => {
            let mut metadata = field(6, version.to_string());
            if ends_initial_events {
                metadata.extend(field(12, [field(1, END), field(2, "true")].concat()));
            }
            let object = envelope("v1", "Pod", &field(1, metadata));
            frame(&[field(1, "BOOKMARK"), field(2, field(1, object))].concat())
        }
        _ => {
            let mut metadata = json!({"resourceVersion": version.to_string()});
            if ends_initial_events {
                metadata["annotations"] = json!({END: "true"});
            }
            let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
            format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into_bytes()
        }
    }
}

fn frame(event: &[u8]) -> Vec<u8> {
    let length = u32::try_from(event.len()).unwrap().to_be_bytes();
    [length.as_slice(), event].concat()
}
