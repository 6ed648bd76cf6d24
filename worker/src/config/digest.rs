//! Digest types: the table `[digest.NAME]`.

use std::{collections::BTreeMap, time::Duration};

use tidings_model::{
    Cadence, ParseError, Quiet,
    cadence::DayRange,
    offered_cadences::{Choice, Choices},
    settings::{Categories, CategorySettings, Counted, DigestSettings, OverLimit, SeenService, Track},
    webhook_secret::Secret,
    words, zone,
};
use toml::Spanned;
use url::Url;

use super::{
    category::{self, RawCategory},
    checks::{Checks, SpannedList, name, sentence, whole},
    keys::{Flag, List, Number, Show as _, Table, Text, ToTable as _, table},
    problem::Problem,
    tenant::RawDigests,
};

/// A spread distributes the messages of one slot, and slots are hours or days apart.
const LONGEST_SPREAD: Duration = Duration::from_hours(12);

/// A message can be taken back while it waits this long. A longer wait would make it late.
const LONGEST_UNDO: Duration = Duration::from_hours(1);

table! {
    /// The keys of `[digest.NAME]` and of `[tenant.NAME.digest.NAME]`.
    pub(super) struct RawDigest for digest: DigestSettings, read() {
        was: apart(List), shown None;
        cadence: text(cadence);
        delay: entries(words::duration, "what `delay` does not name waits as `cadence` says"),
            shown category::todays(&digest.delay, digest).collect::<BTreeMap<_, _>>().show();
        first_now: text(words::duration);
        throttle: text(words::duration);
        throttled: text(over_limit), shown digest.throttle.and_then(|_| digest.throttled.name().show());
        linger: text(words::duration);
        undo: text(undo);
        adapt: apart(Flag);
        choices: list(choices), shown None;
        zone: text(zone), shown digest.zone.as_deref().unwrap_or("UTC").show();
        weekdays: text(str::parse::<DayRange>);
        spread: text(spread);
        quiet: list(quiet);
        template: apart(Text);
        max_items: number(whole(u32::MAX));
        max_lines: number(whole(DigestSettings::MOST_LINES));
        max_events: number(whole(u32::MAX));
        min_count: apart(Number) in category.others.min_count;
        max_age: apart(Text) in category.others.max_age;
        more_url: text(more_url);
        title: text(name);
        description: text(sentence);
        categories: entries(name, "name each one that recipients may turn off");
        category: apart(BTreeMap<String, RawCategory>), shown category::show(digest);
        track: apart(List);
        seen_url: apart(Text), shown digest.seen.as_ref().map(|seen| seen.url.url().as_str()).show();
        seen_secret_env: apart(Text), shown digest.seen.as_ref().map(|seen| seen.secret_env.as_str()).show();
    }
}

impl RawDigest {
    pub fn adapts(&self) -> bool {
        self.adapt.as_ref().is_some_and(|adapt| *adapt.as_ref())
    }

    /// Reads `table` for the digest type `name`. Reports mistakes and uses the default instead.
    pub fn check(&self, table: &str, name: &str, checks: &mut Checks<'_>) -> DigestSettings {
        let key = |key: &str| format!("{table}.{key}");
        let template = self.template.as_ref().map_or(name, |template| template.as_ref().as_str());
        let mut digest = DigestSettings::new(template, Cadence::Never);
        self.read(table, &mut digest, checks);
        let others = CategorySettings {
            min_count: checks.number(&key("min_count"), self.min_count.as_ref(), whole(u32::MAX)),
            max_age: checks.text(&key("max_age"), self.max_age.as_ref(), words::duration),
            ..CategorySettings::default()
        };
        let former = category::former(&key("category"), &self.category, checks).unwrap_or_default();
        let category = category::check(&key("category"), &self.category, others, checks).unwrap_or_default();
        let named = category::under_any_name(category.named, &former);
        digest.category = Categories { named, ..category };
        digest.delay = category::under_any_name(digest.delay, &former);
        digest.former_categories = former;
        digest.seen = self.seen(table, checks);
        let track = match &self.track {
            Some(raw) => checks.each(&key("track"), Some(raw), counted),
            None => Some(Vec::new()),
        };
        if let Some(track) = track {
            digest.track = track.into_iter().collect();
            if let Some(adapt) = &self.adapt {
                let adapts = |_: &str| adapts(*adapt.as_ref(), digest.track);
                digest.adapt = checks.number(&key("adapt"), Some(adapt), adapts).unwrap_or_default();
            }
        }
        digest
    }

    /// The variable may be unset here, because only a worker needs the secret.
    fn seen(&self, table: &str, checks: &mut Checks<'_>) -> Option<SeenService> {
        let mut missing = |beside: &Spanned<String>, key: &str, other: &str| {
            checks.fault(beside, format!("{table}.{key}"), format!("needs {other}, too"));
            None
        };
        match (&self.seen_url, &self.seen_secret_env) {
            (None, None) => None,
            (Some(url), None) => missing(url, "seen_url", "seen_secret_env = \"TIDINGS_SEEN_SECRET\""),
            (None, Some(variable)) => {
                missing(variable, "seen_secret_env", "seen_url = \"https://app.example.com/tidings/seen\"")
            }
            (Some(url), Some(variable)) => {
                let (key, right) = (format!("{table}.seen_secret_env"), "\"TIDINGS_SEEN_SECRET\"");
                let url = checks.text(&format!("{table}.seen_url"), Some(url), str::parse);
                let (secret_env, secret) = checks.secret_of(&key, variable, right, Secret::parse)?;
                Some(SeenService { url: url?, secret, secret_env })
            }
        }
    }
}

pub(crate) fn show(digest: &DigestSettings) -> Table {
    let mut shown = digest.to_table();
    shown.insert_value("choices", digest.choices.show());
    shown
}

pub(super) fn seen_problem(service: &SeenService) -> Option<Problem> {
    let remedy = "what `echo whsec_$(openssl rand -base64 24)` prints, here and at the service of seen_url";
    service.secret.is_none().then(|| Problem::unset(&service.secret_env, remedy))
}

/// Reports each digest type with `track`. Only for a configuration without `public_url`, so nothing can count
/// opens and clicks.
pub(super) fn report_uncounted(table: &str, digests: &RawDigests, checks: &mut Checks<'_>) {
    for (name, raw) in digests {
        let Some(track) = raw.as_ref().track.as_ref().filter(|track| !track.as_ref().is_empty()) else { continue };
        let right = "set `public_url` in `[gateway]`, for example \"https://mail.acme.example\"";
        checks.fault(track, format!("{table}{name}.track"), format!("needs a gateway that counts; {right}"));
    }
}

/// Checks `[digest.NAME]`. Unlike a tenant's table, it must have a cadence.
pub(super) fn check(name: &str, raw: &Spanned<RawDigest>, checks: &mut Checks<'_>) -> DigestSettings {
    let table = format!("digest.{name}");
    checks.report_star("digest", name, checks.place_of(raw), "write a table for each digest type");
    if raw.as_ref().cadence.is_none() {
        checks.fault(raw, format!("{table}.cadence"), "is missing; write for example \"daily 08:00\"");
    }
    raw.as_ref().check(&table, name, checks)
}

pub(super) fn quiet(key: &str, raw: &SpannedList, checks: &mut Checks<'_>) -> Option<Quiet> {
    let times = checks.each(key, Some(raw), str::parse)?;
    let words: Vec<_> = raw.as_ref().iter().map(|time| time.as_ref().as_str()).collect();
    let all = Spanned::new(raw.span(), words.join(", "));
    checks.text(key, Some(&all), |_| Quiet::new(times).map_err(|error| error.to_string()))
}

fn choices(key: &str, raw: &SpannedList, checks: &mut Checks<'_>) -> Option<Choices> {
    let choice = |text: &str| text.parse::<Choice>().map_err(|error| error.problem().to_owned());
    checks.each(key, Some(raw), choice).map(Choices::new)
}

pub(super) fn over_limit(text: &str) -> Result<OverLimit, String> {
    let right = "write \"defer\" to wait, or \"skip\" to close the window as throttled";
    OverLimit::named(text).ok_or_else(|| format!("is not an effect of a limit; {right}"))
}

fn cadence(text: &str) -> Result<Cadence, String> {
    text.parse().map_err(|error: ParseError| error.problem().to_owned())
}

fn spread(text: &str) -> Result<Duration, String> {
    let spread = words::duration(text)?;
    if spread > LONGEST_SPREAD { Err("is longer than 12h; write for example \"15m\"".to_owned()) } else { Ok(spread) }
}

fn undo(text: &str) -> Result<Duration, String> {
    let undo = words::duration(text)?;
    if undo > LONGEST_UNDO { Err("is longer than 1h; write for example \"2m\"".to_owned()) } else { Ok(undo) }
}

/// Needs opens. If we only counted clicks, a recipient who reads everything but follows no link would look
/// inactive.
fn adapts(adapt: bool, track: Track) -> Result<bool, String> {
    if adapt && !track.opens {
        return Err("needs counted openings: without them nobody is known to have stopped reading; write `track = [\"opens\"]`, \
                    or `[\"opens\", \"clicks\"]`"
            .to_owned());
    }
    Ok(adapt)
}

fn counted(text: &str) -> Result<Counted, String> {
    Counted::named(text).ok_or_else(|| "cannot be counted; write \"opens\", \"clicks\" or both".to_owned())
}

fn more_url(text: &str) -> Result<String, String> {
    let right = "write for example \"https://app.example.com/activity\"";
    match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) => Ok(text.to_owned()),
        Ok(url) => Err(format!("{:?} is neither http nor https; {right}", url.scheme())),
        Err(error) => Err(format!("is not a URL ({error}); {right}")),
    }
}
