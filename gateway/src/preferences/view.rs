//! Renders the preferences page in the recipient's language.

use std::{collections::BTreeMap, sync::LazyLock};

use axum::{http::StatusCode, response::Response};
use jiff::{Timestamp, ToSpan as _, civil::Weekday};
use serde::Serialize;
use tidings_mail::words::{Phrases, describe_cadence};
use tidings_model::{
    CadenceField, Key, canonical_zone, is_place,
    records::KeyFacts,
    rules::{open_window::DuePrediction, working_days::working_days},
    words, zone_names,
};

use super::{
    form::{paused_date, seen_value},
    often::{self, CadenceEntry, CadenceFields},
    subject::{DigestSubject, NextDigest},
};
use crate::{
    GatewayState,
    page::{self, PageFrame},
};

/// Phrases without variables.
const WORDS: [&str; 16] = [
    "intro",
    "on",
    "how_often",
    "day",
    "day_of_month",
    "time",
    "categories",
    "pause",
    "pause_hint",
    "zone",
    "zone_hint",
    "save",
    "none",
    "none_hint",
    "undo",
    "nothing_to_choose",
];
/// Shown instead of an address if the directory lacks the recipient.
const UNKNOWN: &str = "unknown";

static ZONES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut zones: Vec<_> =
        zone_names().into_iter().filter(|name| is_place(name) && canonical_zone(name) == name).collect();
    zones.push("UTC".to_owned());
    zones
});

pub(super) enum ChangeNotice {
    Saved { undo: Option<String> },
    AllOff { undo: Option<String> },
    Undone,
    Unchanged,
    Conflict,
    Wrong(String),
}

pub(super) struct PreferencesPage<'a> {
    frame: PageFrame,
    phrases: Phrases<'a>,
    content: PageContent,
}

#[derive(Serialize)]
struct PageContent {
    title: String,
    about: String,
    words: BTreeMap<&'static str, String>,
    notice: Option<NoticeText>,
    digests: Vec<DigestView>,
    zones: Vec<String>,
    zone: String,
}

#[derive(Serialize)]
struct NoticeText {
    tone: &'static str,
    text: String,
    undo: Option<String>,
}

#[derive(Serialize)]
struct DigestView {
    name: String,
    title: String,
    description: Option<String>,
    next: String,
    adapted: Option<String>,
    seen: String,
    on: bool,
    often: Vec<FormOption>,
    has_time: bool,
    time: String,
    /// Weekdays and days of the month. Empty if no offered cadence needs this.
    days: Vec<FormOption>,
    dates: Vec<FormOption>,
    categories: Vec<FormOption>,
    pause: String,
    /// Tomorrow, or the current pause's end if earlier, because browsers reject days before this.
    pause_from: String,
}

#[derive(Serialize)]
struct FormOption {
    value: String,
    text: String,
    selected: bool,
    /// CSS classes naming the fields this option needs.
    parts: String,
}

impl<'a> PreferencesPage<'a> {
    /// Open windows were planned from the facts in `before`.
    pub fn new(
        state: &'a GatewayState,
        key: &Key,
        before: &[DigestSubject<'_>],
        subjects: &[DigestSubject<'_>],
        now: Timestamp,
    ) -> Self {
        let recipient = subjects.iter().find_map(|subject| subject.facts.recipient.as_ref());
        let locale = recipient.map(|recipient| recipient.locale.as_str()).unwrap_or_default();
        let phrases = state.phrases(&key.tenant, locale);
        let frame = PageFrame::new(state, &key.tenant, phrases);
        let title = match frame.sender.as_str() {
            "" => phrases.message_text("title"),
            sender => phrases.message_with("title_of", [("sender", sender.into())]),
        };
        let address = recipient.map_or_else(|| UNKNOWN.to_owned(), |recipient| page::mask_address(&recipient.address));
        let about = phrases.message_with("about", [("address", address.into())]);
        let main = subjects.iter().find(|subject| subject.key == *key).or(subjects.first());
        let zone = main.map_or_else(|| "UTC".to_owned(), |subject| subject.effective(now).zone_name);
        let own = (!ZONES.contains(&zone)).then(|| zone.clone());
        let digests = subjects.iter().map(|subject| {
            let before = before.iter().find(|before| before.key == subject.key).map_or(&subject.facts, |s| &s.facts);
            digest_view(phrases, subject, before, now)
        });
        let content = PageContent {
            title,
            about,
            words: WORDS.into_iter().map(|id| (id, phrases.message_text(id))).collect(),
            notice: None,
            digests: digests.collect(),
            zones: own.into_iter().chain(ZONES.iter().cloned()).collect(),
            zone,
        };
        Self { frame, phrases, content }
    }

    pub fn response(mut self, notice: Option<ChangeNotice>) -> Response {
        let status = match &notice {
            Some(ChangeNotice::Conflict) => StatusCode::CONFLICT,
            Some(ChangeNotice::Wrong(_)) => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::OK,
        };
        self.content.notice = notice.map(|notice| notice.into_text(self.phrases));
        page::render_page(status, "preferences.html", &self.frame, &self.content)
    }
}

impl ChangeNotice {
    fn into_text(self, phrases: Phrases<'_>) -> NoticeText {
        let say = |tone, id, undo| NoticeText { tone, text: phrases.message_text(id), undo };
        match self {
            Self::Saved { undo } => say("done", "saved", undo),
            Self::AllOff { undo } => say("done", "all_off", undo),
            Self::Undone => say("done", "undone", None),
            Self::Unchanged => say("done", "unchanged", None),
            Self::Conflict => say("refused", "conflict", None),
            Self::Wrong(field) => {
                let field = match field.as_str() {
                    "zone" => "zone",
                    "paused_until" => "pause",
                    "at" => "time",
                    _ => "how_often",
                };
                let text = phrases.message_with("wrong", [("field", phrases.message_text(field).into())]);
                NoticeText { tone: "refused", text, undo: None }
            }
        }
    }
}

fn digest_view(phrases: Phrases<'_>, subject: &DigestSubject<'_>, before: &KeyFacts, now: Timestamp) -> DigestView {
    let DigestSubject { key, settings, facts, .. } = subject;
    let effective = subject.effective(now);
    let working_days = working_days(settings, facts);
    let present = CadenceFields::from_facts(settings, facts);
    let offered = CadenceEntry::offered_entries(settings, &present.often);
    let has = |field| offered.iter().any(|often| often.fields().contains(&field));
    let option = |often: &CadenceEntry| FormOption {
        value: often.value(),
        text: often::entry_text(phrases, often, &settings.cadence, &effective.cadence, working_days),
        selected: *often == present.often,
        parts: often.fields().iter().rev().map(|field| css_class(*field)).collect::<Vec<_>>().join(" "),
    };
    let day = |(name, day): (&str, Weekday)| FormOption {
        value: name.to_owned(),
        text: phrases.weekday(day),
        selected: name == present.day,
        parts: String::new(),
    };
    let date = |date: u8| FormOption {
        value: date.to_string(),
        text: often::day_of_month(phrases, date),
        selected: date.to_string() == present.date,
        parts: String::new(),
    };
    // Includes categories that were turned off elsewhere, e.g. by the API.
    let off = settings.off_today(&facts.preferences.off);
    let unlisted = off.iter().filter(|category| !settings.categories.contains_key(*category));
    let categories = settings.categories.iter().chain(unlisted.map(|category| (category, category)));
    let category = |(category, title): (&String, &String)| FormOption {
        value: category.clone(),
        text: phrases.team_name("category", category).unwrap_or_else(|| title.clone()),
        selected: !off.contains(category),
        parts: String::new(),
    };
    let pause = paused_date(facts, &effective.zone, now);
    let tomorrow = effective.zone.to_datetime(now).date().saturating_add(1.day()).to_string();
    DigestView {
        name: key.digest_type.clone(),
        title: phrases.digest_name(&key.digest_type, settings.title.as_deref()),
        description: phrases.team_name("description", &key.digest_type).or_else(|| settings.description.clone()),
        next: next(phrases, subject, before, now),
        adapted: effective.adapted.map(|_| phrases.message_text("adapted")),
        seen: seen_value(facts),
        on: facts.consent,
        has_time: has(CadenceField::Time),
        often: offered.iter().map(option).collect(),
        days: words::DAYS.into_iter().filter(|_| has(CadenceField::Weekday)).map(day).collect(),
        dates: (1..=31).filter(|_| has(CadenceField::Date)).map(date).collect(),
        time: present.time.clone(),
        categories: categories.map(category).collect(),
        pause_from: if pause.is_empty() { tomorrow } else { tomorrow.min(pause.clone()) },
        pause,
    }
}

/// `page.css` hides this field while no option with its class is selected.
const fn css_class(field: CadenceField) -> &'static str {
    match field {
        CadenceField::Time => "timed",
        CadenceField::Weekday => "weekly",
        CadenceField::Date => "monthly",
    }
}

fn next(phrases: Phrases<'_>, subject: &DigestSubject<'_>, before: &KeyFacts, now: Timestamp) -> String {
    let facts = &subject.facts;
    let effective = subject.effective(now);
    let when = |at| often::time_text(phrases, at, &effective.zone, &effective.zone_name, now);
    let with = |id, at| phrases.message_with(id, [("when", when(at).into())]);
    match subject.next(before, now) {
        // Times on the page have minute precision.
        NextDigest::IfNew(at) if at.duration_since(now).as_secs() < 60 => phrases.message_text("next_at_once"),
        NextDigest::IfNew(at) => with("next_if_new", at),
        NextDigest::Due(DuePrediction { due_at, is_kept: false }) => with("next", due_at.max(now)),
        NextDigest::Due(DuePrediction { due_at, is_kept: true }) => {
            let later = describe_cadence(phrases, &effective.cadence);
            phrases.message_with("next_then", [("when", when(due_at.max(now)).into()), ("cadence", later.into())])
        }
        NextDigest::Never if !facts.consent => phrases.message_text("next_off"),
        NextDigest::Never if facts.suppressed.is_some() => phrases.message_text("next_suppressed"),
        NextDigest::Never if facts.pause.as_ref().is_some_and(|pause| pause.in_force(now)) => {
            phrases.message_text("next_stopped")
        }
        NextDigest::Never => match facts.preferences.paused_until.filter(|until| *until > now) {
            Some(until) => match subject.pending_due(before, now) {
                Some(DuePrediction { due_at, .. }) => phrases
                    .message_with("next_paused_due", [("until", when(until).into()), ("when", when(due_at).into())]),
                None => with("next_paused", until),
            },
            None => phrases.message_text("next_never"),
        },
    }
}
