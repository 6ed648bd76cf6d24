//! Prints the median time of making one mail of 50 groups, from the store's contents to subject, HTML and text.
//! The budget is 500 µs. Run it with `--release`.

use std::time::Instant;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use tidings_activities::{
    renderer::{Input, Links, Renderer, View},
    store::{Contents, Group, Recipient},
};
use tidings_workflows::{Key, contract::Window};
use uuid::Uuid;

const GROUPS: u32 = 50;
const RUNS: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let renderer = Renderer::new(None)?;
    let contents = contents();
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
    let links = Links { more_url: Some("https://app.example.com/activity".into()), ..Links::default() };
    let input = Input {
        contents: &contents,
        window: &window,
        recipient: &recipient,
        zone: &TimeZone::get("Europe/Berlin")?,
        cadence: "daily 08:00",
        links: &links,
    };
    let mut times = Vec::with_capacity(RUNS);
    let mut bytes = 0;
    for _ in 0..RUNS {
        let start = Instant::now();
        let mail = renderer.render("activity", &View::new(&input))?;
        times.push(start.elapsed());
        bytes = mail.html.len();
    }
    times.sort_unstable();
    let (median, p99) = (times[RUNS / 2], times[RUNS * 99 / 100]);
    println!("render: {GROUPS} groups, {bytes} bytes of HTML, median {median:?}, p99 {p99:?}");
    Ok(())
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(1_738_566_000 + second)
}

fn contents() -> Contents {
    let payload = |n: u32| {
        json!({
            "title": format!("Make step {n} of the migration <safe> to run twice"),
            "url": format!("https://git.example.com/acme/commit/{n}"),
            "excerpt": "A second run finds the rows of the first one and leaves them as they are.",
            "files": n,
        })
    };
    let group = |n: u32| Group {
        category: "change".into(),
        entity_type: "area".into(),
        entity_id: format!("crates/part-{n}"),
        count: u64::from(GROUPS - n),
        counts: [("failed".to_owned(), 2), ("files".to_owned(), 7)].into(),
        first_at: at(i64::from(n)),
        last_at: at(i64::from(n) * 60),
        actor: "Ann".into(),
        payload: payload(n).as_object().cloned().unwrap_or_default(),
        actor_count: 3,
        actors: vec!["Ann".into(), "Ben".into(), "Cleo".into()],
    };
    let lines: Vec<_> = (0..GROUPS).map(group).collect();
    let items = lines.iter().map(|group| group.count).sum();
    Contents { items, groups: u64::from(GROUPS), counts: [("failed".to_owned(), 100)].into(), lines }
}
