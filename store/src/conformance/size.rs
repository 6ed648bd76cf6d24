use std::time::Instant;

use tidings_model::Event;

use super::{Bench, at, event, shown, window};

const EVENTS: usize = 100_000;
const PAGE: usize = 500;

fn page(first: usize) -> Vec<Event> {
    let nth = |n: usize| Event {
        entity_id: format!("d{}", n % 300),
        actor: format!("Actor {}", n % 7),
        occurred_at: at(i64::try_from(n).unwrap()),
        counts: [("critical".to_owned(), 1)].into(),
        ..event(&format!("e{n}"))
    };
    (first..first + PAGE).map(nth).collect()
}

pub async fn a_hundred_thousand_events_make_fifty_lines(bench: &Bench) {
    let began = Instant::now();
    for first in (0..EVENTS - PAGE).step_by(PAGE) {
        bench.store.stash_events(&window(0), &page(first), None, at(1)).await.unwrap();
    }
    let stashed = Instant::now();
    let claim = bench.claim(&window(0), &page(EVENTS - PAGE), at(2)).await;
    let claimed = Instant::now();
    let contents = bench.store.contents(&window(0), shown(50)).await.unwrap();
    println!("stash {:?}, claim {:?}, contents {:?}", stashed - began, claimed - stashed, claimed.elapsed());
    assert_eq!((claim.items, claim.lines), (100_000, 300));
    assert_eq!((contents.items, contents.line_count, contents.lines.len()), (100_000, 300, 50));
    assert_eq!(contents.counts["critical"], 100_000);
    // A hundred entities have an event more; among equals the latest is first.
    let first = &contents.lines[0];
    let title = first.latest[0].payload["title"].as_str();
    assert_eq!((first.count, first.entity_id.as_str(), title), (334, "d99", Some("e99999")));
    assert_eq!((first.actor_count, first.counts["critical"], first.actors.len()), (7, 334, 3));
}
