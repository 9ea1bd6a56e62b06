//! Informers that read the server as the mode of this run says, for tests that are the same in every mode.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use e2e::{Mode, Objects};
use futures::stream::{BoxStream, StreamExt};
use http::header::CONTENT_TYPE;
use http::{Request, Response, Uri};
use kinformer::{
    Encoding, Event, KeyRef, KubeObject, Object, Packed, PackedRef, Phase, ReflectorHandle, ReflectorMetrics,
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

/// A factory whose informers read the server so, as far as the factory is to say it.
pub(crate) fn factory(client: Client) -> SharedInformerFactoryBuilder {
    let builder = SharedInformerFactory::builder(judged(client)).reflector(reading);
    // Protobuf is what is asked for where nothing is said.
    if mode().encoding == Encoding::Json { builder.encoding(Encoding::Json) } else { builder }
}

/// For a factory whose reflectors have other options as well.
pub(crate) fn reading(options: ReflectorOptions) -> ReflectorOptions {
    options.watch_list(mode().lists)
}

/// The informer that an accessor of a factory gives, by [`Informer`]: `kept!(factory.core().v1().pods())`.
macro_rules! kept {
    ($factory:ident . $($accessor:tt)+) => {
        $crate::mode::Informer::of(&$factory.$($accessor)+)
    };
}
pub(crate) use kept;

/// The informer of a resource that is named.
pub(crate) fn dynamic(resource: &kinformer::Informer<DynamicObject>) -> Informer<DynamicObject> {
    Informer::of(resource)
}

/// An event about an object that is decoded.
pub(crate) type KubeEvent<K> = Event<Arc<KubeObject<K>>>;

/// What objects can be read as.
pub(crate) trait Kind:
    Resource + Debug + DeserializeOwned + Clone + Serialize + Send + Sync + 'static
{
}

impl<K> Kind for K where K: Resource + Debug + DeserializeOwned + Clone + Serialize + Send + Sync + 'static {}

/// An informer of a kind, whenever it decodes objects.
#[derive(Clone)]
pub(crate) struct Informer<K>(kinformer::Informer<K>);

/// For metadata, which are decoded when they are read.
impl<K> From<kinformer::Informer<K>> for Informer<K> {
    fn from(informer: kinformer::Informer<K>) -> Self {
        Self(informer)
    }
}

impl<K: Kind> Informer<K> {
    /// The informer with the policy of this mode.
    pub(crate) fn of(informer: &kinformer::Informer<K>) -> Self {
        if mode().objects == Objects::Eager {
            informer.decode_on_arrival();
        }
        // From now on the factory keeps it.
        informer.phase();
        Self(informer.clone())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn version(&self) -> ResourceVersion {
        self.0.snapshot().resource_versions().lowest().clone()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.0.phase()
    }

    pub(crate) fn reflector(&self) -> &ReflectorHandle {
        self.0.parts()[0].reflector()
    }

    pub(crate) fn statistics(&self) -> ReflectorMetrics {
        self.0.metrics().reflector
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<KubeObject<K>>> {
        self.0.get(KeyRef::parse(key).unwrap()).map(|object| typed(&object))
    }

    /// Everything in the store.
    pub(crate) fn objects(&self) -> Vec<Arc<KubeObject<K>>> {
        self.0.snapshot().list().iter().map(typed).collect()
    }

    /// Adds a handler.
    pub(crate) fn tell(&self, mut hear: impl FnMut(KubeEvent<K>) + Send + 'static) {
        let mut reader = Reader::default();
        let handler = self.0.handler().name("witness");
        handler.for_each(move |event| hear(reader.read(event.map(PackedRef::into_owned)))).unwrap();
    }

    pub(crate) fn stream(&self) -> BoxStream<'static, KubeEvent<K>> {
        let mut reader = Reader::default();
        self.0.stream().unwrap().map(move |event| reader.read(event)).boxed()
    }
}

/// What is ready of a packed object is what its type has.
fn typed<K: Kind>(packed: &Packed<K>) -> Arc<KubeObject<K>> {
    let typed = Arc::new(KubeObject((*packed.decode().unwrap()).clone()));
    assert_eq!(packed.key(), typed.key());
    assert_eq!(packed.uid(), typed.uid());
    assert_eq!(packed.resource_version(), typed.resource_version());
    let ready: BTreeMap<&str, &str> = packed.labels().collect();
    assert_eq!(ready, typed.labels().collect());
    typed
}

/// Reads events. Of what is told twice, in an update as the new state and then as the old one, the types are the same
/// object too.
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

/// Answers to informers that were not as they had asked for, and how many were.
static ANSWERS: Mutex<(u64, Vec<String>)> = Mutex::new((0, Vec::new()));

/// What informers were answered was written as the mode says.
pub(crate) fn answers_were_as_asked() {
    let answers = ANSWERS.lock();
    assert!(answers.1.is_empty(), "{:?}: {:#?}", mode(), answers.1);
    assert!(answers.0 > 0, "no informer was answered");
}

/// The same client, whose answers to lists and watches are looked at.
fn judged(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, of) = (client.clone(), request.uri().clone());
        async move {
            let answer: Response<Body> = client.send(request).await?;
            judge(&of, &answer);
            Ok::<_, tower::BoxError>(answer)
        }
    });
    Client::new(service, namespace)
}

fn judge(of: &Uri, answer: &Response<Body>) {
    let is_list =
        of.query().is_some_and(|query| query.contains("resourceVersion") || query.contains("limit"));
    if !is_list || !answer.status().is_success() {
        return;
    }
    let written = answer.headers().get(CONTENT_TYPE).and_then(|written| written.to_str().ok()).unwrap_or("");
    let right = match mode().encoding {
        // Custom resources have no protobuf, only their metadata have.
        Encoding::Protobuf if of.path().contains("example.com") => return,
        Encoding::Protobuf => written.contains("protobuf"),
        _ => written.starts_with("application/json"),
    };
    let mut answers = ANSWERS.lock();
    if right {
        answers.0 += 1;
    } else {
        answers.1.push(format!("{of}: {written}"));
    }
}

/// An object as JSON, without what a list leaves out and what nobody keeps.
pub(crate) fn whole(object: &impl Serialize) -> Value {
    let mut whole = serde_json::to_value(object).unwrap();
    let members = whole.as_object_mut().unwrap();
    members.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    whole
}
