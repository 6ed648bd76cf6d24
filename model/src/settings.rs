//! What the activities need of the configuration. `worker` reads it from `tidings.toml` and the environment.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{Cadence, Key, Quiet, rules::Choices, words};

mod streams;

pub use streams::{DkimKey, Guarantee, Per, RETRY_DELAYS, Rate, RelaySettings, Stream, Streams};

/// See the module.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By digest type.
    pub digests: BTreeMap<String, DigestSettings>,
    /// By tenant and digest type: what takes the place of `digests` there.
    pub tenants: BTreeMap<String, BTreeMap<String, DigestSettings>>,
    /// How many digests a recipient gets, over all digest types (rule 13).
    pub cap: Option<Cap>,
    /// So many messages to an address that bounce softly, one after the other, suppress it.
    pub soft_bounces: u32,
    /// The relays, by name.
    pub relays: BTreeMap<String, RelaySettings>,
    /// How messages are sent, by stream.
    pub streams: Streams,
    /// What to do about a user whom the directory does not know.
    pub unknown_recipients: UnknownRecipients,
}

impl Settings {
    /// Soft bounces unless somebody says otherwise.
    pub const SOFT_BOUNCES: u32 = 5;

    /// The key's digest type, as its tenant has it; `None`: there is none of this name.
    #[must_use]
    pub fn digest(&self, key: &Key) -> Option<&DigestSettings> {
        let own = self.tenants.get(&key.tenant).and_then(|digests| digests.get(&key.digest_type));
        own.or_else(|| self.digests.get(&key.digest_type))
    }

    /// Attempts per second that a stream's task queue may hand out, over all workers: so few that none of its relays
    /// gets more than it takes. `None`: as many as there are.
    #[must_use]
    pub fn rate(&self, stream: &Stream) -> Option<f64> {
        let relays = stream.relays.iter().filter_map(|name| self.relays.get(name));
        relays.filter_map(|relay| relay.rate).map(Rate::per_second).min_by(f64::total_cmp)
    }
}

/// At most so many digests in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// So many, at least one.
    pub most: u32,
    /// In any span of this length.
    pub within: Duration,
}

/// In the words of `tidings.toml`: `5 in 1d`.
impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.most, words::written(self.within))
    }
}

/// What becomes of a window that the throttle keeps back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Throttled {
    /// It waits and collects.
    #[default]
    Defer,
    /// It closes as `throttled`, and the ledger keeps its events.
    Skip,
}

impl Throttled {
    /// The word in `tidings.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Defer => "defer",
            Self::Skip => "skip",
        }
    }
}

/// One digest type.
#[derive(Clone, Debug)]
pub struct DigestSettings {
    /// When a window is due, unless the recipient chose otherwise.
    pub cadence: Cadence,
    /// How long a category may wait where the cadence is immediate (rule 8).
    pub delay: BTreeMap<String, Duration>,
    /// Without a digest of the key for so long, the first event goes out at once (rule 17).
    pub first_now: Option<Duration>,
    /// At most one digest of a key in so long (rule 13).
    pub throttle: Option<Duration>,
    /// What the throttle does.
    pub throttled: Throttled,
    /// How long a run stays open after its last digest.
    pub linger: Option<Duration>,
    /// Which cadences recipients may choose.
    pub choices: Choices,
    /// IANA zone of recipients without one of their own.
    pub zone: Option<String>,
    /// Sends for one calendar slot, and those after quiet hours, are spread over this (rule 11).
    pub spread: Option<Duration>,
    /// When no mail goes out (rule 12).
    pub quiet: Quiet,
    /// Folder of the templates.
    pub template: String,
    /// Most lines that a mail shows.
    pub max_items: u32,
    /// A window with this many events is due.
    pub max_events: Option<u32>,
    /// Where "and N more" leads to.
    pub more_url: Option<String>,
}

impl DigestSettings {
    /// Lines that a mail shows unless somebody says otherwise (rule 20).
    pub const MAX_ITEMS: u32 = 50;

    /// A digest type of which nothing else is configured.
    #[must_use]
    pub fn new(template: &str, cadence: Cadence) -> Self {
        Self {
            cadence,
            delay: BTreeMap::new(),
            first_now: None,
            throttle: None,
            throttled: Throttled::default(),
            linger: None,
            choices: Choices::default(),
            zone: None,
            spread: None,
            quiet: Quiet::default(),
            template: template.to_owned(),
            max_items: Self::MAX_ITEMS,
            max_events: None,
            more_url: None,
        }
    }
}

/// How mails introduce themselves.
#[derive(Clone, Debug)]
pub struct Sender {
    /// `From`: display name and address; the address is also the envelope's.
    pub name: String,
    /// See `name`.
    pub address: String,
    /// `Reply-To`, if it differs.
    pub reply_to: Option<String>,
    /// Right-hand side of `Message-ID` and `List-Id`.
    pub domain: String,
}

/// What to do about a user whom the directory does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownRecipients {
    /// Ask again with backoff, and close the digest as `unknown` after seven days.
    Wait,
    /// On a laptop: write to `USER@dev.invalid`, which nobody owns (RFC 2606).
    Invent,
}
