//! Indexes of packed objects by one of their fields.

use std::borrow::Cow;
use std::fmt;

use kinformer_kube::{FieldPath, Packed};
use kinformer_store::IndexFunction;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// An index function of packed objects by one field: `index_by_field(&["spec", "nodeName"])`. No object is decoded for
/// it but for that field.
///
/// The field is named by its names in JSON, also where it is in JSON within protobuf, and is a text, a number or a
/// boolean, the same in both encodings and as in the whole object. An object that does not have it, or has null there, is
/// in the index under no value. If it is something else, or the object is broken, that object is reported and is not in
/// the index.
///
/// Follows controller-runtime 0.25 (`FieldIndexer`).
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer::{SharedInformerFactory, index_by_field};
///
/// # fn example(factory: &SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
/// let pods = factory.informer_for::<Pod>();
/// pods.add_indexers([("node", index_by_field(&["spec", "nodeName"]))])?;
/// println!("{} pods are on it", pods.store().by_index("node", "node-1")?.len());
/// # Ok(())
/// # }
/// ```
pub fn index_by_field<K: Send + Sync + 'static>(path: &[&str]) -> IndexFunction<Packed<K>> {
    let path = FieldPath::new(path);
    IndexFunction::fallible(move |object: &Packed<K>, values| {
        if let Some(Value(value)) = object.field(&path)? {
            values.push(&value);
        }
        Ok(())
    })
}

/// What a field can have that is a value of an index.
struct Value<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or a boolean")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Value(text.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Value(text.to_owned().into()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Value(value.to_string().into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(Value(value.to_string().into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(Value(value.to_string().into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
                Ok(Value(value.to_string().into()))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
