//! One suite for both stores: each case runs against SQLite, and against PostgreSQL if
//! `TIDINGS_TEST_DATABASE_URL` names a server where we may create schemas.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

pub use bench::{Bench, schema_url};
pub use samples::{
    at, closed, end, ends, entry, event, events, key, message, recipient, shown, titled, window, window_of,
};

mod aside;
mod attempts;
mod bench;
mod cap;
mod clocks;
mod contents;
mod copy;
mod dead_letters;
mod delivery_events;
mod directory;
mod erasure;
mod everyone;
mod first_attempts;
mod fresh;
mod generations;
mod identity;
mod inbox;
mod installation;
mod jobs;
mod last_attempt;
mod ledger;
mod left_behind;
mod listings;
mod messages;
mod migration;
mod names;
mod notices;
mod pauses;
mod people;
mod readings;
mod relays;
mod reopen;
mod report;
mod retention;
mod returned;
mod same;
mod samples;
mod size;
mod statistics;
mod threads;
mod tokens;
mod troubled_runs;
mod waiting;
mod webhook_letters;
mod webhook_requests;
mod zombies;

/// Runs a case and drops its store, even if it failed.
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
            #[tidings_needs::needs(postgres)]
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
    fresh {
        a_fresh_window_becomes_a_digest_with_its_message_at_once,
        the_schedule_of_the_last_digest_that_was_sent_is_known,
        a_window_with_a_known_event_is_not_claimed_with_its_message,
        a_window_of_a_key_with_retracts_or_returned_events_is_not_fresh,
        contents_of_events_are_those_that_the_store_reads,
        of_claims_of_the_same_events_at_once_one_counts,
        a_window_that_is_dropped_while_it_is_claimed_has_no_open_message,
        a_claim_that_waits_for_another_of_the_digest_writes_nothing,
    }
    last_attempt {
        of_ends_of_an_attempt_at_once_the_first_counts,
        a_drop_at_once_with_the_end_of_an_attempt_leaves_one_end,
        a_stale_attempt_that_ends_as_the_next_begins_ends_nothing_but_by_a_success,
        a_late_success_at_once_with_the_end_of_the_next_attempt_is_in_the_ledger,
        an_end_that_waits_for_another_writer_sees_what_that_one_wrote,
    }
    first_attempts {
        a_first_attempt_is_recorded_with_its_dot_and_ends,
        of_two_first_attempts_one_sends,
        of_many_first_attempts_at_once_each_hears_whether_it_may_send_the_dot,
        of_rival_first_attempts_of_many_messages_at_once_one_each_sends,
        a_begun_attempt_fences_the_first_one,
        a_drop_fences_a_first_attempt_also_after_a_reopen,
        a_first_attempt_that_ends_early_is_recorded_once,
        a_first_attempt_withdrawn_after_its_record_ends,
        an_unknown_message_has_no_first_attempt,
    }
    waiting {
        a_message_that_waits_loses_what_was_withdrawn_and_is_made_again,
        a_single_message_is_made_again_until_a_dot,
        after_a_dot_the_bytes_stand,
        no_attempt_passes_the_dot_with_a_retracted_event,
        a_retract_while_a_message_is_made_again_is_not_overtaken,
        a_message_that_waits_shows_an_event_under_a_category_that_is_on,
        other_content_is_taken_into_a_message_that_waits,
        a_message_that_is_made_again_keeps_its_place_and_its_former_address,
        a_message_that_waits_for_its_recipient_says_since_when,
        a_retract_hears_what_it_reaches,
    }
    directory {
        an_unknown_user_wants_mail_and_chose_nothing,
        of_one_persons_entries_the_last_counts,
        what_a_change_does_not_say_stays,
        preferences_come_back_and_their_revision_counts_changes,
        another_zone_counts_as_a_change_of_what_was_chosen,
        a_directorys_answer_is_kept_until_there_is_none,
        of_two_editors_the_second_hears_of_the_first,
        of_many_changes_of_preferences_at_once_each_has_a_revision_of_its_own,
        consent_is_per_key_and_audited_when_it_changes,
        wishes_of_a_recipient_come_true_together_or_not_at_all,
        of_two_wishes_at_once_one_comes_true,
        a_command_is_audited_once_however_often_it_is_told,
        a_suppression_ignores_spelling_and_stays_within_its_tenant,
        an_operators_suppression_is_audited_once_without_the_address,
        a_suppression_is_listed_and_lifted_with_an_audit_entry_that_has_no_address,
    }
    dead_letters {
        a_dead_letter_is_buried_once,
        a_dead_letter_of_another_tenant_is_not_read,
        a_dead_letter_is_read_with_what_is_kept_and_its_reason_without_addresses,
        dead_letters_are_listed_latest_first_and_filtered,
        pages_of_dead_letters_neither_repeat_nor_leave_out_a_row,
        a_dead_letter_is_marked_as_emitted_once_with_an_entry_for_each_key,
        of_many_emissions_of_a_dead_letter_at_once_one_is_marked,
    }
    people {
        recipients_are_listed_by_tenant_and_user_and_filtered,
        people_without_a_row_are_strangers,
        pages_of_recipients_neither_repeat_nor_leave_out_a_row,
        the_directory_and_chosen_zones_are_read_in_pages,
        zones_of_the_directory_and_of_choices_are_counted,
        what_is_held_about_a_person_is_complete_in_pages_of_any_size,
        a_message_without_a_user_belongs_to_the_person_with_the_address,
    }
    erasure {
        an_erasure_leaves_no_text_of_a_person_and_all_of_others,
        an_erasure_goes_on_after_a_crash_between_any_two_steps,
        a_suppression_holds_for_an_erased_address_that_comes_back,
        nothing_under_way_brings_an_erased_address_back,
        an_erased_digest_or_message_is_not_sent_again,
        an_address_that_another_person_has_stays_theirs,
        the_archive_loses_the_lines_of_a_person,
    }
    ledger {
        an_event_is_written_once_and_its_contents_merge,
        a_claim_is_the_same_when_repeated,
        a_page_of_many_events_is_written_whole,
        what_comes_too_late_for_a_mail_stays_with_the_caller,
        a_mail_that_tells_of_less_than_its_digest_has_is_not_stored,
        who_waits_for_what_somebody_has_locked_hears_that_the_store_is_away,
        an_event_is_known_when_its_digest_has_an_end_or_is_the_open_one,
        nothing_is_written_under_a_message,
        what_comes_after_an_end_belongs_to_a_later_window_unless_the_end_is_recorded_again,
        what_a_lost_task_claimed_is_found_by_the_window_that_it_was_claimed_for,
        the_first_end_stays_and_is_audited_once,
        known_events_keep_their_order_and_their_key,
        returned_events_join_exactly_one_claim,
        a_late_event_of_a_digest_that_returned_its_events_goes_on_to_the_next,
        digests_are_listed_latest_first_with_their_state,
        writers_wait_for_each_other,
    }
    identity {
        other_content_of_an_event_in_no_message_replaces_it,
        other_content_of_a_returned_event_replaces_it,
        other_content_of_an_event_that_is_over_is_refused_and_counted_once,
        each_content_of_an_event_that_went_out_is_a_repetition,
        what_occurred_after_its_retract_is_new,
        a_retract_by_id_covers_what_the_ledger_has_and_what_occurred_until_then,
        a_retract_by_id_that_is_repeated_after_the_next_firing_does_not_cover_it,
        a_retract_by_id_of_an_earlier_version_covers_what_occurred_until_it_came,
        a_category_that_is_off_does_not_silence_another_one_of_the_event,
        a_row_without_a_hash_has_any_content,
        repetitions_of_many_keys_are_named,
    }
    left_behind {
        a_claim_takes_over_all_of_a_digest_that_has_one_of_its_events,
        a_page_takes_it_over_unless_it_is_on_its_way,
        a_preview_leaves_it_alone_because_it_may_be_on_its_way,
        a_drop_takes_it_over,
        taking_back_a_repeated_event_leaves_its_digest_alone_that_is_on_its_way,
        taking_back_one_event_of_it_leaves_the_others_to_the_next_claim,
        taking_back_an_event_of_its_mail_changes_nothing,
        taking_back_all_of_it_ends_it,
        nothing_is_taken_from_a_later_window_or_from_a_digest_that_was_attempted,
        a_late_call_takes_no_events_that_a_failed_digest_returned,
    }
    returned {
        a_key_knows_what_waits_and_which_digest_returned_it,
        a_returned_event_reads_as_it_was_recorded,
        a_claim_takes_returned_events_without_any_of_its_own,
        an_event_returns_twice_and_then_stays_with_its_digest,
        the_end_of_a_window_takes_returned_events_and_that_of_a_digest_takes_none,
        a_returned_event_that_was_retracted_is_in_no_mail,
    }
    threads {
        a_thread_begins_with_its_first_message_that_was_not_given_up,
        a_message_that_waits_begins_a_thread_and_answers_no_later_one,
        windows_that_one_task_opened_are_a_thread_in_the_order_of_their_claims,
        a_thread_has_messages_of_both_ways_to_claim,
        an_erased_message_begins_no_thread,
    }
    contents {
        lines_rank_by_count_then_latest_then_bytes,
        lines_of_a_higher_priority_come_first_with_their_section,
        a_line_shows_its_latest_event_and_three_actors,
        a_line_shows_its_latest_events_and_folds_those_that_say_the_same,
        events_of_which_a_reader_reads_the_same_fold_and_no_others,
        an_item_folds_no_more_than_the_recent_events,
        totals_cover_what_the_lines_leave_out,
        sums_stop_at_what_an_i64_holds,
        a_payload_comes_back_as_it_was,
        an_empty_digest_has_no_lines,
        the_window_of_an_email_ends_with_its_first_claim,
    }
    attempts {
        the_first_message_wins,
        a_message_that_is_too_large_shrinks_once_and_only_by_the_attempt_under_way,
        a_message_shrinks_after_an_attempt_that_found_it_too_large,
        an_attempt_needs_a_message,
        a_new_attempt_fences_the_earlier_ones,
        no_attempt_begins_while_the_reply_to_another_may_still_come,
        of_many_attempts_at_once_each_hears_whether_it_may_send_the_dot,
        an_attempt_past_the_dot_without_an_end_is_ambiguous,
        the_dot_is_refused_after_an_end,
        the_end_of_an_attempt_ends_the_digest_and_suppresses,
        an_address_that_refuses_so_many_messages_in_a_row_is_suppressed,
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
    readings {
        digests_count_as_unread_since_the_last_opening_of_a_person,
        an_opening_of_nobody_known_starts_the_count_again_and_proves_no_reader,
        an_objection_and_an_erasure_forget_what_was_opened,
        a_migration_keeps_what_was_opened_before,
    }
    webhook_requests {
        a_request_is_recorded_as_a_whole_and_once,
        a_thousand_reports_about_one_message_have_the_effects_of_the_first_and_the_last,
        a_token_counts_for_one_body_only,
        a_request_of_another_relay_may_have_the_same_token,
        tokens_go_when_no_request_can_bring_them_any_more,
        requests_lead_to_the_same_in_any_order_and_division,
        requests_about_the_same_messages_at_once_all_succeed,
        a_message_is_found_by_the_id_that_the_relay_gave_it,
        a_relay_reports_about_the_messages_that_it_was_given_and_no_others,
        what_the_provider_kept_back_suppresses_the_address_and_not_the_relay,
        a_followed_link_and_a_machine_are_told_apart,
        dead_letters_of_webhooks_go_with_those_of_signals,
    }
    webhook_letters {
        letters_are_listed_latest_first_in_pages_and_read_by_their_id,
        a_letter_is_emitted_once_with_its_effects_and_an_entry_for_each_message,
        an_emission_that_was_made_before_records_nothing,
        of_many_emissions_of_a_letter_at_once_one_counts,
        a_letter_goes_with_the_person_whose_message_it_names,
    }
    aside {
        a_retracted_event_is_in_no_mail_and_in_the_ledger_with_the_reason,
        a_retract_that_comes_first_waits,
        a_retract_by_entity_covers_what_occurred_until_then_and_the_latest_stays,
        a_retract_reaches_what_a_failed_digest_returned_but_no_mail,
        a_category_that_is_off_is_in_no_mail_and_in_the_ledger_with_the_reason,
        old_and_few_events_are_in_no_mail_and_in_the_ledger_with_the_reason,
        the_limits_of_a_digest_type_are_those_of_every_category_without_its_own,
        seen_events_are_in_no_mail_and_in_the_ledger,
        a_window_of_which_nothing_is_left_claims_nothing,
        a_preview_shows_what_a_claim_would_make_and_leaves_no_trace,
    }
    cap {
        a_recipient_gets_no_more_digests_than_the_cap_says,
        a_plan_hears_which_digests_the_cap_counts,
        a_digest_counts_from_its_slot_for_its_own_type_and_from_its_claim_for_others,
        a_reopened_digest_counts_from_its_sending,
        what_came_to_nothing_does_not_count_toward_the_cap,
        a_claim_that_is_repeated_is_not_counted_against_itself,
        an_operators_flush_counts_and_is_not_refused,
        keys_of_one_person_that_claim_at_once_never_pass_the_cap_together,
    }
    clocks {
        a_relay_is_left_alone_no_longer_than_its_cause_wants,
        a_message_that_tries_a_relay_is_waited_for_no_longer_than_it_takes,
        a_key_of_the_inbox_is_free_no_later_than_after_a_lease,
        a_job_and_its_place_are_free_no_later_than_after_a_lease,
        the_sweep_is_free_no_later_than_after_a_lease,
        a_run_in_trouble_is_handled_no_later_than_after_the_longest_pause,
        a_notice_is_tried_again_no_later_than_after_the_longest_pause,
        a_digest_of_the_future_holds_no_other_back,
        each_column_that_holds_something_back_has_a_longest_wait,
    }
    reopen {
        what_came_to_nothing_is_sent_under_its_own_id_after_all,
        a_window_that_was_never_claimed_is_sent_without_what_was_taken_back,
        a_message_that_was_made_is_the_one_that_is_sent,
        what_a_terminated_run_left_behind_is_taken_up_and_its_attempt_fenced,
        an_end_that_is_not_to_be_undone_stays,
        what_the_recipient_may_have_is_sent_again_only_where_that_does_no_harm,
        events_that_were_returned_come_back_unless_another_digest_has_them,
        what_was_taken_back_since_is_in_no_mail_of_a_reopened_digest,
    }
    generations {
        a_link_of_an_erased_person_belongs_to_nobody,
        a_link_follows_its_person_and_not_the_next_one_with_the_id,
        the_earlier_ids_of_a_person_are_known_until_the_erasure_is_complete,
        a_repeated_move_leaves_the_next_person_with_the_id_alone,
        a_move_ends_before_another_one_begins,
        a_rename_takes_all_rows_and_what_was_dropped_for_it_waits,
        a_merge_keeps_each_no_and_the_later_choices,
        an_erased_address_comes_back_under_its_pseudonym_only,
        what_is_reported_about_an_erased_person_changes_nothing_of_the_next,
        the_users_of_a_tenant_are_listed_in_pages,
    }
    pauses {
        a_key_learns_of_the_pause_that_covers_it_and_lasts_longest,
        a_scope_has_one_pause_and_the_latest_command_holds,
        a_resume_ends_the_pause_of_its_scope_only_and_both_are_audited,
        a_pause_whose_time_is_over_is_history_and_a_new_one_begins,
        messages_wait_only_for_a_pause_with_messages,
        of_many_pauses_of_a_scope_at_once_one_stays,
    }
    names {
        an_unsubscription_counts_under_each_name_until_a_later_wish,
        of_choices_under_several_names_the_latest_counts_and_their_revision_grows,
        a_pause_counts_under_each_name_and_ends_under_each,
        a_suppression_counts_under_each_name_of_the_tenant_until_it_is_lifted,
        a_suppression_outlives_an_erasure_and_another_name,
        an_erased_address_stays_out_of_the_clear_under_each_name,
        a_move_takes_the_rows_of_each_name,
        todays_row_of_the_directory_counts_and_else_a_former_one,
        a_retract_and_a_known_id_count_under_each_name,
        an_event_of_two_names_is_in_the_digest_that_was_first,
        of_claims_of_the_same_event_under_two_names_at_once_one_has_it,
        what_counted_stays_when_a_former_name_is_a_name_of_its_own,
        a_column_that_a_file_lacks_is_that_of_the_row_under_another_name,
        the_fifth_unread_digest_is_that_of_all_names,
        statements_about_a_key_look_up_each_of_its_names,
        each_name_is_listed_with_what_hangs_on_it,
        names_in_use_are_found_between_many_people,
        upkeep_keeps_a_retract_that_a_digest_under_another_name_needs,
        people_of_a_tenant_are_counted_once_under_all_its_names,
        all_that_is_known_of_a_person_counts_under_the_tenants_name_of_today,
    }
    inbox {
        items_wait_in_the_order_of_their_arrival_with_their_kind_and_text,
        simultaneous_requests_are_all_durable_however_they_share_a_commit,
        keys_with_waiting_items_are_found_in_pages,
        a_key_has_one_holder_until_its_lease_ends,
        the_store_leases_exactly_the_keys_that_a_forwarder_would,
        of_many_forwarders_at_once_one_has_the_key,
        only_the_items_of_a_signal_are_forwarded_and_failures_count,
        what_was_forwarded_is_replayed_by_time_and_tenant_and_purged_by_age,
        a_signal_from_before_a_replay_marks_nothing,
        an_erasure_takes_what_is_in_the_inbox_of_the_person_only,
        an_old_lease_is_forgotten_and_a_fresh_one_is_not,
    }
    notices {
        each_fact_is_a_notice_in_the_order_of_the_facts,
        a_failed_digest_has_the_class_of_its_last_attempt,
        a_subscription_gets_what_it_asked_for_and_nothing_else,
        what_waits_for_a_subscription_that_was_removed_waits_for_a_day,
        a_file_that_not_all_workers_have_takes_no_receiver_away,
        a_subscription_with_another_name_keeps_its_notices_and_whether_its_receiver_is_gone,
        notices_of_a_lane_wait_for_the_one_that_failed,
        a_receiver_that_is_away_for_24_hours_leaves_dead_letters,
        a_receiver_that_is_gone_gets_nothing_until_a_replay,
        what_was_delivered_is_replayed_by_time_and_purged_by_age,
        counts_of_notices_read_an_index_and_stop_at_their_number_of_rows,
        notices_go_with_the_person_whom_they_are_about,
        a_fact_that_is_committed_after_a_later_one_is_not_passed_over,
        without_a_subscription_nothing_is_written,
    }
    installation {
        an_identity_is_made_once_and_replaced_on_demand,
        a_beat_follows_the_one_before_and_not_too_soon,
        of_many_workers_at_once_one_changes_the_beat,
        the_newest_zone_data_of_all_workers_is_kept,
        a_process_is_seen_until_it_ends_or_is_forgotten,
        the_clock_of_the_database_is_that_of_this_machine_here,
        the_last_upkeep_counts_from_the_first_beat_on,
    }
    troubled_runs {
        one_worker_looks_at_a_time_and_the_next_look_comes_later,
        of_many_workers_at_once_one_has_the_sweep,
        an_ended_run_is_handled_once_however_often_it_is_found,
        of_many_workers_at_once_one_recovers_a_run,
        a_run_of_an_operator_stays_in_the_list_until_it_is_resolved,
        an_open_run_leaves_the_list_with_its_trouble_and_comes_back,
        an_open_run_that_is_ended_is_due,
        recoveries_of_a_workflow_id_are_counted,
        an_erased_person_has_no_run_in_the_list_and_none_is_recovered,
        resolved_runs_are_forgotten_by_age_and_listed_ones_are_not,
    }
    jobs {
        a_job_is_posted_once_under_its_id_and_audited,
        an_idempotency_key_is_of_its_first_content_until_it_is_forgotten,
        a_job_of_another_tenant_is_not_read,
        a_tenant_has_a_hundred_jobs_without_an_end,
        jobs_are_listed_latest_first_in_pages_by_tenant,
        a_tenant_has_one_running_job_and_all_tenants_four,
        of_many_gateways_at_once_one_has_the_job,
        a_gateway_that_lost_its_job_changes_nothing,
        keys_are_sent_once_and_their_first_result_counts,
        an_order_without_an_answer_is_given_again_only_if_it_is_idempotent,
        a_cancelled_job_sends_no_more_and_takes_the_answers_under_way,
        a_job_is_forgotten_by_the_age_of_its_end_with_its_keys,
        an_erasure_takes_the_results_of_the_person_only,
    }
    tokens {
        a_token_comes_back_with_its_hash_and_is_listed_by_tenant,
        a_token_is_made_and_revoked_once_and_both_are_audited,
        the_last_use_of_a_token_is_a_day_and_never_goes_back,
    }
    relays {
        what_is_remembered_of_a_relay_comes_back,
        the_latest_refusals_of_a_relay_come_first,
        of_many_changes_of_a_relay_at_once_one_counts,
        an_operators_change_of_a_relay_is_audited_when_it_counts,
        a_database_that_has_lost_a_table_is_not_healthy,
    }
    everyone {
        each_table_is_in_the_catalogue,
        a_person_with_a_row_in_one_table_only_is_found_exported_and_erased,
    }
    retention {
        an_event_goes_when_its_digests_end_is_older_than_the_cutoff_and_is_new_again,
        the_plan_and_the_number_of_events_outlast_the_events,
        an_event_that_came_after_the_end_counts_after_the_purge,
        what_has_no_end_or_waits_for_a_claim_is_never_touched,
        batches_end_and_digests_without_events_are_passed_over_once,
        an_archive_has_each_row_once_also_after_a_crash_before_the_rows_were_deleted,
        what_cannot_be_archived_stays,
        of_purges_at_once_each_has_its_own_rows,
        what_is_taken_back_later_goes_as_well,
        a_digest_of_which_something_is_gone_is_not_reopened,
        what_is_reopened_in_time_is_kept,
        a_message_goes_with_its_attempts_and_the_archive_has_them,
        a_retract_outlives_what_it_covers,
        a_retract_that_an_open_window_needs_is_asked_for_again_half_a_day_later,
        each_folder_of_the_archive_is_remembered_until_it_is_forgotten,
        upkeep_that_waits_for_its_archive_is_known_until_it_goes_on,
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
    statistics {
        an_empty_ledger_counts_nothing,
        a_digest_is_undelivered_from_its_claim_to_its_end,
        ends_count_by_outcome_with_their_events_from_the_begin_of_the_span,
        reports_dead_letters_and_suppressions_count_by_relay_reason_and_tenant,
        delivery_events_count_by_relay_and_kind_in_the_span_in_which_they_came,
        counts_for_metrics_stop_at_their_number_of_rows,
        counts_for_metrics_read_an_index,
    }
    report {
        a_report_is_the_same_in_any_order_and_after_any_purge,
        a_migration_counts_what_was_reported_before,
        a_report_reads_an_index_and_the_erasure_of_a_person_changes_none,
    }
    listings {
        digests_are_listed_latest_window_first_and_filtered,
        pages_of_digests_neither_repeat_nor_leave_out_a_row,
        the_events_of_a_digest_come_in_pages_with_the_reason_of_those_in_no_email,
        the_commands_and_pauses_over_a_digest_are_listed_with_it,
        audit_entries_are_listed_latest_first_and_filtered,
        pages_of_audit_entries_neither_repeat_nor_leave_out_a_row,
        each_listing_reads_an_index,
        a_digest_of_another_tenant_is_not_read,
    }
}
