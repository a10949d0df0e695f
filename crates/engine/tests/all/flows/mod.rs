//! Flows on the engine.

mod damaged;
mod reads;
mod runs;
mod told;

use crate::kit::kinds::on_every_store;

on_every_store! {
    damaged::fl_145_a_damaged_member_is_named_and_its_flow_ends_when_an_operator_gives_it_up,
    runs::sr_62_a_fan_out_goes_on_at_once_and_no_scanner_is_needed,
    runs::sc_159_a_fan_out_that_a_dead_node_left_is_finished_by_another,
    runs::fl_180_totals_are_verified_after_a_change_and_never_repaired,
    runs::sc_11_a_flow_without_members_is_open_and_costs_no_count,
    runs::fl_132_fail_fast_cancels_what_lives,
    runs::fl_202_a_purged_flow_leaves_nothing_behind,
    runs::sc_159_a_pending_edge_whose_upstream_has_ended_is_found_by_the_audit,
    runs::fl_74_a_holder_reads_what_an_operator_gave_before_a_replay,
    runs::fl_86_a_chain_is_skipped_in_few_commits_and_without_a_wait,
    told::fl_126_the_safety_net_reads_what_is_owed_and_no_other_group,
    told::fl_191_an_edge_that_does_not_decode_is_listed_from_both_ends,
    told::fl_191_what_does_not_decode_is_listed_on_its_row_and_fails_no_page,
    told::fl_192_edges_that_lead_to_a_member_are_found_without_a_walk_through_its_flow,
    told::fl_192_members_are_listed_by_their_keys_and_found_by_one,
    told::ex_70_executions_are_listed_and_counted_by_flow,
    told::api_40_a_bulk_job_over_a_flow_meets_its_members_and_no_others,
    told::fl_192_lists_come_in_pages_and_each_member_and_edge_once,
    told::fl_190_flows_are_listed_over_all_partitions_with_one_cursor,
    told::fl_137_explain_says_what_a_flow_and_its_members_wait_for,
    told::api_13_a_wait_that_begins_while_the_end_is_on_its_way_is_told_of_it,
}
