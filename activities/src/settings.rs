//! What the activities need of the configuration. `worker` reads it from `tidings.toml` and the environment.

use std::{collections::BTreeMap, time::Duration};

use tidings_workflows::{Cadence, Quiet};

use crate::mailer::Dkim;

/// See the module.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By digest type.
    pub digests: BTreeMap<String, DigestSettings>,
    /// How mails introduce themselves.
    pub sender: Sender,
    /// What signs the mails, unless the relay does.
    pub dkim: Option<Dkim>,
    /// What to do about a user whom the directory does not know.
    pub unknown_recipients: UnknownRecipients,
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
