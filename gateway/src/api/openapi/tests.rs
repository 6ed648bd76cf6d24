//! The document agrees with the routes, the parameters, the problems, and the committed snapshot.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use axum::{body::Body, extract::Request};
use tidings_answers::Document;
use tidings_model::inbox::InboxLimits;

use super::*;
use crate::api::tests::{Env, request};

/// By path and method.
fn operations(document: &Value) -> BTreeMap<(String, String), Value> {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, operation)| ((path.clone(), method.to_uppercase()), operation.clone()))
    });
    operations.collect()
}

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

#[test]
fn the_committed_document_is_that_of_the_code() {
    let same = file("docs/openapi.json") == text();
    assert!(same, "the API changed; run: python3 tests/api/document.py write");
}

#[test]
fn each_route_of_the_api_is_documented_and_nothing_else() {
    let route = |endpoint: Endpoint| (endpoint.documented_path().to_owned(), endpoint.method().to_string());
    let routes: BTreeSet<_> = Endpoint::ALL.map(route).into();
    let committed: Value = serde_json::from_str(&file("docs/openapi.json")).unwrap();
    for document in [document(), committed] {
        assert_eq!(operations(&document).into_keys().collect::<BTreeSet<_>>(), routes);
    }
}

#[tokio::test]
async fn each_documented_operation_asks_for_a_token() {
    let env = Env::start(InboxLimits::default()).await;
    for (path, method) in operations(&document()).into_keys() {
        let path = path.replace(['{', '}'], "");
        let request = Request::builder().method(method.as_str()).uri(&path).body(Body::empty()).unwrap();
        assert_eq!(env.answer(request).await.status, 401, "{method} {path}");
    }
}

#[test]
fn each_operation_says_what_it_is_for() {
    let mut ids = BTreeSet::new();
    for ((path, method), operation) in operations(&document()) {
        for part in ["summary", "description"] {
            assert!(operation[part].as_str().is_some_and(|text| text.len() > 10), "{method} {path}: {part}");
        }
        assert!(ids.insert(operation["operationId"].to_string()), "{method} {path}");
        let success = operation["responses"].as_object().unwrap().keys().any(|status| status.starts_with('2'));
        assert!(success, "{method} {path}");
        for (kind, body) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
            assert!(body["examples"].as_object().is_some_and(|all| !all.is_empty()), "{method} {path}: {kind}");
        }
    }
}

#[test]
fn each_example_fits_its_schema() {
    let document = Document::new(document()).unwrap();
    let mut count = 0;
    for ((path, method), operation) in operations(&super::document()) {
        let at = format!("/paths/{}/{}/requestBody/content", path.replace('/', "~1"), method.to_lowercase());
        for (kind, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
            let schema = format!("{at}/{}/schema", kind.replace('/', "~1"));
            for (name, example) in content["examples"].as_object().unwrap() {
                let fits = document.fits(&schema, &example["value"]);
                fits.unwrap_or_else(|error| panic!("{method} {path} {name}: {error}"));
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn each_reference_leads_to_a_part_of_the_document() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for reference in &found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    for (name, parts) in
        document["components"].as_object().unwrap().iter().filter(|(name, _)| name.as_str() != "securitySchemes")
    {
        for part in parts.as_object().unwrap().keys() {
            let reference = format!("#/components/{name}/{part}");
            assert!(found.contains(&reference), "nothing needs {reference}");
        }
    }
}

fn visit<'a>(value: &'a Value, seen: &mut impl FnMut(&'a Value)) {
    seen(value);
    match value {
        Value::Object(fields) => fields.values().for_each(|value| visit(value, seen)),
        Value::Array(values) => values.iter().for_each(|value| visit(value, seen)),
        _ => {}
    }
}

/// These broke generated clients: see [`shapes`].
#[test]
fn generators_of_clients_understand_each_shape() {
    let document = document();
    visit(&document, &mut |value| {
        assert!(value.get("allOf").is_none() && value.get("anyOf").is_none(), "{value}");
        if let Some(parts) = value["oneOf"].as_array() {
            assert!(parts.len() == 2 && parts[1] == json!({"type": "null"}), "{value}");
        }
    });
    let components = &document["components"];
    let names = |kind: &str| components[kind].as_object().unwrap().keys().map(|name| name.to_lowercase());
    let schemas: BTreeSet<_> = names("schemas").collect();
    let other = names("parameters").chain(names("responses"));
    assert_eq!(other.filter(|name| schemas.contains(name)).collect::<Vec<_>>(), [""; 0]);
    for ((path, method), operation) in operations(&document) {
        let bodies: Vec<_> = operation["requestBody"]["content"].as_object().into_iter().flatten().collect();
        let is_json = |kind: &str| kind == "application/json" || kind.ends_with("+json");
        let others: Vec<_> = bodies.iter().filter(|(kind, _)| !is_json(kind)).collect();
        assert!(others.iter().all(|(_, body)| body["schema"]["format"] == "binary"), "{method} {path}");
        assert!(others.is_empty() || others.len() == bodies.len(), "{method} {path} takes JSON and something else");
        // A client that was generated before a field came must take answers that have it.
        for answer in operation["responses"].as_object().unwrap().values() {
            let mut schema = &answer["content"]["application/json"]["schema"];
            if let Some(name) = schema["$ref"].as_str() {
                schema = document.pointer(name.trim_start_matches('#')).unwrap();
            }
            assert!(schema.is_null() || schema["additionalProperties"] == true, "{method} {path}: {schema}");
        }
    }
}

#[tokio::test]
async fn the_documented_parameters_are_those_that_a_route_takes() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &TokenScope::ALL, None).await;
    let document = document();
    let operations = operations(&document);
    for endpoint in Endpoint::ALL {
        let operation = &operations[&(endpoint.documented_path().to_owned(), endpoint.method().to_string())];
        let mut asked = request(endpoint, Some(&format!("Bearer {token}")));
        let uri = format!("{}&unknown=1", asked.uri());
        *asked.uri_mut() = uri.parse().unwrap();
        let documented = query(&document, operation);
        // A route without parameters ignores the query.
        if documented.is_empty() {
            continue;
        }
        let answer = env.answer(asked).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (400, "wrong-parameter"), "{endpoint:?}");
        let says = answer.json()["errors"][0]["problem"].as_str().unwrap().to_owned();
        let taken: BTreeSet<_> = says.trim_start_matches("is not one of ").split(", ").map(str::to_owned).collect();
        assert_eq!(taken, documented, "{endpoint:?}");
    }
}

/// Names of the query parameters.
fn query(document: &Value, operation: &Value) -> BTreeSet<String> {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    let resolved = parameters.map(|parameter| match parameter["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => parameter,
    });
    let names = resolved.filter(|parameter| parameter["in"] == "query").map(|parameter| &parameter["name"]);
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_problem_has_a_section_with_its_status() {
    let page = file("docs/problems.md");
    for problem in Problem::ALL {
        let (status, kind, ..) = problem.parts();
        let section = page.split("\n## ").find(|section| section.lines().next() == Some(kind));
        let section = section.unwrap_or_else(|| panic!("docs/problems.md has no section {kind}"));
        assert!(section.contains(&format!("**{}**", status.as_u16())), "{kind}: {section}");
    }
    assert_eq!(page.matches("\n## ").count(), Problem::ALL.len());
}

#[tokio::test]
async fn the_document_is_served_to_everyone_and_cached_by_its_tag() {
    let env = Env::start(InboxLimits::default()).await;
    let get = |tag: Option<&HeaderValue>| {
        let request = Request::get("/openapi.json");
        let request = tag.into_iter().fold(request, |request, tag| request.header(IF_NONE_MATCH, tag));
        env.answer(request.body(Body::empty()).unwrap())
    };
    let served = get(None).await;
    assert_eq!(
        (served.status.as_u16(), &served.headers[CONTENT_TYPE]),
        (200, &HeaderValue::from_static("application/json"))
    );
    assert_eq!(served.text, text());
    let again = get(Some(&served.headers[ETAG])).await;
    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
}
