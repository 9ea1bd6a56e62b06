//! The bytes of pods, as created by a controller and updated by a kubelet.

use std::ops::Range;

use benches::field;
use bytes::Bytes;
use kinformer_wire::{Encoding, ListDecoder, ManagedFields};

const STREAMS: &[u8] = include_bytes!("../../../crates/wire/tests/it/golden/streams.bin");

const NAMESPACE: &str = "default";
/// The name, the end of the UID, and the version of the pod in the file.
const NAME: &str = "web-6d4cf56db6-x7k2p";
const UID: &str = "0a7a4f6f6c11";
const VERSION: &str = "184467";
const OLDEST: usize = 200_000;

/// The key of a pod.
pub(crate) fn key(number: usize) -> (&'static str, String) {
    (NAMESPACE, format!("web-6d4cf56db6-{number:05}"))
}

/// Pods that differ in their names, UIDs and versions.
struct Pods {
    encoding: Encoding,
    /// A pod with its kind, in the envelope of protobuf.
    pod: Vec<u8>,
    /// The places of name, UID and version in the bytes.
    places: [Vec<usize>; 3],
}

impl Pods {
    fn new(encoding: Encoding) -> Self {
        let (mut rest, mut parts) = (STREAMS, Vec::new());
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let (part, tail) = tail.split_at(u32::from_le_bytes(*length) as usize);
            parts.push(part);
            rest = tail;
        }
        let place = parts.iter().position(|part| *part == b"pod").unwrap();
        let pod = parts.get(place + if encoding == Encoding::Json { 2 } else { 1 }).unwrap().to_vec();
        let places = [NAME, UID, VERSION].map(|text| {
            let windows = pod.windows(text.len()).enumerate();
            windows.filter(|(_, window)| *window == text.as_bytes()).map(|(place, _)| place).collect()
        });
        Self { encoding, pod, places }
    }

    /// Returns the pod with this number at this version.
    fn pod(&self, number: usize, version: usize) -> Vec<u8> {
        let mut pod = self.pod.clone();
        let texts = [key(number).1, format!("{number:012}"), (OLDEST + version).to_string()];
        for (places, text) in self.places.iter().zip(texts) {
            for place in places {
                pod.get_mut(*place..place + text.len()).unwrap().copy_from_slice(text.as_bytes());
            }
        }
        pod
    }

    /// Returns the pod with this number as an item of a list.
    fn item(&self, number: usize) -> Vec<u8> {
        let pod = self.pod(number, 0);
        if self.encoding == Encoding::Json {
            let fields = pod.strip_prefix(br#"{"kind":"Pod","apiVersion":"v1","#).unwrap();
            return [b"{", fields].concat();
        }
        let types = b"k8s\0\n\x09\n\x02v1\x12\x03Pod".len();
        let length = pod.iter().skip(types + 1).position(|byte| *byte < 128).unwrap();
        // Two empty fields follow.
        pod.get(types + length + 2..pod.len() - 4).unwrap().to_vec()
    }
}

/// The response to a list.
pub(crate) fn list(encoding: Encoding, count: usize) -> Vec<u8> {
    let pods = Pods::new(encoding);
    let items = (0..count).map(|number| pods.item(number));
    let version = OLDEST.to_string();
    if encoding == Encoding::Json {
        let items = items.collect::<Vec<_>>().join(&b","[..]);
        let head = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":["#
        );
        return [head.as_bytes(), &items, b"]}"].concat();
    }
    let items = items.flat_map(|item| field(2, &item)).collect::<Vec<_>>();
    let list = [field(1, &field(2, version.as_bytes())), items].concat();
    let types = field(1, &[field(1, b"v1"), field(2, b"PodList")].concat());
    [b"k8s\0".to_vec(), types, field(2, &list)].concat()
}

/// The events of a watch that update pods, one after the other, to these versions.
pub(crate) fn updates(encoding: Encoding, pods: usize, versions: Range<usize>) -> Vec<Bytes> {
    let all = Pods::new(encoding);
    let update = |version: usize| {
        let pod = all.pod(version % pods, version);
        if encoding == Encoding::Json {
            return [br#"{"type":"MODIFIED","object":"#, &*pod, b"}\n"].concat().into();
        }
        let event = [field(1, b"MODIFIED"), field(2, &field(1, &pod))].concat();
        [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat().into()
    };
    versions.map(update).collect()
}

/// A pod as it is stored: an item of a list without managed fields.
pub(crate) fn stored(encoding: Encoding) -> Vec<u8> {
    let mut stored = Vec::new();
    let mut decoder = ListDecoder::of(encoding, ManagedFields::Drop);
    decoder.feed(&list(encoding, 1), |item| stored = item.to_vec()).unwrap();
    stored
}
