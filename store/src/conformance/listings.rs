//! Ledger listings: filters, pages, and the indexes they use.

use jiff::Timestamp;
use tidings_model::{
    Key, Retract,
    attempt::AttemptClass,
    pause::{PauseDetails, PauseScope},
    records::{AuditActor, AuditFilter, DigestFilter, DigestState, ListPage, PageRequest},
    step::{AuditInput, AuditNote},
    window::{DigestOutcome, Window},
};

use super::{Bench, at, bench::Behind, ends, entry, event, events, key, window, window_of};
use crate::{
    audit::{self, MARK_EMITTED},
    listings,
    sql::dialect::StatementVariants,
};

fn all(limit: u32) -> DigestFilter {
    DigestFilter {
        tenant: None,
        digest_type: None,
        user: None,
        outcome: None,
        state: None,
        since: None,
        until: None,
        overdue_at: None,
        page: PageRequest { limit, after: None },
    }
}

impl Bench {
    async fn opened(&self, filter: &DigestFilter) -> Vec<Timestamp> {
        self.store.list_digests(filter).await.unwrap().rows.into_iter().map(|digest| digest.opened_at).collect()
    }

    async fn note(&self, key: &Key, seconds: i64, action: &str) {
        let note = AuditNote { at: at(seconds), by: "carol".into(), action: action.into(), why: "ticket 812".into() };
        self.store.record_audit(&AuditInput { key: key.clone(), notes: vec![note] }).await.unwrap();
    }
}

pub async fn digests_are_listed_latest_window_first_and_filtered(bench: &Bench) {
    let alerts = Key::new("other".into(), "alerts".into(), "bo".into()).unwrap();
    let (sent, rendered) = (bench.rendered(0).await, bench.rendered(1).await);
    let (number, _) = bench.begin(&sent).await;
    bench.ended(&sent, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    bench.store.stash_events(&window(2), &events(&["stashed"]), None, at(2_000)).await.unwrap();
    bench.claim(&window_of(&alerts, 3), &events(&["alert"]), at(3_001)).await;

    let of = |tenant: &str| DigestFilter { tenant: Some(tenant.into()), ..all(9) };
    let in_state = |state| DigestFilter { state: Some(state), ..all(9) };
    let overdue = |seconds| DigestFilter { overdue_at: Some(at(seconds)), ..all(9) };
    for (filter, opened) in [
        (all(9), &[3_000, 2_000, 1_000, 0][..]),
        (all(2), &[3_000, 2_000]),
        (of("acme"), &[2_000, 1_000, 0]),
        (of("acm"), &[]),
        (DigestFilter { digest_type: Some("alerts".into()), ..all(9) }, &[3_000]),
        (DigestFilter { user: Some("ann".into()), ..of("acme") }, &[2_000, 1_000, 0]),
        (
            DigestFilter { user: Some("ann".into()), digest_type: Some("activity".into()), ..of("acme") },
            &[2_000, 1_000, 0],
        ),
        (DigestFilter { user: Some("bo".into()), ..of("acme") }, &[]),
        (DigestFilter { outcome: Some(DigestOutcome::Sent), ..all(9) }, &[0]),
        (in_state(DigestState::Closed), &[0]),
        (in_state(DigestState::Open), &[2_000]),
        (in_state(DigestState::Claimed), &[3_000]),
        (in_state(DigestState::Rendered), &[1_000]),
        (DigestFilter { since: Some(at(1_000)), until: Some(at(3_000)), ..all(9) }, &[2_000, 1_000]),
        (overdue(3_060), &[1_000]),
        (overdue(3_061), &[3_000, 1_000]),
        (DigestFilter { tenant: Some("other".into()), ..overdue(9_000) }, &[3_000]),
    ] {
        let opened: Vec<_> = opened.iter().map(|seconds| at(*seconds)).collect();
        assert_eq!(bench.opened(&filter).await, opened, "{filter:?}");
    }
    let listed = bench.store.list_digests(&overdue(3_061)).await.unwrap();
    assert_eq!(listed.rows[1], bench.store.digest(rendered.digest_id).await.unwrap().unwrap());
    assert!(listed.rows.iter().all(|digest| digest.is_overdue(at(3_061))));
}

pub async fn pages_of_digests_neither_repeat_nor_leave_out_a_row(bench: &Bench) {
    // Five windows of one instant, so that only the id tells their order.
    let same_instant = |user: &str| Window { opened_at: at(0), ..window_of(&key(user), 0) };
    let mut expected = Vec::new();
    for user in ["a", "b", "c", "d", "e"] {
        let window = same_instant(user);
        bench.store.stash_events(&window, &events(&[user]), None, at(0)).await.unwrap();
        expected.push(window.digest_id);
    }
    expected.sort();
    expected.reverse();
    let (mut filter, mut listed) = (all(2), Vec::new());
    loop {
        let ListPage { rows, next } = bench.store.list_digests(&filter).await.unwrap();
        assert!(rows.len() <= 2);
        listed.extend(rows.into_iter().map(|digest| digest.digest_id));
        // A newer window moves no row of the pages that follow.
        let newer = window_of(&key("f"), i64::try_from(listed.len()).unwrap());
        bench.store.stash_events(&newer, &[event(&format!("of {}", newer.digest_id))], None, at(0)).await.unwrap();
        if next.is_none() {
            break;
        }
        filter.page.after = next;
    }
    assert_eq!(listed, expected);
}

pub async fn the_events_of_a_digest_come_in_pages_with_the_reason_of_those_in_no_email(bench: &Bench) {
    let window = window(0);
    bench.store.put_retracts(&window.key, &[Retract::Event("b".into())], at(0)).await.unwrap();
    bench.claim(&window, &events(&["c", "b", "a"]), at(60)).await;
    let digest = bench.store.digest(window.digest_id).await.unwrap().unwrap();
    assert_eq!((digest.claimed_at, digest.sent_at), (Some(at(60)), None));
    let mut page = PageRequest { limit: 2, after: None };
    let first = bench.store.digest_events(&digest, &page).await.unwrap();
    page.after = first.next;
    let second = bench.store.digest_events(&digest, &page).await.unwrap();
    assert_eq!(second.next, None);
    let rows: Vec<_> = first.rows.into_iter().chain(second.rows).collect();
    let told: Vec<_> = rows.iter().map(|event| (event.event_id.as_str(), event.excluded.as_deref())).collect();
    assert_eq!(told, [("a", None), ("b", Some("retracted")), ("c", None)]);
    assert_eq!((rows[0].category.as_str(), rows[0].occurred_at, rows[0].recorded_at), ("comment", at(0), at(60)));
}

pub async fn the_commands_and_pauses_over_a_digest_are_listed_with_it(bench: &Bench) {
    let (first, second) = (bench.rendered(0).await, bench.rendered(1).await);
    let scope = |tenant: Option<&str>, digest_type: Option<&str>| PauseScope {
        tenant: tenant.map(str::to_owned),
        digest_type: digest_type.map(str::to_owned),
    };
    for (n, scope) in
        [(1, scope(Some("acme"), None)), (2, scope(None, Some("activity"))), (3, scope(Some("other"), None))]
    {
        let paused = PauseDetails { by: "carol".into(), why: format!("reason {n}"), since: at(10 + n), until: None };
        bench.store.pause(&scope, false, &paused).await.unwrap();
    }
    bench.note(&first.key, 20, "hold").await;
    bench.note(&key("bo"), 21, "hold").await;
    bench.note(&first.key, 1_005, "release").await;
    let (number, _) = bench.begin(&first).await;
    bench.ended(&first, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await; // at(202)

    let entries = async |window: &Window| {
        let digest = bench.store.digest(window.digest_id).await.unwrap().unwrap();
        let entries = bench.store.audit_of_digest(&digest).await.unwrap();
        entries.into_iter().map(|entry| (entry.at, entry.action)).collect::<Vec<_>>()
    };
    let told = |told: &[(i64, &str)]| {
        told.iter().map(|(seconds, action)| (at(*seconds), (*action).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(entries(&first).await, told(&[(11, "pause"), (12, "pause"), (20, "hold")]));
    assert_eq!(entries(&second).await, told(&[(1_005, "release")]));
}

fn entries(limit: u32) -> AuditFilter {
    AuditFilter {
        tenant: None,
        digest_type: None,
        user: None,
        actor: None,
        action: None,
        since: None,
        until: None,
        page: PageRequest { limit, after: None },
    }
}

pub async fn audit_entries_are_listed_latest_first_and_filtered(bench: &Bench) {
    let alerts = Key::new("other".into(), "alerts".into(), "ann".into()).unwrap();
    bench.note(&key("ann"), 1, "hold").await;
    bench.note(&key("ann"), 3, "release").await;
    bench.note(&alerts, 2, "relay_open ses").await;
    bench.store.put_consent(&key("bo"), false, &entry(4, "recipient", "withdraw consent")).await.unwrap();
    let paused = PauseDetails { by: "dan".into(), why: "ticket 812".into(), since: at(5), until: None };
    bench.store.pause(&PauseScope { tenant: None, digest_type: Some("alerts".into()) }, false, &paused).await.unwrap();

    let some = |text: &str| Some(text.to_owned());
    for (filter, seconds) in [
        (entries(9), &[5, 4, 3, 2, 1][..]),
        (entries(2), &[5, 4]),
        (AuditFilter { tenant: some("acme"), ..entries(9) }, &[4, 3, 1]),
        (AuditFilter { digest_type: some("alerts"), ..entries(9) }, &[5, 2]),
        (AuditFilter { user: some("ann"), ..entries(9) }, &[3, 2, 1]),
        (AuditFilter { tenant: some("acme"), digest_type: some("activity"), user: some("ann"), ..entries(9) }, &[3, 1]),
        (AuditFilter { actor: Some(AuditActor::Recipient), ..entries(9) }, &[4]),
        (AuditFilter { actor: Some("carol".into()), action: some("release"), ..entries(9) }, &[3]),
        (AuditFilter { action: some("relay_open"), ..entries(9) }, &[2]),
        (AuditFilter { action: some("relay_open ses"), ..entries(9) }, &[2]),
        (AuditFilter { action: some("relay"), ..entries(9) }, &[]),
        (AuditFilter { since: Some(at(2)), until: Some(at(4)), ..entries(9) }, &[3, 2]),
    ] {
        let listed = bench.store.audit_entries(&filter).await.unwrap().rows;
        let expected: Vec<_> = seconds.iter().map(|seconds| at(*seconds)).collect();
        assert_eq!(listed.into_iter().map(|entry| entry.at).collect::<Vec<_>>(), expected, "{filter:?}");
    }
    let pause = bench.store.audit_entries(&entries(1)).await.unwrap().rows.remove(0);
    assert_eq!((pause.tenant.as_str(), pause.digest_type.as_str(), pause.user.as_str()), ("", "alerts", ""));
    assert_eq!((pause.actor, pause.action.as_str()), (AuditActor::from("dan"), "pause"));
}

pub async fn pages_of_audit_entries_neither_repeat_nor_leave_out_a_row(bench: &Bench) {
    // Five entries of one instant, so that only their number tells their order.
    for user in ["a", "b", "c", "d", "e"] {
        bench.note(&key(user), 0, "hold").await;
    }
    let (mut filter, mut listed) = (entries(2), Vec::new());
    loop {
        let ListPage { rows, next } = bench.store.audit_entries(&filter).await.unwrap();
        assert!(rows.len() <= 2);
        listed.extend(rows.into_iter().map(|entry| entry.user));
        // A newer entry moves no row of the pages that follow.
        bench.note(&key("f"), i64::try_from(listed.len()).unwrap(), "hold").await;
        if next.is_none() {
            break;
        }
        filter.page.after = next;
    }
    assert_eq!(listed, ["e", "d", "c", "b", "a"]);
}

/// Listing statements, each with an index it must use.
const READS: &[(StatementVariants, &str)] = &[
    (same(listings::ONE), "digests"),
    (same(listings::ALL), "digests_by_age"),
    (same(listings::OF_TENANT), "digests_"),
    (same(listings::OF_KEY), "digests_of_key"),
    (same(listings::WITHOUT_END), "digests_to_empty"),
    (same(listings::EVENTS), "events_of_digest"),
    (same(audit::ENTRIES_OF_DIGEST), "audit_of_digest"),
    (same(audit::ENTRIES_OF_DIGEST), "audit_"),
    (same(audit::ENTRIES), "audit_by_age"),
    (same(audit::ENTRIES_OF_KEY), "audit_of_key"),
    (audit::OF_WORKFLOWS, "dead_letters_by_age"),
    (same(audit::OF_WORKFLOW), "dead_letters_"),
    (same(audit::DEAD_LETTER), "dead_letters_of_run"),
    (same(MARK_EMITTED), "dead_letters_of_run"),
];

const fn same(statement: &'static str) -> StatementVariants {
    StatementVariants { sqlite: statement, postgres: statement }
}

pub async fn each_listing_reads_an_index(bench: &Bench) {
    bench.rendered(0).await;
    for (statement, index) in READS {
        let statement = match &bench.behind {
            Behind::Sqlite { .. } => statement.sqlite,
            Behind::Postgres { .. } => statement.postgres,
        };
        let plan = bench.plan(statement).await;
        assert!(plan.contains(index), "{index}: {plan}");
        let tables = ["digests", "events", "audit", "dead_letters"];
        assert!(!tables.iter().any(|table| plan.contains(&format!("Seq Scan on {table}"))), "{statement}: {plan}");
        for line in plan.lines().filter(|line| line.starts_with("SCAN ")) {
            assert!(line.contains("INDEX"), "{statement}: {plan}");
        }
    }
}

pub async fn a_digest_of_another_tenant_is_not_read(bench: &Bench) {
    let window = bench.rendered(0).await;
    let read = async |tenant: Option<&str>| bench.store.digest_of(tenant, window.digest_id).await.unwrap();
    let digest = bench.store.digest(window.digest_id).await.unwrap();
    assert!(digest.is_some() && read(None).await == digest && read(Some(&window.key.tenant)).await == digest);
    for tenant in ["zeta", "acm", "a\0"] {
        assert!(read(Some(tenant)).await.is_none(), "{tenant:?}");
    }
}
