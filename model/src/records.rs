//! Records of the store: what goes in and comes out.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Content, EmailAddress, Event, Key, StoredWait, UnsendableAddress,
    pause::Paused,
    settings::{Categories, Section},
    window::{Closed, Planned, Window},
};

mod audit;
mod dead_letter;
mod digest;
mod message;
mod page;
mod person;
mod suppression;

pub use audit::{Actor, AuditFilter, AuditPlace, AuditRecord};
pub use dead_letter::{
    DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord, Emitted, KeptLetter, KeptWebhookLetter,
    LetterSource, WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace, WebhookLetterRecord,
};
pub use digest::{
    DigestEvent, DigestFilter, DigestPlace, DigestRecord, DigestState, EventPlace, Exclusion, Reach, Reached,
};
pub use message::*;
pub use page::{Cursor, InvalidCursor, Listed, Page};
pub use person::{
    Erased, Hanging, HeldId, KeyPlace, ListedRecipient, MovedRows, NameKind, Part, Person, PersonsChoice,
    PersonsConsent, PersonsReading, RecipientFilter, RecipientPlace, RowPlace, StoredName,
};
pub use suppression::{Reason, Suppression, SuppressionFilter, SuppressionPlace};

/// A person in a tenant's directory.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    pub tenant: String,
    pub user: String,
    /// The e-mail address (RFC 5321 addr-spec).
    pub address: String,
    /// Display name; may be empty.
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
    /// The address, to send to.
    ///
    /// # Errors
    /// The directory has an address that no message can be sent to.
    pub fn email_address(&self) -> Result<EmailAddress, UnsendableAddress> {
        Ok(self.address.parse::<EmailAddress>()?)
    }

    /// Invents a recipient at a reserved domain (RFC 2606), for a laptop without a directory.
    #[must_use]
    pub fn invented(key: &Key) -> Self {
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

/// A person as a file or a request has them. What it does not say stays as the directory has it.
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

/// Replaces everything.
impl From<Recipient> for RecipientChange {
    fn from(Recipient { tenant, user, address, name, zone, locale }: Recipient) -> Self {
        Self { tenant, user, address, name: Some(name), zone: Some(zone), locale: Some(locale) }
    }
}

/// The whole row of a new person.
impl From<RecipientChange> for Recipient {
    fn from(RecipientChange { tenant, user, address, name, zone, locale }: RecipientChange) -> Self {
        let text = |text: Option<String>| text.unwrap_or_default();
        Self { tenant, user, address, name: text(name), zone: text(zone), locale: text(locale) }
    }
}

/// A recipient's preferences for one digest type. Empty fields fall back to the digest type's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Preferences {
    /// Cadence in the words of `tidings.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cadence: Option<String>,
    /// IANA time zone that overrides the directory's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The time of day, `18:30`, in place of the cadence's own; no effect on cadences without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Quiet times in the words of `tidings.toml`, in place of the digest type's; empty: none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Vec<String>>,
    /// Categories that the recipient turned off.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub off: BTreeSet<String>,
    /// No mail before then; windows go on collecting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
}

impl Preferences {
    /// The choices of a person who had two ids: the later ones, and what either turned off or paused.
    #[must_use]
    pub fn merged(later: Self, earlier: &Self) -> Self {
        let off = &later.off | &earlier.off;
        Self { off, paused_until: later.paused_until.max(earlier.paused_until), ..later }
    }
}

/// A recipient's choices for one digest type, and the facts on which the recipient chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub key: Key,
    /// [`Facts::revision`] as the recipient saw it.
    pub seen_revision: u64,
    /// [`Facts::consent`] as the recipient saw it.
    pub seen_consent: bool,
    pub preferences: Preferences,
    pub consent: bool,
}

/// All that plan and admission ask about a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Facts {
    /// `None`: the directory does not know the user.
    pub recipient: Option<Recipient>,
    /// The number of the person who has the id now: an erasure raises it, and links of the person before belong to nobody.
    pub generation: u64,
    pub preferences: Preferences,
    /// Grows with every change of the preferences and of the directory's zone; 0 when there was none.
    pub revision: u64,
    /// Time of the last of these changes.
    pub changed_at: Option<Timestamp>,
    /// `true` unless withdrawn.
    pub consent: bool,
    /// Why the recipient's address gets no digests of this tenant: the first reason.
    pub suppressed: Option<Reason>,
    /// Time when the relay accepted the key's last digest.
    pub last_sent_at: Option<Timestamp>,
    /// Time from which that digest counts for a throttle: its slot, or the time when the relay accepted it.
    pub last_slot_at: Option<Timestamp>,
    /// The schedule of that digest. `None`: there was none, or a former version planned it.
    pub last_schedule: Option<SentSchedule>,
    /// The openings and clicks of the key's digests.
    pub reading: Reading,
    /// The operator's pause that covers the key and lasts longest. Its time may be over.
    pub pause: Option<Paused>,
    /// Time when the team's own directory gave the recipient; `None`: it did not.
    pub answered_at: Option<Timestamp>,
    /// Why the team's own directory has no recipient, if it was asked.
    pub missing: Option<String>,
}

impl Facts {
    /// The facts about a person whom the team's own directory does not have.
    #[must_use]
    pub fn without_recipient(self, why: String) -> Self {
        Self { recipient: None, suppressed: None, answered_at: None, missing: Some(why), ..self }
    }

    /// The facts as far as they can be right at `now`. A digest or a change that lies ahead was dated by a wrong clock, and would
    /// hold the next digest back for as long as that clock was ahead (rule 59). Such a date counts as unknown.
    #[must_use]
    pub fn believed(&self, now: Timestamp) -> Cow<'_, Self> {
        let is_right = |at: &Timestamp| StoredWait::PAST.believes(*at, now);
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

/// The schedule by which a digest that was sent had its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentSchedule {
    /// When the digest was due, or sent if that was earlier, as after a flush.
    pub at: Timestamp,
    /// In the syntax of `tidings.toml`.
    pub cadence: String,
    /// IANA name.
    pub zone: String,
}

/// The openings of a key's digests, as far as messages are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The last opening or click by a person. `None`: nothing shows that this recipient can be counted.
    pub read_at: Option<Timestamp>,
    /// The time when a relay accepted the first counted digest since the last opening or click that may be a person's.
    pub unread_since: Option<Timestamp>,
    /// The same of the fifth one.
    pub fifth_unread_at: Option<Timestamp>,
}

/// The answer to a change of preferences.
#[derive(Clone)]
pub enum PreferencesPut {
    /// They are in the store; `changed` is `false` if they were there before.
    Stored { revision: u64, changed: bool },
    /// Another change came first, and nothing was written.
    Conflict { current: Box<Facts> },
}

/// On which terms a window may be claimed.
#[derive(Clone, Copy, Debug)]
pub struct ClaimLimits<'a> {
    /// The recipient's cap; `None`: no limit, as for an operator's flush.
    pub cap: Option<CapSpan>,
    /// The time from which the digest [counts](crate::rules::limit::counts_from); `None`: from its claim.
    pub slot_at: Option<Timestamp>,
    /// Categories that the recipient turned off.
    pub off: &'a BTreeSet<String>,
    /// Events that the recipient has seen elsewhere.
    pub seen: &'a BTreeSet<String>,
    /// Categories whose old or few events do not count.
    pub categories: &'a Categories,
    /// The window's plan in words, for the ledger.
    pub planned: Option<&'a Planned>,
}

/// A cap, and the end of the span that it does not look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapSpan {
    /// Number of digests, at least one.
    pub most: u32,
    /// Digests count that count from later times.
    pub since: Timestamp,
    /// Claims count that are no later: others were dated by a wrong clock.
    pub until: Timestamp,
}

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The window is a digest now.
    Claim(Claim),
    /// The recipient has had as many digests as they get, and nothing was written.
    Capped {
        /// Time from which the oldest of those digests counts.
        oldest: Timestamp,
    },
}

/// The events of a question that a key's ledger knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownEvents {
    /// In the order of the question.
    pub event_ids: Vec<String>,
    /// Those among them that came with other content after they were over.
    pub refused: Vec<(String, Content)>,
}

/// The contents of a claimed digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Events under the digest.
    pub items: u64,
    /// Lines that they make.
    pub groups: u64,
    /// Number of the claim's events, counted from the first, that are in the ledger now.
    pub taken: u64,
    /// Events that were retracted or opted out of, and are in no mail.
    pub aside: u64,
}

/// A digest's content, ready for a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    /// Time of the claim; `None`: the window is still open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Timestamp>,
    /// Events in the digest.
    pub items: u64,
    /// Number of all lines. `lines` holds the first ones.
    pub groups: u64,
    /// Summed `counts` of all events.
    pub counts: BTreeMap<String, i64>,
    pub lines: Vec<Group>,
}

impl Contents {
    /// The type and the id of the entity of all events. `None`: there are several or none, or some lines are not shown.
    #[must_use]
    pub fn entity(&self) -> Option<(&str, &str)> {
        let mut entities = self.lines.iter().map(|line| (&*line.entity_type, &*line.entity_id));
        let entity = entities.next().filter(|(_, id)| !id.is_empty())?;
        (self.groups == self.lines.len() as u64 && entities.all(|other| other == entity)).then_some(entity)
    }
}

/// Events of one digest with equal (category, `entity_type`, `entity_id)`: one line of the mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub category: String,
    /// The heading of the category's section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<Section>,
    pub entity_type: String,
    pub entity_id: String,
    /// Events in the group.
    pub count: u64,
    /// Their summed `counts`.
    pub counts: BTreeMap<String, i64>,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Number of different non-empty actors. `actors` holds the first three by their latest event.
    pub actor_count: u64,
    pub actors: Vec<String>,
    /// The latest items, the latest first.
    pub latest: Vec<Item>,
}

/// One event of a group, or several of its latest events of which a reader reads the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Events that the item stands for.
    #[serde(default = "one")]
    pub count: u64,
    /// The time and the payload of the latest of them (by `occurred_at`, then `event_id` in byte order).
    pub at: Timestamp,
    /// May be empty.
    #[serde(default)]
    pub actor: String,
    #[serde(default)]
    pub payload: Map<String, Value>,
}

const fn one() -> u64 {
    1
}

/// A due window whose digest is claimed with its message in one write.
pub struct RenderedClaim<'a> {
    pub window: &'a Window,
    /// All events of the digest.
    pub events: &'a [Event],
    pub planned: Option<&'a Planned>,
    /// Made of `events`.
    pub message: &'a Message,
    /// See [`ClaimLimits::slot_at`].
    pub slot_at: Option<Timestamp>,
    pub now: Timestamp,
}

/// An end that comes from the workflow or from admission.
pub struct Closing<'a> {
    pub window: &'a Window,
    pub events: &'a [Event],
    pub closed: &'a Closed,
    /// The actor who wants it, for the audit trail.
    pub by: Actor,
    pub return_events: bool,
    /// The plan in words of a window that ends without a claim.
    pub planned: Option<&'a Planned>,
    pub now: Timestamp,
}

/// An entry of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub actor: Actor,
    pub action: String,
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(groups: u64, entities: &[(&str, &str)]) -> Contents {
        let line = |(entity_type, entity_id): &(&str, &str)| Group {
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
        Contents { claimed_at: None, items: groups, groups, counts: BTreeMap::new(), lines }
    }

    #[test]
    fn contents_have_an_entity_if_all_of_them_are_about_it() {
        let (db1, db2) = (("check", "db1"), ("check", "db2"));
        assert_eq!(contents(1, &[db1]).entity(), Some(db1));
        assert_eq!(contents(2, &[db1, db1]).entity(), Some(db1), "two categories");
        for (groups, entities) in [
            (0, vec![]),
            (2, vec![db1, db2]),
            (2, vec![db1, ("host", "db1")]),
            (2, vec![db1]),
            (1, vec![("check", "")]),
        ] {
            assert_eq!(contents(groups, &entities).entity(), None, "{groups} {entities:?}");
        }
    }
}
