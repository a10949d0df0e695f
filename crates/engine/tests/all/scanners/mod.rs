//! Background duties: what they find, what they leave alone, and what becomes of entries that make no sense.

mod dependency;
mod edge_cancel;
mod entries;
mod filters;
mod flow_projector;
mod flows;
mod leases;
mod overdue;
mod own;
mod parked;
mod rest;
mod runner;
mod scenarios;

use crate::kit::kinds::on_every_store;
use crate::kit::plant::Records;
use weft_core::FlowId;
use weft_core::record::Record;
use weft_core::record::flow::Summary;
use weft_core::schema::PartMask;

on_every_store! {
    entries::sr_25_a_poison_entry_is_removed_and_leaves_a_dead_letter,
    entries::sr_25_entries_that_cannot_be_read_are_removed_and_hide_nothing,
    entries::sr_27_an_entry_whose_record_is_gone_is_stale_and_leaves_nothing,
    entries::sr_26_a_damaged_record_is_parked_and_its_neighbours_are_served,
    entries::sr_26_a_record_that_cannot_be_read_again_is_left_and_not_counted_as_healthy,
    entries::sr_29_a_policy_of_a_later_version_leaves_entry_and_bytes_and_makes_no_letter,
    overdue::sr_53_what_became_due_in_an_hour_without_a_node_is_handled_once_and_at_once,
    rest::sr_93_scanners_change_nothing_at_rest_but_when_it_was_verified,
    leases::sr_26_one_damaged_lease_keeps_no_other_lease_of_a_dead_process,
    leases::sr_10_a_silent_partition_keeps_no_lease_of_a_dead_process_elsewhere,
    leases::sr_10_a_pass_waits_for_an_outage_once_and_not_for_each_process,
    edge_cancel::sr_26_damage_in_a_part_that_few_commands_load_is_parked_at_once,
    edge_cancel::sc_41_the_runner_counts_an_index_that_cannot_be_read_as_an_error_and_comes_back,
    edge_cancel::sr_1_a_scanner_whose_page_cannot_be_read_keeps_no_other_from_its_partition,
    edge_cancel::sc_42_the_runner_removes_poison_once_and_serves_its_neighbour,
    dependency::sc_127_two_nodes_whose_runners_meet_a_continuation_do_what_one_does,
    dependency::sc_127_two_nodes_that_run_a_continuation_at_once_do_what_one_does,
    parked::sr_83_parked_items_of_all_partitions_are_listed_page_by_page,
    parked::sr_84_a_restored_item_is_tried_again_and_sr_85_a_discarded_one_is_given_up_by_name,
    parked::sr_43_what_a_cascade_parks_is_logged_once_with_its_letter,
    parked::sr_85_a_flow_says_who_gave_a_timer_of_it_up,
    entries::sr_12_nothing_waits_behind_items_of_another_filter,
    entries::sr_12_the_next_pass_goes_on_behind_more_foreign_items_than_one_may_look_at,
    entries::sr_12_a_pass_looks_at_ten_batches_over_all_its_timers,
    entries::sr_16_a_pass_that_goes_on_among_foreign_entries_knows_what_is_due_before_them,
    entries::sr_12_a_worker_is_looked_at_behind_more_foreign_ones_than_a_pass_may_look_at,
    entries::sr_29_items_of_a_newer_format_are_warned_about_once_a_minute,
    entries::sr_29_a_worker_of_a_newer_format_is_no_error,
    filters::sc_78_a_filter_costs_one_read_for_all_items_and_none_costs_nothing,
    filters::sc_81_what_is_not_covered_for_sure_is_left_as_it_was_and_met_again,
    filters::sr_36_sr_94_a_read_that_fails_ends_the_pass_and_is_nobodys_verdict,
    filters::sr_34_a_filter_of_one_scanner_replaces_that_of_all_for_this_one,
    filters::sr_39_two_groups_of_nodes_with_tag_filters_leave_nothing_to_nobody,
    filters::sr_54_nodes_with_other_filters_scan_the_same_partitions,
    own::sr_31_sr_92_it_sees_what_its_filter_covers_in_pages_and_acts_in_its_own_name,
    own::sr_30_it_passes_over_every_partition_once_in_an_interval,
    own::sr_30_an_engine_does_not_open_with_a_scanner_that_cannot_run,
    runner::sr_10_a_partition_that_does_not_answer_hides_no_other,
    runner::sr_10_any_number_of_stuck_entries_hides_no_other_partition,
    runner::sr_20_a_commit_that_was_refused_is_no_failure_of_its_items,
    edge_cancel::sr_14_an_entry_that_is_too_young_is_due_when_it_is_old_enough,
    scenarios::sr_5_a_backlog_is_worked_off_without_waiting_for_the_next_second,
    scenarios::sr_10_foreign_entries_of_every_timer_hide_no_item_of_the_last_partition,
    scenarios::sr_12_nothing_waits_behind_what_fails_is_foreign_or_keeps_no_account,
    scenarios::sr_17_a_bulk_job_that_waits_for_another_partition_holds_up_nothing_in_its_own,
    scenarios::sr_7_accounts_of_many_items_that_fail_are_written_together,
    scenarios::sc_73_nodes_share_the_account_of_an_item_and_it_survives_a_restart,
    scenarios::sc_70_sc_133_a_pause_ends_although_reads_fail_meanwhile,
    scenarios::sr_24_a_parked_item_whose_cause_goes_away_is_handled_without_an_operator,
    scenarios::sr_29_a_format_from_the_future_is_left_to_a_node_that_knows_it,
    flow_projector::sc_1_it_stands_behind_counters_that_commits_write,
    flow_projector::sc_2_a_pass_is_over_one_partition_and_by_the_index,
    flow_projector::sc_3_entries_come_in_pages_of_a_hundred_until_none_is_due,
    flow_projector::sc_4_a_page_that_cannot_be_read_ends_the_pass_of_its_partition_only,
    flow_projector::sc_5_any_chunking_of_pages_gives_the_same_and_an_empty_one_ends_the_pass,
    flow_projector::sc_6_without_the_time_of_the_store_no_flow_is_verified,
    flow_projector::sc_7_all_flows_of_a_pass_carry_its_time,
    flow_projector::sc_8_an_entry_of_a_flow_that_is_gone_is_stale,
    flow_projector::sc_12_an_index_of_members_that_cannot_be_read_is_no_zero,
    flow_projector::sc_14_members_that_are_all_gone_are_drift_and_no_silent_zero,
    flow_projector::sc_15_entries_that_name_no_member_are_in_no_count,
    flow_projector::sc_17_an_unreadable_member_gives_no_verdict,
    flow_projector::sc_24_totals_and_members_change_in_one_commit,
    flow_projector::sc_25_a_flow_that_fails_holds_up_no_other,
    flow_projector::sc_26_a_finished_flow_is_let_go_after_a_whole_and_equal_view_only,
    flow_projector::sc_28_the_end_is_readable_before_the_entry_goes,
    flow_projector::sc_30_a_flow_that_never_verifies_backs_off_is_parked_and_goes_in_its_time,
    flow_projector::sc_31_it_sets_counters_right_and_leaves_the_state_to_the_rules,
    flow_projector::sc_33_a_filter_selects_flows_and_never_members,
    flow_projector::sc_36_what_was_verified_or_repaired_is_processed_and_a_failure_an_error,
    flow_projector::sr_77_a_pass_recounts_so_many_members_and_leaves_further_flows_due,
    flow_projector::sr_77_a_flow_larger_than_a_pass_may_recount_is_recounted_alone,
    flow_projector::sr_77_a_recount_stops_at_the_page_at_which_the_flow_has_moved,
    edge_cancel::sc_37_the_runner_begins_the_safety_net_for_entries_of_its_age,
    edge_cancel::sc_38_what_a_crash_left_owed_is_gone_on_with,
    edge_cancel::sc_39_only_the_index_of_what_is_owed_is_walked,
    edge_cancel::sc_40_fifty_a_pass_and_nothing_starves_behind_what_is_left_alone,
    edge_cancel::sc_41_an_index_that_cannot_be_read_is_one_error_and_an_empty_one_is_none,
    edge_cancel::sc_42_an_entry_that_names_no_member_is_poison,
    edge_cancel::sc_53_what_changed_is_processed_and_what_is_left_alone_is_nothing,
    edge_cancel::sc_54_a_commit_that_fails_leaves_the_entry,
    edge_cancel::sc_55_a_group_that_does_not_decode_is_parked_and_not_counted,
    edge_cancel::sc_58_what_changed_something_is_logged_with_flow_and_downstream,
    edge_cancel::sc_59_a_filter_applies_through_the_flow,
    edge_cancel::sc_161_the_oldest_group_is_first_and_one_damaged_sibling_holds_up_nobody,
    dependency::sc_100_an_id_says_its_partition_and_the_same_key_leads_to_the_same,
    dependency::sc_108_edges_that_cannot_be_read_stop_the_commit_and_it_is_tried_again,
    dependency::sc_112_a_member_without_a_lane_has_the_default_one_from_the_start,
    dependency::sc_121_a_chain_of_a_thousand_is_skipped_without_any_timer,
    dependency::sc_122_a_chain_has_no_depth_at_which_skipping_ends,
    dependency::sc_124_what_a_commit_resolved_is_one_line_and_nothing_is_none,
    dependency::sc_128_commits_are_bounded_and_others_are_served_in_between,
    dependency::sc_159_what_the_audit_mends_is_told_and_counted,
    dependency::sc_125_what_a_decided_group_found_is_counted_by_result,
    flows::sc_152_the_deadline_of_a_flow_ends_it_with_its_members,
    flows::sc_155_a_flow_goes_last_and_leaves_no_record,
    flows::sc_160_a_cancel_that_a_dead_node_left_is_finished_by_another,
    flows::sr_41_what_commits_left_is_told_until_it_is_done,
    flows::sr_40_a_count_that_meets_what_cannot_be_read_leaves_the_gauge_as_it_was,
    flows::sc_160_the_backlog_counts_members_and_not_flows,
}

/// Each flow that is whole, with its totals and a recount of its members.
fn recounts(records: &Records) -> Vec<(FlowId, Summary, Summary)> {
    let records = records.iter().filter_map(|(key, found)| Record::decode(*key, &found.parts, PartMask::ALL).ok());
    let records: Vec<Record> = records.collect();
    let flows = records.iter().filter_map(|record| match record {
        Record::Flow(flow) if flow.is_visible() => Some(flow),
        _ => None,
    });
    let counted = flows.map(|flow| {
        let mut counted = Summary::default();
        for record in &records {
            match record {
                Record::Execution(member) if member.member().is_some_and(|it| it.flow == flow.id) => {
                    weft_core::flow::recount(member, &mut counted);
                }
                _ => {}
            }
        }
        (flow.id, flow.summary.clone(), counted)
    });
    counted.collect()
}
