//! Informers in the mode of this run, for tests that are the same in every mode.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use e2e::{Mode, Objects};
use futures::stream::{BoxStream, StreamExt};
use http::header::CONTENT_TYPE;
use http::{Request, Response, Uri};
use kinformer::{
    Encoding, Event, KubeObject, Object, Packed, PackedRef, Phase, ReflectorHandle, ReflectorMetrics,
    ReflectorOptions, ResourceVersion, SharedInformerFactory, SharedInformerFactoryBuilder,
};
use kube_client::Client;
use kube_client::client::Body;
use kube_core::{DynamicObject, Resource};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::service_fn;

pub(crate) fn mode() -> Mode {
    Mode::of_this_run().unwrap()
}

/// Creates a factory whose informers use the mode, as far as it is an option of the factory.
pub(crate) fn factory(client: Client) -> SharedInformerFactoryBuilder {
    let builder = SharedInformerFactory::builder(checked(client)).reflector(reading);
    // Protobuf is the default.
    if mode().encoding == Encoding::Json { builder.encoding(Encoding::Json) } else { builder }
}

/// Adds the mode to the options of a reflector.
pub(crate) fn reading(options: ReflectorOptions) -> ReflectorOptions {
    options.watch_list(mode().lists)
}

/// Returns the [`Informer`] for an accessor of a factory: `informer!(factory.core().v1().pods())`.
macro_rules! informer {
    ($factory:ident . $($accessor:tt)+) => {
        $crate::mode::Informer::of(&$factory.$($accessor)+)
    };
}
pub(crate) use informer;

/// Returns the informer of a dynamic resource.
pub(crate) fn dynamic(resource: &kinformer::Informer<DynamicObject>) -> Informer<DynamicObject> {
    Informer::of(resource)
}

/// An event with decoded objects.
pub(crate) type KubeEvent<K> = Event<Arc<KubeObject<K>>>;

/// The type of an object.
pub(crate) trait Kind:
    Resource + Debug + DeserializeOwned + Clone + Serialize + Send + Sync + 'static
{
}

impl<K> Kind for K where K: Resource + Debug + DeserializeOwned + Clone + Serialize + Send + Sync + 'static {}

/// An informer that decodes objects when the mode requires it.
#[derive(Clone)]
pub(crate) struct Informer<K>(kinformer::Informer<K>);

/// For metadata, which is always decoded on read.
impl<K> From<kinformer::Informer<K>> for Informer<K> {
    fn from(informer: kinformer::Informer<K>) -> Self {
        Self(informer)
    }
}

impl<K: Kind> Informer<K> {
    /// Applies the mode to an informer.
    pub(crate) fn of(informer: &kinformer::Informer<K>) -> Self {
        if mode().objects == Objects::Eager {
            informer.decode_on_arrival();
        }
        // Makes the factory keep the informer.
        informer.status().phase();
        Self(informer.clone())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.snapshot().unwrap().len()
    }

    pub(crate) fn version(&self) -> ResourceVersion {
        self.0.snapshot().unwrap().resource_versions().lowest().clone()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.0.status().phase()
    }

    pub(crate) fn reflector(&self) -> ReflectorHandle {
        self.0.status().parts()[0].reflector().clone()
    }

    pub(crate) fn statistics(&self) -> ReflectorMetrics {
        self.0.status().metrics().reflector
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<KubeObject<K>>> {
        self.0.lister().get(key).ok().map(|object| typed(&object))
    }

    /// Everything in the store.
    pub(crate) fn objects(&self) -> Vec<Arc<KubeObject<K>>> {
        self.0.snapshot().unwrap().list().iter().map(typed).collect()
    }

    /// Adds a handler.
    pub(crate) fn on_event(&self, mut handler: impl FnMut(KubeEvent<K>) + Send + 'static) {
        let mut reader = Reader::default();
        let builder = self.0.handler().name("recorder");
        builder.for_each(move |event| handler(reader.read(event.map(PackedRef::into_owned)))).unwrap();
    }

    pub(crate) fn stream(&self) -> BoxStream<'static, KubeEvent<K>> {
        let mut reader = Reader::default();
        self.0.stream().unwrap().map(move |event| reader.read(event)).boxed()
    }
}

/// Decodes a packed object, and checks that its directly readable fields equal those of the type.
fn typed<K: Kind>(packed: &Packed<K>) -> Arc<KubeObject<K>> {
    let typed = Arc::new(KubeObject((*packed.decode().unwrap()).clone()));
    assert_eq!(packed.key(), typed.key());
    assert_eq!(packed.uid(), typed.uid());
    assert_eq!(packed.resource_version(), typed.resource_version());
    let ready: BTreeMap<&str, &str> = packed.labels().collect();
    assert_eq!(ready, typed.labels().collect());
    typed
}

/// Decodes events. A state that is delivered twice, as the new and then as the old state of an update, is the same
/// decoded object both times.
struct Reader<K> {
    last: HashMap<String, (Packed<K>, Arc<KubeObject<K>>)>,
}

impl<K> Default for Reader<K> {
    fn default() -> Self {
        Self { last: HashMap::new() }
    }
}

impl<K: Kind> Reader<K> {
    fn read(&mut self, event: Event<Packed<K>>) -> KubeEvent<K> {
        event.map(|object| self.object(&object))
    }

    fn object(&mut self, packed: &Packed<K>) -> Arc<KubeObject<K>> {
        let key = packed.key().to_string();
        match self.last.get(&key) {
            Some((last, object)) if last.ptr_eq(packed) => object.clone(),
            _ => {
                let object = typed(packed);
                self.last.insert(key, (packed.clone(), object.clone()));
                object
            }
        }
    }
}

/// The number of responses in the requested encoding, and the responses in another encoding.
static RESPONSES: Mutex<(u64, Vec<String>)> = Mutex::new((0, Vec::new()));

/// Asserts that all responses to informers had the encoding of the mode.
pub(crate) fn assert_negotiated_encodings() {
    let responses = RESPONSES.lock();
    assert!(responses.1.is_empty(), "{:?}: {:#?}", mode(), responses.1);
    assert!(responses.0 > 0, "no response to an informer");
}

/// Wraps a client so that the encodings of lists and watches are checked.
fn checked(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, uri) = (client.clone(), request.uri().clone());
        async move {
            let response: Response<Body> = client.send(request).await?;
            check_encoding(&uri, &response);
            Ok::<_, tower::BoxError>(response)
        }
    });
    Client::new(service, namespace)
}

fn check_encoding(uri: &Uri, response: &Response<Body>) {
    let is_list =
        uri.query().is_some_and(|query| query.contains("resourceVersion") || query.contains("limit"));
    if !is_list || !response.status().is_success() {
        return;
    }
    let content_type =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let right = match mode().encoding {
        // Of custom resources, only metadata is available in protobuf.
        Encoding::Protobuf if uri.path().contains("example.com") => return,
        Encoding::Protobuf => content_type.contains("protobuf"),
        _ => content_type.starts_with("application/json"),
    };
    let mut responses = RESPONSES.lock();
    if right {
        responses.0 += 1;
    } else {
        responses.1.push(format!("{uri}: {content_type}"));
    }
}

/// Returns an object as JSON, without the fields that lists omit, and without managed fields.
pub(crate) fn content(object: &impl Serialize) -> Value {
    let mut json = serde_json::to_value(object).unwrap();
    let fields = json.as_object_mut().unwrap();
    fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    json
}
