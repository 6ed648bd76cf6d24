use std::collections::BTreeMap;

use serde_json::json;
use tidings_model::{
    Event, EventPayload,
    records::{DigestContents, DigestLine, LineItem},
    rules::contents::RECENT_EVENTS,
    settings::{CategorySettings, DigestCategories, DisplayLimits, SectionHeading},
};

use super::{Bench, at, event, shown, titled, window};

async fn contents(bench: &Bench, events: &[Event], max_groups: u32) -> DigestContents {
    bench.claim(&window(0), events, at(1)).await;
    bench.store.contents(&window(0), shown(max_groups)).await.unwrap()
}

/// `id`, `entity_id`, seconds.
fn on(id: &str, entity_id: &str, seconds: i64) -> Event {
    Event { entity_id: entity_id.into(), occurred_at: at(seconds), ..event(id) }
}

fn counting(id: &str, entity_id: &str, counts: &[(&str, i64)]) -> Event {
    Event { counts: counts.iter().map(|&(name, n)| (name.to_owned(), n)).collect(), ..on(id, entity_id, 0) }
}

pub async fn lines_rank_by_count_then_latest_then_bytes(bench: &Bench) {
    let events = [
        on("1", "two", 0),
        on("2", "two", 1),
        on("3", "late", 9),
        on("4", "ä", 5),
        on("5", "z", 5),
        on("6", "Z", 5),
        on("7", "a", 5),
        on("8", "", 5),
        on("9", "😀", 5),
        on("10", "ｚ", 5),
        on("11", "a-b", 5),
        on("12", "a b", 5),
    ];
    let ranked: Vec<_> = contents(bench, &events, 50).await.lines.into_iter().map(|line| line.entity_id).collect();
    assert_eq!(ranked, ["two", "late", "", "Z", "a", "a b", "a-b", "z", "ä", "ｚ", "😀"]);
}

pub async fn lines_of_a_higher_priority_come_first_with_their_section(bench: &Bench) {
    let of = |id: &str, category: &str| Event { category: category.into(), ..event(id) };
    let events = [of("1", "share"), of("2", "share"), of("3", "fix \"it\""), of("4", "comment"), of("5", "$.x")];
    bench.claim(&window(0), &events, at(1)).await;
    let (code, money) = (Some(SectionHeading::new("fix \"it\"", "Code")), Some(SectionHeading::new("$.x", "Money")));
    let placed = |section, priority| CategorySettings { section, priority, ..CategorySettings::default() };
    let categories = [("comment", None, 0), ("fix \"it\"", code.clone(), 2), ("$.x", money.clone(), 1)];
    let categories: DigestCategories =
        categories.into_iter().map(|(name, section, priority)| (name, placed(section, priority))).collect();
    let lines =
        bench.store.contents(&window(0), DisplayLimits { categories: &categories, ..shown(3) }).await.unwrap().lines;
    let lines: Vec<_> = lines.into_iter().map(|line| (line.category, line.section)).collect();
    let expected = [("fix \"it\"", code), ("$.x", money), ("share", None)];
    assert_eq!(lines, expected.map(|(category, section)| (category.to_owned(), section)));
}

pub async fn a_line_shows_its_latest_event_and_three_actors(bench: &Bench) {
    let by = |id: &str, actor: &str, seconds| Event { actor: actor.into(), ..on(id, "d1", seconds) };
    let events = [
        by("b", "Bo", 7),
        by("ä", "Änn", 7),
        by("a", "Ann", 7),
        by("c", "Cy", 3),
        by("d", "Cy", 2),
        by("e", "", 8),
        by("f", "", 1),
    ];
    let contents = contents(bench, &events, 50).await;
    let line = &contents.lines[0];
    assert_eq!((contents.lines.len(), line.count, line.first_at, line.last_at), (1, 7, at(1), at(8)));
    assert_eq!((line.latest[0].actor.as_str(), &line.latest[0].payload["title"]), ("", &json!("e")));
    assert_eq!((line.actor_count, line.actors.as_slice()), (4, ["Ann", "Bo", "Änn"].map(String::from).as_slice()));
    let tie = bench_line(bench, &[by("x", "Ann", 7), by("y", "Bo", 7)]).await;
    assert_eq!((tie.latest[0].actor.as_str(), &tie.latest[0].payload["title"]), ("Bo", &json!("y")));
}

async fn bench_line(bench: &Bench, events: &[Event]) -> DigestLine {
    bench.claim(&window(1), events, at(1)).await;
    bench.store.contents(&window(1), shown(1)).await.unwrap().lines.remove(0)
}

pub async fn a_line_shows_its_latest_events_and_folds_those_that_say_the_same(bench: &Bench) {
    let says = |id: &str, actor: &str, title: serde_json::Value, seconds| Event {
        actor: actor.into(),
        payload: titled(title),
        ..on(id, "d1", seconds)
    };
    let events = [
        says("a", "Ann", json!("Fix \0"), 1),
        says("b", "Bo", json!("Fix \0"), 2),
        says("c", "Ann", json!("Fix \0"), 3),
        says("d", "Ann", json!("Test"), 3),
        says("e", "Ann", json!(7), 0),
        says("f", "Ann", json!(null), -1),
    ];
    let three = bench_line(bench, &events).await.latest;
    let all = DisplayLimits { items: 9, ..shown(1) };
    let all = bench.store.contents(&window(1), all).await.unwrap().lines.remove(0).latest;
    let told = |item: &LineItem| (item.count, item.at, item.actor.clone(), item.payload["title"].clone());
    let told: Vec<_> = all.iter().map(told).collect();
    let expected = [
        (1, at(3), "Ann", json!("Test")),
        (2, at(3), "Ann", json!("Fix \0")),
        (1, at(2), "Bo", json!("Fix \0")),
        (2, at(0), "Ann", json!(7)),
    ];
    assert_eq!(told, expected.map(|(count, at, actor, title)| (count, at, actor.to_owned(), title)));
    assert_eq!(three, all[..3]);
}

pub async fn events_of_which_a_reader_reads_the_same_fold_and_no_others(bench: &Bench) {
    let says = |id: &str, excerpt: &str, url: &str, seconds| {
        let fields = [("title", "Plan"), ("excerpt", excerpt), ("url", url), ("build", id)];
        let payload = fields.map(|(name, text)| (name.to_owned(), json!(text))).into_iter().collect();
        Event { payload, ..on(id, "d1", seconds) }
    };
    let events = [
        says("a", "Who \0 signs?", "https://a.example/#1", 1),
        says("b", "Who \0 signs?", "https://a.example/#1", 2),
        says("c", "Who \0 signs?", "https://a.example/#2", 3),
        says("d", "In May.", "https://a.example/#1", 4),
    ];
    let shown = DisplayLimits { items: 9, ..shown(1) };
    bench.claim(&window(0), &events, at(1)).await;
    let items = bench.store.contents(&window(0), shown).await.unwrap().lines.remove(0).latest;
    let folded: Vec<_> = items.iter().map(|item| (item.count, item.payload["build"].clone())).collect();
    assert_eq!(folded, [(1, json!("d")), (1, json!("c")), (2, json!("b"))]);
}

pub async fn an_item_folds_no_more_than_the_recent_events(bench: &Bench) {
    let events: Vec<_> = (0..i64::from(RECENT_EVENTS) + 5).map(|n| on(&format!("e{n}"), "d1", n)).collect();
    let same = events.into_iter().map(|event| Event { payload: EventPayload::default(), ..event });
    let line = bench_line(bench, &same.collect::<Vec<_>>()).await;
    assert_eq!((line.count, line.latest.len()), (25, 1));
    assert_eq!((line.latest[0].count, line.latest[0].at), (RECENT_EVENTS.into(), at(24)));
}

pub async fn totals_cover_what_the_lines_leave_out(bench: &Bench) {
    let events = [
        counting("1", "a", &[("critical", 2), ("ü\"\\", -1)]),
        counting("2", "a", &[("critical", 3)]),
        counting("3", "b", &[("warning", 1), ("critical", 5)]),
        counting("4", "c", &[]),
    ];
    let contents = contents(bench, &events, 1).await;
    assert_eq!((contents.items, contents.line_count, contents.lines.len()), (4, 3, 1));
    let counts = |counts: &[(&str, i64)]| -> BTreeMap<String, i64> {
        counts.iter().map(|&(name, n)| (name.to_owned(), n)).collect()
    };
    assert_eq!(contents.lines[0].counts, counts(&[("critical", 5), ("ü\"\\", -1)]));
    assert_eq!(contents.counts, counts(&[("critical", 10), ("warning", 1), ("ü\"\\", -1)]));
    let none = bench.store.contents(&window(0), shown(0)).await.unwrap();
    assert_eq!((none.items, none.line_count, none.lines.len()), (4, 3, 0));
}

pub async fn sums_stop_at_what_an_i64_holds(bench: &Bench) {
    let events = [
        counting("1", "a", &[("up", i64::MAX), ("down", i64::MIN), ("both", i64::MAX), ("edge", i64::MAX)]),
        counting("2", "a", &[("up", i64::MAX), ("down", i64::MIN), ("both", i64::MIN), ("edge", -1)]),
        counting("3", "a", &[("up", 1), ("down", -1), ("both", -5), ("edge", 1)]),
        counting("4", "a", &[("low", i64::MIN), ("small", -4_294_967_297)]),
    ];
    let contents = contents(bench, &events, 50).await;
    let expected = [
        ("up", i64::MAX),
        ("down", i64::MIN),
        ("both", -6),
        ("edge", i64::MAX),
        ("low", i64::MIN),
        ("small", -4_294_967_297),
    ];
    assert_eq!(contents.counts, expected.map(|(name, n)| (name.to_owned(), n)).into());
    assert_eq!(contents.lines[0].counts, contents.counts);
}

pub async fn a_payload_comes_back_as_it_was(bench: &Bench) {
    let payload = json!({
        "title": "nul \0, quote \", backslash \\u0000, \u{2028} 😀 ü",
        "": {"nested": [1, -0.5, 1e300, 12_345_678_901_234_i64, true, null, {"\0": "<b>"}]},
    });
    let serde_json::Value::Object(payload) = payload else { unreachable!() };
    let event = Event { payload: payload.clone().into(), ..event("e1") };
    assert_eq!(contents(bench, &[event], 50).await.lines[0].latest[0].payload, payload);
}

pub async fn an_empty_digest_has_no_lines(bench: &Bench) {
    let empty = DigestContents { claimed_at: None, items: 0, line_count: 0, counts: BTreeMap::new(), lines: vec![] };
    assert_eq!(bench.store.contents(&window(0), shown(50)).await.unwrap(), empty);
    assert_eq!(contents(bench, &[], 50).await, DigestContents { claimed_at: Some(at(1)), ..empty });
}

pub async fn the_window_of_an_email_ends_with_its_first_claim(bench: &Bench) {
    let events = [event("a")];
    let opened = bench.store.preview_claim(&window(0), &events, &[].into(), shown(50)).await.unwrap();
    assert_eq!(opened.claimed_at, None);
    for claimed in [7, 9] {
        bench.claim(&window(0), &events, at(claimed)).await;
        assert_eq!(
            bench.store.contents(&window(0), shown(50)).await.unwrap().claimed_at,
            Some(at(7)),
            "claim at {claimed}"
        );
    }
}
