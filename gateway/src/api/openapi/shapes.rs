//! Gives schemas the shapes that client generators understand.
//!
//! serde's `flatten` and `tag` become an `allOf` and a `oneOf`. In November 2026 we tried eleven generators: with
//! these, the clients of seven reject or lose valid responses, or do not compile. One flat object works with all of
//! them, so the document has nothing else. Fields which only some alternatives have are not required.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

type Schemas = BTreeMap<String, Value>;

const PREFIX: &str = "#/components/schemas/";

/// Flattens the schemas, and drops those used by no path or problem. Responses allow additional fields, because a
/// generated client must not fail when a later version adds one.
pub(super) fn shaped(schemas: &Schemas, paths: &Map<String, Value>) -> Schemas {
    let flat: Schemas = schemas.iter().map(|(name, schema)| (name.clone(), flattened(schema, schemas))).collect();
    let (mut used, mut sent) = (BTreeSet::from(["Problem".to_owned()]), BTreeSet::new());
    for operation in paths.values().flat_map(|methods| methods.as_object().into_iter().flat_map(Map::values)) {
        collect_names(operation, &flat, &mut used);
        collect_names(&operation["requestBody"], &flat, &mut sent);
    }
    let mut shaped: Schemas = flat.into_iter().filter(|(name, _)| used.contains(name)).collect();
    shaped.iter_mut().filter(|(name, _)| !sent.contains(*name)).for_each(|(_, schema)| open(schema));
    shaped
}

/// How a schema combines others.
enum Parts<'a> {
    /// The fields of all.
    All(&'a [Value]),
    /// The fields of one.
    One(&'a [Value]),
}

fn parts(schema: &Value) -> Option<Parts<'_>> {
    if let Some(all) = schema["allOf"].as_array() {
        return Some(Parts::All(all));
    }
    // A type or null is not a union: each generator supports it.
    let one = schema["oneOf"].as_array()?;
    one.iter().all(|part| part["type"] != "null").then_some(Parts::One(one))
}

/// Also flattens nested schemas.
fn flattened(schema: &Value, schemas: &Schemas) -> Value {
    let Some(parts) = parts(schema) else {
        let mut schema = schema.clone();
        for_each_inner(&mut schema, |inner| *inner = flattened(inner, schemas));
        return schema;
    };
    let (parts, is_union) = match parts {
        Parts::All(parts) => (parts, false),
        Parts::One(parts) => (parts, true),
    };
    let (mut fields, mut required) = (Map::new(), None::<BTreeSet<String>>);
    for part in parts {
        let part = match part["$ref"].as_str().and_then(|name| schemas.get(name.trim_start_matches(PREFIX))) {
            Some(named) => flattened(named, schemas),
            None => flattened(part, schemas),
        };
        for (name, field) in part["properties"].as_object().into_iter().flatten() {
            match fields.get_mut(name) {
                Some(known) => add_values(known, field),
                None => _ = fields.insert(name.clone(), field.clone()),
            }
        }
        let needed = part["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let needed: BTreeSet<_> = needed.collect();
        required = Some(match required {
            None => needed,
            Some(before) if is_union => before.intersection(&needed).cloned().collect(),
            Some(before) => before.union(&needed).cloned().collect(),
        });
    }
    fields.values_mut().for_each(|field| name_values(field, schemas));
    let mut object = json!({"type": "object", "properties": fields, "required": required.unwrap_or_default()});
    if let Some(description) = schema.get("description") {
        object["description"] = description.clone();
    }
    object
}

/// Merges the values of two tags.
fn add_values(known: &mut Value, other: &Value) {
    let values = known.get_mut("enum").and_then(Value::as_array_mut);
    if let (Some(values), Some(others)) = (values, other["enum"].as_array()) {
        let new: Vec<_> = others.iter().filter(|value| !values.contains(value)).cloned().collect();
        values.extend(new);
    }
}

/// References the schema with the same values, because Python's generators would give a nameless list its name.
fn name_values(field: &mut Value, schemas: &Schemas) {
    let values = |schema: &Value| -> Option<BTreeSet<String>> {
        schema["enum"].as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let Some(wanted) = values(field).filter(|values| values.len() > 1) else { return };
    if let Some((name, _)) = schemas.iter().find(|(_, schema)| values(schema).as_ref() == Some(&wanted)) {
        *field = json!({"$ref": format!("{PREFIX}{name}")});
    }
}

/// Collects the names of schemas referenced directly or indirectly.
fn collect_names(value: &Value, schemas: &Schemas, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(PREFIX))
                && names.insert(name.to_owned())
                && let Some(schema) = schemas.get(name)
            {
                collect_names(schema, schemas, names);
            }
            fields.values().for_each(|value| collect_names(value, schemas, names));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_names(value, schemas, names)),
        _ => {}
    }
}

/// Allows fields added by later versions.
fn open(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut().filter(|fields| fields.contains_key("properties")) {
        fields.entry("additionalProperties").or_insert(Value::Bool(true));
    }
    for_each_inner(schema, open);
}

/// Visits schemas of fields and items.
fn for_each_inner(schema: &mut Value, mut visit: impl FnMut(&mut Value)) {
    let Some(schema) = schema.as_object_mut() else { return };
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(&mut visit),
            ("items" | "additionalProperties", value) if value.is_object() => visit(value),
            _ => {}
        }
    }
}
