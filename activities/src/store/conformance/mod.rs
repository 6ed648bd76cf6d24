//! One suite for both stores: every case runs against SQLite, and against PostgreSQL where
//! `TIDINGS_TEST_DATABASE_URL` names a server to make schemas in.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tidings_workflows::{
    Event, Key,
    contract::{Closed, Outcome, Window},
};
use uuid::Uuid;

use super::{
    AttemptEnd, AuditEntry, Begun, Claim, Claimed, Message, Origin, Postgres, Recipient, Sqlite, Store, Terms,
};
use crate::settings::Cap;

mod aside;
mod attempts;
mod cap;
mod contents;
mod delivery_events;
mod directory;
mod ledger;
mod messages;
mod migration;
mod relays;
mod reopen;
mod same;
mod size;
mod upkeep;
mod zombies;

/// A store of its own for one case, and a way to look behind it.
pub struct Bench {
    pub store: Box<dyn Store>,
    behind: Behind,
}

enum Behind {
    Sqlite { pool: sqlx::SqlitePool, _folder: tempfile::TempDir },
    Postgres { pool: sqlx::PgPool, schema: String },
}

impl Bench {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("new/tidings.db").display());
        let store = Sqlite::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        Self { store: Box::new(store), behind: Behind::Sqlite { pool, _folder: folder } }
    }

    /// `None`, and a line that says so, without a server.
    pub async fn postgres() -> Option<Self> {
        let (url, schema) = schema_url().await?;
        let store = Postgres::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let pool = sqlx::PgPool::connect(&url).await.unwrap();
        Some(Self { store: Box::new(store), behind: Behind::Postgres { pool, schema } })
    }

    /// The one value that a query answers with, as text.
    pub async fn value(&self, sql: &'static str) -> String {
        let (value,): (Option<String>,) = match &self.behind {
            Behind::Sqlite { pool, .. } => sqlx::query_as(sql).fetch_one(pool).await.unwrap(),
            Behind::Postgres { pool, .. } => sqlx::query_as(sql).fetch_one(pool).await.unwrap(),
        };
        value.unwrap_or_default()
    }

    pub async fn finish(self) {
        if let Behind::Postgres { pool, schema } = self.behind {
            let drop = sqlx::AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"));
            sqlx::query(drop).execute(&pool).await.unwrap();
        }
    }
}

/// The address of a new, empty schema.
async fn schema_url() -> Option<(String, String)> {
    let Ok(server) = std::env::var("TIDINGS_TEST_DATABASE_URL") else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "in CI no test may be left out");
        println!("left out: TIDINGS_TEST_DATABASE_URL is not set");
        return None;
    };
    let schema = format!("tidings_{}", Uuid::new_v4().simple());
    let pool = sqlx::PgPool::connect(&server).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&pool).await.unwrap();
    let mut url = url::Url::parse(&server).unwrap();
    url.query_pairs_mut().append_pair("options", &format!("-csearch_path={schema}"));
    Some((url.into(), schema))
}

/// Runs a case and drops its store, also when it failed.
async fn run(bench: Bench, case: impl AsyncFnOnce(&Bench)) {
    let outcome = AssertUnwindSafe(case(&bench)).catch_unwind().await;
    bench.finish().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

macro_rules! conformance {
    ($($module:ident { $($case:ident,)+ })+) => {
        mod sqlite { $($(
            #[tokio::test]
            async fn $case() {
                super::run(super::Bench::sqlite().await, super::$module::$case).await;
            }
        )+)+ }
        mod postgres { $($(
            #[tokio::test]
            async fn $case() {
                if let Some(bench) = super::Bench::postgres().await {
                    super::run(bench, super::$module::$case).await;
                }
            }
        )+)+ }
    };
}

conformance! {
    directory {
        an_unknown_user_wants_mail_and_chose_nothing,
        of_one_persons_entries_the_last_counts,
        preferences_come_back_and_their_revision_counts_changes,
        another_zone_counts_as_a_change_of_what_was_chosen,
        consent_is_per_key_and_audited_when_it_changes,
        a_command_is_audited_once_however_often_it_is_told,
        a_suppression_ignores_case_and_stays_within_its_tenant,
        a_suppression_is_listed_and_lifted_with_an_audit_entry_that_has_no_address,
        a_dead_letter_is_buried_once,
    }
    ledger {
        an_event_is_written_once_and_the_first_wins,
        a_claim_is_the_same_when_repeated,
        a_page_of_many_events_is_written_whole,
        what_comes_too_late_for_a_mail_stays_with_the_caller,
        an_event_is_known_when_its_digest_has_an_end_or_is_the_open_one,
        nothing_is_written_under_a_message,
        an_event_after_a_closing_without_a_message_is_in_the_ledger,
        the_first_end_stays_and_is_audited_once,
        known_events_keep_their_order_and_their_key,
        returned_events_join_exactly_one_claim,
        a_late_event_of_a_digest_that_returned_its_events_goes_on_to_the_next,
        digests_are_listed_latest_first_with_their_state,
        writers_wait_for_each_other,
    }
    contents {
        lines_rank_by_count_then_latest_then_bytes,
        a_line_shows_its_latest_event_and_three_actors,
        totals_cover_what_the_lines_leave_out,
        sums_stop_at_what_an_i64_holds,
        a_payload_comes_back_as_it_was,
        an_empty_digest_has_no_lines,
    }
    attempts {
        the_first_message_wins,
        a_message_that_is_too_large_shrinks_once_and_only_by_the_attempt_under_way,
        an_attempt_needs_a_message,
        a_new_attempt_fences_the_earlier_ones,
        of_many_attempts_at_once_each_hears_whether_it_may_send_the_dot,
        an_attempt_past_the_dot_without_an_end_is_ambiguous,
        the_dot_is_refused_after_an_end,
        the_end_of_an_attempt_ends_the_digest_and_suppresses,
        a_full_mailbox_suppresses_when_it_met_so_many_messages_in_a_row,
        the_end_of_an_attempt_counts_once,
        a_late_answer_is_kept_and_changes_nothing,
        a_late_success_ends_the_digest,
        an_end_past_the_dot_is_ambiguous_and_a_later_success_is_in_the_ledger,
        of_many_attempts_at_once_one_passes_the_dot,
    }
    messages {
        a_single_message_goes_through_its_states,
        the_first_message_of_a_key_wins_within_its_tenant,
        a_stale_attempt_of_a_single_message_is_fenced,
        nothing_starts_after_a_single_message_was_cancelled,
        a_retry_takes_up_what_came_to_nothing,
        a_digests_message_has_its_digests_end,
        messages_are_listed_latest_first_by_tenant_and_state,
        whether_an_address_is_suppressed_is_asked_by_tenant_and_without_case,
    }
    delivery_events {
        an_event_is_recorded_once_however_often_it_is_told,
        of_the_same_event_told_by_many_at_once_one_is_new,
        many_messages_that_bounce_at_once_are_counted_together,
        what_no_relay_was_given_is_unknown,
        one_tenants_webhook_reaches_no_message_of_another,
        a_delivery_resolves_what_nobody_knew,
        an_event_that_is_faster_than_the_relays_reply_ends_the_same,
        soft_bounces_count_until_the_address_takes_a_message,
        a_late_unsubscription_is_not_over_a_newer_choice,
        events_lead_to_the_same_in_any_order_and_however_often_they_come,
    }
    aside {
        a_retracted_event_is_in_no_mail_and_in_the_ledger_with_the_reason,
        a_retract_that_comes_first_waits,
        a_retract_by_entity_covers_what_occurred_until_then_and_the_latest_stays,
        a_retract_reaches_what_a_failed_digest_returned_but_no_mail,
        a_category_that_is_off_is_in_no_mail_and_in_the_ledger_with_the_reason,
        a_window_of_which_nothing_is_left_claims_nothing,
        a_preview_shows_what_a_claim_would_make_and_leaves_no_trace,
    }
    cap {
        a_recipient_gets_no_more_digests_than_the_cap_says,
        what_came_to_nothing_does_not_count_toward_the_cap,
        a_claim_that_is_repeated_is_not_counted_against_itself,
        an_operators_flush_counts_and_is_not_refused,
        keys_of_one_person_that_claim_at_once_never_pass_the_cap_together,
    }
    reopen {
        what_came_to_nothing_is_sent_under_its_own_id_after_all,
        a_message_that_was_made_is_the_one_that_is_sent,
        what_a_terminated_run_left_behind_is_taken_up_and_its_attempt_fenced,
        an_end_that_is_not_to_be_undone_stays,
        what_the_recipient_may_have_is_sent_again_only_where_that_does_no_harm,
        events_that_were_returned_come_back_unless_another_digest_has_them,
        what_was_taken_back_since_is_in_no_mail_of_a_reopened_digest,
    }
    relays {
        what_is_remembered_of_a_relay_comes_back,
        of_many_changes_of_a_relay_at_once_one_counts,
        an_operators_change_of_a_relay_is_audited_when_it_counts,
    }
    upkeep {
        an_event_goes_when_its_digests_end_is_older_than_the_cutoff_and_is_new_again,
        what_has_no_end_or_waits_for_a_claim_is_never_touched,
        batches_end_and_digests_without_events_are_passed_over_once,
        an_archive_has_each_row_once_also_after_a_crash_before_the_rows_were_deleted,
        what_cannot_be_archived_stays,
        of_purges_at_once_each_has_its_own_rows,
        a_digest_of_which_something_is_gone_is_not_reopened,
        what_is_reopened_in_time_is_kept,
        a_message_goes_with_its_attempts_and_the_archive_has_them,
        a_retract_outlives_what_it_covers,
        a_delivery_event_goes_by_its_own_age_and_outlives_its_message,
        dead_letters_go_and_what_must_stay_stays,
    }
    zombies {
        any_call_repeated_after_any_other_is_harmless,
        two_calls_repeated_late_are_harmless,
        a_zombie_of_a_failed_digest_takes_nothing_from_the_next,
    }
    size {
        a_hundred_thousand_events_make_fifty_lines,
    }
}

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
}

pub fn key(user: &str) -> Key {
    Key::new("acme".into(), "activity".into(), user.into()).unwrap()
}

/// The `n`th window of `ann`.
pub fn window(n: i64) -> Window {
    window_of(&key("ann"), n)
}

pub fn window_of(key: &Key, n: i64) -> Window {
    let opened_at = at(n * 1_000);
    Window {
        key: key.clone(),
        digest_id: key.digest_id("run", n.unsigned_abs()),
        opened_at,
        due_at: at(n * 1_000 + 60),
    }
}

pub fn event(id: &str) -> Event {
    Event {
        event_id: id.into(),
        category: "comment".into(),
        entity_type: "doc".into(),
        entity_id: "d1".into(),
        actor: "Ann".into(),
        occurred_at: at(0),
        counts: BTreeMap::new(),
        urgent: false,
        payload: Map::from_iter([("title".into(), Value::from(id))]),
    }
}

pub fn events(ids: &[&str]) -> Vec<Event> {
    ids.iter().map(|id| event(id)).collect()
}

pub fn closed(outcome: Outcome) -> Closed {
    Closed { outcome, why: format!("because {}", outcome.name()) }
}

pub fn recipient(user: &str, address: &str) -> Recipient {
    Recipient {
        tenant: "acme".into(),
        user: user.into(),
        address: address.into(),
        name: "Ann".into(),
        zone: "Europe/Berlin".into(),
        locale: "de".into(),
    }
}

pub fn message(window: &Window, body: &str) -> Message {
    Message {
        id: window.digest_id,
        origin: Origin::Digest(window.key.clone()),
        stream: "bulk".into(),
        envelope_from: "digests@example.com".into(),
        envelope_to: "ann@example.com".into(),
        message_id: "m@example.com".into(),
        subject: "Two comments".into(),
        bytes: body.as_bytes().to_vec(),
        template: "activity".into(),
        created_at: at(100),
    }
}

/// Who did it, and when.
pub fn entry(seconds: i64, actor: &str, action: &str) -> AuditEntry {
    AuditEntry { at: at(seconds), actor: actor.into(), action: action.into(), why: "one click".into() }
}

/// The end of an attempt that changes nothing but its row.
pub fn end(class: &'static str) -> AttemptEnd {
    AttemptEnd {
        phase: "done",
        class,
        reply: class.into(),
        closed: None,
        suppress: None,
        in_a_row: 1,
        return_events: false,
    }
}

pub fn ends(class: &'static str, outcome: Outcome) -> AttemptEnd {
    AttemptEnd { closed: Some(closed(outcome)), ..end(class) }
}

impl Bench {
    /// A claim without a cap, and with every category on.
    pub async fn claim(&self, window: &Window, events: &[Event], now: Timestamp) -> Claim {
        self.claim_on(window, events, None, &[], now).await.unwrap()
    }

    /// `Err`: the recipient has had as many as they get until then.
    pub async fn claim_on(
        &self,
        window: &Window,
        events: &[Event],
        cap: Option<Cap>,
        off: &[&str],
        now: Timestamp,
    ) -> Result<Claim, Timestamp> {
        let off = off.iter().map(|&category| category.to_owned()).collect();
        match self.store.claim(window, events, &Terms { cap, off: &off }, now).await.unwrap() {
            Claimed::Claim(claim) => Ok(claim),
            Claimed::Capped { until } => Err(until),
        }
    }

    /// A claimed window with two events and a message.
    pub async fn rendered(&self, n: i64) -> Window {
        let window = window(n);
        let ids = [format!("{n}a"), format!("{n}b")];
        self.claim(&window, &events(&[&ids[0], &ids[1]]), at(1)).await;
        self.store.put_message(&message(&window, "first")).await.unwrap();
        window
    }

    /// Begins an attempt that must be let go: (number, ambiguous).
    pub async fn begin(&self, window: &Window) -> (u32, u32) {
        match self.store.begin_attempt(window.digest_id, "relay", at(200)).await.unwrap() {
            Begun::Go { number, ambiguous, .. } => (number, ambiguous),
            Begun::Closed(closed) => panic!("closed: {closed:?}"),
        }
    }

    pub async fn dot(&self, window: &Window, number: u32) -> bool {
        self.store.past_the_dot(window.digest_id, number, at(201)).await.unwrap()
    }

    pub async fn ended(&self, window: &Window, number: u32, end: AttemptEnd) {
        self.store.end_attempt(window.digest_id, number, &end, at(202)).await.unwrap();
    }

    pub async fn outcome(&self, window: &Window) -> Option<Outcome> {
        let digest = self.store.digest(window.digest_id).await.unwrap().unwrap();
        digest.closed.map(|closed| closed.outcome)
    }

    pub async fn items(&self, window: &Window) -> u64 {
        self.store.contents(window, 50).await.unwrap().items
    }
}
