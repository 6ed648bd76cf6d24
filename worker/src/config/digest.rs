//! Digest types: the table `[digest.NAME]`.

use std::{collections::BTreeMap, time::Duration};

use tidings_model::{
    Cadence, ParseError, QuietHours,
    cadence::DayRange,
    check_zone,
    offered_cadences::{OfferedCadence, OfferedCadences},
    settings::{
        CategorySettings, DigestCategories, DigestSettings, OverLimit, SeenService, TrackedAction, TrackingSettings,
    },
    webhook_secret::SigningSecret,
    words,
};
use toml::Spanned;
use url::Url;

use super::{
    category::{self, RawCategory},
    checks::{Checks, SpannedList, name, sentence, whole},
    keys::{ConfigTable, RawFlag, RawList, RawNumber, RawText, ToConfigValue as _, ToTable as _, table},
    problem::ConfigProblem,
    tenant::RawDigests,
};

/// A spread distributes the messages of one slot, and slots are hours or days apart.
const LONGEST_SPREAD: Duration = Duration::from_hours(12);

/// A message can be taken back while it waits this long. A longer wait would make it late.
const LONGEST_UNDO: Duration = Duration::from_hours(1);

table! {
    /// The keys of `[digest.NAME]` and of `[tenant.NAME.digest.NAME]`.
    pub(super) struct RawDigest for digest: DigestSettings, read() {
        was: apart(RawList), shown None;
        cadence: text(parse_cadence);
        delay: entries(words::parse_duration, "categories without a `delay` wait as `cadence` says"),
            shown category::current_entries(&digest.delay, digest).collect::<BTreeMap<_, _>>().show();
        send_first: text(words::parse_duration);
        throttle: text(words::parse_duration);
        on_throttle: text(over_limit), shown digest.throttle.and_then(|_| digest.on_throttle.name().show());
        keep_open: text(words::parse_duration);
        undo: text(parse_undo);
        adapt: apart(RawFlag);
        choices: list(parse_choices), shown None;
        zone: text(check_zone), shown digest.zone.as_deref().unwrap_or("UTC").show();
        weekdays: text(str::parse::<DayRange>);
        spread: text(parse_spread);
        quiet: list(parse_quiet);
        template: apart(RawText);
        lines_per_message: number(whole(u32::MAX));
        items_per_line: number(whole(DigestSettings::MAX_ITEMS_PER_LINE));
        max_events: number(whole(u32::MAX));
        min_count: apart(RawNumber) in category.others.min_count;
        max_age: apart(RawText) in category.others.max_age;
        more_url: text(more_url);
        title: text(name);
        description: text(sentence);
        categories: entries(name, "name each one that recipients may turn off");
        category: apart(BTreeMap<String, RawCategory>), shown category::show(digest);
        track: apart(RawList);
        seen_url: apart(RawText), shown digest.seen.as_ref().map(|seen| seen.url.url().as_str()).show();
        seen_secret_env: apart(RawText), shown digest.seen.as_ref().map(|seen| seen.secret_env.as_str()).show();
    }
}

impl RawDigest {
    pub fn is_adaptive(&self) -> bool {
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
            max_age: checks.text(&key("max_age"), self.max_age.as_ref(), words::parse_duration),
            ..CategorySettings::default()
        };
        let former = category::check_former_names(&key("category"), &self.category, checks).unwrap_or_default();
        let category = category::check(&key("category"), &self.category, others, checks).unwrap_or_default();
        let named = category::under_any_name(category.named, &former);
        digest.category = DigestCategories { named, ..category };
        digest.delay = category::under_any_name(digest.delay, &former);
        digest.former_categories = former;
        digest.seen = self.seen_service(table, checks);
        let track = match &self.track {
            Some(raw) => checks.each(&key("track"), Some(raw), parse_counted),
            None => Some(Vec::new()),
        };
        if let Some(track) = track {
            digest.track = track.into_iter().collect();
            if let Some(adapt) = &self.adapt {
                let adapts = |_: &str| check_adapt(*adapt.as_ref(), digest.track);
                digest.adapt = checks.number(&key("adapt"), Some(adapt), adapts).unwrap_or_default();
            }
        }
        digest
    }

    /// The variable may be unset here, because only a worker needs the secret.
    fn seen_service(&self, table: &str, checks: &mut Checks<'_>) -> Option<SeenService> {
        let mut missing = |beside: &Spanned<String>, key: &str, other: &str| {
            checks.report_at(beside, format!("{table}.{key}"), format!("needs {other}, too"));
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
                let (secret_env, secret) = checks.secret_of(&key, variable, right, SigningSecret::parse)?;
                Some(SeenService { url: url?, secret, secret_env })
            }
        }
    }
}

pub(crate) fn show(digest: &DigestSettings) -> ConfigTable {
    let mut shown = digest.to_table();
    shown.insert_value("choices", digest.choices.show());
    shown
}

pub(super) fn seen_problem(service: &SeenService) -> Option<ConfigProblem> {
    let remedy = "what `echo whsec_$(openssl rand -base64 24)` prints, here and at the service of seen_url";
    service.secret.is_none().then(|| ConfigProblem::unset(&service.secret_env, remedy))
}

/// Reports each digest type with `track`. Only for a configuration without `public_url`, so nothing can count
/// opens and clicks.
pub(super) fn report_uncounted(table: &str, digests: &RawDigests, checks: &mut Checks<'_>) {
    for (name, raw) in digests {
        let Some(track) = raw.as_ref().track.as_ref().filter(|track| !track.as_ref().is_empty()) else { continue };
        let right = "set `public_url` in `[gateway]`, for example \"https://mail.acme.example\"";
        checks.report_at(track, format!("{table}{name}.track"), format!("needs a gateway that counts; {right}"));
    }
}

/// Checks `[digest.NAME]`. Unlike a tenant's table, it must have a cadence.
pub(super) fn check_digest(name: &str, raw: &Spanned<RawDigest>, checks: &mut Checks<'_>) -> DigestSettings {
    let table = format!("digest.{name}");
    checks.report_star("digest", name, checks.place_of(raw), "write a table for each digest type");
    if raw.as_ref().cadence.is_none() {
        checks.report_at(raw, format!("{table}.cadence"), "is missing; write for example \"daily 08:00\"");
    }
    raw.as_ref().check(&table, name, checks)
}

pub(super) fn parse_quiet(key: &str, raw: &SpannedList, checks: &mut Checks<'_>) -> Option<QuietHours> {
    let times = checks.each(key, Some(raw), str::parse)?;
    let words: Vec<_> = raw.as_ref().iter().map(|time| time.as_ref().as_str()).collect();
    let all = Spanned::new(raw.span(), words.join(", "));
    checks.text(key, Some(&all), |_| QuietHours::new(times).map_err(|error| error.to_string()))
}

fn parse_choices(key: &str, raw: &SpannedList, checks: &mut Checks<'_>) -> Option<OfferedCadences> {
    let choice = |text: &str| text.parse::<OfferedCadence>().map_err(|error| error.problem().to_owned());
    checks.each(key, Some(raw), choice).map(OfferedCadences::new)
}

pub(super) fn over_limit(text: &str) -> Result<OverLimit, String> {
    let right = "write \"defer\" to wait, or \"skip\" to close the window as throttled";
    OverLimit::named(text).ok_or_else(|| format!("is not an effect of a limit; {right}"))
}

fn parse_cadence(text: &str) -> Result<Cadence, String> {
    text.parse().map_err(|error: ParseError| error.problem().to_owned())
}

fn parse_spread(text: &str) -> Result<Duration, String> {
    let spread = words::parse_duration(text)?;
    if spread > LONGEST_SPREAD { Err("is longer than 12h; write for example \"15m\"".to_owned()) } else { Ok(spread) }
}

fn parse_undo(text: &str) -> Result<Duration, String> {
    let undo = words::parse_duration(text)?;
    if undo > LONGEST_UNDO { Err("is longer than 1h; write for example \"2m\"".to_owned()) } else { Ok(undo) }
}

/// Needs opens. If we only counted clicks, a recipient who reads everything but follows no link would look
/// inactive.
fn check_adapt(adapt: bool, track: TrackingSettings) -> Result<bool, String> {
    if adapt && !track.opens {
        return Err("needs counted opens to detect recipients who have stopped reading; write `track = [\"opens\"]`, \
                    or `[\"opens\", \"clicks\"]`"
            .to_owned());
    }
    Ok(adapt)
}

fn parse_counted(text: &str) -> Result<TrackedAction, String> {
    TrackedAction::named(text).ok_or_else(|| "cannot be counted; write \"opens\", \"clicks\" or both".to_owned())
}

fn more_url(text: &str) -> Result<String, String> {
    let right = "write for example \"https://app.example.com/activity\"";
    match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) => Ok(text.to_owned()),
        Ok(url) => Err(format!("{:?} is neither http nor https; {right}", url.scheme())),
        Err(error) => Err(format!("is not a URL ({error}); {right}")),
    }
}
