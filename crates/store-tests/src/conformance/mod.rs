//! The list. Each case is a fact about a fresh store; a store's own crate runs them
//! as tests of their own with `conformance_tests!(make)`, where `make` is an async
//! function that gives a [`Fixture`](crate::fixture::Fixture).

mod applies;
mod archive;
mod artifacts;
mod audit;
mod authorities;
mod backfills;
mod batches;
mod calendars;
mod cancels;
mod cluster_secret;
mod decisions;
mod details;
mod dispatches;
mod enrolments;
mod identities;
mod leases;
mod ledger_retention;
mod lists;
mod loads;
mod logs;
mod members;
mod namespaces;
mod notices;
mod queues;
mod quotas;
mod requesters;
mod requeues;
mod retention;
mod rules;
mod running_places;
mod schedule_lists;
mod schedules;
mod secrets;
mod sources;
mod starts;
mod submits;
mod tasks;
mod workers;
mod workflows;

use punctual_store::Store;

/// From the one list: a function that runs a case by name, and the macro that makes
/// tests of all. `$d` is a dollar sign, which the inner macro needs as its own.
macro_rules! cases {
    (($d:tt) $($module:ident { $($name:ident,)+ })+) => {
        /// The names of all cases.
        pub const CASES: &[&str] = &[$($(stringify!($name),)+)+];

        /// Runs one case; panics if the store breaks its promise.
        pub async fn run(name: &str, store: &dyn Store) {
            match name {
                $($(stringify!($name) => $module::$name(store).await,)+)+
                _ => panic!("there is no case {name}"),
            }
        }

        #[macro_export]
        macro_rules! conformance_tests {
            ($d make:path) => {
                $($(
                    #[tokio::test]
                    async fn $name() {
                        let fixture = $d make().await;
                        $crate::conformance::run(stringify!($name), &*fixture.store).await;
                    }
                )+)+
            };
        }
    };
}

cases! { ($)
    namespaces {
        the_default_namespace_always_exists,
        the_number_of_a_namespace_is_never_given_again,
        a_namespace_is_changed_only_from_the_expected_revision,
        a_namespace_that_is_in_use_is_not_deleted,
        a_namespace_that_is_deleted_takes_its_data_keys_with_it,
        tasks_of_one_name_and_content_are_one_in_each_namespace,
        schedules_and_calendars_of_one_name_are_one_in_each_namespace,
        an_artifact_is_known_only_in_its_namespace,
        rules_secrets_and_deliveries_of_one_name_are_one_in_each_namespace,
        an_idempotency_key_is_one_in_each_namespace,
        a_job_is_in_the_namespace_of_its_task,
        a_list_of_one_namespace_never_shows_the_jobs_of_another,
        a_job_stays_in_its_namespace_whatever_becomes_of_it,
    }
    quotas {
        jobs_that_wait_or_run_are_counted_in_their_namespace_up_to_a_limit,
        schedules_are_counted_in_their_namespace,
        artifacts_have_no_more_bytes_than_they_may,
        bytes_of_logs_are_counted_in_their_namespace_archived_or_not,
        of_artifacts_declared_at_once_no_more_are_stored_than_there_is_room_for,
        a_namespace_spends_no_more_than_its_rate,
        of_submissions_at_once_no_more_are_paid_for_than_the_rate_allows,
        the_history_of_one_namespace_goes_and_that_of_others_stays,
    }
    running_places {
        places_are_added_when_all_shards_are_covered_and_never_more_than_the_quota,
        a_report_that_comes_after_a_later_one_changes_nothing,
        the_places_of_a_server_that_is_gone_are_free_when_its_shards_are_covered,
    }
    queues {
        a_queue_reads_back_as_it_was_stored,
        a_queue_is_changed_only_from_the_expected_revision,
        the_queues_of_tasks_are_named_once_in_each_namespace,
        the_queues_of_a_namespace_go_when_it_is_deleted,
    }
    requesters {
        a_requester_has_one_number_for_ever,
        a_job_keeps_its_requester_whatever_becomes_of_it,
        commands_on_a_job_are_on_record_as_long_as_the_job,
        a_task_says_who_made_it_and_who_changed_it,
    }
    enrolments {
        a_join_token_reads_back_as_it_was_added,
        a_join_token_admits_as_many_workers_as_it_has_uses,
        a_worker_that_asks_again_gets_its_enrolment_and_uses_nothing,
        nobody_joins_with_a_token_that_ended_or_never_was,
        of_many_workers_at_once_no_more_join_than_a_token_has_uses,
        a_revoked_worker_is_not_renewed,
        changes_of_enrolments_are_read_in_their_order,
        what_ended_long_ago_makes_room_for_what_is_new,
        the_namespaces_of_workers_change_with_a_revision_of_their_own,
    }
    submits {
        a_submitted_job_can_be_found_loaded_and_shown,
        a_submission_is_all_or_nothing,
        a_job_of_an_unknown_task_is_refused,
        a_job_of_a_shard_that_is_not_there_is_refused,
        the_same_job_is_not_stored_twice,
        an_empty_submission_is_done,
        a_submission_over_the_maximum_is_refused,
        a_repeated_request_gets_the_first_answer,
        another_request_under_a_used_key_is_refused,
        a_used_key_is_recognized_before_anything_is_submitted,
        an_expired_key_is_free_again,
        a_refused_submission_does_not_use_up_its_key,
        submissions_made_at_once_are_all_stored,
    }
    applies {
        a_stale_owner_cannot_settle,
        a_stale_owner_cannot_start,
        a_fenced_batch_names_the_lost_shards_and_applies_nothing,
        a_shard_that_is_not_there_fences_a_batch,
        a_write_without_its_fence_is_refused,
        a_batch_with_one_bad_write_applies_nothing,
        a_job_cannot_be_settled_twice,
        a_job_cannot_be_settled_under_another_key,
        a_job_cannot_end_in_a_state_that_is_not_final,
        an_outcome_of_another_attempt_settles_nothing,
        a_settled_job_is_in_history_with_all_that_is_known,
        a_job_that_ended_without_an_attempt_says_why,
        an_empty_batch_still_checks_its_fences,
        a_refused_batch_does_not_disturb_its_neighbours,
    }
    starts {
        a_start_leaves_the_row_as_it_is,
        a_start_without_its_row_is_void_and_the_rest_applies,
        a_start_under_another_attempt_number_is_void,
        a_batch_of_void_starts_leaves_no_record,
        an_open_start_is_seen_by_the_next_owner,
        a_start_is_over_when_its_job_is_settled,
        a_start_is_over_when_its_job_waits_again,
        a_start_is_over_when_its_job_waits_again_at_the_same_time,
        a_record_is_spent_only_when_all_its_jobs_have_ended,
        a_second_attempt_is_open_in_its_own_record,
        starts_of_two_shards_are_two_records,
        a_closed_record_is_gone_and_closing_it_again_is_harmless,
        a_record_of_starts_is_written_once,
    }
    requeues {
        a_requeued_job_waits_at_its_new_time_with_its_attempt_kept,
        a_job_that_was_given_back_keeps_its_budget_until_it_is_run_again_by_request,
        jobs_that_were_given_back_are_listed_by_the_time_since_which_they_may_be_late,
        a_requeue_without_an_attempt_only_moves_the_job,
        a_job_moved_back_to_its_first_time_is_still_found,
        a_requeue_of_another_attempt_is_refused,
        a_move_or_an_end_of_a_waiting_job_that_is_not_there_is_void,
        an_end_of_a_waiting_job_that_has_been_tried_since_is_void,
        the_same_attempt_is_not_kept_twice,
        a_rerun_job_waits_again_with_all_its_attempts,
        a_rerun_of_a_job_that_never_ran_has_no_attempts,
        a_rerun_of_a_job_that_is_not_in_history_is_void,
        a_rerun_job_can_finish_again,
        a_late_result_settles_a_lost_job,
        a_late_result_of_another_attempt_is_void,
        only_a_lost_job_is_settled_by_a_late_result,
        what_retention_removed_is_neither_rerun_nor_resolved,
        a_late_result_cannot_make_a_job_wait,
    }
    cancels {
        a_cancel_request_is_seen_by_people_and_the_next_owner,
        a_cancel_request_goes_with_the_settled_job,
        a_cancel_request_goes_with_a_requeue_that_says_so,
        asking_twice_to_cancel_is_asking_once,
        a_job_that_is_not_there_cannot_be_asked_to_end,
        a_late_outcome_is_kept_and_changes_nothing,
    }
    details {
        what_is_known_of_the_attempt_that_ended_a_job_is_kept,
        jobs_that_end_together_keep_each_their_own_details,
        what_is_known_of_an_attempt_is_kept_through_retries_and_reruns,
        a_late_result_brings_its_details_or_none,
    }
    loads {
        a_load_is_in_order_of_due_time_and_ends_at_its_limit_of_time,
        loads_that_go_on_after_a_key_see_every_row_once,
        a_load_shows_one_shard,
        the_urgent_lane_shows_only_what_is_above_normal,
        the_floor_lane_shows_everything,
        a_load_passes_the_jobs_of_tasks_that_it_is_told_to_skip,
        long_inputs_stay_in_the_store,
        inputs_come_in_the_order_asked_for,
        a_moved_job_keeps_its_long_input_to_the_end,
        a_job_nobody_knows_is_absent,
    }
    lists {
        hot_jobs_are_listed_over_all_shards_by_their_first_due_time,
        pages_of_hot_jobs_show_every_job_once,
        a_page_begins_after_any_id,
        due_jobs_are_listed_by_when_they_are_due_now,
        a_walk_meets_every_job_once_while_jobs_move,
        hot_jobs_are_read_by_key_as_they_are_listed,
        hot_jobs_are_filtered,
        finished_jobs_are_listed_by_first_due_time_in_both_orders,
        pages_of_finished_jobs_show_every_job_once,
        finished_jobs_are_read_by_id_as_they_are_listed,
        finished_jobs_are_filtered,
        filters_follow_the_task_as_it_is_now,
    }
    tasks {
        a_task_reads_back_as_it_was_written,
        a_live_name_belongs_to_one_task,
        a_task_that_must_have_a_name_is_refused_without_one,
        an_update_replaces_the_spec_of_the_revision_before,
        an_update_of_another_revision_is_a_conflict,
        a_task_nobody_knows_cannot_be_changed,
        a_deleted_task_frees_its_name_and_is_still_found_by_id,
        a_task_is_deleted_only_at_the_expected_revision,
        the_same_content_is_interned_once,
        an_interned_task_has_no_name_and_is_not_listed_or_changed,
        interning_is_all_or_nothing,
        tasks_are_listed_by_name,
    }
    artifacts {
        an_artifact_reads_back_in_each_of_its_states,
        the_same_content_is_one_artifact,
        a_task_keeps_the_files_that_it_reads,
        a_refused_artifact_does_not_stand_for_its_content,
        artifacts_are_listed_by_age_in_pages,
        a_task_waits_for_its_artifact_until_it_arrives,
        an_arrival_releases_named_deleted_and_nameless_tasks_at_once,
        an_arrival_that_is_repeated_changes_nothing,
        a_task_of_a_ready_artifact_does_not_wait,
        a_task_of_an_unknown_or_refused_artifact_is_not_stored,
        an_update_exchanges_the_artifact_of_a_task,
        an_artifact_that_a_task_refers_to_stays,
        an_artifact_goes_when_only_tasks_that_do_not_need_it_refer_to_it,
        a_refused_artifact_leaves_its_tasks_waiting,
        unused_artifacts_go_when_they_are_old,
        pending_artifacts_go_when_their_time_is_over,
        pruning_artifacts_stops_at_its_limit,
        tasks_and_arrivals_at_once_never_miss_each_other,
    }
    logs {
        a_log_is_read_from_any_offset,
        a_log_has_nothing_at_an_offset_that_no_log_can_have,
        a_chunk_that_is_there_is_left_as_it_is,
        a_log_takes_no_more_room_than_its_length,
        a_piece_that_came_late_fills_its_gap,
        a_read_ends_near_its_limit_but_gives_one_chunk,
        logs_of_attempts_are_apart,
        a_lost_chunk_is_skipped,
        a_log_ends_where_its_last_chunk_does,
        marks_are_kept_with_their_chunks,
    }
    archive {
        attempts_with_pieces_are_found_in_order_with_what_history_knows,
        a_log_is_assembled_from_its_pieces_and_what_was_there,
        an_archived_log_is_recorded_with_its_attempt_and_its_pieces_go,
        a_log_that_changed_since_it_was_read_is_not_archived,
        a_log_of_a_running_or_unknown_attempt_is_not_archived,
        a_log_that_grew_is_archived_again_and_the_old_object_is_dropped,
        logs_are_archived_each_for_itself,
        where_a_log_is_survives_reruns_and_late_results,
        the_objects_of_jobs_that_go_are_dropped,
        pieces_of_a_job_that_is_gone_can_be_forgotten,
    }
    retention {
        old_finished_jobs_go_with_all_that_belongs_to_them,
        jobs_that_wait_or_finished_later_stay,
        a_job_that_ended_long_before_it_was_due_goes_too,
        pruning_stops_at_its_limit_and_goes_on,
        expired_keys_go,
        tasks_that_nothing_needs_go_some_days_later,
        tasks_that_something_needs_stay,
    }
    schedules {
        a_schedule_is_shown_as_it_was_added,
        a_schedule_whose_name_is_taken_is_void_and_the_rest_applies,
        a_schedule_that_is_there_is_not_added_again,
        a_name_is_free_in_the_batch_that_drops_its_schedule,
        an_edit_replaces_the_definition_and_keeps_the_former_spec,
        setting_a_schedule_leaves_its_definition,
        what_is_done_to_a_schedule_that_is_not_there_is_nothing,
        a_dropped_schedule_is_gone_and_what_it_did_is_still_known,
        changes_are_shown_the_latest_first,
        a_schedule_of_an_unknown_task_is_refused,
        a_schedule_of_a_shard_that_is_not_there_is_fenced,
        a_fenced_batch_changes_no_schedule,
        a_batch_that_does_not_fit_changes_no_schedule,
        writes_about_schedules_have_an_order_of_their_own,
    }
    decisions {
        a_planned_time_that_fires_makes_its_job,
        every_verdict_is_shown_as_it_was_decided,
        a_late_start_is_put_on_record_with_its_planned_time,
        a_planned_time_gets_one_verdict,
        a_planned_time_gets_one_verdict_from_all_its_owners,
        schedules_may_fire_at_the_same_time,
        the_input_of_a_schedule_is_copied_when_it_fires,
        a_queued_time_is_released_once,
        a_time_may_be_queued_and_released_in_one_batch,
        a_job_may_live_in_the_batch_that_makes_it,
        a_start_of_a_job_that_was_not_made_is_void,
        a_decision_that_cannot_make_its_job_is_refused,
        runs_are_counted_by_verdicts_alone,
        the_last_success_of_a_schedule_is_the_latest_planned_time_that_succeeded,
        the_watermark_never_goes_back,
        watermarks_of_all_shards_are_shown,
    }
    sources {
        why_a_job_exists_stays_with_it_to_the_end,
        a_takeover_finds_the_jobs_that_are_tracked,
        a_takeover_finds_the_times_that_are_queued,
    }
    schedule_lists {
        schedules_of_a_shard_are_loaded_in_pages,
        schedules_are_found_by_their_names,
        schedules_are_listed_by_name_in_pages,
        a_list_of_schedules_can_be_narrowed,
        schedules_of_a_task_are_named,
        occurrences_are_listed_in_pages_both_ways,
    }
    calendars {
        a_calendar_reads_back_as_it_was_put,
        every_change_of_a_calendar_has_a_larger_revision,
        a_calendar_is_changed_only_at_the_expected_revision,
        a_calendar_that_schedules_use_stays,
        schedules_with_calendars_are_found_in_pages,
    }
    ledger_retention {
        old_verdicts_go_and_queued_ones_stay,
        old_changes_go,
        tasks_that_a_schedule_refers_to_stay,
        a_task_of_a_job_that_fired_stays_with_it,
    }
    notices {
        a_notice_reads_back_as_it_was_written,
        an_end_brings_its_notice,
        a_late_result_brings_its_notice,
        a_verdict_brings_its_notice,
        notices_are_in_the_order_of_their_writes,
        a_batch_that_is_not_applied_leaves_no_notice,
        a_number_is_not_given_twice,
        notices_wait_however_old_they_are,
    }
    dispatches {
        a_dispatch_takes_notices_and_makes_jobs,
        the_state_of_a_rule_has_a_version,
        a_dispatch_is_all_or_nothing,
        dispatches_at_once_take_a_notice_once,
        a_rule_updated_at_once_has_one_version,
        ailing_tasks_are_replaced_and_get_well,
        deliveries_are_listed_the_latest_first_in_pages,
        old_deliveries_and_ailments_go,
        the_task_of_a_delivery_is_in_use,
    }
    rules {
        a_rule_reads_back_as_it_was_put,
        a_change_of_a_rule_leaves_what_waits,
        a_rule_is_put_only_over_the_expected_revision,
        a_deleted_rule_takes_what_waits_with_it,
        rules_are_in_order_of_name,
        there_are_only_so_many_rules,
    }
    backfills {
        a_backfill_reads_back_as_it_was_added,
        a_step_makes_its_jobs_and_says_how_far_it_came,
        a_step_of_another_version_changes_nothing,
        a_step_that_does_not_fit_changes_nothing,
        steps_at_once_make_their_jobs_once,
        only_so_many_backfills_run_at_a_time,
        backfills_are_listed_the_latest_first,
        runs_are_listed_in_order_of_time,
        backfilled_times_of_a_schedule_are_found,
        old_backfills_go_with_their_runs,
        the_task_of_a_backfill_is_in_use,
    }
    batches {
        a_batch_is_stored_with_its_jobs,
        a_batch_with_a_bad_member_stores_nothing,
        a_repeated_batch_gets_its_first_answer,
        the_end_of_a_member_reaches_its_batch,
        a_fenced_owner_changes_no_batch,
        the_first_failure_stops_a_batch_and_what_succeeded_is_undone,
        a_member_that_is_gone_cannot_be_undone,
        a_cancel_is_refused_once_the_batch_has_ended,
        the_starts_of_a_gang_are_void_together,
        batches_are_listed_the_latest_first,
        batches_are_due_when_their_time_has_come,
        batches_that_ended_go_with_retention,
    }
    workflows {
        a_new_version_differs_from_the_newest,
        a_run_reads_back_and_its_first_jobs_wait,
        the_end_of_a_job_releases_what_waits_for_it,
        a_fenced_owner_releases_nothing,
        an_end_that_is_void_changes_no_run,
        ends_in_one_batch_are_applied_in_their_order,
        a_gate_is_decided_once,
        runs_are_due_when_their_time_has_come,
        runs_are_listed_the_latest_first,
        a_step_that_cannot_be_stored_ends_its_run_and_nothing_else,
        a_request_that_cannot_be_stored_ends_its_run,
        a_node_fails_whose_task_is_gone,
        the_answer_to_a_batch_names_what_followed_in_runs,
        the_ends_of_jobs_of_many_runs_are_one_batch,
    }
    leases {
        a_server_acquires_free_shards_up_to_its_limit,
        a_running_lease_is_not_acquired,
        a_lease_that_is_over_is_acquired_under_a_higher_epoch,
        renewing_says_what_is_still_owned,
        a_released_shard_is_free_at_once,
        a_takeover_raises_the_epoch_of_a_running_lease,
        a_takeover_of_a_shard_that_is_not_there_changes_nothing,
        a_server_gives_up_only_what_it_owns,
        leases_show_all_shards_and_their_owners,
    }
    audit {
        lines_of_the_audit_log_come_back_as_they_were,
        a_line_follows_the_head_of_the_audit_log_or_is_not_written,
        of_servers_that_append_to_the_audit_log_at_once_one_is_done,
        the_audit_log_is_trimmed_from_its_begin,
    }
    members {
        a_member_is_shown_as_it_was_last_seen,
        a_member_that_leaves_or_was_not_seen_is_gone,
        a_probe_succeeds_and_changes_nothing,
        a_duty_has_one_owner_at_a_time,
        a_duty_changes_hands_under_a_higher_epoch,
    }
    secrets {
        the_first_sealed_key_of_a_label_is_everyones,
        of_sealed_keys_that_are_kept_at_once_one_stays,
        a_sealed_key_is_removed_alone,
        keys_are_sealed_anew_all_at_once_or_not,
        a_secret_reads_back_as_it_was_put,
        a_secret_is_changed_from_the_revision_before,
        there_are_only_so_many_secrets,
        tasks_that_refer_to_a_secret_are_known,
        a_one_off_refers_to_its_secret_until_its_time_is_over,
    }
    cluster_secret {
        a_secret_is_announced_signs_and_takes_the_place_of_the_former,
        each_stage_of_a_secret_begins_once,
        of_rotations_that_begin_at_once_one_is_done,
        a_stage_is_confirmed_by_each_server_once,
        a_secret_follows_the_root_key,
        the_former_secret_stays_while_an_authority_is_sealed_with_it,
    }
    authorities {
        the_first_authority_of_a_generation_stays,
        a_new_authority_retires_those_before_it_once,
    }
    workers {
        a_worker_is_known_as_it_was_last_seen,
        workers_go_some_days_after_they_were_last_seen,
        outcomes_that_came_too_late_can_be_read,
        of_one_attempt_few_late_outcomes_are_kept,
    }
    identities {
        a_key_reads_back_as_it_was_added,
        a_name_belongs_to_one_key_that_is_neither_revoked_nor_replaced,
        keys_of_two_namespaces_may_have_one_name,
        a_key_is_replaced_once_and_never_lasts_longer_for_it,
        a_key_is_revoked_once,
        a_person_reads_back_as_they_were_added,
        a_person_is_changed_only_from_the_expected_revision,
        a_person_who_is_deleted_leaves_no_session_and_no_key,
        a_session_begins_only_for_the_person_whose_password_was_checked,
        a_session_ends_once,
        of_many_sessions_of_a_person_the_oldest_end,
        a_change_of_a_password_ends_the_sessions_of_that_person_alone,
        a_subject_belongs_to_one_person_who_is_not_deleted,
        an_id_is_that_of_one_session_also_after_its_end,
        every_change_has_a_later_revision,
        changes_at_once_are_all_seen,
        times_of_last_use_never_go_back,
        what_ended_long_ago_is_removed,
    }
}
