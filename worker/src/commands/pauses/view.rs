//! A pause as operators read it.

use tidings_model::pause::{Pause, PauseEnd};

/// One line: the id, the scope, who paused it, since when, until when, why, and its end.
pub(super) fn line(pause: &Pause) -> String {
    let Pause { id, scope, messages, paused, ended } = pause;
    let messages = if *messages { ", with single messages" } else { "" };
    let ended = ended.as_ref().map(|PauseEnd { at, by, why }| format!("; ended by {by} at {at:.0}: {why}"));
    format!("{id}  {scope}{messages}  {paused}{}", ended.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use tidings_model::pause::{Paused, Scope};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_pause_is_one_line_for_people_and_one_object_for_machines() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let pause = Pause {
            id: Uuid::nil(),
            scope: Scope { tenant: Some("acme".into()), digest_type: None },
            messages: true,
            paused: Paused { by: "ann".into(), why: "wrong prices".into(), since: at(0), until: None },
            ended: Some(PauseEnd { at: at(60), by: "carol".into(), why: "prices fixed".into() }),
        };
        assert_eq!(
            line(&pause),
            "00000000-0000-0000-0000-000000000000  tenant=acme, with single messages  paused by ann since \
             1970-01-01T00:00:00Z: wrong prices; ended by carol at 1970-01-01T00:01:00Z: prices fixed"
        );
        assert_eq!(
            json!(pause).to_string(),
            r#"{"by":"ann","ended":{"at":"1970-01-01T00:01:00Z","by":"carol","why":"prices fixed"},"id":"00000000-0000-0000-0000-000000000000","messages":true,"since":"1970-01-01T00:00:00Z","tenant":"acme","type":null,"why":"wrong prices"}"#
        );
    }
}
