//! The store's conformance suite compares these contents with both databases'.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::settings::{CategorySettings, DigestCategories, SectionHeading};

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap()
}

/// `id`, `entity_id`, milliseconds.
fn on(id: &str, entity_id: &str, milliseconds: i64) -> Event {
    Event {
        event_id: id.to_owned(),
        category: "comment".to_owned(),
        other_categories: BTreeSet::new(),
        entity_type: "page".to_owned(),
        entity_id: entity_id.to_owned(),
        actor: String::new(),
        occurred_at: at(milliseconds),
        counts: BTreeMap::new(),
        urgent: false,
        payload: EventPayload::default(),
    }
}

fn by(id: &str, actor: &str, title: &str, milliseconds: i64) -> Event {
    let payload = EventPayload::from_iter([("title".to_owned(), json!(title))]);
    Event { actor: actor.to_owned(), payload, ..on(id, "plans", milliseconds) }
}

fn counting(id: &str, entity_id: &str, counts: &[(&str, i64)]) -> Event {
    Event { counts: named(counts), ..on(id, entity_id, 0) }
}

fn named(counts: &[(&str, i64)]) -> BTreeMap<String, i64> {
    counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
}

fn with(events: &[Event], lines: u32, items: u32, categories: &DigestCategories) -> DigestContents {
    digest_contents(events, at(60_000), DisplayLimits { lines, items, categories })
}

fn of(events: &[Event]) -> DigestContents {
    with(events, 50, 3, &DigestCategories::default())
}

#[test]
fn groups_rank_by_number_then_latest_event_then_bytes() {
    let events = [
        on("1", "two", 0),
        on("2", "late", 9),
        on("3", "two", 1),
        on("4", "z", 5),
        on("5", "Z", 5),
        Event { entity_type: "file".to_owned(), ..on("6", "z", 5) },
        Event { category: "share".to_owned(), ..on("7", "z", 5) },
    ];
    let lines = of(&events).lines;
    let ranked: Vec<_> = lines.iter().map(|line| [&*line.category, &line.entity_type, &line.entity_id]).collect();
    let expected = [
        ["comment", "page", "two"],
        ["comment", "page", "late"],
        ["comment", "file", "z"],
        ["comment", "page", "Z"],
        ["comment", "page", "z"],
        ["share", "page", "z"],
    ];
    assert_eq!(ranked, expected);
}

#[test]
fn the_priority_of_a_category_comes_first_and_names_the_section() {
    let events = [on("1", "a", 0), on("2", "a", 1), Event { category: "bill".to_owned(), ..on("3", "b", 0) }];
    let section = Some(SectionHeading::new("bill", "Money"));
    let bill = CategorySettings { section: section.clone(), priority: 1, ..CategorySettings::default() };
    let lines = with(&events, 50, 3, &DigestCategories::from_iter([("bill", bill)])).lines;
    let placed: Vec<_> = lines.into_iter().map(|line| (line.category, line.section)).collect();
    assert_eq!(placed, [("bill".to_owned(), section), ("comment".to_owned(), None)]);
}

#[test]
fn totals_cover_the_groups_that_are_not_shown() {
    let events = [
        counting("1", "a", &[("critical", 2), ("minor", -1)]),
        counting("2", "a", &[("critical", 3)]),
        counting("3", "b", &[("critical", 5)]),
    ];
    let contents = with(&events, 1, 3, &DigestCategories::default());
    assert_eq!(
        (contents.claimed_at, contents.items, contents.line_count, contents.lines.len()),
        (Some(at(60_000)), 3, 2, 1)
    );
    assert_eq!(contents.counts, named(&[("critical", 10), ("minor", -1)]));
    assert_eq!((contents.lines[0].count, &contents.lines[0].counts), (2, &named(&[("critical", 5), ("minor", -1)])));
}

#[test]
fn sums_stop_at_the_limits() {
    let events = [
        counting("1", "a", &[("most", i64::MAX), ("least", i64::MIN), ("none", i64::MAX)]),
        counting("2", "a", &[("most", 1), ("least", -1), ("none", -i64::MAX)]),
    ];
    let limits = named(&[("most", i64::MAX), ("least", i64::MIN), ("none", 0)]);
    let contents = of(&events);
    assert_eq!((&contents.counts, &contents.lines[0].counts), (&limits, &limits));
}

#[test]
fn a_line_names_three_actors_by_their_latest_events() {
    let line = of(&[
        by("a", "Ann", "1", 1),
        by("b", "Bo", "2", 5),
        by("c", "Cy", "3", 2),
        by("d", "Di", "4", 3),
        by("e", "Ann", "5", 4),
        by("f", "Bo", "6", 0),
        by("g", "", "7", 9),
    ])
    .lines
    .remove(0);
    assert_eq!((line.count, line.first_at, line.last_at), (7, at(0), at(9)));
    assert_eq!((line.actor_count, line.actors), (4, ["Bo", "Ann", "Di"].map(str::to_owned).to_vec()));
    let tie = of(&[by("y", "Bo", "1", 1), by("x", "Ann", "2", 1)]).lines.remove(0);
    assert_eq!(tie.actors, ["Ann", "Bo"]);
    assert_eq!(tie.latest[0].actor, "Bo", "at one time the id that is last in byte order");
}

#[test]
fn times_are_cut_to_milliseconds() {
    let fine = Event { occurred_at: at(7) + jiff::SignedDuration::from_micros(900), ..on("1", "a", 0) };
    let line =
        digest_contents(&[fine], at(8), DisplayLimits { lines: 1, items: 1, categories: &DigestCategories::default() })
            .lines
            .remove(0);
    assert_eq!((line.first_at, line.last_at, line.latest[0].at), (at(7), at(7), at(7)));
}

#[test]
fn events_of_which_a_reader_reads_the_same_are_one_item() {
    let events = [
        by("a", "Ann", "Fix", 1),
        by("b", "Bo", "Fix", 2),
        by("c", "Ann", "Fix", 3),
        by("d", "Ann", "Test", 4),
        by("e", "Cy", "Fix", 0),
    ];
    let told = |most| {
        let items = with(&events, 50, most, &DigestCategories::default()).lines.remove(0).latest;
        let told =
            |item: LineItem| (item.count, item.at, item.actor, item.payload["title"].as_str().map(str::to_owned));
        items.into_iter().map(told).collect::<Vec<_>>()
    };
    let expected = [(1, 4, "Ann", "Test"), (2, 3, "Ann", "Fix"), (1, 2, "Bo", "Fix"), (1, 0, "Cy", "Fix")]
        .map(|(count, time, actor, title)| (count, at(time), actor.to_owned(), Some(title.to_owned())));
    assert_eq!(told(9), expected);
    assert_eq!(told(2), expected[..2]);
}

/// Three comments by one person on one document, which provides the title.
#[test]
fn events_with_other_excerpts_or_links_are_items_of_their_own() {
    let of_ann = |id: &str, more: &[(&str, serde_json::Value)], milliseconds| {
        let fields = [("title", json!("Plan")), ("build", json!(id))].into_iter().chain(more.iter().cloned());
        let payload = fields.map(|(name, value)| (name.to_owned(), value)).collect();
        Event { payload, ..by(id, "Ann", "", milliseconds) }
    };
    let url = |url: &str| ("url", json!(url));
    let excerpt = |excerpt: &str| ("excerpt", json!(excerpt));
    let counts = |events: &[Event]| -> Vec<u64> {
        with(events, 50, 9, &DigestCategories::default()).lines.remove(0).latest.iter().map(|item| item.count).collect()
    };
    for (others, folded) in [
        ([vec![excerpt("Too late.")], vec![excerpt("Too early.")], vec![]], vec![1, 1, 1]),
        ([vec![url("https://a.example/#1")], vec![url("https://a.example/#2")], vec![]], vec![1, 1, 1]),
        ([vec![url("https://a.example")], vec![url("https://a.example")], vec![]], vec![1, 2]),
        ([vec![excerpt(" ")], vec![], vec![("excerpt", json!(7))]], vec![3]),
    ] {
        let events: Vec<_> = others.iter().zip(0..).map(|(more, n)| of_ann(&n.to_string(), more, n)).collect();
        assert_eq!(counts(&events), folded, "{others:?}");
    }
}

#[test]
fn items_are_made_from_the_latest_twenty_events() {
    let events: Vec<_> = (0..25).map(|n| by(&format!("e{n}"), "Ann", "Fix", n)).collect();
    let line = of(&events).lines.remove(0);
    assert_eq!((line.count, line.latest.len(), line.latest[0].count, line.latest[0].at), (25, 1, 20, at(24)));
}
