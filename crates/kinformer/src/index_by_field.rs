//! Index functions by one field.

use std::borrow::Cow;
use std::fmt;

use kinformer_kube::FieldPath;
use kinformer_kube::internal::borrowed_field;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::callbacks::ObjectIndex;

/// Returns an index function by one field; see [`Informer::index_by_field`](crate::Informer::index_by_field).
pub(crate) fn by_field(path: FieldPath) -> ObjectIndex {
    Box::new(move |object, values| {
        if let Some(Value(value)) = borrowed_field(object, &path)? {
            values.push(&value);
        }
        Ok(())
    })
}

/// A field value that can be an index value.
pub(crate) struct Value<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a number or a boolean")
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
