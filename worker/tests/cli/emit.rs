//! `tidings emit`: what is refused, and where.

use std::io::Write as _;

use tempfile::TempDir;
use tidings_model::api_token::ApiToken;

use crate::{run, said, start, start_with};

#[test]
fn emit_needs_no_server_to_refuse_and_names_line_field_and_limit() {
    let folder = TempDir::new().unwrap();
    let long =
        format!("{{\"tenant\": \"a\", \"user\": \"b\", \"digest\": \"c\", \"event_id\": \"{}\"}}", "x".repeat(256));
    let input = format!("{{}}\n\n{long}\nnot json\n");
    let (code, out, error) = run(folder.path(), &["emit"], &input);
    assert_eq!((code, out.as_str()), (1, "events: 0 accepted, 3 rejected\n"));
    assert!(error.contains("line 1: tenant: is required"), "{error}");
    assert!(error.contains("line 3: event_id: has 256 bytes, the limit is 255"), "{error}");
    assert!(error.contains("line 4: "), "{error}");

    let (code, out, _) = run(folder.path(), &["emit", "--json", "-"], &input);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, lines.len()), (1, 4));
    assert_eq!((&lines[1]["rejected"]["line"], &lines[1]["rejected"]["field"]), (&3.into(), &"event_id".into()));
    assert_eq!(lines[3], serde_json::json!({"accepted": 0, "rejected": 3}));
}

#[test]
fn a_valid_event_without_a_server_names_the_server() {
    let folder = TempDir::new().unwrap();
    let event = ["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"];
    let (code, _, error) = run(folder.path(), &event, "");
    assert_eq!(code, 1);
    assert!(error.contains("Temporal at http://127.0.0.1:1 does not answer (Connection refused"), "{error}");
    assert!(error.contains("TEMPORAL_ADDRESS"), "{error}");
}

#[test]
fn emit_ends_with_its_error_though_its_input_goes_on() {
    let folder = TempDir::new().unwrap();
    let key = ["--tenant", "acme", "--user", "ann", "--digest", "activity"];
    let mut emit = start(folder.path(), &[&["emit", "-"], &key[..]].concat());
    let mut input = emit.stdin.take().unwrap();
    writeln!(input, r#"{{"event_id": "1", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"}}"#).unwrap();
    let output = emit.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("does not answer"), "{}", said(&output.stderr));
    drop(input);
}

#[test]
fn a_single_event_needs_its_whole_key() {
    let folder = TempDir::new().unwrap();
    let (code, _, error) = run(folder.path(), &["emit", "--category", "comment", "--tenant", "acme"], "");
    assert_eq!(code, 2);
    assert!(error.contains("--user <USER>") && error.contains("--digest <TYPE>"), "{error}");
}

#[test]
fn emit_over_http_needs_a_url_and_a_token() {
    let folder = TempDir::new().unwrap();
    let key = ["--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"];
    let emit = |url: &str, variables: &[(&str, &str)]| {
        let child = start_with(folder.path(), &[&["emit", "--http", url][..], &key].concat(), variables);
        let output = child.wait_with_output().unwrap();
        (output.status.code(), said(&output.stderr))
    };
    let (code, error) = emit("https://tidings.acme.example", &[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("TIDINGS_TOKEN has no token; set it to what `tidings tokens create"), "{error}");
    let (code, error) = emit("https://tidings.acme.example", &[("TIDINGS_TOKEN", "tdg_hunter2")]);
    assert_eq!(code, Some(2));
    assert!(error.contains("TIDINGS_TOKEN is malformed") && !error.contains("hunter2"), "{error}");

    let token = ApiToken::generate().unwrap().reveal();
    let (code, error) = emit("https://ann:hunter2@tidings.acme.example", &[("TIDINGS_TOKEN", &token)]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--http: is not the URL of a gateway's API") && !error.contains("hunter2"), "{error}");
    // No such host exists (RFC 2606).
    let (code, error) = emit("http://tidings.invalid:8081", &[("TIDINGS_TOKEN", &token)]);
    assert!(code == Some(2) && error.contains("write https, or add ?tls=none if you accept that"), "{error}");
    assert!(!error.contains(&token[21..60]), "{error}");
    for url in ["http://tidings.invalid:8081?tls=none", "http://127.0.0.1:1"] {
        let (code, error) = emit(url, &[("TIDINGS_TOKEN", &token)]);
        assert!(code == Some(1) && error.contains("cannot connect to the gateway at "), "{error}");
        assert!(!error.contains(&token[21..60]), "{error}");
    }
}
