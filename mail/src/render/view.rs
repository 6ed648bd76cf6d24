//! What templates see of a digest. Built by a pure function from the store's contents; every value in it is clean, so
//! that a template can neither forget to nor undo it.

use std::collections::BTreeSet;

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};
use tera::Value;
use tidings_model::{
    contract::Window,
    records::{Contents, Group, Recipient},
};

use super::{
    clean,
    line::Line,
    sums::{self, Counts, Sum},
    words,
};

/// Characters of a name: of an actor, an entity, a category, a count.
pub(super) const NAME_CHARS: usize = 100;

/// What a view is made of.
pub struct Input<'a> {
    pub contents: &'a Contents,
    pub window: &'a Window,
    /// Its address is not looked at.
    pub recipient: &'a Recipient,
    /// The zone in which the recipient reads times.
    pub zone: &'a TimeZone,
    /// The cadence in the words of `tidings.toml`; the footer says how often the mail comes.
    pub cadence: &'a str,
    pub links: &'a Links,
}

/// Links beside those of the events. What is absent is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Where the lines are that the mail does not show.
    #[serde(default)]
    pub more_url: Option<String>,
    /// Where one click ends these mails.
    #[serde(default)]
    pub unsubscribe_url: Option<String>,
    /// Where the recipient changes the cadence.
    #[serde(default)]
    pub preferences_url: Option<String>,
}

/// The three names that templates see.
#[derive(Clone, PartialEq, Serialize)]
pub struct View {
    pub digest: Digest,
    pub recipient: Reader,
    pub links: Links,
}

/// A digest, as templates see it. Times are local to the recipient, in words.
#[derive(Clone, PartialEq, Serialize)]
pub struct Digest {
    pub id: String,
    #[serde(rename = "type")]
    pub digest_type: String,
    pub window: Span,
    /// `Mon 3 Feb 2025, 08:00`.
    pub opened_at: String,
    /// How often the digest comes, in words; may be empty.
    pub cadence: String,
    /// Events in the digest, shown or not.
    pub item_count: u64,
    /// Lines of the digest, shown or not.
    pub group_count: u64,
    /// Different entities of the digest, where all its lines are known.
    pub entity_count: Option<u64>,
    /// The entities' type, where all known lines have the same.
    pub entity_type: Option<String>,
    /// By name: a map.
    pub counts: Value,
    /// The counts in words, the worst first.
    pub sums: Vec<Sum>,
    /// The lines, each a `Line`.
    pub groups: Vec<Value>,
    pub more: More,
}

/// When the digest collected.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Span {
    pub opened_at: String,
    /// When it was due.
    pub closed_at: String,
    /// Both in one phrase, without repeating what they share.
    pub span: String,
    /// IANA name.
    pub zone: String,
}

/// Who reads it.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Reader {
    pub user: String,
    pub name: String,
    pub locale: String,
    pub zone: String,
}

/// What the mail does not show (rule 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct More {
    pub groups: u64,
    pub items: u64,
}

impl View {
    /// What templates see of `input`.
    #[must_use]
    pub fn new(input: &Input<'_>) -> Self {
        let Input { contents, window, recipient, zone, links, .. } = input;
        let window_words = Span::new(window, zone);
        let reader = Reader {
            user: clean::text(&window.key.user, NAME_CHARS).into_owned(),
            name: clean::text(&recipient.name, NAME_CHARS).into_owned(),
            locale: clean::text(&recipient.locale, NAME_CHARS).into_owned(),
            zone: window_words.zone.clone(),
        };
        let safe = |link: &Option<String>| link.as_deref().and_then(clean::url);
        let links = Links {
            more_url: safe(&links.more_url),
            unsubscribe_url: safe(&links.unsubscribe_url),
            preferences_url: safe(&links.preferences_url),
        };
        let digest = Digest {
            id: window.digest_id.to_string(),
            digest_type: clean::text(&window.key.digest_type, NAME_CHARS).into_owned(),
            opened_at: window_words.opened_at.clone(),
            window: window_words,
            cadence: words::how_often(input.cadence),
            item_count: contents.items,
            group_count: contents.groups,
            entity_count: entity_count(contents),
            entity_type: entity_type(&contents.lines),
            counts: Value::from_serializable(&Counts(&contents.counts)),
            sums: sums::sums(&contents.counts),
            groups: contents.lines.iter().map(|group| Value::from_serializable(&Line::new(group, zone))).collect(),
            more: More { groups: 0, items: 0 },
        };
        let shown = contents.lines.len();
        Self { digest, recipient: reader, links }.shortened(shown)
    }

    /// The view with the first `shown` lines; the rest counts as more.
    #[must_use]
    pub(super) fn shortened(mut self, shown: usize) -> Self {
        let digest = &mut self.digest;
        digest.groups.truncate(shown);
        let items: u64 = digest.groups.iter().filter_map(|line| line.get_from_path("count")?.as_u64()).sum();
        let groups = u64::try_from(digest.groups.len()).unwrap_or(u64::MAX);
        digest.more =
            More { groups: digest.group_count.saturating_sub(groups), items: digest.item_count.saturating_sub(items) };
        self
    }
}

impl Span {
    fn new(window: &Window, zone: &TimeZone) -> Self {
        let (opened, closed) = (window.opened_at, window.due_at);
        let shared = |format| local(opened, zone, format) == local(closed, zone, format);
        let (start, end) = match (shared("%F"), shared("%Y")) {
            (true, _) => ("%a %-d %b %Y, %H:%M", "%H:%M"),
            (false, true) => ("%a %-d %b, %H:%M", "%a %-d %b %Y, %H:%M"),
            (false, false) => ("%a %-d %b %Y, %H:%M", "%a %-d %b %Y, %H:%M"),
        };
        Self {
            opened_at: local(opened, zone, "%a %-d %b %Y, %H:%M"),
            closed_at: local(closed, zone, "%a %-d %b %Y, %H:%M"),
            span: format!("{} to {}", local(opened, zone, start), local(closed, zone, end)),
            zone: zone.iana_name().unwrap_or("UTC").to_owned(),
        }
    }
}

fn local(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    at.to_zoned(zone.clone()).strftime(format).to_string()
}

fn entity_count(contents: &Contents) -> Option<u64> {
    let all_known = u64::try_from(contents.lines.len()).is_ok_and(|known| known == contents.groups);
    let entities: BTreeSet<_> = contents.lines.iter().map(|group| (&group.entity_type, &group.entity_id)).collect();
    all_known.then(|| u64::try_from(entities.len()).unwrap_or(u64::MAX))
}

fn entity_type(lines: &[Group]) -> Option<String> {
    let first = &lines.first()?.entity_type;
    let same = !first.is_empty() && lines.iter().all(|group| group.entity_type == *first);
    same.then(|| clean::text(first, NAME_CHARS).into_owned())
}
