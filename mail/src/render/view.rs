//! The view of a digest that templates receive. A pure function builds it from the contents of the digest. Every value is
//! clean, so a template cannot forget or undo the cleaning.

use std::{cmp::Reverse, collections::BTreeSet};

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};
use tera::Value;
use tidings_model::{
    records::{Contents, Group, Recipient},
    settings,
    window::Window,
};

use super::{
    clean::{self, NAME_CHARS},
    line::{Counts, Line, Sum, sums},
    words::{self, Local, Written},
};
use crate::words::Phrases;

/// The most items that templates see apart from their lines.
const LATEST_ITEMS: usize = 10;

/// The input of a view.
pub struct Input<'a> {
    pub contents: &'a Contents,
    pub window: &'a Window,
    /// The view ignores the address.
    pub recipient: &'a Recipient,
    /// The recipient's time zone.
    pub zone: &'a TimeZone,
    /// The title of the digest type in `tidings.toml`.
    pub title: Option<&'a str>,
    /// The cadence as written in `tidings.toml`, for the footer.
    pub cadence: &'a str,
    pub links: &'a Links,
    /// The looks of the tenant.
    pub brand: &'a settings::Brand,
    /// The words of the recipient's language.
    pub phrases: Phrases<'a>,
}

/// Links other than those of the events. An absent link is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// The page with the lines that the message omits.
    #[serde(default)]
    pub more_url: Option<String>,
    /// The page that unsubscribes with one click.
    #[serde(default)]
    pub unsubscribe_url: Option<String>,
    /// The page on which the recipient changes the cadence.
    #[serde(default)]
    pub preferences_url: Option<String>,
    /// The page on which a recipient whose cadence is adapted gets the digest as often as before.
    #[serde(default)]
    pub as_before_url: Option<String>,
    /// The message in the browser.
    #[serde(default)]
    pub view_url: Option<String>,
}

impl Links {
    /// Keeps only http, https and mailto links.
    pub(super) fn safe(&self) -> Self {
        let safe = |link: &Option<String>| link.as_deref().and_then(clean::url);
        Self {
            more_url: safe(&self.more_url),
            unsubscribe_url: safe(&self.unsubscribe_url),
            preferences_url: safe(&self.preferences_url),
            as_before_url: safe(&self.as_before_url),
            view_url: safe(&self.view_url),
        }
    }

    /// Returns the links that are not counted: those to unsubscribe, to choose and to view the message.
    pub(super) fn uncounted(&self) -> Vec<&str> {
        [&self.unsubscribe_url, &self.preferences_url, &self.as_before_url, &self.view_url]
            .into_iter()
            .filter_map(Option::as_deref)
            .collect()
    }
}

/// The names that templates can use.
#[derive(Clone, PartialEq, Serialize)]
pub struct View {
    /// The language's tag, for HTML's `lang`.
    pub lang: String,
    /// `ltr` or `rtl`.
    pub dir: &'static str,
    /// The tenant, whose words `t` says.
    pub tenant: String,
    pub brand: Brand,
    pub digest: Digest,
    pub recipient: Reader,
    pub links: Links,
}

/// A digest as templates receive it. Times are text in the recipient's zone.
#[derive(Clone, PartialEq, Serialize)]
pub struct Digest {
    pub id: String,
    #[serde(rename = "type")]
    pub digest_type: String,
    /// The name of the type in the recipient's language.
    pub name: String,
    pub window: Span,
    /// `Mon, Feb 3, 8:00 AM`, with the year if the digest was claimed in another one.
    pub opened_at: String,
    /// The cadence as text; may be empty.
    pub cadence: String,
    /// Events of the digest, including hidden ones.
    pub item_count: u64,
    /// Lines of the digest, including hidden ones.
    pub group_count: u64,
    /// Distinct entities of the digest, if all its lines are known.
    pub entity_count: Option<u64>,
    /// The type of the entities, if all known lines share one.
    pub entity_type: Option<String>,
    /// The counts by name, a map.
    pub counts: Value,
    /// The counts as text, the worst first.
    pub sums: Vec<Sum>,
    /// The lines, each a `Line`.
    pub groups: Vec<Value>,
    /// The same lines by section.
    pub sections: Vec<Section>,
    /// The latest of the items that the lines show, the latest first, each an `Item`.
    pub items: Vec<Value>,
    pub more: More,
}

/// Lines below a common heading. Sections stand in the order of their first lines.
#[derive(Clone, PartialEq, Serialize)]
pub struct Section {
    /// The heading; `None`: the lines have no section of their own.
    pub title: Option<String>,
    /// Each a `Line`.
    pub groups: Vec<Value>,
}

/// The time in which the digest collected events.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Span {
    pub opened_at: String,
    /// The time of the claim.
    pub closed_at: String,
    /// Both times in one phrase. The date appears once if they share it, and years only if they differ.
    pub span: String,
    /// IANA name.
    pub zone: String,
    /// The zone in words: `Berlin`.
    pub zone_name: String,
}

/// The recipient as templates receive it.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Reader {
    pub user: String,
    pub name: String,
    pub locale: String,
    pub zone: String,
}

impl Reader {
    pub(super) fn new(user: &str, recipient: &Recipient, zone: &str) -> Self {
        let text = |value| clean::text(value, NAME_CHARS).into_owned();
        Self { user: text(user), name: text(&recipient.name), locale: text(&recipient.locale), zone: text(zone) }
    }
}

/// The numbers of groups and events that the message omits (rule 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct More {
    pub groups: u64,
    pub items: u64,
}

impl View {
    /// Builds the view of `input`.
    #[must_use]
    pub fn new(input: &Input<'_>) -> Self {
        let Input { contents, window, recipient, zone, title, links, brand, phrases, .. } = *input;
        let closed_at = contents.claimed_at.unwrap_or(window.due_at);
        // The reader's present is the time of the claim: a message that is rendered again has the same bytes.
        let (this_year, written) = (zone.to_datetime(closed_at).year(), Written::default());
        let local = Local { phrases, zone, now: closed_at, this_year, written: &written };
        let window_words = Span::new(window.opened_at, closed_at, local);
        let reader = Reader::new(&window.key.user, recipient, &window_words.zone);
        let links = links.safe();
        let groups: Vec<_> =
            contents.lines.iter().map(|group| Value::from_serializable(&Line::new(group, local))).collect();
        let digest = Digest {
            id: window.digest_id.to_string(),
            digest_type: clean::text(&window.key.digest_type, NAME_CHARS).into_owned(),
            name: clean::text(&phrases.digest_name(&window.key.digest_type, title), NAME_CHARS).into_owned(),
            opened_at: window_words.opened_at.clone(),
            window: window_words,
            cadence: words::how_often(phrases, input.cadence),
            item_count: contents.items,
            group_count: contents.groups,
            entity_count: entity_count(contents),
            entity_type: entity_type(&contents.lines),
            counts: Value::from_serializable(&Counts(&contents.counts)),
            sums: sums(phrases, &contents.counts),
            items: latest_items(&contents.lines, &groups),
            groups,
            sections: Vec::new(),
            more: More { groups: 0, items: 0 },
        };
        let (lang, dir) = (phrases.tag().to_owned(), phrases.direction());
        let (tenant, brand) = (window.key.tenant.clone(), Brand::new(brand));
        Self { lang, dir, tenant, brand, digest, recipient: reader, links }.arranged()
    }

    /// The most items that a line shows.
    pub(super) fn items_of_a_line(&self) -> usize {
        self.digest.groups.iter().map(|line| items_of(line).len()).max().unwrap_or_default()
    }

    /// Shows at most `most` items in each line.
    #[must_use]
    pub(super) fn with_items(mut self, most: usize) -> Self {
        self.digest.groups = self.digest.groups.iter().map(|line| with_items(line, most)).collect();
        self.arranged()
    }

    /// Keeps the first `shown` lines and counts the rest as more.
    #[must_use]
    pub(super) fn shortened(mut self, shown: usize) -> Self {
        self.digest.groups.truncate(shown);
        self.arranged()
    }

    /// Puts the lines into sections, and counts what they do not show.
    #[must_use]
    pub(super) fn arranged(mut self) -> Self {
        let digest = &mut self.digest;
        digest.sections = sections(&digest.groups);
        let items: u64 = digest.groups.iter().filter_map(|line| line.get_from_path("count")?.as_u64()).sum();
        let groups = u64::try_from(digest.groups.len()).unwrap_or(u64::MAX);
        digest.more =
            More { groups: digest.group_count.saturating_sub(groups), items: digest.item_count.saturating_sub(items) };
        self
    }
}

fn sections(lines: &[Value]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in lines {
        let title = line.get_from_path("section").and_then(Value::as_str);
        match sections.iter_mut().find(|section| section.title.as_deref() == title) {
            Some(section) => section.groups.push(line.clone()),
            None => sections.push(Section { title: title.map(str::to_owned), groups: vec![line.clone()] }),
        }
    }
    sections
}

/// Shows at most `most` items in a line, and counts the rest as more.
fn with_items(line: &Value, most: usize) -> Value {
    let items: Vec<_> = items_of(line).iter().take(most).cloned().collect();
    let count = |value: &Value| value.get_from_path("count").and_then(Value::as_u64).unwrap_or_default();
    let shown: u64 = items.iter().map(count).sum();
    let mut fields = line.clone().into_map().unwrap_or_default();
    fields.insert("more".into(), count(line).saturating_sub(shown).into());
    fields.insert("items".into(), items.into());
    fields.into()
}

/// The items of a line.
pub(super) fn items_of(line: &Value) -> &[Value] {
    line.get_from_path("items").and_then(Value::as_array).unwrap_or_default()
}

/// The latest items of all lines. Those of one time keep the order of their lines.
fn latest_items<'a>(lines: &'a [Group], shown: &'a [Value]) -> Vec<Value> {
    let of_line = |(group, line): (&'a Group, &'a Value)| group.latest.iter().map(|item| item.at).zip(items_of(line));
    let mut items: Vec<_> = lines.iter().zip(shown).flat_map(of_line).collect();
    items.sort_by_key(|(at, _)| Reverse(*at));
    items.into_iter().take(LATEST_ITEMS).map(|(_, item)| item.clone()).collect()
}

impl Span {
    fn new(opened: Timestamp, closed: Timestamp, local: Local<'_>) -> Self {
        let Local { phrases, zone, this_year, .. } = local;
        let (opened, closed) = (zone.to_datetime(opened), zone.to_datetime(closed));
        let [opened_at, closed_at] = [opened, closed].map(|at| phrases.day_time(at, this_year));
        let end = match (opened.date() == closed.date(), opened.year() == closed.year()) {
            (true, _) => phrases.time(closed.time()),
            (false, true) => closed_at.clone(),
            (false, false) => phrases.day_time(closed, opened.year()),
        };
        let within_a_minute = opened.date() == closed.date() && end == phrases.time(opened.time());
        let variables = [("from", opened_at.as_str().into()), ("to", end.into())];
        let span = if within_a_minute { opened_at.clone() } else { phrases.with("span", variables) };
        let zone = zone.iana_name().unwrap_or("UTC").to_owned();
        Self { opened_at, closed_at, span, zone_name: phrases.zone(&zone), zone }
    }
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

/// Limit of the address line in characters.
const LINE_CHARS: usize = 300;

/// The variable `brand` of templates. Nothing is set for a tenant without looks of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Brand {
    /// The name that recipients know. Set if there is a logo.
    pub name: Option<String>,
    /// An https address of a picture.
    pub logo_url: Option<String>,
    /// `#1f56c8`, on which white text is readable.
    pub colour: Option<String>,
    /// A line for the footer.
    pub address_line: Option<String>,
}

impl Brand {
    /// Cleans the values as those of events are.
    #[must_use]
    pub fn new(brand: &settings::Brand) -> Self {
        let text = |value: &Option<String>, chars| value.as_deref().map(|text| clean::text(text, chars).into_owned());
        Self {
            name: text(&brand.name, NAME_CHARS),
            logo_url: brand.logo_url.as_deref().and_then(clean::url),
            colour: brand.colour.map(|colour| colour.to_string()),
            address_line: text(&brand.address_line, LINE_CHARS),
        }
    }

    /// A brand with everything, for checks of templates.
    pub(super) fn sample() -> Self {
        let text = |text: &str| Some(text.to_owned());
        Self {
            name: text("Acme & Sons"),
            logo_url: text("https://acme.example/logo.png"),
            colour: text("#8a1c4a"),
            address_line: text("Acme & Sons, 1 Main Street, Springfield"),
        }
    }
}
