//! Retention moves old rows into the archive, if there is one, and touches no others.

use std::{collections::BTreeSet, fs, io, path::Path};

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;
use tidings_model::{
    MessageKey, Retract,
    attempt::AttemptClass,
    command::{CommandContext, ReopenCommand},
    decode::DeadLetter,
    records::{AttemptEnd, AuditActor, ClaimLimits, CloseRequest, MessageOrigin, OutboxMessage},
    retention::{ArchiveRecord, PurgeAnswer, RetentionCutoff, RetentionKind, RetractExpiry},
    settings::DigestCategories,
    step::{DeadLettersInput, ReopenAnswer, ReopenInput},
    window::{DigestOutcome, PlanSummary, Window, WindowEnd},
};

use super::{Bench, at, closed, ends, event, events, key, message, window, window_of};
use crate::archive::Archive;

/// When `over` closes [`Bench::rendered`] digests.
const CLOSED: i64 = 300;

fn old(kind: RetentionKind, seconds: i64) -> RetentionCutoff {
    RetentionCutoff { kind, before: at(seconds) }
}

async fn over(bench: &Bench, window: &Window, ids: &[&str], outcome: DigestOutcome) {
    let (events, closed) = (events(ids), closed(outcome));
    let now = at(CLOSED);
    let closing = CloseRequest {
        window,
        events: &events,
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now,
    };
    bench.store.close_digest(closing).await.unwrap();
}

/// As without open windows that may need a retract.
async fn purge(bench: &Bench, cutoff: RetentionCutoff, limit: u32, archive: Option<&Archive>) -> PurgeAnswer {
    let mut expiries = Vec::new();
    if cutoff.kind == RetentionKind::Retracts {
        let keys = bench.store.keys_of_old_retracts(cutoff.before, 500, at(9_000)).await.unwrap();
        expiries.extend(keys.into_iter().map(|key| RetractExpiry { key, before: cutoff.before }));
    }
    bench.store.purge(cutoff, limit, archive, &expiries, at(9_000)).await.unwrap()
}

/// Purges batch by batch until nothing is left. Returns the number of rows.
async fn purge_all(bench: &Bench, cutoff: RetentionCutoff, archive: Option<&Archive>) -> u64 {
    let mut purged = 0;
    loop {
        let batch = purge(bench, cutoff, 2, archive).await;
        assert_eq!(batch.archived, if archive.is_some() { batch.purged } else { 0 });
        purged += batch.purged;
        if !batch.more {
            return purged;
        }
    }
}

async fn reopen(bench: &Bench, window: &Window) -> ReopenAnswer {
    let order = CommandContext { by: "carol".into(), why: "ticket 812".into() };
    let reopen = ReopenCommand { order, digest_id: window.digest_id, may_duplicate: true };
    let input = ReopenInput { asked_at: at(400), key: window.key.clone(), reopen };
    bench.store.reopen_digest(&input, at(401)).await.unwrap()
}

async fn refused(bench: &Bench, window: &Window) -> String {
    match reopen(bench, window).await {
        ReopenAnswer::Refused { why } => why,
        ReopenAnswer::Claimed { .. } => panic!("reopened"),
    }
}

fn archive() -> (TempDir, Archive) {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::new(folder.path().to_owned());
    (folder, archive)
}

fn archived(folder: &Path) -> Vec<Value> {
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let files = entries(folder).into_iter().flat_map(|day| entries(&day));
    let text = files.map(|file| io::read_to_string(GzDecoder::new(fs::File::open(file).unwrap())).unwrap());
    text.collect::<String>().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A field of all lines, sorted.
fn field(folder: &Path, name: &str) -> Vec<String> {
    let mut values: Vec<_> = archived(folder).iter().map(|line| line[name].as_str().unwrap().to_owned()).collect();
    values.sort();
    values
}

pub async fn an_event_goes_when_its_digests_end_is_older_than_the_cutoff_and_is_new_again(bench: &Bench) {
    let mut yesterday = event("a");
    yesterday.occurred_at = at(-90_000);
    bench.claim(&window(0), &[yesterday, event("b")], at(1)).await;
    over(bench, &window(0), &[], DigestOutcome::Sent).await;
    for early in [0, CLOSED] {
        assert_eq!(bench.store.count_expired(old(RetentionKind::Events, early)).await.unwrap(), 0);
        assert_eq!(purge(bench, old(RetentionKind::Events, early), 500, None).await, PurgeAnswer::default());
    }
    assert_eq!(bench.store.count_expired(old(RetentionKind::Events, CLOSED + 1)).await.unwrap(), 2);
    let all = PurgeAnswer { purged: 2, archived: 0, more: false };
    assert_eq!(purge(bench, old(RetentionKind::Events, CLOSED + 1), 500, None).await, all);
    assert_eq!(purge(bench, old(RetentionKind::Events, CLOSED + 1), 500, None).await, PurgeAnswer::default());
    let known = bench.store.known_events(&key("ann"), &["a".into(), "b".into()], &[], None).await.unwrap().event_ids;
    assert_eq!(known, Vec::<String>::new());
    // The digest itself stays, with the number of its events.
    let digest = bench.store.digest(window(0).digest_id).await.unwrap().unwrap();
    assert_eq!((digest.closed.unwrap().outcome, digest.items), (DigestOutcome::Sent, 2));
}

pub async fn the_plan_and_the_number_of_events_outlast_the_events(bench: &Bench) {
    let planned =
        |why: &str| PlanSummary { why: why.into(), cadence: "daily 09:00".into(), zone: "Europe/Berlin".into() };
    let (first, second) = (planned("daily 09:00 -> nine; then quiet -> ten"), planned("daily 09:00 -> another day"));
    let off = BTreeSet::new();
    for plan in [&first, &second] {
        let limits = ClaimLimits {
            cap: None,
            slot_at: None,
            off: &off,
            seen: &BTreeSet::new(),
            categories: &DigestCategories::NONE,
            planned: Some(plan),
        };
        bench.store.claim(&window(0), &events(&["a", "b"]), &limits, at(1)).await.unwrap();
    }
    over(bench, &window(0), &[], DigestOutcome::Sent).await;
    let end = closed(DigestOutcome::Dropped);
    let dropped = events(&["c"]);
    let closing = CloseRequest {
        window: &window(1),
        events: &dropped,
        closed: &end,
        by: "ann".into(),
        return_events: false,
        planned: Some(&second),
        now: at(1),
    };
    bench.store.close_digest(closing).await.unwrap();
    purge(bench, old(RetentionKind::Events, CLOSED + 1), 500, None).await;
    for (window, items, plan) in [(window(0), 2, first), (window(1), 1, second)] {
        let digest = bench.store.digest(window.digest_id).await.unwrap().unwrap();
        assert_eq!(bench.items(&window).await, 0, "the events are gone");
        assert_eq!((digest.items, &digest.plan_why), (items, &plan.why));
        assert_eq!((digest.cadence, digest.zone), (plan.cadence, plan.zone));
    }
}

pub async fn an_event_that_came_after_the_end_counts_after_the_purge(bench: &Bench) {
    for ids in [&["a"][..], &["b"]] {
        let end = WindowEnd { outcome: DigestOutcome::Skipped, why: "retracted".into() };
        let late = events(ids);
        let closing = CloseRequest {
            window: &window(0),
            events: &late,
            closed: &end,
            by: AuditActor::Tidings,
            return_events: false,
            planned: None,
            now: at(1),
        };
        bench.store.exclude_events(closing, None).await.unwrap();
    }
    assert_eq!(bench.store.digest(window(0).digest_id).await.unwrap().unwrap().items, 2);
    purge(bench, old(RetentionKind::Events, CLOSED + 1), 500, None).await;
    assert_eq!(bench.items(&window(0)).await, 0);
    assert_eq!(bench.store.digest(window(0).digest_id).await.unwrap().unwrap().items, 2);
}

pub async fn what_has_no_end_or_waits_for_a_claim_is_never_touched(bench: &Bench) {
    bench.store.stash_events(&window(0), &events(&["open"]), None, at(1)).await.unwrap();
    bench.claim(&window_of(&key("bo"), 0), &events(&["claimed"]), at(1)).await;
    let undelivered = bench.rendered(2).await;
    bench.begin(&undelivered).await;
    let failed = bench.rendered(3).await;
    let (number, _) = bench.begin(&failed).await;
    bench
        .ended(&failed, number, AttemptEnd { return_events: true, ..ends(AttemptClass::Failed, DigestOutcome::Failed) })
        .await;
    let before = bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM events").await;
    assert_eq!(before, "6");
    let cutoff = old(RetentionKind::Events, 5_000);
    assert_eq!((bench.store.count_expired(cutoff).await.unwrap(), purge_all(bench, cutoff, None).await), (0, 0));
    // The mail of the failed digest has its end; that of the undelivered one has none.
    assert_eq!(purge_all(bench, old(RetentionKind::Messages, 5_000), None).await, 1);
    // What waited is in the key's next digest.
    assert_eq!(bench.joins(&window(4), at(500)).await, 2);
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM events").await, "7");
}

pub async fn batches_end_and_digests_without_events_are_passed_over_once(bench: &Bench) {
    for n in 0..5 {
        over(bench, &window(n), &[], DigestOutcome::Skipped).await;
    }
    over(bench, &window(5), &["a", "b", "c", "d", "e"], DigestOutcome::Sent).await;
    assert_eq!(purge_all(bench, old(RetentionKind::Events, CLOSED + 1), None).await, 5);
    let left = "SELECT CAST(COUNT(*) AS TEXT) FROM digests WHERE emptied_at IS NULL";
    assert_eq!(bench.value(left).await, "0");
}

pub async fn an_archive_has_each_row_once_also_after_a_crash_before_the_rows_were_deleted(bench: &Bench) {
    let (folder, archive) = archive();
    over(bench, &window(0), &["a", "b", "c"], DigestOutcome::Sent).await;
    over(bench, &window(1), &["d", "e"], DigestOutcome::Dropped).await;
    for table in ["events", "digests"] {
        bench.execute(&format!("CREATE TABLE saved_{table} AS SELECT * FROM {table}")).await;
    }
    assert_eq!(purge(bench, old(RetentionKind::Events, CLOSED + 1), 2, Some(&archive)).await.purged, 2);
    // As if the process had died when the file had its name, and before the transaction was committed.
    bench.execute("DELETE FROM events").await;
    bench.execute("INSERT INTO events SELECT * FROM saved_events").await;
    bench.execute("UPDATE digests SET purged_at = NULL, emptied_at = NULL").await;
    // The next run has another cutoff, and its batches may be of another size.
    let cutoff = old(RetentionKind::Events, CLOSED + 7);
    while purge(bench, cutoff, 3, Some(&archive)).await.more {}
    assert_eq!(field(folder.path(), "event_id"), ["a", "b", "c", "d", "e"]);
}

pub async fn what_cannot_be_archived_stays(bench: &Bench) {
    let (folder, _) = archive();
    let archive = Archive::new(folder.path().join("missing"));
    over(bench, &window(0), &["a"], DigestOutcome::Sent).await;
    let error = bench
        .store
        .purge(old(RetentionKind::Events, CLOSED + 1), 500, Some(&archive), &[], at(9_000))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("nothing is deleted"), "{error}");
    assert_eq!(bench.items(&window(0)).await, 1);
}

pub async fn of_purges_at_once_each_has_its_own_rows(bench: &Bench) {
    let (folder, archive) = archive();
    let ids: Vec<_> = (0..40).map(|n| format!("e{n:02}")).collect();
    for (n, id) in (0..).zip(&ids) {
        over(bench, &window(n), &[id], DigestOutcome::Sent).await;
    }
    let cutoff = old(RetentionKind::Events, CLOSED + 1);
    let all = async || -> u64 { purge_all(bench, cutoff, Some(&archive)).await };
    let (a, b, c) = futures::join!(all(), all(), all());
    let rest = purge_all(bench, cutoff, Some(&archive)).await;
    assert_eq!(a + b + c + rest, 40);
    assert_eq!(field(folder.path(), "event_id"), ids);
}

pub async fn a_digest_of_which_something_is_gone_is_not_reopened(bench: &Bench) {
    over(bench, &window(0), &["a", "b", "c"], DigestOutcome::Dropped).await;
    assert_eq!(purge(bench, old(RetentionKind::Events, CLOSED + 1), 1, None).await.purged, 1);
    assert_eq!(bench.items(&window(0)).await, 2, "half of it is there still");
    assert!(refused(bench, &window(0)).await.contains("too old to be kept"));
    // Without the message and its attempts the ledger cannot tell if the recipient has it.
    let ambiguous = bench.rendered(1).await;
    let (number, _) = bench.begin(&ambiguous).await;
    assert!(bench.dot(&ambiguous, number).await);
    over(bench, &ambiguous, &[], DigestOutcome::Dropped).await;
    assert_eq!(purge_all(bench, old(RetentionKind::Messages, CLOSED + 1), None).await, 1);
    assert!(refused(bench, &ambiguous).await.contains("too old to be kept"));
    assert_eq!(bench.outcome(&ambiguous).await, Some(DigestOutcome::Ambiguous));
}

pub async fn what_is_reopened_in_time_is_kept(bench: &Bench) {
    let window = bench.rendered(0).await;
    over(bench, &window, &[], DigestOutcome::Failed).await;
    assert!(matches!(reopen(bench, &window).await, ReopenAnswer::Claimed { items: 2, .. }));
    for kind in [RetentionKind::Events, RetentionKind::Messages] {
        assert_eq!(purge_all(bench, old(kind, 5_000), None).await, 0);
    }
}

pub async fn a_message_goes_with_its_attempts_and_the_archive_has_them(bench: &Bench) {
    let (folder, archive) = archive();
    let sent = bench.rendered(0).await;
    let (number, _) = bench.begin(&sent).await;
    bench.ended(&sent, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    let key = MessageKey::new("acme".into(), "welcome".into()).unwrap();
    let single = |key: &MessageKey, bytes: &[u8]| OutboxMessage {
        id: key.message_id(),
        origin: MessageOrigin::Single { key: key.clone(), user: None, content_sha256: "00".into() },
        bytes: bytes.to_vec(),
        ..message(&window(9), "")
    };
    bench.store.put_message(&single(&key, b"\xff8-bit"), None).await.unwrap();
    bench.store.close_message(&key, &closed(DigestOutcome::Dropped), "carol".into(), at(250)).await.unwrap();
    let open = MessageKey::new("acme".into(), "open".into()).unwrap();
    bench.store.put_message(&single(&open, b"open"), None).await.unwrap();
    assert_eq!(bench.store.count_expired(old(RetentionKind::Messages, 202)).await.unwrap(), 0);
    assert_eq!(bench.store.count_expired(old(RetentionKind::Messages, 5_000)).await.unwrap(), 2);
    assert_eq!(purge_all(bench, old(RetentionKind::Messages, 5_000), Some(&archive)).await, 2);
    assert!(bench.store.message(sent.digest_id).await.unwrap().is_none());
    assert!(bench.store.message(open.message_id()).await.unwrap().is_some());
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM attempts").await, "0");
    assert_eq!(field(folder.path(), "encoding"), ["base64", "utf-8"]);
    let lines = archived(folder.path());
    let line = lines.iter().find(|line| line["encoding"] == "utf-8").unwrap();
    assert_eq!((line["bytes"].as_str(), line["state"].as_str()), (Some("first"), Some("sent")));
    assert_eq!(line["attempts"][0]["class"], "sent");
    // The digest remembers that it was sent, and so does the key.
    assert!(bench.store.facts(&sent.key).await.unwrap().last_sent_at.is_some());
}

pub async fn a_retract_outlives_what_it_covers(bench: &Bench) {
    let retracts = [Retract::Event("never came".to_owned())];
    bench.store.put_retracts(&key("bo"), &retracts, at(10)).await.unwrap();
    // A window that is held for long, with an event that was taken back.
    bench.store.stash_events(&window(0), &events(&["a", "b"]), None, at(1)).await.unwrap();
    bench.store.put_retracts(&key("ann"), &[Retract::Event("a".to_owned())], at(10)).await.unwrap();
    // Of a digest that a reopen could still take up.
    let dropped = window_of(&key("cy"), 0);
    over(bench, &dropped, &["c"], DigestOutcome::Dropped).await;
    bench.store.put_retracts(&key("cy"), &[Retract::Event("c".to_owned())], at(10)).await.unwrap();
    let (early, late) = (old(RetentionKind::Retracts, 11), old(RetentionKind::Retracts, CLOSED + 1));
    assert_eq!((bench.store.count_expired(early).await.unwrap(), purge_all(bench, early, None).await), (1, 1));
    assert_eq!(purge_all(bench, late, None).await, 1, "that of the digest that is over");
    assert_eq!(bench.claim(&window(0), &[], at(500)).await.items, 1, "the retract is there still");
}

pub async fn a_retract_that_an_open_window_needs_is_asked_for_again_half_a_day_later(bench: &Bench) {
    let retract = |id: &str| [Retract::Event(id.to_owned())];
    for (user, id, second) in [("ann", "early", 10), ("ann", "late", 20), ("bo", "late", 20)] {
        bench.store.put_retracts(&key(user), &retract(id), at(second)).await.unwrap();
    }
    let cutoff = old(RetentionKind::Retracts, 30);
    let keys = async |now| bench.store.keys_of_old_retracts(cutoff.before, 9, now).await.unwrap();
    assert_eq!(keys(at(9_000)).await, [key("ann"), key("bo")]);
    let unasked = bench.store.purge(cutoff, 500, None, &[], at(9_000)).await.unwrap();
    assert_eq!(unasked, PurgeAnswer::default(), "nobody asked for their windows");
    // A window of ann's needs what came from then on.
    let expiries = [RetractExpiry { key: key("ann"), before: at(20) }];
    let purged = bench.store.purge(cutoff, 500, None, &expiries, at(9_000)).await.unwrap();
    assert_eq!((purged.purged, purged.more), (1, true));
    assert_eq!(keys(at(9_000)).await, [key("bo")]);
    let half_a_day = 12 * 3_600;
    assert_eq!(keys(at(9_000 + half_a_day)).await, [key("ann"), key("bo")]);
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM retracts WHERE event_id = 'late'").await, "2");
}

pub async fn each_folder_of_the_archive_is_remembered_until_it_is_forgotten(bench: &Bench) {
    let ((first, one), (second, other)) = (archive(), archive());
    over(bench, &window(0), &["a"], DigestOutcome::Sent).await;
    over(bench, &window(1), &["b"], DigestOutcome::Sent).await;
    let cutoff = old(RetentionKind::Events, CLOSED + 1);
    assert_eq!(bench.store.archives().await.unwrap(), []);
    purge(bench, cutoff, 1, Some(&one)).await;
    purge(bench, cutoff, 1, Some(&other)).await;
    let records = bench.store.archives().await.unwrap();
    let mut folders: Vec<_> = records.iter().map(|record| record.folder.clone()).collect();
    folders.sort();
    let mut expected = [one.absolute_path(), other.absolute_path()];
    expected.sort();
    assert_eq!(folders, expected);
    for (record, archive) in records.iter().flat_map(|record| [(record, &one), (record, &other)]) {
        let own = record.folder == archive.absolute_path();
        assert_eq!(archive.folder().join(&record.last_file).is_file() && record.first_file == record.last_file, own);
        assert!(!own || archive.holds_file(&record.last_file) && record.begun_at.is_some());
    }
    // The folder is there, and its disk is not.
    fs::rename(first.path(), first.path().with_extension("elsewhere")).unwrap();
    fs::create_dir(first.path()).unwrap();
    assert!(!one.holds_file(&records.iter().find(|record| record.folder == one.absolute_path()).unwrap().last_file));
    fs::remove_dir_all(first.path().with_extension("elsewhere")).unwrap();
    let entry = super::entry(9_001, "carol", "forget archive");
    assert!(bench.store.forget_archive(&one.absolute_path(), &entry).await.unwrap());
    assert!(!bench.store.forget_archive(&one.absolute_path(), &entry).await.unwrap());
    assert_eq!(bench.store.archives().await.unwrap().len(), 1);
    // What a former version wrote is found in the folder.
    bench.store.forget_archive(&other.absolute_path(), &entry).await.unwrap();
    bench.store.remember_archive(&other, at(9_002)).await.unwrap();
    bench.store.remember_archive(&one, at(9_002)).await.unwrap();
    let [ArchiveRecord { folder, last_file, .. }] = &bench.store.archives().await.unwrap()[..] else { panic!("one") };
    assert!(*folder == other.absolute_path() && second.path().join(last_file).is_file());
}

pub async fn upkeep_that_waits_for_its_archive_is_known_until_it_goes_on(bench: &Bench) {
    let (folder, archive) = archive();
    let missing = Archive::new(folder.path().join("missing"));
    over(bench, &window(0), &["a"], DigestOutcome::Sent).await;
    for second in [9_000, 9_060] {
        bench.store.archive_failed(&missing, "no such folder", at(second)).await.unwrap();
    }
    let [waits] = &bench.store.archives().await.unwrap()[..] else { panic!("one") };
    assert_eq!((waits.failed_at, waits.failure.as_deref()), (Some(at(9_000)), Some("no such folder")));
    assert_eq!(waits.begun_at, None, "nothing is there that an erasure would miss");
    purge(bench, old(RetentionKind::Events, CLOSED + 1), 500, Some(&archive)).await;
    assert!(bench.store.archives().await.unwrap().iter().all(|record| record.failed_at.is_none()));
}

pub async fn a_delivery_event_goes_by_its_own_age_and_outlives_its_message(bench: &Bench) {
    let (folder, archive) = archive();
    for (message, received_at) in [("m1", 10), ("m2", 20)] {
        let received_at = at(received_at).as_millisecond();
        let told = format!(
            "INSERT INTO delivery_events (message, event, tenant, address_lower, kind, diagnostic, occurred_at, received_at)
             VALUES ('{message}', 'e', 'acme', 'ann@example.com', 'delivered', '', 5, {received_at})"
        );
        bench.execute(&told).await;
    }
    assert_eq!(bench.store.count_expired(old(RetentionKind::DeliveryEvents, 10)).await.unwrap(), 0);
    for (before, purged) in [(20, 1), (21, 1)] {
        assert_eq!(bench.store.count_expired(old(RetentionKind::DeliveryEvents, before)).await.unwrap(), purged);
        assert_eq!(purge_all(bench, old(RetentionKind::DeliveryEvents, before), Some(&archive)).await, purged);
    }
    assert_eq!(field(folder.path(), "message"), ["m1", "m2"]);
    assert_eq!(field(folder.path(), "event"), ["delivered", "delivered"]);
}

pub async fn dead_letters_go_and_what_must_stay_stays(bench: &Bench) {
    let (folder, archive) = archive();
    let letter = |seq| DeadLetter {
        seq,
        reason: "no event_id".into(),
        encoding: "json/plain".into(),
        message_type: None,
        size: 2,
        sha256: "00".into(),
        head: "e30=".into(),
    };
    let buried = DeadLettersInput {
        workflow_id: "digest/a/b/c".into(),
        run_id: "r".into(),
        letters: vec![letter(1), letter(2)],
    };
    bench.store.put_dead_letters(&buried, at(10)).await.unwrap();
    over(bench, &window(0), &["a"], DigestOutcome::Dropped).await;
    let audit = bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM audit").await;
    assert_eq!(purge_all(bench, old(RetentionKind::DeadLetters, 10), Some(&archive)).await, 0);
    for kind in RetentionKind::ALL {
        purge_all(bench, old(kind, 5_000), Some(&archive)).await;
    }
    assert_eq!(field(folder.path(), "kind"), ["dead_letter", "dead_letter", "event"]);
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM audit").await, audit);
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM digests").await, "1");
}

/// All events excluded from a long window, at any time, go to one digest.
pub async fn what_is_taken_back_later_goes_as_well(bench: &Bench) {
    let retracts = ["a", "b"].map(|id| Retract::Event(id.into()));
    bench.store.put_retracts(&key("ann"), &retracts, at(1)).await.unwrap();
    bench.claim(&window(0), &events(&["a"]), at(300)).await;
    assert_eq!(purge_all(bench, old(RetentionKind::Events, 400), None).await, 1);
    bench.claim(&window(0), &events(&["b"]), at(500)).await;
    assert_eq!(purge_all(bench, old(RetentionKind::Events, 450), None).await, 0, "it is not so old");
    assert_eq!(bench.store.count_expired(old(RetentionKind::Events, 600)).await.unwrap(), 1);
    assert_eq!(purge_all(bench, old(RetentionKind::Events, 600), None).await, 1);
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM events").await, "0");
}
