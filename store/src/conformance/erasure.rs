//! Erasing a person removes all of their texts and none of others', whatever happens meanwhile.

use std::collections::BTreeSet;

use tidings_model::{
    MessageKey,
    attempt::AttemptClass,
    command::{CommandContext, ReopenCommand},
    delivery_events::{BounceKind, CheckedDeliveryEvent, DeliveryReport, MessageReference, ReportKind},
    message::{
        command::RetryCommand,
        contract::{RetryInput, RetryResult},
    },
    records::{
        ErasedRows, HeldId, MessageFilter, MessageState, PageRequest, PersonRowKind, Suppression, SuppressionFilter,
        SuppressionReason,
    },
    retention::{self, RetentionCutoff},
    step::{ReopenAnswer, ReopenInput},
    window::DigestOutcome,
};

use super::{
    Bench, at, ends, events, key,
    people::{ann, everything},
    recipient, window, window_of,
};
use crate::archive::{Archive, LineOwner, LinesAbout};

fn types() -> BTreeSet<String> {
    ["activity".to_owned()].into()
}

impl Bench {
    async fn addresses_of_ann(&self) -> BTreeSet<String> {
        let person = self.store.person(&ann()).await.unwrap();
        self.store.own_addresses(&ann(), &person.addresses).await.unwrap()
    }

    /// Erases ann in as many calls as needed, restarting from the first step after every `calls` of them.
    async fn erase(&self, calls: usize) -> ErasedRows {
        let mut erased = ErasedRows::default();
        while let (done, false) = self.erase_until_a_crash(calls).await {
            erased += done;
        }
        assert_eq!(self.left(&self.addresses_of_ann().await).await, ErasedRows::default());
        erased
    }

    async fn left(&self, addresses: &BTreeSet<String>) -> ErasedRows {
        self.store.preview_erasure(&ann(), &types(), addresses).await.unwrap()
    }

    /// Returns `true` if nothing was left to do.
    async fn erase_until_a_crash(&self, calls: usize) -> (ErasedRows, bool) {
        let addresses = self.addresses_of_ann().await;
        let mut erased = ErasedRows::default();
        if self.left(&addresses).await.is_nothing() {
            return (erased, true);
        }
        let mut left = calls;
        macro_rules! step {
            ($call:expr) => {{
                let done = $call.await.unwrap();
                erased += done;
                // A call that changes nothing makes no progress.
                left -= usize::from(!done.is_nothing());
                if left == 0 {
                    return (erased, false);
                }
                done
            }};
        }
        step!(self.store.erase_addresses(&ann(), &addresses));
        while !step!(self.store.erase_digests(&key("ann"), at(900))).is_nothing() {}
        let page = PageRequest { limit: 500, after: None };
        step!(async { self.store.erase_messages(&ann(), &addresses, &page, at(900)).await.map(|(done, _)| done) });
        step!(self.store.erase_choices(&ann(), &types()));
        step!(self.store.erase_recipient(&ann()));
        (erased, false)
    }

    async fn texts(&self) -> String {
        self.dump().await.to_lowercase()
    }
}

pub async fn an_erasure_leaves_no_text_of_a_person_and_all_of_others(bench: &Bench) {
    everything(bench).await;
    let before = bench.texts().await;
    assert!(before.contains("payload mark") && before.contains("ann.mark@example.com"), "{before}");
    let counted = bench.left(&bench.addresses_of_ann().await).await;
    let erased = bench.erase(usize::MAX).await;
    assert_eq!(erased, counted, "a dry run counts the same");
    let expected = ErasedRows {
        recipients: 1,
        preferences: 1,
        consents: 1,
        suppressions: 1,
        digests: 3,
        events: 4,
        retracts: 1,
        messages: 2,
        delivery_events: 1,
        dead_letters: 1,
        inbox: 0,
        archived: 0,
    };
    assert_eq!(erased, expected);
    let after = bench.texts().await;
    assert!(!after.contains("mark"), "{after}");
    for kept in ["payload other", "body other", "diagnostic other", "head other", "bo@example.com", "250 other"] {
        assert!(after.contains(kept), "{kept}: {after}");
    }
    let digests = bench.store.digests(&key("ann"), 9).await.unwrap();
    let ends: Vec<_> = digests.into_iter().map(|digest| (digest.items, digest.closed.unwrap().outcome)).collect();
    assert_eq!(ends, [(1, DigestOutcome::Failed), (1, DigestOutcome::Dropped), (2, DigestOutcome::Sent)]);
    let rows =
        "SELECT CAST(COUNT(*) AS TEXT) FROM events WHERE user_id = 'ann' AND event_id = 'e1' AND category = 'comment'";
    assert_eq!(bench.value(rows).await, "1", "an event that comes again is known");
    assert_eq!(bench.erase(usize::MAX).await, ErasedRows::default(), "once more");
}

pub async fn an_erasure_goes_on_after_a_crash_between_any_two_steps(bench: &Bench) {
    everything(bench).await;
    assert_eq!(bench.erase(1).await.events, 4);
    let left = bench.texts().await;
    assert!(!left.contains("mark"), "{left}");
    assert_eq!(
        bench.store.suppression_reasons("acme", "ann.mark@example.com").await.unwrap(),
        [SuppressionReason::Complaint]
    );
}

pub async fn a_suppression_holds_for_an_erased_address_that_comes_back(bench: &Bench) {
    everything(bench).await;
    bench.erase(usize::MAX).await;
    assert_eq!(
        bench.store.suppression_reasons("acme", "ANN.mark@example.com").await.unwrap(),
        [SuppressionReason::Complaint]
    );
    assert_eq!(bench.store.suppression_reasons("other", "ANN.mark@example.com").await.unwrap(), []);
    bench.store.put_recipients(&[recipient("new", "Ann.MARK@example.com")], at(950)).await.unwrap();
    assert_eq!(bench.store.facts(&key("new")).await.unwrap().suppressed, Some(SuppressionReason::Complaint));
    let page = PageRequest { limit: 9, after: None };
    let address = Some("ann.mark@example.com".into());
    let filter = SuppressionFilter { tenant: Some("acme".into()), address, page };
    let listed = bench.store.suppressions(&filter).await.unwrap().rows;
    assert!(listed.len() == 1 && listed[0].address.starts_with("erased:") && listed[0].detail.is_empty());
    let entry = super::entry(960, "carol", "suppression_lift");
    let lifted = bench.store.lift("acme", "ann.mark@example.com", None, &entry).await.unwrap();
    assert_eq!(lifted, [SuppressionReason::Complaint]);
    assert_eq!(bench.store.facts(&key("new")).await.unwrap().suppressed, None);
}

pub async fn nothing_under_way_brings_an_erased_address_back(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "Ann.Mark@example.com")], at(0)).await.unwrap();
    let sending = window(1);
    bench.claim(&sending, &events(&["e1"]), at(1)).await;
    let mark = "Ann.Mark@example.com";
    let message = tidings_model::records::OutboxMessage { envelope_to: mark.into(), ..super::message(&sending, mark) };
    bench.store.put_message(&message, None).await.unwrap();
    let (number, _) = bench.begin(&sending).await;
    assert!(bench.dot(&sending, number).await);
    bench.erase(usize::MAX).await;

    // Past the dot the relay answers after all.
    let suppression = Suppression {
        tenant: "acme".into(),
        address: mark.into(),
        reason: SuppressionReason::HardBounce,
        detail: format!("550 {mark}"),
        at: at(901),
    };
    let end = tidings_model::records::AttemptEnd {
        reply: format!("550 {mark}"),
        suppress: Some(suppression),
        ..ends(AttemptClass::HardBounce, DigestOutcome::Failed)
    };
    bench.ended(&sending, number, end).await;
    assert_eq!(bench.outcome(&sending).await, Some(DigestOutcome::Ambiguous));
    // The provider reports later still.
    let report = DeliveryReport {
        diagnostic: format!("no such user {mark}"),
        url: Some(format!("https://app.example.com/{mark}")),
        ..DeliveryReport::new(ReportKind::Bounced(BounceKind::Hard), at(950))
    };
    let of = vec![MessageReference::Id(sending.digest_id)];
    let event = CheckedDeliveryEvent {
        relay: Some("relay".into()),
        reports_for: Vec::new(),
        tenant: None,
        of,
        report,
        event_id: None,
    };
    bench.store.put_delivery_event(&event, 5, at(951)).await.unwrap().unwrap();
    assert_eq!(bench.store.suppression_reasons("acme", mark).await.unwrap(), [SuppressionReason::HardBounce]);
    let left = bench.texts().await;
    assert!(!left.contains("mark"), "{left}");
}

pub async fn an_erased_digest_or_message_is_not_sent_again(bench: &Bench) {
    everything(bench).await;
    bench.erase(usize::MAX).await;
    let order = CommandContext { by: "carol".into(), why: "test".into() };
    let reopen =
        ReopenCommand { order: order.clone(), digest_id: window_of(&key("ann"), 2).digest_id, may_duplicate: true };
    let input = ReopenInput { asked_at: at(990), key: key("ann"), reopen };
    let ReopenAnswer::Refused { why } = bench.store.reopen_digest(&input, at(990)).await.unwrap() else {
        panic!("reopened")
    };
    assert!(why.contains("its recipient was erased"), "{why}");
    let single = MessageKey { tenant: "acme".into(), key: "welcome ann".into() };
    let retry = RetryCommand { order, may_duplicate: true };
    let input = RetryInput { asked_at: at(990), key: single, retry };
    let RetryResult::Refused { why } = bench.store.retry_message(&input, at(990)).await.unwrap() else {
        panic!("queued")
    };
    assert!(why.contains("its recipient was erased"), "{why}");
    let page = PageRequest { limit: 9, after: None };
    let filter = MessageFilter { tenant: Some("acme".into()), state: Some(MessageState::Cancelled), page };
    assert_eq!(bench.store.messages(&filter).await.unwrap().rows.len(), 1, "the single one was queued");
    // A late call of the workflow writes more under the digest that ended.
    bench.store.stash_events(&window(9), &events(&["late"]), None, at(991)).await.unwrap();
    let left = bench.left(&bench.addresses_of_ann().await).await;
    assert_eq!((left.digests, left.events), (1, 1));
    bench.erase(usize::MAX).await;
}

pub async fn an_address_that_another_person_has_stays_theirs(bench: &Bench) {
    everything(bench).await;
    bench.store.put_recipients(&[recipient("spouse", "ann.MARK@example.com")], at(800)).await.unwrap();
    bench.erase(usize::MAX).await;
    let facts = bench.store.facts(&key("spouse")).await.unwrap();
    assert_eq!(facts.suppressed, Some(SuppressionReason::Complaint));
    assert!(facts.recipient.is_some() && bench.store.facts(&key("ann")).await.unwrap().recipient.is_none());
    let page = PageRequest { limit: 9, after: None };
    let filter = SuppressionFilter { tenant: None, address: None, page };
    let listed = bench.store.suppressions(&filter).await.unwrap().rows;
    assert!(listed.iter().any(|suppression| suppression.address == "ann.mark@example.com"));
}

pub async fn the_archive_loses_the_lines_of_a_person(bench: &Bench) {
    everything(bench).await;
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::new(folder.path().to_owned());
    for kind in retention::RetentionKind::ALL {
        let cutoff = RetentionCutoff { kind, before: at(100_000) };
        bench.store.purge(cutoff, 500, Some(&archive), &[], at(100_000)).await.unwrap();
    }
    let lines = async || LinesAbout {
        tenants: [ann().tenant].into(),
        whose: LineOwner::Ids(bench.store.held_ids(&ann()).await.unwrap()),
        addresses: bench.addresses_of_ann().await,
        messages: bench.digests_of_ann().await,
        pseudonyms: bench.store.pseudonyms().await.unwrap(),
    };
    let archived = archive.count_lines(lines().await).await.unwrap();
    assert!(archived >= 4, "{archived}");
    assert_eq!(archive.forget_lines(lines().await).await.unwrap(), archived);
    assert_eq!(archive.count_lines(lines().await).await.unwrap(), 0);
    let bo = vec![HeldId { user: "bo".into(), since: None, until: None }];
    let bos = LinesAbout { whose: LineOwner::Ids(bo), ..lines().await };
    assert!(archive.count_lines(bos).await.unwrap() > 0);
}

impl Bench {
    async fn digests_of_ann(&self) -> BTreeSet<String> {
        let page = PageRequest { limit: 500, after: None };
        let listed =
            self.store.person_rows(&key("ann"), &BTreeSet::new(), PersonRowKind::Digests, &page).await.unwrap();
        listed.rows.iter().map(|row| row["digest_id"].as_str().unwrap().to_owned()).collect()
    }
}
