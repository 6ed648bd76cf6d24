//! Both stores give the same results for the same events.

use proptest::{prelude::*, sample::select, strategy::ValueTree, test_runner::TestRunner};
use tidings_model::Event;

use super::{Bench, at, shown, titled, window_of};

const CASES: u32 = 60;

fn events() -> impl Strategy<Value = Vec<Event>> {
    let id = || {
        select(vec!["", "a", "A", "b", "ä", "Ä", "a b", "a-b", "ab", "ß", "ss", "é", "e\u{301}", "ｚ", "😀", "日本"])
    };
    let counts = prop::collection::btree_map(select(vec!["n", "ü", "N"]).prop_map(String::from), any::<i64>(), 0..3);
    let event = ("[a-c😀äÄz -]{1,3}", id(), id(), id(), 0..4_i64, counts, "\\PC{0,5}");
    let event = event.prop_map(|(event_id, entity_type, entity_id, actor, seconds, counts, title)| Event {
        event_id,
        category: "comment".into(),
        other_categories: std::collections::BTreeSet::new(),
        entity_type: entity_type.into(),
        entity_id: entity_id.into(),
        actor: actor.into(),
        occurred_at: at(seconds),
        counts,
        urgent: false,
        payload: titled(title.into()),
    });
    prop::collection::vec(event, 0..60)
}

#[tidings_needs::needs(postgres)]
#[tokio::test]
async fn both_stores_rank_and_sum_alike() {
    let Some(postgres) = Bench::postgres().await else { return };
    let (sqlite, mut runner) = (Bench::sqlite().await, TestRunner::deterministic());
    super::run(postgres, async |postgres: &Bench| {
        for case in 0..CASES {
            let events = events().new_tree(&mut runner).unwrap().current();
            let window = window_of(&super::key(&format!("user{case}")), 0);
            let mut told = Vec::new();
            for bench in [&sqlite, postgres] {
                let claim = bench.claim(&window, &events, at(1)).await;
                told.push((claim, bench.store.contents(&window, shown(7)).await.unwrap()));
            }
            assert_eq!(told[0], told[1], "{events:#?}");
        }
    })
    .await;
}
