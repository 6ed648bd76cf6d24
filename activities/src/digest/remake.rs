//! Renders a waiting message again if it would be different today, until an attempt is committed (rule 60).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tidings_model::{
    AlertName,
    records::{KeyFacts, Recipient, RemovedEvents, WaitingMessage},
    rules::{
        admission::{MissingDecision, wait_for_recipient, wait_for_table},
        effective::consent_or_suppression_block,
    },
    settings::DigestSettings,
    step::SendAnswer,
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_services::{
    deps::StepServices,
    digest_email::{ComposeOutcome, DigestEmail},
    error::StepError,
    team_directory::has_fresh_answer,
};

use super::{render, seen_elsewhere::seen_events};
use crate::attempt::OutgoingMessage;

/// From this age, a message's `Date` is too old.
const OLD: SignedDuration = SignedDuration::from_hours(1);

/// From this age, we query the `seen_url` service again.
const SEEN_AGAIN: SignedDuration = SignedDuration::from_mins(1);

pub(super) enum RemakeOutcome {
    Message(Option<WaitingMessage>),
    Nothing(WindowEnd),
    NotNow(SendAnswer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MessageDifferences {
    events: bool,
    old: bool,
    made_from: bool,
}

impl MessageDifferences {
    const fn any(self) -> bool {
        self.events || self.old || self.made_from
    }
}

/// Renders the message again if it is old, or its recipient, preferences, configuration or events have changed.
/// Also queries the team's own directory and the `seen_url` service, unless no relay accepts the message.
///
/// # Errors
/// If the store fails, or the message cannot be rendered.
pub(super) async fn follow_changes(
    deps: &StepServices,
    outgoing: &OutgoingMessage<'_>,
    window: &Window,
    facts: &KeyFacts,
    waiting: WaitingMessage,
) -> Result<RemakeOutcome, StepError> {
    let now = outgoing.now;
    let Some(settings) = deps.settings.digest(&window.key) else {
        // Without the digest type's table we cannot render. The existing message is still correct unless the
        // digest's events have changed.
        if !waiting.outdated {
            return Ok(RemakeOutcome::Message(Some(waiting)));
        }
        let digest_type = window.key.digest_type.as_str();
        tracing::warn!(alert = %AlertName::UnknownDigestType, digest_type, "message waits to be rendered again: its digest type is not configured");
        return wait_or_end(deps, &waiting, wait_for_table(digest_type, waiting.missing_since, now)).await;
    };
    let asks_directory = deps.directory.is_some() && !has_fresh_answer(facts, now);
    let asks_seen = settings.seen.is_some() && age(&waiting, now) > SEEN_AGAIN;
    let asks = asks_directory || asks_seen;
    if !asks && !find_differences(deps, window, facts, &waiting, now)?.any() {
        return as_it_is(deps, waiting).await;
    }
    let route = match outgoing.choose_relay().await? {
        Ok(route) => route,
        Err(waits) => return Ok(RemakeOutcome::NotNow(waits)),
    };
    let remake = MessageRemake { deps, settings, asks_directory, asks_seen };
    let followed = remake.if_different(window, facts, waiting, now).await;
    if !matches!(followed, Ok(RemakeOutcome::Message(Some(_)))) {
        outgoing.relays.give_up(outgoing.store, &route, now).await;
    }
    followed
}

fn age(waiting: &WaitingMessage, now: Timestamp) -> SignedDuration {
    now.duration_since(waiting.message.made_at)
}

fn find_differences(
    deps: &StepServices,
    window: &Window,
    facts: &KeyFacts,
    waiting: &WaitingMessage,
    now: Timestamp,
) -> Result<MessageDifferences, StepError> {
    let made_from = match &facts.recipient {
        Some(recipient) => {
            email(window, facts, recipient, waiting, now).differs_from(deps, &waiting.message.made_from)?
        }
        None => true,
    };
    Ok(MessageDifferences { events: waiting.outdated, old: age(waiting, now) > OLD, made_from })
}

/// `Date` only changes if too old, so an unchanged message has the same bytes.
fn email<'a>(
    window: &'a Window,
    facts: &'a KeyFacts,
    recipient: &'a Recipient,
    waiting: &'a WaitingMessage,
    now: Timestamp,
) -> DigestEmail<'a> {
    let date = if age(waiting, now) > OLD { now } else { waiting.message.made_at };
    DigestEmail { window, facts, recipient, date, message_id: Some(&waiting.message.message_id) }
}

struct MessageRemake<'a> {
    deps: &'a StepServices,
    settings: &'a DigestSettings,
    asks_directory: bool,
    asks_seen: bool,
}

impl MessageRemake<'_> {
    async fn if_different(
        &self,
        window: &Window,
        facts: &KeyFacts,
        waiting: WaitingMessage,
        now: Timestamp,
    ) -> Result<RemakeOutcome, StepError> {
        let deps = self.deps;
        let changed = if self.asks_directory { deps.changed_facts(&window.key, facts).await? } else { None };
        let facts = changed.as_ref().unwrap_or(facts);
        if let Some(block) = consent_or_suppression_block(facts) {
            return Ok(RemakeOutcome::Nothing(block.window_end()));
        }
        let Some(recipient) = &facts.recipient else {
            let missing = wait_for_recipient(facts.missing.as_deref(), waiting.missing_since, now);
            return wait_or_end(deps, &waiting, missing).await;
        };
        let seen = if self.asks_seen { seen_events(deps, window, &[], false).await? } else { BTreeSet::new() };
        let differences = find_differences(deps, window, facts, &waiting, now)?;
        if !differences.any() && seen.is_empty() {
            return as_it_is(deps, waiting).await;
        }
        let email = email(window, facts, recipient, &waiting, now);
        self.made_again(&email, &waiting, differences, &seen, now).await
    }

    async fn made_again(
        &self,
        email: &DigestEmail<'_>,
        waiting: &WaitingMessage,
        differences: MessageDifferences,
        seen: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<RemakeOutcome, StepError> {
        let Self { deps, settings, .. } = *self;
        let DigestEmail { window, facts, .. } = *email;
        let off = settings.off_under_any_name(&facts.preferences.off);
        let Some(withdrawn) = deps.store.withdraw_events(window, &off, seen, now).await? else {
            return Ok(RemakeOutcome::Message(None));
        };
        if withdrawn.left == 0 {
            return Ok(RemakeOutcome::Nothing(emptied_end()));
        }
        let shown = if waiting.shortened { render::shorter_groups(settings) } else { settings.display_limits() };
        let contents = deps.store.contents(window, shown).await?;
        let message = match email.compose(deps, &contents).await? {
            ComposeOutcome::Message(message) => message,
            ComposeOutcome::Undeliverable { why } => {
                let missing = wait_for_recipient(Some(&why), waiting.missing_since, now);
                return wait_or_end(deps, waiting, missing).await;
            }
        };
        let why = remake_reason(withdrawn, message.envelope_to != waiting.message.envelope_to, differences);
        let Some(epoch) = deps.store.remake_message(&message, withdrawn.epoch, &why, now).await? else {
            // Another call changed the digest, so this message may contain removed events.
            return Err(StepError::Fenced);
        };
        let WaitingMessage { attempted, shortened, .. } = *waiting;
        let made =
            WaitingMessage { message: *message, epoch, attempted, shortened, outdated: false, missing_since: None };
        Ok(RemakeOutcome::Message(Some(made)))
    }
}

fn remake_reason(
    RemovedEvents { retracted, opted_out, seen, .. }: RemovedEvents,
    address: bool,
    differences: MessageDifferences,
) -> String {
    let events = |count: u64, what: &str| match count {
        0 => None,
        1 => Some(format!("1 event {what}")),
        count => Some(format!("{count} events {what}")),
    };
    let mut why: Vec<_> = [
        events(retracted, "retracted"),
        events(opted_out, "of a category that is off"),
        events(seen, "seen elsewhere"),
        address.then(|| "another address".to_owned()),
        (differences.events && retracted + opted_out + seen == 0).then(|| "its events changed".to_owned()),
        differences.old.then(|| "made more than an hour ago".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if why.is_empty() {
        why.push("the recipient, their choices or the configuration changed".to_owned());
    }
    why.join("; ")
}

/// Clears `missing_since`, because nothing is missing now.
async fn as_it_is(deps: &StepServices, waiting: WaitingMessage) -> Result<RemakeOutcome, StepError> {
    if waiting.missing_since.is_some() {
        deps.store.note_missing(waiting.message.id, None).await?;
    }
    Ok(RemakeOutcome::Message(Some(waiting)))
}

/// Waits or ends the digest like a window while its recipient or digest type is missing.
async fn wait_or_end(
    deps: &StepServices,
    waiting: &WaitingMessage,
    missing: MissingDecision,
) -> Result<RemakeOutcome, StepError> {
    match missing {
        MissingDecision::Ends(closed) => Ok(RemakeOutcome::Nothing(closed)),
        MissingDecision::Waits { since, until, why } => {
            if waiting.missing_since.is_none() {
                deps.store.note_missing(waiting.message.id, Some(since)).await?;
            }
            Ok(RemakeOutcome::NotNow(SendAnswer::Waiting { until, why, pause: None, too_large: None, moment: false }))
        }
    }
}

fn emptied_end() -> WindowEnd {
    let why = "every event was retracted, opted out of or seen elsewhere before the message went out".to_owned();
    WindowEnd { outcome: DigestOutcome::Skipped, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_made_again_says_why() {
        let nothing = RemovedEvents::default();
        let same = MessageDifferences { events: false, old: false, made_from: false };
        for (withdrawn, address, differences, why) in [
            (
                RemovedEvents { retracted: 1, ..nothing },
                false,
                MessageDifferences { events: true, ..same },
                "1 event retracted",
            ),
            (
                RemovedEvents { retracted: 2, opted_out: 1, seen: 3, left: 1, epoch: 4 },
                true,
                MessageDifferences { events: true, old: true, made_from: true },
                "2 events retracted; 1 event of a category that is off; 3 events seen elsewhere; another address; \
                 made more than an hour ago",
            ),
            (nothing, false, MessageDifferences { events: true, ..same }, "its events changed"),
            (
                nothing,
                false,
                MessageDifferences { made_from: true, ..same },
                "the recipient, their choices or the configuration changed",
            ),
        ] {
            assert_eq!(remake_reason(withdrawn, address, differences), why);
        }
    }
}
