//! The JSON between runs, as every version so far writes and reads it.

use serde_json::{Value, from_value, json, to_value};

use super::*;

/// The state of an idle key, with these fields in place of its own.
fn carried(fields: &Value) -> Value {
    let mut state = json!({
        "key": {"tenant": "acme", "digest_type": "activity", "user": "ann"},
        "first_run_id": "run",
        "windows": 1,
        "pending": [],
        "open": null,
        "delivering": null,
        "flushed": false,
        "letters": [],
        "malformed": 0,
        "cancelled": false,
        "summary": {"digests": 1, "last": {
            "digest_id": "00000000-0000-0000-0000-000000000001", "outcome": "skipped", "why": "nothing new"}},
    });
    state.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    state
}

fn order() -> Value {
    json!({"by": "ann", "why": "because"})
}

fn window() -> Value {
    json!({
        "key": {"tenant": "acme", "digest_type": "activity", "user": "ann"},
        "digest_id": "00000000-0000-0000-0000-000000000002",
        "opened_at": "2026-01-01T00:00:00Z",
        "due_at": "2026-01-01T08:00:00Z",
    })
}

fn delivering() -> Value {
    json!({"window": window(), "items": 2, "groups": 1, "rendered": true, "attempts": 1,
           "not_before": "2026-01-01T08:01:00Z", "why": "451 later"})
}

fn open() -> Value {
    json!({"window": window(), "plan": null, "stashed": 2, "runs": ["earlier"], "unread": 1, "sealed": true,
           "not_before": null, "why": ""})
}

#[test]
fn the_next_run_gets_the_json_that_this_run_got() {
    let event = json!({"event_id": "e1", "category": "comment", "entity_type": "page", "entity_id": "plans",
                       "actor": "Bob", "occurred_at": "2026-01-01T00:00:00Z"});
    let reopening = json!({"by": "ann", "why": "because", "digest_id": window()["digest_id"], "may_duplicate": true});
    let returned = json!({"at": "2026-01-01T00:00:00Z", "digests": {window()["digest_id"].as_str().unwrap(): 2}});
    let mut by_return = open();
    let new = json!({"by_return": true, "arrived_at": "2026-01-01T01:00:00Z", "late": returned, "compared": 3});
    by_return.as_object_mut().unwrap().extend(new.as_object().unwrap().clone());
    for fields in [
        json!({}),
        json!({"key": null, "idle_since": "2026-01-01T00:00:00Z", "linger": {"secs": 60, "nanos": 0}}),
        json!({"open": open(), "changed": true}),
        json!({"open": open(), "unanswered": true, "retiming": order()}),
        json!({"delivering": delivering(), "waited": true, "flushed": true}),
        json!({"delivering": delivering(), "hold": {"by": "ann", "why": "because", "until": null}}),
        json!({"open": open(), "dropping": order(), "dropping_events": 0, "cancelled": true}),
        json!({"dropping": order(), "dropping_events": 1, "pending": [{"at": "2026-01-01T00:00:00Z", "event": event}]}),
        json!({"reopening": reopening}),
        json!({"returned": returned, "open": by_return}),
    ] {
        let json = carried(&fields);
        let state: DigestRunState = from_value(json.clone()).unwrap();
        assert_eq!(to_value(&state).unwrap(), json);
    }
}

#[test]
fn a_change_of_preferences_during_a_plan_asks_for_another_plan() {
    let state: DigestRunState = from_value(carried(&json!({"changed": true, "unanswered": true}))).unwrap();
    assert_eq!(state.preferences, PreferencesState::Changed);
}

#[test]
fn an_answer_to_a_command_of_this_run_is_not_handed_over() {
    let mut state: DigestRunState = from_value(carried(&json!({}))).unwrap();
    let request = from_value(json!({"by": "ann", "why": "because", "digest_id": window()["digest_id"]})).unwrap();
    state.reopen = Some(ReopenRequest { request, answer: Some(tidings_model::command::ReopenResult::default()) });
    assert_eq!(to_value(&state).unwrap(), carried(&json!({})));
}

#[test]
fn a_malformed_request_makes_a_state_unreadable() {
    for fields in [json!({"dropping": 5}), json!({"changed": "yes"}), json!({"reopening": {}})] {
        assert!(from_value::<DigestRunState>(carried(&fields)).is_err(), "{fields}");
    }
}
