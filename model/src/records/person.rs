//! A person of a tenant, and what is held about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::AddAssign,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::records::{Page, Preferences, Reason, Recipient, Suppression};

/// An id that a person has or had, and the times of the renames between which it was theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldId {
    pub user: String,
    /// The id was somebody else's until then.
    pub since: Option<Timestamp>,
    /// `None`: the person has the id.
    pub until: Option<Timestamp>,
}

/// The place of a recipient in the directory: tenant and user.
pub type RecipientPlace = (String, String);

/// The place of a key in a listing by key: tenant, digest type and user.
pub type KeyPlace = (String, String, String);

/// The place of a row among those about a person: a time or a number, then an id.
pub type RowPlace = (i64, String);

/// A filter of recipients, by tenant and user. What is `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct RecipientFilter {
    /// Only people of this tenant
    #[cfg_attr(feature = "clap", arg(long, value_name = "TENANT"))]
    pub tenant: Option<String>,
    /// Only people with this address, in any case
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub address: Option<String>,
    /// Only people with this zone in the directory
    #[cfg_attr(feature = "clap", arg(long, value_name = "ZONE"))]
    pub zone: Option<String>,
    /// Only people with this language in the directory
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOCALE"))]
    pub locale: Option<String>,
    /// Only people whose address is suppressed
    #[cfg_attr(feature = "clap", arg(long))]
    pub suppressed: bool,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: Page<RecipientPlace>,
}

/// A recipient in a listing.
#[derive(Clone, PartialEq, Eq)]
pub struct ListedRecipient {
    pub recipient: Recipient,
    /// The first reason why their address is suppressed.
    pub suppressed: Option<Reason>,
}

/// A person as the store knows them apart from the ledger. It contains an address: not for logs.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct Person {
    /// `None`: the directory does not have them.
    pub recipient: Option<Recipient>,
    pub preferences: Vec<PersonsChoice>,
    pub consents: Vec<PersonsConsent>,
    pub readings: Vec<PersonsReading>,
    /// Of all their addresses.
    pub suppressions: Vec<Suppression>,
    /// Their address in the directory and those that messages were sent to, as suppressions spell them.
    pub addresses: BTreeSet<String>,
    /// Digest types of all their rows but the audit trail's, whatever the file says of these types.
    pub digest_types: BTreeSet<String>,
}

impl Person {
    /// `true` if the store has nothing of them, apart from single messages to an address that the directory never had.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recipient.is_none() && self.addresses.is_empty() && self.digest_types.is_empty()
    }

    /// `true` if nobody is reached under the id, and nobody chose anything: what producers sent to it is no person yet.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.recipient.is_none() && self.preferences.is_empty() && self.consents.is_empty() && self.readings.is_empty()
    }
}

/// Adds what is held about the person under another name of the tenant. The first row of the directory stays.
impl AddAssign for Person {
    fn add_assign(&mut self, more: Self) {
        self.recipient = self.recipient.take().or(more.recipient);
        self.preferences.extend(more.preferences);
        self.consents.extend(more.consents);
        self.readings.extend(more.readings);
        self.suppressions.extend(more.suppressions);
        self.addresses.extend(more.addresses);
        self.digest_types.extend(more.digest_types);
    }
}

/// A person's preferences for a digest type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsChoice {
    pub digest_type: String,
    pub chosen: Preferences,
    pub revision: u64,
    pub changed_at: Timestamp,
}

/// A person's consent to a digest type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsConsent {
    pub digest_type: String,
    pub consent: bool,
    pub changed_at: Timestamp,
}

/// The last times at which a person's digests of a type were opened or clicked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsReading {
    pub digest_type: String,
    /// By a person.
    pub read_at: Option<Timestamp>,
    /// By a person, or by whom no header says.
    pub sign_at: Timestamp,
}

/// Declares counts of rows, each with its name in words.
macro_rules! row_counts {
    ($(#[$meta:meta])* pub struct $counts:ident { $($(#[$doc:meta])* $field:ident = $words:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $counts { $($(#[$doc])* pub $field: u64,)+ }

        impl $counts {
            /// The counts that are not 0, each with its name.
            pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($words, self.$field)),+].into_iter().filter(|(_, count)| *count > 0)
            }
        }

        impl AddAssign for $counts {
            fn add_assign(&mut self, more: Self) {
                $(self.$field += more.$field;)+
            }
        }
    };
}

row_counts! {
    /// The rows that were moved from one person to another.
    pub struct MovedRows {
        recipients = "recipients",
        preferences = "preferences",
        consents = "consents",
        digests = "digests",
        events = "events",
        /// Those of the events that wait for the next claim.
        returned = "events that wait",
        retracts = "retracts",
        messages = "messages",
        dead_letters = "dead letters",
    }
}

/// A kind of rows that the store holds about a person, besides [`Person`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Digests,
    Events,
    Retracts,
    DeadLetters,
    /// Messages of digests and single ones, with their bytes and attempts.
    Messages,
    DeliveryEvents,
    /// Events and retracts that the gateway took, on their way to Temporal or forwarded.
    Inbox,
    /// Facts that subscriptions get.
    Notices,
    /// Keys in operators' jobs, with their results.
    JobResults,
    /// Runs in Temporal that ended without their code, or that are open and in trouble.
    TroubledRuns,
    Audit,
}

impl Part {
    /// Each of them, in the order of an export.
    pub const ALL: [Self; 11] = [
        Self::Digests,
        Self::Events,
        Self::Retracts,
        Self::Messages,
        Self::DeliveryEvents,
        Self::DeadLetters,
        Self::Inbox,
        Self::Notices,
        Self::JobResults,
        Self::TroubledRuns,
        Self::Audit,
    ];

    /// The name in an export.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Digests => "digests",
            Self::Events => "events",
            Self::Retracts => "retracts",
            Self::DeadLetters => "dead_letters",
            Self::Messages => "messages",
            Self::DeliveryEvents => "delivery_events",
            Self::Inbox => "inbox",
            Self::Notices => "notices",
            Self::JobResults => "job_results",
            Self::TroubledRuns => "troubled_runs",
            Self::Audit => "audit",
        }
    }
}

// Names that the store has, and what hangs on them.

closed_set! {
    /// What a name is the name of.
    pub enum NameKind {
        Digest = "digest",
        Tenant = "tenant",
        Category = "category",
        Relay = "relay",
        Subscription = "subscription",
    }
}

closed_set! {
    /// What may hang on a name; the name says it after a number.
    pub enum Hanging {
        /// People who unsubscribed.
        Withdrawn = "unsubscribed",
        /// People who chose something.
        Chosen = "with choices",
        /// People who turned the category off.
        Off = "who turned it off",
        /// Pauses of operators that are in force.
        Paused = "paused",
        /// Suppressed addresses.
        Suppressed = "suppressed",
        /// Digests without an end.
        Undelivered = "digests without an end",
        /// A relay that is left alone until an operator says otherwise.
        Broken = "open breaker",
        /// Notices without an end.
        Waiting = "notices that wait",
    }
}

/// A name with how many of each hang on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredName {
    pub kind: NameKind,
    pub name: String,
    pub has: BTreeMap<Hanging, u64>,
}

/// What there is, in words: `2 unsubscribed, 1 suppressed`.
impl fmt::Display for StoredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there: Vec<_> = self.has.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&there.join(", "))
    }
}

// The erasure of a person (GDPR, article 17).

row_counts! {
    /// Rows that an erasure changed, or would change.
    pub struct Erased {
        /// Rows of the directory.
        recipients = "recipients",
        preferences = "preferences",
        consents = "consents",
        /// Suppressions that have a pseudonym instead of the address.
        suppressions = "suppressions",
        /// Digests that cannot be sent again.
        digests = "digests",
        /// Events that keep their id, category and times only.
        events = "events",
        retracts = "retracts",
        /// Messages without bytes and subject, with a pseudonym instead of the address.
        messages = "messages",
        /// Delivery events without the provider's text, with a pseudonym instead of the address.
        delivery_events = "delivery_events",
        dead_letters = "dead_letters",
        /// Events and retracts in the gateway's inbox.
        inbox = "inbox",
        /// Lines of the archive.
        archived = "archived",
    }
}

impl Erased {
    /// `true` if no row was, or would be, changed.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PersonId;

    /// Producers use the new id first.
    #[test]
    fn an_id_that_only_events_came_to_is_free() {
        let sent = Person { digest_types: ["activity".to_owned()].into(), ..Person::default() };
        assert!(sent.is_free() && !sent.is_empty());
        let consents =
            vec![PersonsConsent { digest_type: "activity".into(), consent: false, changed_at: Timestamp::UNIX_EPOCH }];
        let mut refused = Person { consents, ..Person::default() };
        assert!(!refused.is_free());
        refused += sent;
        assert_eq!((refused.digest_types.len(), refused.consents.len()), (1, 1));
    }

    #[test]
    fn a_person_comes_back_from_the_text_and_a_key_is_none() {
        let ann = PersonId { tenant: "a/b".into(), user: "ann 1".into() };
        assert_eq!(ann.to_string(), "a%2Fb/ann%201");
        assert_eq!(ann.to_string().parse(), Ok(ann));
        for wrong in ["ann", "acme/", "/ann", "acme/activity/ann", "acme/%ff"] {
            assert!(wrong.parse::<PersonId>().is_err(), "{wrong}");
        }
    }
}
