//! The schemas of the built-in kinds, from the generated tables.

mod json_object;
mod lookup;
pub(crate) mod types;

pub(crate) use json_object::JsonObject;
pub(crate) use lookup::message;
pub(crate) use types::{Card, Field, Kind, Name, Rule, Schema, Shape};
