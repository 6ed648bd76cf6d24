//! Answers of a key's workflow, in words.

use jiff::Timestamp;
use tidings_client::commands::Done;
use tidings_model::{
    Key,
    command::{Dropped, Flushed, Held, Released, Reopened, Retimed},
    job::Task,
};
use uuid::Uuid;

use crate::phrases::{counted, local, nothing_pending};

/// The answer to a command in words.
pub(super) fn in_words(key: &Key, task: &Task, done: &Done) -> String {
    let until = if let Task::Hold { until } = task { *until } else { None };
    let digest_id = if let Task::Reopen { digest_id, .. } = task { *digest_id } else { None };
    match done {
        Done::Flushed(answer) => flushed(key, answer),
        Done::Held(answer) => held(key, answer, until),
        Done::Released(answer) => released(key, answer, Timestamp::now()),
        Done::Dropped(answer) => dropped(key, answer),
        Done::Retimed(answer) => retimed(key, answer),
        Done::Reopened(answer) => format!("{key}: {}", reopened(digest_id.unwrap_or_default(), answer)),
    }
}

fn flushed(key: &Key, flushed: &Flushed) -> String {
    let events = counted(flushed.events, "event");
    match flushed {
        Flushed { events: 0, behind: None, .. } => nothing_pending(key),
        Flushed { events: 0, behind: Some(digest), hurried: true, held: false, paused: None } => {
            format!("{key}: sending digest {digest} now")
        }
        Flushed { events: 0, behind: Some(digest), .. } => {
            format!("{key}: nothing pending; digest {digest} is on its way, see tidings status {key}")
        }
        Flushed { held: true, .. } => format!("{key}: on hold; {events} will be sent when that ends"),
        Flushed { paused: Some(paused), .. } => format!("{key}: {paused}; {events} will be sent when that ends"),
        // Whether the recipient paused or opted out is seen when the window is claimed.
        Flushed { behind: None, .. } => {
            format!("{key}: sending {events} now, unless the recipient's choices forbid it")
        }
        Flushed { behind: Some(digest), hurried: true, .. } => {
            format!("{key}: sending digest {digest} now, and {events} as soon as it is delivered or given up")
        }
        Flushed { behind: Some(digest), .. } => {
            format!("{key}: sending {events} as soon as digest {digest} is delivered or given up")
        }
    }
}

fn held(key: &Key, held: &Held, until: Option<Timestamp>) -> String {
    if *held == Held::default() {
        return nothing_pending(key);
    }
    let until = until.map_or_else(|| "it is released".to_owned(), local);
    format!("{key}: on hold until {until}; {} waiting{}", counted(held.events, "event"), and_digest(held.delivering))
}

fn released(key: &Key, released: &Released, now: Timestamp) -> String {
    if !released.held {
        return format!("{key}: was not on hold");
    }
    let events = counted(released.events, "event");
    if let Some(paused) = &released.paused {
        return format!("{key}: released, but {paused}; {events} waiting");
    }
    match released.due_at {
        Some(due_at) if due_at > now => format!("{key}: released; {events} due at {}", local(due_at)),
        _ => format!("{key}: released; sending {events} now"),
    }
}

pub(crate) fn dropped(key: &Key, dropped: &Dropped) -> String {
    if *dropped == Dropped::default() {
        return nothing_pending(key);
    }
    let events = counted(dropped.events, "event");
    format!("{key}: dropped {events}{}; the ledger keeps them", and_digest(dropped.delivering))
}

fn retimed(key: &Key, retimed: &Retimed) -> String {
    let Retimed { events, was, due_at, why } = retimed;
    // Events behind a digest in delivery have no deadline yet.
    let Some(due_at) = due_at else { return format!("{key}: no window is open, and none was retimed") };
    let events = counted(*events, "event");
    match was {
        Some(was) if was == due_at => format!("{key}: {events} still due at {}: {why}", local(*due_at)),
        Some(was) => format!("{key}: {events} due at {}, not at {}: {why}", local(*due_at), local(*was)),
        None => format!("{key}: {events} due at {}: {why}", local(*due_at)),
    }
}

pub(crate) fn reopened(digest_id: Uuid, reopened: &Reopened) -> String {
    match &reopened.refused {
        None => format!("digest {digest_id} goes out with {}", counted(reopened.events, "event")),
        Some(why) => format!("digest {digest_id} stays as it is: {why}"),
    }
}

fn and_digest(delivering: Option<Uuid>) -> String {
    delivering.map(|digest| format!(" and digest {digest}, which was on its way")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use tidings_model::pause::Paused;

    use super::*;

    fn key() -> Key {
        "acme/activity/ann".parse().unwrap()
    }

    fn paused() -> Paused {
        Paused { by: "ann".to_owned(), why: "wrong prices".to_owned(), since: Timestamp::UNIX_EPOCH, until: None }
    }

    #[test]
    fn a_flush_names_pending_events_and_the_delivery() {
        let digest = Some(Uuid::nil());
        for (events, behind, held, said) in [
            (0, None, false, "acme/activity/ann: nothing pending"),
            (0, digest, false, "nothing pending; digest 00000000-0000-0000-0000-000000000000 is on its way"),
            (1, None, false, "acme/activity/ann: sending 1 event now, unless the recipient's choices forbid it"),
            (1, None, true, "on hold; 1 event will be sent when that ends"),
            (2, digest, false, "sending 2 events as soon as digest 00000000-0000-0000-0000-000000000000 is delivered"),
        ] {
            let words = flushed(&key(), &Flushed { events, behind, held, ..Flushed::default() });
            assert!(words.contains(said), "{words}");
        }
    }

    #[test]
    fn each_command_reports_its_effect_or_that_it_had_none() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(12);
        let timed = |was| Retimed { events: 2, was, due_at: Some(now), why: "after 1h".to_owned() };
        let digest = Some(Uuid::nil());
        let released_now = Released { held: true, events: 1, due_at: Some(now), paused: None };
        for (words, said) in [
            (held(&key(), &Held::default(), None), "nothing pending"),
            (held(&key(), &Held { events: 2, delivering: None }, None), "until it is released; 2 events waiting"),
            (released(&key(), &Released::default(), now), "was not on hold"),
            (released(&key(), &released_now, now), "sending 1 event now"),
            (
                released(&key(), &Released { paused: Some(paused()), ..released_now.clone() }, now),
                "released, but paused by ann since 1970-01-01T00:00:00Z: wrong prices; 1 event waiting",
            ),
            (
                flushed(&key(), &Flushed { events: 1, paused: Some(paused()), ..Flushed::default() }),
                "paused by ann since 1970-01-01T00:00:00Z: wrong prices; 1 event will be sent when that ends",
            ),
            (
                flushed(&key(), &Flushed { behind: digest, hurried: true, ..Flushed::default() }),
                "acme/activity/ann: sending digest 00000000-0000-0000-0000-000000000000 now",
            ),
            (dropped(&key(), &Dropped::default()), "nothing pending"),
            (dropped(&key(), &Dropped { events: 1, delivering: digest }), "dropped 1 event and digest 00000000"),
            (retimed(&key(), &Retimed::default()), "no window is open"),
            (retimed(&key(), &timed(Some(now))), "2 events still due at Thu 1970-01-01"),
            (retimed(&key(), &timed(Some(now + SignedDuration::from_hours(48)))), ", not at Sat 1970-01-03"),
            (retimed(&key(), &timed(None)), "2 events due at Thu 1970-01-01"),
        ] {
            assert!(words.contains(said), "{words}");
        }
    }

    #[test]
    fn it_says_what_goes_out_or_why_nothing_does() {
        let answer = Reopened { events: 2, refused: None };
        assert_eq!(reopened(Uuid::nil(), &answer), format!("digest {} goes out with 2 events", Uuid::nil()));
        let refused = Reopened { events: 0, refused: Some("it was sent".to_owned()) };
        assert_eq!(reopened(Uuid::nil(), &refused), format!("digest {} stays as it is: it was sent", Uuid::nil()));
    }
}
