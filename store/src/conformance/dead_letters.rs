//! Dead letters: recorded once, listed, read and marked as emitted once.

use std::collections::BTreeSet;

use futures::future::join_all;
use tidings_model::{
    Key,
    decode::DeadLetter,
    records::{DeadLetterFilter, DeadLetterId, DeadLetterRecord, EmissionRecord, KeptLetter, ListPage, PageRequest},
    step::DeadLettersInput,
};

use super::{Bench, at, entry, key};

fn letter(seq: u64) -> DeadLetter {
    DeadLetter {
        seq,
        reason: "unknown field `ann@example.com`".into(),
        encoding: "json/plain".into(),
        message_type: Some("tidings.v1.Event".into()),
        size: 3,
        sha256: "ab".into(),
        head: "YWJj".into(),
    }
}

fn id(run_id: &str, seq: u64) -> DeadLetterId {
    DeadLetterId { run_id: run_id.into(), seq }
}

fn all(limit: u32) -> DeadLetterFilter {
    let page = PageRequest { limit, after: None };
    DeadLetterFilter { tenant: None, digest_type: None, user: None, since: None, until: None, page }
}

impl Bench {
    async fn bury(&self, workflow_id: &str, run_id: &str, seqs: &[u64], seconds: i64) {
        let letters = seqs.iter().map(|seq| letter(*seq)).collect();
        let input = DeadLettersInput { workflow_id: workflow_id.into(), run_id: run_id.into(), letters };
        self.store.put_dead_letters(&input, at(seconds)).await.unwrap();
    }

    async fn letters(&self, filter: &DeadLetterFilter) -> Vec<String> {
        self.store.dead_letters(filter).await.unwrap().rows.into_iter().map(|letter| letter.id.to_string()).collect()
    }
}

pub async fn a_dead_letter_is_buried_once(bench: &Bench) {
    let letter = |seq| DeadLetter { reason: "not JSON: \0".into(), encoding: "binary/\0".into(), ..letter(seq) };
    let letters = vec![letter(0), letter(1), letter(1)];
    let mut input = DeadLettersInput { workflow_id: "not a key".into(), run_id: "r".into(), letters };
    bench.store.put_dead_letters(&input, at(1)).await.unwrap();
    bench.store.put_dead_letters(&input, at(2)).await.unwrap();
    input.run_id = "s".into();
    bench.store.put_dead_letters(&input, at(3)).await.unwrap();
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM dead_letters").await, "4");
    let first = bench.value("SELECT encoding FROM dead_letters WHERE run_id = 'r' AND seq = 1").await;
    assert_eq!(first, "binary/\u{fffd}");
}

pub async fn a_dead_letter_is_read_with_what_is_kept_and_its_reason_without_addresses(bench: &Bench) {
    bench.bury("digest/acme/activity/ann", "r", &[7], 1).await;
    let record = DeadLetterRecord {
        id: id("r", 7),
        workflow_id: "digest/acme/activity/ann".into(),
        buried_at: at(1),
        reason: "unknown field <address>".into(),
        encoding: "json/plain".into(),
        message_type: Some("tidings.v1.Event".into()),
        size: 3,
        sha256: "ab".into(),
        emitted: None,
    };
    let kept = KeptLetter { record: record.clone(), head: b"abc".into() };
    assert!(bench.store.dead_letter(None, &id("r", 7)).await.unwrap().is_some_and(|letter| letter == kept));
    assert_eq!(bench.store.dead_letters(&all(9)).await.unwrap().rows, [record]);
    for unknown in [id("r", 8), id("s", 7), id("r", u64::MAX)] {
        assert!(bench.store.dead_letter(None, &unknown).await.unwrap().is_none(), "{unknown}");
    }

    // A worker of an earlier version does not record the message type.
    let letters = vec![DeadLetter { message_type: None, ..letter(1) }];
    let earlier = DeadLettersInput { workflow_id: "digest/acme/activity/ann".into(), run_id: "s".into(), letters };
    bench.store.put_dead_letters(&earlier, at(2)).await.unwrap();
    assert_eq!(bench.store.dead_letter(None, &id("s", 1)).await.unwrap().unwrap().record.message_type, None);
}

pub async fn a_dead_letter_of_another_tenant_is_not_read(bench: &Bench) {
    bench.bury("digest/acme/activity/ann", "r", &[7], 1).await;
    bench.bury("not a key", "s", &[1], 1).await;
    let read =
        async |tenant: Option<&str>, of: DeadLetterId| bench.store.dead_letter(tenant, &of).await.unwrap().is_some();
    assert!(read(Some("acme"), id("r", 7)).await && read(None, id("s", 1)).await);
    for tenant in ["zeta", "acm", "acme/activity", "ACME", ""] {
        assert!(!read(Some(tenant), id("r", 7)).await, "{tenant:?}");
        assert!(!read(Some(tenant), id("s", 1)).await, "{tenant:?}");
    }
}

pub async fn dead_letters_are_listed_latest_first_and_filtered(bench: &Bench) {
    for (n, workflow_id) in [
        "digest/acme/activity/ann",
        "digest/acme/alerts/ann",
        "digest/Acme/activity/ann",
        "digest/a_me/activity/bo%20b",
        "digest/acme/activity",
        "order 7",
    ]
    .into_iter()
    .enumerate()
    {
        bench.bury(workflow_id, &n.to_string(), &[1], n.try_into().unwrap()).await;
    }
    let of = |tenant: Option<&str>, digest_type: Option<&str>, user: Option<&str>| {
        let [tenant, digest_type, user] = [tenant, digest_type, user].map(|part| part.map(str::to_owned));
        DeadLetterFilter { tenant, digest_type, user, ..all(9) }
    };
    for (filter, runs) in [
        (all(9), &["5.1", "4.1", "3.1", "2.1", "1.1", "0.1"][..]),
        (all(2), &["5.1", "4.1"]),
        (of(Some("acme"), None, None), &["4.1", "1.1", "0.1"]),
        (of(Some("a_me"), None, None), &["3.1"]),
        (of(Some("*"), None, None), &[]),
        (of(Some("acm"), None, None), &[]),
        (of(Some("acme"), Some("activity"), None), &["0.1"]),
        (of(None, Some("activity"), None), &["3.1", "2.1", "0.1"]),
        (of(Some("acme"), None, Some("ann")), &["1.1", "0.1"]),
        (of(Some("acme"), Some("activity"), Some("ann")), &["0.1"]),
        (of(Some("a_me"), Some("activity"), Some("bo b")), &["3.1"]),
        (of(Some("acme"), Some("activity"), Some("bo")), &[]),
        (DeadLetterFilter { since: Some(at(1)), until: Some(at(4)), ..all(9) }, &["3.1", "2.1", "1.1"]),
    ] {
        assert_eq!(bench.letters(&filter).await, runs, "{filter:?}");
    }
}

pub async fn pages_of_dead_letters_neither_repeat_nor_leave_out_a_row(bench: &Bench) {
    // Letters of one instant, so that only run and number tell their order.
    bench.bury("digest/acme/activity/ann", "r", &[1, 2, 10], 0).await;
    bench.bury("digest/acme/activity/bo", "s", &[1, 2], 0).await;
    let (mut filter, mut listed) = (all(2), Vec::new());
    loop {
        let ListPage { rows, next } = bench.store.dead_letters(&filter).await.unwrap();
        assert!(rows.len() <= 2);
        listed.extend(rows.into_iter().map(|letter| letter.id.to_string()));
        // A newer letter moves no row of the pages that follow.
        bench.bury("digest/acme/activity/cy", &format!("new {}", listed.len()), &[1], 1).await;
        if next.is_none() {
            break;
        }
        filter.page.after = next;
    }
    assert_eq!(listed, ["s.2", "s.1", "r.10", "r.2", "r.1"]);
}

const ENTRIES: &str = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE action = 'dead_letter_emit' AND actor = 'carol'
                       AND user_id IN ('bo', 'cy')";

pub async fn a_dead_letter_is_marked_as_emitted_once_with_an_entry_for_each_key(bench: &Bench) {
    bench.bury("digest/acme/activity/ann", "r", &[1, 2], 1).await;
    let keys: BTreeSet<Key> = ["bo", "cy"].map(key).into();
    let first = entry(5, "carol", "dead_letter_emit");
    assert_eq!(bench.store.mark_emitted(&id("r", 1), &keys, &first).await.unwrap(), None);
    let emitted = EmissionRecord { at: at(5), by: "carol".into() };
    let second = entry(6, "dan", "dead_letter_emit");
    let refused = bench.store.mark_emitted(&id("r", 1), &keys, &second).await.unwrap();
    assert_eq!(refused.as_ref(), Some(&emitted));

    let letters = bench.store.dead_letters(&all(9)).await.unwrap().rows;
    let marks: Vec<_> = letters.into_iter().map(|letter| (letter.id.seq, letter.emitted)).collect();
    assert_eq!(marks, [(2, None), (1, Some(emitted))]);
    assert_eq!(bench.value(ENTRIES).await, "2");
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM audit").await, "2");

    // The events went out, although retention has deleted the letter since.
    assert_eq!(bench.store.mark_emitted(&id("gone", 1), &keys, &first).await.unwrap(), None);
    assert_eq!(bench.value(ENTRIES).await, "4");
}

pub async fn of_many_emissions_of_a_dead_letter_at_once_one_is_marked(bench: &Bench) {
    bench.bury("digest/acme/activity/ann", "r", &[1], 1).await;
    let keys: BTreeSet<Key> = [key("bo")].into();
    let mark = async |n: usize| {
        let entry = entry(5, &format!("operator {n}"), "dead_letter_emit");
        (n, bench.store.mark_emitted(&id("r", 1), &keys, &entry).await.unwrap())
    };
    let marks = join_all((0..5).map(mark)).await;
    let first: Vec<_> = marks.iter().filter(|(_, earlier)| earlier.is_none()).map(|(n, _)| *n).collect();
    assert_eq!(first.len(), 1, "{marks:?}");
    let by = format!("operator {}", first[0]);
    assert!(marks.iter().filter_map(|(_, earlier)| earlier.as_ref()).all(|earlier| earlier.by == by), "{marks:?}");
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM audit").await, "1");
}
