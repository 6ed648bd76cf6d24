//! Inputs and results of the store.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    EmailAddress, Event, EventContent, Key, StoredWait, UnsendableAddress,
    pause::PauseDetails,
    settings::{DigestCategories, SectionHeading},
    window::{PlanSummary, Window, WindowEnd},
};

mod audit;
mod dead_letter;
mod digest;
mod message;
mod page;
mod person;
mod suppression;

pub use audit::{AuditActor, AuditFilter, AuditPlace, AuditRecord};
pub use dead_letter::{
    DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord, EmissionRecord, KeptLetter, KeptWebhookLetter,
    LetterSource, WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace, WebhookLetterRecord,
};
pub use digest::{
    DigestEvent, DigestFilter, DigestPlace, DigestRecord, DigestState, EventExclusion, EventPlace, RetractEffect,
    RetractReach,
};
pub use message::*;
pub use page::{InvalidCursor, ListPage, PageCursor, PageRequest};
pub use person::{
    DependentKind, ErasedRows, HeldId, KeyPlace, ListedRecipient, MovedRows, NameKind, PersonRecord, PersonRowKind,
    PersonsChoice, PersonsConsent, PersonsReading, RecipientFilter, RecipientPlace, RowPlace, StoredName,
};
pub use suppression::{Suppression, SuppressionFilter, SuppressionPlace, SuppressionReason};

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    pub tenant: String,
    pub user: String,
    /// RFC 5321 addr-spec.
    pub address: String,
    #[serde(default)]
    pub name: String,
    /// IANA time zone; empty for the digest type's.
    #[serde(default)]
    pub zone: String,
    /// BCP 47 language tag; empty for `en`.
    #[serde(default)]
    pub locale: String,
}

impl Recipient {
    /// # Errors
    /// If we cannot send to the address in the directory.
    pub fn email_address(&self) -> Result<EmailAddress, UnsendableAddress> {
        Ok(self.address.parse::<EmailAddress>()?)
    }

    /// Uses a reserved domain (RFC 2606), for development without a directory.
    #[must_use]
    pub fn for_development(key: &Key) -> Self {
        // RFC 5321 4.5.3.1.1: at most 64 bytes before the @.
        let user: String = key.user.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(64).collect();
        Self {
            tenant: key.tenant.clone(),
            user: key.user.clone(),
            address: format!("{user}@dev.invalid"),
            name: key.user.clone(),
            zone: String::new(),
            locale: String::new(),
        }
    }
}

/// Missing fields keep their value in the directory.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct RecipientChange {
    pub tenant: String,
    pub user: String,
    pub address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
}

/// Replaces every field.
impl From<Recipient> for RecipientChange {
    fn from(Recipient { tenant, user, address, name, zone, locale }: Recipient) -> Self {
        Self { tenant, user, address, name: Some(name), zone: Some(zone), locale: Some(locale) }
    }
}

impl From<RecipientChange> for Recipient {
    fn from(RecipientChange { tenant, user, address, name, zone, locale }: RecipientChange) -> Self {
        let text = |text: Option<String>| text.unwrap_or_default();
        Self { tenant, user, address, name: text(name), zone: text(zone), locale: text(locale) }
    }
}

/// For one digest type. Missing fields fall back to the digest type's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Preferences {
    /// In the syntax of `tidings.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cadence: Option<String>,
    /// IANA time zone, overrides the directory's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// E.g. `18:30`. Has no effect on cadences without a time of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// In the syntax of `tidings.toml`. An empty list means no quiet times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Vec<String>>,
    /// Categories the recipient turned off.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub off: BTreeSet<String>,
    /// No email before this time; windows still collect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
}

impl Preferences {
    /// For a person who had two ids: later preferences win, but everything turned off or paused stays so.
    #[must_use]
    pub fn merge_choices(later: Self, earlier: &Self) -> Self {
        let off = &later.off | &earlier.off;
        Self { off, paused_until: later.paused_until.max(earlier.paused_until), ..later }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferencesChange {
    pub key: Key,
    /// As shown to the recipient.
    pub seen_revision: u64,
    /// As shown to the recipient.
    pub seen_consent: bool,
    pub preferences: Preferences,
    pub consent: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub struct KeyFacts {
    pub recipient: Option<Recipient>,
    /// Counts the persons who had this id. An erasure increments it, which invalidates the previous person's
    /// links.
    pub generation: u64,
    pub preferences: Preferences,
    /// Changes of the preferences and the directory's zone; 0 if none.
    pub revision: u64,
    pub changed_at: Option<Timestamp>,
    /// `true` unless withdrawn.
    pub consent: bool,
    /// For this tenant's digests. The first reason wins.
    pub suppressed: Option<SuppressionReason>,
    /// When a relay accepted the last digest.
    pub last_sent_at: Option<Timestamp>,
    /// For throttles: the last digest's slot, or when the relay accepted it.
    pub last_slot_at: Option<Timestamp>,
    /// `None` without a digest, or if an older version planned it.
    pub last_schedule: Option<SentSchedule>,
    pub reading: EngagementTimes,
    /// The longest one. May be over.
    pub pause: Option<PauseDetails>,
    /// When the team's own directory returned the recipient.
    pub answered_at: Option<Timestamp>,
    /// Why the team's own directory returned none.
    pub missing: Option<String>,
}

impl KeyFacts {
    #[must_use]
    pub fn without_recipient(self, why: String) -> Self {
        Self { recipient: None, suppressed: None, answered_at: None, missing: Some(why), ..self }
    }

    /// Ignores dates in the future: a wrong clock wrote them, and they would block the next digest until then
    /// (rule 59).
    #[must_use]
    pub fn without_future_dates(&self, now: Timestamp) -> Cow<'_, Self> {
        let is_right = |at: &Timestamp| StoredWait::PAST.is_plausible(*at, now);
        let dates =
            [self.changed_at, self.last_sent_at, self.last_slot_at, self.last_schedule.as_ref().map(|last| last.at)];
        if dates.iter().flatten().all(is_right) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            changed_at: self.changed_at.filter(is_right),
            last_sent_at: self.last_sent_at.filter(is_right),
            last_slot_at: self.last_slot_at.filter(is_right),
            last_schedule: self.last_schedule.clone().filter(|last| is_right(&last.at)),
            ..self.clone()
        })
    }
}

/// The schedule a sent digest followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentSchedule {
    pub at: Timestamp,
    /// In the syntax of `tidings.toml`.
    pub cadence: String,
    /// IANA name.
    pub zone: String,
}

/// Opens and clicks of a key's digests, for counted messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngagementTimes {
    /// The last by a person. `None` if nothing proves that this recipient can be counted.
    pub read_at: Option<Timestamp>,
    /// When a relay accepted the first digest since an open or click that may be a person's.
    pub unread_since: Option<Timestamp>,
    /// Like `unread_since`, for the fifth such digest.
    pub fifth_unread_at: Option<Timestamp>,
}

#[derive(Clone)]
pub enum PreferencesPut {
    /// `changed` is `false` if nothing was different.
    Stored { revision: u64, changed: bool },
    /// Another change came first. Nothing was written.
    Conflict { current: Box<KeyFacts> },
}

#[derive(Clone, Copy, Debug)]
pub struct ClaimLimits<'a> {
    /// `None` for no limit, e.g. for an operator's flush.
    pub cap: Option<CapSpan>,
    /// When the digest [counts](crate::rules::limit::counts_from) for limits; `None` for its claim.
    pub slot_at: Option<Timestamp>,
    pub off: &'a BTreeSet<String>,
    pub seen: &'a BTreeSet<String>,
    /// Limits on events' age or number.
    pub categories: &'a DigestCategories,
    pub planned: Option<&'a PlanSummary>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapSpan {
    /// Maximum number of digests, at least one.
    pub most: u32,
    /// Exclusive.
    pub since: Timestamp,
    /// Later claims come from a wrong clock.
    pub until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    Claim(ClaimCounts),
    /// Nothing was written.
    Capped {
        oldest: Timestamp,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownEvents {
    /// In the order of the request.
    pub event_ids: Vec<String>,
    /// New content for final events.
    pub refused: Vec<(String, EventContent)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimCounts {
    pub items: u64,
    pub lines: u64,
    /// How many of the claim's events, counted from the first, are in the ledger.
    pub taken: u64,
    /// Retracted or opted out.
    pub aside: u64,
}

/// For templates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DigestContents {
    /// `None` if the window is still open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Timestamp>,
    pub items: u64,
    /// `lines` may only have the first ones.
    pub line_count: u64,
    /// Over all events.
    pub counts: BTreeMap<String, i64>,
    pub lines: Vec<DigestLine>,
}

impl DigestContents {
    #[must_use]
    pub fn common_entity(&self) -> Option<(&str, &str)> {
        let mut entities = self.lines.iter().map(|line| (&*line.entity_type, &*line.entity_id));
        let entity = entities.next().filter(|(_, id)| !id.is_empty())?;
        (self.line_count == self.lines.len() as u64 && entities.all(|other| other == entity)).then_some(entity)
    }
}

/// Events with equal (category, `entity_type`, `entity_id`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DigestLine {
    pub category: String,
    /// Heading of the category's section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionHeading>,
    pub entity_type: String,
    pub entity_id: String,
    pub count: u64,
    pub counts: BTreeMap<String, i64>,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Distinct and not empty. `actors` has three, by their latest event.
    pub actor_count: u64,
    pub actors: Vec<String>,
    /// Newest first.
    pub latest: Vec<LineItem>,
}

/// One or more events with the same text for a reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineItem {
    #[serde(default = "default_count")]
    pub count: u64,
    /// From its latest event (by `occurred_at`, then `event_id` in byte order).
    pub at: Timestamp,
    /// May be empty.
    /// May be empty.
    #[serde(default)]
    pub actor: String,
    #[serde(default)]
    pub payload: Map<String, Value>,
}

const fn default_count() -> u64 {
    1
}

/// Claimed and rendered in one write.
pub struct RenderedClaim<'a> {
    pub window: &'a Window,
    pub events: &'a [Event],
    pub planned: Option<&'a PlanSummary>,
    pub message: &'a OutboxMessage,
    /// See [`ClaimLimits::slot_at`].
    pub slot_at: Option<Timestamp>,
    pub now: Timestamp,
}

pub struct CloseRequest<'a> {
    pub window: &'a Window,
    pub events: &'a [Event],
    pub closed: &'a WindowEnd,
    pub by: AuditActor,
    pub return_events: bool,
    /// For a window that ends without a claim.
    pub planned: Option<&'a PlanSummary>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub actor: AuditActor,
    pub action: String,
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(groups: u64, entities: &[(&str, &str)]) -> DigestContents {
        let line = |(entity_type, entity_id): &(&str, &str)| DigestLine {
            category: "outage".into(),
            section: None,
            entity_type: (*entity_type).into(),
            entity_id: (*entity_id).into(),
            count: 1,
            counts: BTreeMap::new(),
            first_at: Timestamp::UNIX_EPOCH,
            last_at: Timestamp::UNIX_EPOCH,
            actor_count: 0,
            actors: Vec::new(),
            latest: Vec::new(),
        };
        let lines = entities.iter().map(line).collect();
        DigestContents { claimed_at: None, items: groups, line_count: groups, counts: BTreeMap::new(), lines }
    }

    #[test]
    fn contents_have_an_entity_if_all_of_them_are_about_it() {
        let (db1, db2) = (("check", "db1"), ("check", "db2"));
        assert_eq!(contents(1, &[db1]).common_entity(), Some(db1));
        assert_eq!(contents(2, &[db1, db1]).common_entity(), Some(db1), "two categories");
        for (groups, entities) in [
            (0, vec![]),
            (2, vec![db1, db2]),
            (2, vec![db1, ("host", "db1")]),
            (2, vec![db1]),
            (1, vec![("check", "")]),
        ] {
            assert_eq!(contents(groups, &entities).common_entity(), None, "{groups} {entities:?}");
        }
    }
}
