//! The states of objects.

use std::sync::Arc;

use k8s_openapi::serde::{Deserialize, Deserializer};
use kinformer::PackedObject;
use serde_json::Value;

/// The value for which the transform of an informer panics.
pub(crate) const PANICS: &str = "panics";

/// A state of an object as the history has it: without `kind` and `apiVersion`. Clones share it.
pub type State = Arc<Value>;

/// An object that is decoded as a state, so that each object is decoded once.
#[derive(Default)]
struct Decoded(State);

impl<'de> Deserialize<'de> for Decoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut state = Value::deserialize(deserializer)?;
        if let Some(state) = state.as_object_mut() {
            state.remove("kind");
            state.remove("apiVersion");
        }
        Ok(Self(Arc::new(state)))
    }
}

/// Returns the state of an object.
pub(crate) fn state_of(object: &PackedObject) -> State {
    object.decode_as::<Decoded>().map(|decoded| decoded.0.clone()).unwrap_or_default()
}

/// Returns the value in a field, which is quicker than `Value::pointer`.
pub(crate) fn field<'a, const N: usize>(object: &'a Value, path: [&str; N]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

/// Returns the text in a field.
pub(crate) fn text_of<'a, const N: usize>(object: &'a Value, path: [&str; N]) -> Option<&'a str> {
    field(object, path)?.as_str()
}
