//! Measures the time to make an email from the contents that the store has loaded.

use std::{fs, path::Path, time::Instant};

use anyhow::Result;
use clap::Args;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use tempfile::TempDir;
use tidings_mail::render::{TemplateRenderer, TemplateView, ViewInput, ViewLinks};
use tidings_model::{
    Key,
    records::{DigestContents, DigestLine, LineItem, Recipient},
    settings::TenantBrand,
    window::Window,
};
use uuid::Uuid;

use crate::{
    figure::{Figure, Target, median},
    rounds::Rounds,
};

/// Subject, HTML and text of a digest; compared with templates that only name each line's title.
#[derive(Args)]
pub struct Render {
    /// Times that each email is made in a round
    #[arg(long, default_value_t = 1_000)]
    times: usize,
}

/// The parts of a template.
const PARTS: [&str; 3] = ["subject.txt", "body.html", "body.txt"];
/// A placeholder for a part that is not measured.
const NOTHING: &str = "-";
/// The smallest useful template of a digest.
const TITLES: &str = "{% for group in digest.lines %}{{ group.title }}\n{% endfor %}";

/// The languages besides English that have words.
const LANGUAGES: [&str; 11] = ["ar", "de", "es", "fr", "it", "ja", "nl", "pl", "pt-BR", "sv", "zh-Hans"];
/// The budget of 50 groups of three items, in microseconds above titles alone.
const ABOVE: f64 = 400.0;

impl Render {
    pub fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut figures = self.languages(rounds)?;
        for (groups, items) in [(1, 1), (50, 1), (50, 3), (1_000, 1)] {
            for (what, measured) in
                [("subject", vec![0]), ("HTML", vec![1]), ("text", vec![2]), ("all parts", vec![0, 1, 2])]
            {
                let (ours, bare) = (template(&measured, None)?, template(&measured, Some(TITLES))?);
                let of = if items > 1 { format!(" of {items} items") } else { String::new() };
                let mut figure = Figure::new(format!("{groups} groups{of}, {what}"), "µs").against("titles alone");
                if groups == 50 && measured.len() == PARTS.len() {
                    figure = figure.target(if items > 1 { Target::Above(ABOVE) } else { Target::AtMost(500.0) });
                }
                for round in 0..rounds.count {
                    rounds.say(round, &figure.what);
                    let contents = contents(groups, items);
                    figure.push_both(
                        self.microseconds(&ours, &contents, "en")?,
                        self.microseconds(&bare, &contents, "en")?,
                    );
                }
                figures.push(figure);
            }
        }
        Ok(figures)
    }

    /// Whole emails of 50 groups of three items in languages other than English.
    fn languages(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let (ours, bare) = (template(&[0, 1, 2], None)?, template(&[0, 1, 2], Some(TITLES))?);
        let contents = contents(50, 3);
        let measured = LANGUAGES.map(|language| {
            let what = format!("50 groups of 3 items in {language}, all parts");
            let mut figure = Figure::new(what, "µs").against("titles alone").target(Target::Above(ABOVE));
            for round in 0..rounds.count {
                rounds.say(round, &figure.what);
                let spent = |renderer| self.microseconds(renderer, &contents, language);
                figure.push_both(spent(&ours)?, spent(&bare)?);
            }
            Ok(figure)
        });
        measured.into_iter().collect()
    }

    /// The median time from the store's contents to the email's parts in a language.
    fn microseconds(&self, renderer: &TemplateRenderer, contents: &DigestContents, language: &str) -> Result<f64> {
        let key = Key::new("acme".into(), "activity".into(), "ann".into())?;
        let window = Window { key, digest_id: Uuid::nil(), opened_at: at(0), due_at: at(86_400) };
        let recipient = Recipient {
            tenant: "acme".into(),
            user: "ann".into(),
            address: String::new(),
            name: "Ann".into(),
            zone: String::new(),
            locale: String::new(),
        };
        let links = ViewLinks { more_url: Some("https://app.example.com/activity".into()), ..ViewLinks::default() };
        let input = ViewInput {
            contents,
            window: &window,
            recipient: &recipient,
            zone: &TimeZone::get("Europe/Berlin")?,
            title: None,
            cadence: "daily 08:00",
            links: &links,
            brand: &TenantBrand::default(),
            phrases: renderer.phrases([language]),
        };
        let mut times = Vec::with_capacity(self.times);
        for _ in 0..self.times {
            let started = Instant::now();
            renderer.render("activity", &TemplateView::new(&input))?;
            times.push(started.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&times))
    }
}

/// A renderer whose template `activity` has these parts, each as shipped or with another text.
fn template(parts: &[usize], text: Option<&str>) -> Result<TemplateRenderer> {
    let folder = TempDir::new()?;
    fs::create_dir(folder.path().join("activity"))?;
    for (at, name) in PARTS.iter().enumerate() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates/activity").join(name);
        let content = match (parts.contains(&at), text) {
            (false, _) => NOTHING.to_owned(),
            (true, Some(text)) => text.to_owned(),
            (true, None) => fs::read_to_string(shipped)?,
        };
        fs::write(folder.path().join("activity").join(name), content)?;
    }
    Ok(TemplateRenderer::new(Some(folder.path()))?)
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(1_738_566_000 + second)
}

/// A digest of these groups, each with its latest items.
fn contents(groups: u32, items: u32) -> DigestContents {
    let payload = |n: u32| {
        json!({
            "title": format!("Make step {n} of the migration <safe> to run twice"),
            "url": format!("https://git.example.com/acme/commit/{n}"),
            "excerpt": "A second run finds the rows of the first one and leaves them as they are.",
            "files": n,
        })
    };
    let latest = |n: u32, second| {
        let payload = payload(n).as_object().cloned().unwrap_or_default();
        LineItem { count: 1, at: at(second), actor: "Ann".into(), payload }
    };
    let group = |n: u32| DigestLine {
        category: "change".into(),
        section: None,
        entity_type: "area".into(),
        entity_id: format!("crates/part-{n}"),
        count: u64::from(groups - n),
        counts: [("failed".to_owned(), 2), ("files".to_owned(), 7)].into(),
        first_at: at(i64::from(n)),
        last_at: at(i64::from(n) * 60),
        actor_count: 3,
        actors: vec!["Ann".into(), "Ben".into(), "Cleo".into()],
        latest: (0..items).map(|item| latest(n * items + item, i64::from(n) * 60 - i64::from(item))).collect(),
    };
    let lines: Vec<_> = (0..groups).map(group).collect();
    let items = lines.iter().map(|group| group.count).sum();
    DigestContents {
        claimed_at: None,
        items,
        line_count: u64::from(groups),
        counts: [("failed".to_owned(), 100)].into(),
        lines,
    }
}
