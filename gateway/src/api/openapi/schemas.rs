//! The schemas of the document by name.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::ToSchema;

/// The schemas that the operations name.
#[derive(Default)]
pub(super) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Adds the schema of a type and those that it names. Returns the reference to it.
    pub fn add<T: ToSchema>(&mut self) -> Value {
        let mut found = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        for (name, schema) in found {
            let mut schema = json!(schema);
            translate(&mut schema);
            self.put(name, schema);
        }
        json!({"$ref": format!("#/components/schemas/{}", T::name())})
    }

    /// Adds a schema by its name.
    pub fn put(&mut self, name: String, schema: Value) {
        let known = self.0.entry(name.clone()).or_insert_with(|| schema.clone());
        debug_assert_eq!(*known, schema, "two types have the schema name {name}");
    }

    pub fn extend(&mut self, others: Self) {
        for (name, schema) in others.0 {
            self.put(name, schema);
        }
    }

    pub fn into_json(self) -> Value {
        json!(self.0)
    }
}

/// The comments of types speak of `None`, which JSON calls `null`.
fn translate(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(description)) = fields.get_mut("description") {
                *description = description.replace("`None`", "`null`");
            }
            fields.values_mut().for_each(translate);
        }
        Value::Array(values) => values.iter_mut().for_each(translate),
        _ => {}
    }
}
