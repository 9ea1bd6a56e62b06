//! Pods in lists and watch events, as bytes in both encodings, with damage on demand.

use kinformer_wire::Encoding;
use serde_json::{Value, json};

/// The encodings that these functions write.
pub const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Protobuf];

/// The damage of a pod in a list or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Undamaged.
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
    /// Its name.
    pub name: &'static str,
    /// Its resource version.
    pub version: u64,
    /// Its damage.
    pub damage: Damage,
    /// Its API version and kind.
    pub types: (&'static str, &'static str),
}

/// An undamaged pod.
pub fn pod(name: &'static str, version: u64) -> TestPod {
    TestPod { name, version, damage: Damage::None, types: ("v1", "Pod") }
}

impl TestPod {
    /// Sets the API version and kind; an empty one is left out.
    #[must_use]
    pub fn of(mut self, api_version: &'static str, kind: &'static str) -> Self {
        self.types = (api_version, kind);
        self
    }

    /// Sets the damage.
    #[must_use]
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
