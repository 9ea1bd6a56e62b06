//! Informers that read the server as the mode of this run says, for tests that are the same in every mode.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use e2e::{Mode, Objects};
use futures::stream::{BoxStream, StreamExt};
use http::header::CONTENT_TYPE;
use http::{Request, Response, Uri};
use kinformer::{
    Encoding, Event, GenericInformer, KeyRef, KnownKind, Object, Packed, Phase, ReflectorHandle,
    ReflectorOptions, ResourceVersion, SharedIndexInformer, SharedInformerFactory,
    SharedInformerFactoryBuilder, Statistics,
};
use kube_client::Client;
use kube_client::client::Body;
use kube_core::DynamicObject;
use parking_lot::Mutex;
use serde::Serialize;
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
        match $crate::mode::mode().objects {
            ::e2e::Objects::Eager => $crate::mode::Informer::Eager($factory.eager().$($accessor)+.informer()),
            ::e2e::Objects::Packed => $crate::mode::Informer::Packed($factory.packed().$($accessor)+.informer()),
        }
    };
}
pub(crate) use kept;

/// The informer of a resource that is named.
pub(crate) fn dynamic(resource: &GenericInformer<DynamicObject>) -> Informer<DynamicObject> {
    match mode().objects {
        Objects::Eager => Informer::Eager(resource.informer()),
        Objects::Packed => Informer::Packed(resource.packed().informer()),
    }
}

/// What an informer can keep in either form.
pub(crate) trait Kind: Object + KnownKind + Serialize {}

impl<K: Object + KnownKind + Serialize> Kind for K {}

/// An informer of a kind, whichever way it keeps objects.
#[derive(Clone)]
pub(crate) enum Informer<K: Object> {
    Eager(SharedIndexInformer<K>),
    Packed(SharedIndexInformer<Packed<K>>),
}

/// For what has one form only: metadata are never packed.
impl<K: Object> From<SharedIndexInformer<K>> for Informer<K> {
    fn from(informer: SharedIndexInformer<K>) -> Self {
        Self::Eager(informer)
    }
}

macro_rules! either {
    ($self:ident, $informer:ident => $answer:expr) => {
        match $self {
            Self::Eager($informer) => $answer,
            Self::Packed($informer) => $answer,
        }
    };
}

impl<K: Kind> Informer<K> {
    pub(crate) fn len(&self) -> usize {
        either!(self, informer => informer.snapshot().len())
    }

    pub(crate) fn version(&self) -> ResourceVersion {
        either!(self, informer => informer.snapshot().resource_version().clone())
    }

    pub(crate) fn phase(&self) -> Phase {
        either!(self, informer => informer.phase())
    }

    pub(crate) fn reflector(&self) -> &ReflectorHandle {
        either!(self, informer => informer.reflector().unwrap())
    }

    pub(crate) fn statistics(&self) -> Statistics {
        either!(self, informer => informer.metrics().reflector)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<K>> {
        match self {
            Self::Eager(informer) => informer.get_by_key(KeyRef::parse(key).unwrap()),
            Self::Packed(informer) => {
                informer.get_by_key(KeyRef::parse(key).unwrap()).map(|object| typed(&object))
            }
        }
    }

    /// Everything in the store.
    pub(crate) fn objects(&self) -> Vec<Arc<K>> {
        match self {
            Self::Eager(informer) => informer.snapshot().iter().cloned().collect(),
            Self::Packed(informer) => informer.snapshot().iter().map(|object| typed(object)).collect(),
        }
    }

    /// Adds a handler.
    pub(crate) fn tell(&self, mut hear: impl FnMut(Event<Arc<K>>) + Send + 'static) {
        match self {
            Self::Eager(informer) => {
                informer.handler().named("witness").for_each(move |event: &Event<Arc<K>>| hear(event.clone()))
            }
            Self::Packed(informer) => {
                let mut reader = Reader::default();
                let handler = informer.handler().named("witness");
                handler.for_each(move |event: &Event<Arc<Packed<K>>>| hear(reader.read(event)))
            }
        }
        .unwrap();
    }

    pub(crate) fn stream(&self) -> BoxStream<'static, Event<Arc<K>>> {
        match self {
            Self::Eager(informer) => informer.stream().unwrap().boxed(),
            Self::Packed(informer) => {
                let mut reader = Reader::default();
                informer.stream().unwrap().map(move |event| reader.read(&event)).boxed()
            }
        }
    }
}

/// What is ready of a packed object is what its type has.
fn typed<K: Kind>(packed: &Packed<K>) -> Arc<K> {
    let typed = Arc::new((*packed.typed().unwrap()).clone());
    assert_eq!(packed.key(), typed.key());
    assert_eq!(packed.uid(), typed.uid());
    assert_eq!(Object::resource_version(packed), Object::resource_version(&*typed));
    let ready: BTreeMap<&str, &str> = packed.labels().collect();
    assert_eq!(ready, Object::labels(&*typed).collect());
    typed
}

/// Reads events. Of what is told twice, in an update as the new state and then as the old one, the types are the same
/// object too.
struct Reader<K> {
    last: HashMap<String, (Arc<Packed<K>>, Arc<K>)>,
}

impl<K> Default for Reader<K> {
    fn default() -> Self {
        Self { last: HashMap::new() }
    }
}

impl<K: Kind> Reader<K> {
    fn read(&mut self, event: &Event<Arc<Packed<K>>>) -> Event<Arc<K>> {
        event.clone().map(|object| self.object(&object))
    }

    fn object(&mut self, packed: &Arc<Packed<K>>) -> Arc<K> {
        let key = packed.key().to_string();
        match self.last.get(&key) {
            Some((last, object)) if Arc::ptr_eq(last, packed) => object.clone(),
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
pub(crate) fn whole<K: Kind>(object: &K) -> Value {
    let mut whole = serde_json::to_value(object).unwrap();
    let members = whole.as_object_mut().unwrap();
    members.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    whole
}
