//! The page accepts what it offers, whatever was chosen before.

use std::collections::BTreeMap;

use jiff::ToSpan as _;
use proptest::{prelude::*, sample::select};
use tidings_model::offered_cadences::OfferedCadences;

use super::*;

/// The form: fields as a browser would send them, and the options of each list.
#[derive(Debug, Default)]
struct Read {
    fields: Vec<(String, String)>,
    options: BTreeMap<String, Vec<String>>,
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

impl Read {
    fn page(page: &str) -> Self {
        let page = page.split("<p class=\"next\">").skip(1).collect::<String>();
        let (mut read, mut list) = (Self::default(), String::new());
        for part in page.split('<') {
            let (tag, text) = part.split_once('>').unwrap_or((part, ""));
            let name = attribute(tag, "name").unwrap_or_default().to_owned();
            let value = attribute(tag, "value").unwrap_or(text).replace("&#x2F;", "/");
            match tag.split(' ').next() {
                Some("select") => list = name,
                Some("option") => {
                    if tag.contains(" selected") {
                        read.fields.push((list.clone(), value.clone()));
                    }
                    read.options.entry(list.clone()).or_default().push(value);
                }
                Some("input") if tag.contains("type=\"checkbox\"") && !tag.contains(" checked") => {}
                Some("input") => {
                    // A browser sends no form whose date is below the least one.
                    assert!(value.is_empty() || attribute(tag, "min").is_none_or(|min| *min <= *value), "{tag}");
                    read.fields.push((name, value));
                }
                _ => {}
            }
        }
        read
    }

    fn value(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str()).unwrap()
    }

    /// Replaces a field. `None` unticks its box.
    fn with<'a>(&'a self, name: &'a str, value: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
        let kept = self.fields.iter().filter(|(field, _)| field != name);
        let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
        kept.chain(value.map(|value| (name, value))).chain([("action", "save")]).collect()
    }
}

/// Anything a row may have, e.g. chosen under other settings or by an operator.
fn chosen(now: Timestamp) -> impl Strategy<Value = Preferences> {
    let cadences = [
        "daily 09:15",
        "weekly fri 18:00",
        "monthly 31 07:00",
        "hourly",
        "hourly at :30",
        "after 5m",
        "cron 0 9 * * *",
        "never",
    ];
    let off = proptest::collection::btree_set(select(&["comment", "share", "gone"][..]), 0..3);
    let pause = select(&[-1000_i64, -1, 1, 1000][..]).prop_map(move |hours| now + hours.hours());
    (
        proptest::option::of(select(cadences.to_vec())),
        proptest::option::of(Just("18:30")),
        proptest::option::of(select(&["Asia/Tokyo", "Asia/Calcutta", "Mars/Olympus"][..])),
        proptest::option::of(select(&["22:00-07:00", "none"][..])),
        off,
        proptest::option::of(pause),
    )
        .prop_map(|(cadence, at, zone, quiet, off, paused_until)| Preferences {
            cadence: cadence.map(str::to_owned),
            at: at.map(str::to_owned),
            zone: zone.map(str::to_owned),
            quiet: quiet.map(|quiet| vec![quiet.to_owned()]),
            off: off.into_iter().map(str::to_owned).collect(),
            paused_until,
        })
}

async fn accepts_what_it_offers(choices: &[&str], preferences: &Preferences, field: &str, pick: usize) {
    let mut settings = configured();
    let activity = settings.digests.get_mut("activity").unwrap();
    activity.choices = OfferedCadences::new(choices.iter().map(|words| words.parse().unwrap()).collect());
    let bench = bench_with("", settings).await;
    let now = Timestamp::now();
    bench.store.put_preferences(&ann("activity"), preferences, None, &entry("preferences")).await.unwrap();

    let page = Read::page(&bench.page().await);
    let (status, said) = bench.post(&page.with("activity:on", Some("1"))).await;
    assert!(status == StatusCode::OK && said.contains("Nothing was changed."), "{said}");
    assert_eq!(bench.facts("activity").await.preferences, *preferences);

    let name = format!("activity:{field}");
    let value = match (page.options.get(&name), field) {
        (Some(options), _) => Some(options[pick % options.len()].clone()),
        (None, "pause") if pick.is_multiple_of(2) => Some(String::new()),
        (None, "pause") => Some((now + 48.hours()).strftime("%F").to_string()),
        (None, "time") => Some("07:45".to_owned()),
        (None, "on" | "category") => None,
        // The page has no such list.
        _ => return,
    };
    let (status, said) = bench.post(&page.with(&name, value.as_deref())).await;
    assert_eq!(status, StatusCode::OK, "{name} {value:?}: {said}");
    let Some(undo) = undo_of(&said) else {
        let was_offered = page.value("activity:often") != "kept";
        assert!(
            said.contains("Nothing was changed.") || (field == "often" && !was_offered),
            "{name} {value:?}: {said}"
        );
        return;
    };
    let (status, said) = bench.post(&[("undo", &undo)]).await;
    assert_eq!(status, StatusCode::OK, "{name} {value:?}: {said}");
    let after = bench.facts("activity").await;
    let paused_until = preferences.paused_until.filter(|until| *until > now);
    assert_eq!((after.preferences, after.consent), (Preferences { paused_until, ..preferences.clone() }, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_page_accepts_what_it_offers_and_undoes_it(
        choices in select(vec![&["daily", "weekly", "monthly", "instant"][..], &["weekly mon 08:00", "never"], &[]]),
        preferences in chosen(Timestamp::now()),
        field in select(&["often", "time", "day", "date", "category", "pause", "on"][..]),
        pick in 0_usize..40,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(accepts_what_it_offers(choices, &preferences, field, pick));
    }
}
