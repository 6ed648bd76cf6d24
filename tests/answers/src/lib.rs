//! Checks values against the schemas of an `OpenAPI` document: the answers of tests, and the document's own examples.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, ensure};
use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::{Value, json};

/// The address of the document. Nothing is fetched.
const ADDRESS: &str = "urn:openapi";

/// A document. A field that it does not describe is a fault, too.
pub struct Document {
    value: Value,
    schemas: Schemas,
    /// The schemas of bodies by their JSON pointers.
    bodies: BTreeMap<String, SchemaIndex>,
}

impl Document {
    /// Reads a document of `OpenAPI` 3.1.
    ///
    /// # Errors
    /// When the document cannot be one.
    pub fn new(mut document: Value) -> Result<Self> {
        for part in document["components"]["schemas"].as_object_mut().into_iter().flat_map(|parts| parts.values_mut()) {
            close(part, false);
        }
        let pointers = bodies(&document);
        for pointer in &pointers {
            close(document.pointer_mut(pointer).context("no schema")?, true);
        }
        let (mut compiler, mut schemas, mut bodies) = (Compiler::new(), Schemas::new(), BTreeMap::new());
        compiler.set_default_draft(Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler.add_resource(ADDRESS, document.clone()).map_err(|error| anyhow!("{error:#}"))?;
        for pointer in pointers {
            let schema = compiler.compile(&format!("{ADDRESS}#{pointer}"), &mut schemas);
            bodies.insert(pointer, schema.map_err(|error| anyhow!("{error:#}"))?);
        }
        Ok(Self { value: document, schemas, bodies })
    }

    /// Checks an answer. Routes that the document does not have pass.
    ///
    /// # Errors
    /// When the document does not have the status, or the body does not fit its schema.
    pub fn check(&self, method: &str, target: &str, status: u16, body: &str) -> Result<()> {
        let path = target.split('?').next().unwrap_or_default();
        let Some(operation) = self.operation(method, path) else { return Ok(()) };
        self.check_body(&format!("{operation}/responses/{status}"), body)
            .with_context(|| format!("{method} {target} {status}: {body}"))
    }

    fn check_body(&self, answer: &str, body: &str) -> Result<()> {
        let answer = self.resolved(answer).context("the status is not in the document")?;
        let content = self.value.pointer(&format!("{answer}/content")).and_then(Value::as_object);
        let Some(kind) = content.and_then(|content| content.keys().next()) else {
            ensure!(body.is_empty(), "the document has no body");
            return Ok(());
        };
        let schema = format!("{answer}/content/{}/schema", escaped(kind));
        self.fits(&schema, &serde_json::from_str(body).context("the body is not JSON")?)
    }

    /// Checks a value against the schema of a body at this JSON pointer.
    ///
    /// # Errors
    /// When the value does not fit, or no schema is there.
    pub fn fits(&self, schema: &str, value: &Value) -> Result<()> {
        let schema = *self.bodies.get(schema).with_context(|| format!("no schema at {schema}"))?;
        self.schemas.validate(value, schema).map_err(|error| anyhow!("{error:#}"))
    }

    /// The pointer to the operation of a request. Of two paths that match, the one with more fixed parts counts.
    fn operation(&self, method: &str, path: &str) -> Option<String> {
        let method = method.to_ascii_lowercase();
        let paths = self.value["paths"].as_object()?.iter();
        let fitting = paths.filter(|(template, methods)| methods.get(&method).is_some() && matches(template, path));
        let (template, _) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
        Some(format!("/paths/{}/{method}", escaped(template)))
    }

    /// The pointer, or the one that the value there refers to. `None`: the document has none.
    fn resolved(&self, pointer: &str) -> Option<String> {
        let value = self.value.pointer(pointer)?;
        Some(value["$ref"].as_str().map_or(pointer, |reference| reference.trim_start_matches('#')).to_owned())
    }
}

/// Tells if a path is one of a template such as `/v1/jobs/{id}`.
fn matches(template: &str, path: &str) -> bool {
    let (mut parts, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (parts.next(), given.next()) {
            (None, None) => return true,
            (Some(part), Some(given)) if part.starts_with('{') || part == given => {}
            _ => return false,
        }
    }
}

/// A part of a JSON pointer (RFC 6901).
fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// The pointers to the schemas of all bodies.
fn bodies(document: &Value) -> Vec<String> {
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut parts: Vec<_> = fields(&document["components"]["responses"])
        .into_iter()
        .map(|(name, answer)| (format!("/components/responses/{}", escaped(&name)), answer))
        .collect();
    for (path, methods) in fields(&document["paths"]) {
        for (method, operation) in fields(&methods) {
            let at = format!("/paths/{}/{method}", escaped(&path));
            parts.push((format!("{at}/requestBody"), operation["requestBody"].clone()));
            let answers = fields(&operation["responses"]);
            parts.extend(answers.into_iter().map(|(status, answer)| (format!("{at}/responses/{status}"), answer)));
        }
    }
    let pointers = parts.into_iter().flat_map(|(at, part)| {
        let kinds = fields(&part["content"]).into_iter().map(|(kind, _)| escaped(&kind));
        kinds.map(|kind| format!("{at}/content/{kind}/schema")).collect::<Vec<_>>()
    });
    pointers.collect()
}

/// Closes the schemas of whole values to fields that they do not describe. A part of `allOf` and its kin leaves fields to the others.
fn close(schema: &mut Value, is_whole: bool) {
    let Some(schema) = schema.as_object_mut() else { return };
    // The document leaves room for fields of later versions; this version has none that it does not describe.
    if schema.contains_key("properties") && schema.get("additionalProperties") == Some(&json!(true)) {
        schema.remove("additionalProperties");
    }
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(|field| close(field, true)),
            ("items" | "additionalProperties", value) => close(value, true),
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter_mut().for_each(|part| close(part, false)),
            _ => {}
        }
    }
    let has_fields = ["properties", "$ref", "allOf", "anyOf", "oneOf"].iter().any(|name| schema.contains_key(*name));
    if is_whole && has_fields {
        schema.insert("unevaluatedProperties".to_owned(), json!(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let named = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
        let thing = json!({
            "allOf": [{"$ref": "#/components/schemas/Named"}, {"type": "object", "properties": {
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Named"}},
                "at": {"type": ["string", "null"], "format": "date-time"},
                "more": {},
            }}],
        });
        let answer = |name: &str| json!({"content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}});
        let show = json!({"responses": {"200": answer("Thing"), "204": {}, "404": {"$ref": "#/components/responses/NotFound"}}});
        Document::new(json!({
            "paths": {
                "/v1/things/{id}": {"get": show},
                "/v1/things/all": {"get": {"responses": {"200": answer("Named")}}},
            },
            "components": {"schemas": {"Named": named, "Thing": thing}, "responses": {"NotFound": answer("Named")}},
        }))
        .unwrap()
    }

    #[test]
    fn an_answer_has_a_documented_status_and_no_other_fields() {
        let document = document();
        for (target, status, body, is_right) in [
            (
                "/v1/things/7?x=1",
                200,
                json!({"name": "a", "parts": [{"name": "b"}], "at": null, "more": {"x": 1}}),
                true,
            ),
            ("/v1/things/7", 200, json!({}), false),
            ("/v1/things/7", 200, json!({"name": "a", "other": 1}), false),
            ("/v1/things/7", 200, json!({"name": "a", "parts": [{"name": "b", "other": 1}]}), false),
            ("/v1/things/7", 200, json!({"name": "a", "at": "yesterday"}), false),
            ("/v1/things/7", 404, json!({"name": "a"}), true),
            ("/v1/things/7", 404, json!({"name": 7}), false),
            ("/v1/things/7", 500, json!({"name": "a"}), false),
            ("/v1/things/all", 200, json!({"name": "a"}), true),
            ("/v1/things/all", 404, json!({"name": "a"}), false),
            ("/v1/others", 500, json!(7), true),
        ] {
            let checked = document.check("GET", target, status, &body.to_string());
            assert_eq!(checked.is_ok(), is_right, "{target} {status} {body}: {checked:?}");
        }
        assert!(document.check("GET", "/v1/things/7", 200, "{").is_err());
        assert!(document.check("GET", "/v1/things/7", 204, "").is_ok());
        assert!(document.check("GET", "/v1/things/7", 204, "{}").is_err());
        assert!(document.check("POST", "/v1/things/7", 500, "").is_ok());
    }
}
